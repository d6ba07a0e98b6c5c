"""Operations of the dialect, with their parsers and printers.

Importing this module registers them, and the dialect's attributes, with the
parser and the printer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.mlir.attributes import Attribute, DenseElementsAttr, IntegerAttr, RawAttr, StringAttr
from emu.mlir.dialects.constants import ConstantForm, Elements
from emu.mlir.forms import (
    ATTRIBUTES,
    I32,
    I64,
    OPERANDS_AND_TYPES,
    SIGNATURE,
    Draft,
    Form,
    Integer,
    Named,
    Operands,
    Piece,
)
from emu.mlir.ir import Operation
from emu.mlir.registry import OpDefinition, attribute_parsers, closed_dialects, define
from emu.mlir.text.type_parser import parse_type
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import (
    PropagationDirection,
    ReductionOp,
    SdyAttribute,
    TensorShardingPerValue,
)
from emu.sdy.dialect.names import COLLECTIVES, REDUCING
from emu.sdy.dialect.parsing import (
    ATTRIBUTE_READERS,
    optional_reduction_op,
    parse_all_to_all_params,
    parse_axis_lists,
    parse_axis_ref_list,
    parse_manual_axes,
    parse_mesh,
    parse_sharding,
    parse_stripped_shardings,
)
from emu.sdy.dialect.parsing_rules import RULE_READERS
from emu.sdy.dialect.text import stripped_list

if TYPE_CHECKING:
    from emu.mlir.assembly import OpParser, OpPrinter


def allowed_direction(barrier: Operation) -> PropagationDirection:
    """Return the direction of an ``sdy.propagation_barrier``."""
    stored = barrier.properties.get("allowed_direction")
    if isinstance(stored, IntegerAttr):
        return PropagationDirection(stored.value)
    raise ValueError(f"{barrier.name} has no allowed_direction")


def reduction_op(op: Operation) -> ReductionOp:
    """Return the operator of an ``sdy.all_reduce`` or ``sdy.reduce_scatter``."""
    stored = op.properties.get("reduction_op")
    return ReductionOp(stored.value) if isinstance(stored, IntegerAttr) else ReductionOp.SUM


def _elements_type(value: Attribute) -> Type | None:
    """Return the tensor type of a constant's value; None where it is not elements."""
    if isinstance(value, DenseElementsAttr):
        return value.type
    if isinstance(value, RawAttr) and " : " in value.text:
        # ``dense_resource<name> : tensor<…>`` is kept as text only.
        return parse_type(value.text.rpartition(" : ")[2])
    return None


def _text(op: Operation, name: str) -> str:
    stored = op.properties.get(name)
    if isinstance(stored, TensorShardingPerValue):
        return f"[{stripped_list(stored.shardings)}]"
    return stored.stripped_text() if isinstance(stored, SdyAttribute) else str(stored)


# Pieces of forms

Reader = Callable[["OpParser"], Attribute]


class _Stripped(Named):
    """An attribute of the dialect, as its stripped text."""

    def __init__(self, name: str, reader: Reader) -> None:
        super().__init__(name)
        self.reader = reader

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.properties[self.name] = self.reader(p)

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.write(_text(op, self.name))


class _Optional(Piece):
    """`` name=<…>``, if the operation has the attribute."""

    def __init__(self, name: str, reader: Reader) -> None:
        self.writes = (name,)
        self._attribute = _Stripped(name, reader)

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.accept_keyword(self._attribute.name):
            p.expect("=")
            self._attribute.read(p, draft)

    def write(self, w: OpPrinter, op: Operation) -> None:
        if self._attribute.name in op.properties:
            w.write(f" {self._attribute.name}=")
            self._attribute.write(w, op)


class _SymbolName(Named):
    """``@name``."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.properties[self.name] = StringAttr(p.symbol())

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.symbol(op.symbol_name or "")


class _GroupId(Integer):
    """The number of a sharding group."""

    def read(self, p: OpParser, draft: Draft) -> None:
        place = p.here()
        super().read(p, draft)
        group = draft.properties[self.name]
        if not isinstance(group, IntegerAttr) or group.type != I64:
            p.error("invalid kind of attribute specified", place)


class _Direction(Named):
    """``FORWARD``: the name of a ``PropagationDirection``."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.properties[self.name] = IntegerAttr(int(_direction(p)), I32)

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.write(allowed_direction(op).name)


@dataclass(frozen=True)
class _OperandType(Piece):
    """The type of the only operand.

    Attributes:
        has_result: Whether there is a result, of the same type. Default: True.
        ranked: Whether it must be a ranked tensor. Default: False.
    """

    has_result: bool = True
    ranked: bool = False

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.operand_types = [_tensor_type(p) if self.ranked else p.type()]
        draft.result_types = draft.operand_types if self.has_result else []

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.type(op.operands[0].type)


class _ReductionOp(Piece):
    """`` max``: the operator, unless it is ``sum``."""

    writes = ("reduction_op",)

    def read(self, p: OpParser, draft: Draft) -> None:
        found = optional_reduction_op(p) or ReductionOp.SUM
        draft.properties["reduction_op"] = IntegerAttr(int(found), I32)

    def write(self, w: OpPrinter, op: Operation) -> None:
        found = reduction_op(op)
        if found is not ReductionOp.SUM:
            w.write(f" {found.keyword}")


def _tensor_type(p: OpParser) -> TensorType:
    place = p.here()
    type_ = p.type()
    if not isinstance(type_, TensorType):
        p.error(
            f"invalid kind of type specified: expected builtin.tensor, but found '{type_}'",
            place,
        )
    return type_


def _direction(p: OpParser) -> PropagationDirection:
    place = p.here()
    known = PropagationDirection.__members__
    for name in known:
        if p.accept_keyword(name):
            return known[name]
    word = p.optional_string()
    if word is None:
        p.error(
            "expected string or keyword containing one of the following enum values "
            f"for attribute 'allowed_direction' [{', '.join(known)}]",
            place,
        )
    if word not in known:
        p.error(f'invalid allowed_direction attribute specification: "{word}"', place)
    return known[word]


class _Inputs(Operands):
    """``(%0, %1)`` in front of a body."""

    def read(self, p: OpParser, draft: Draft) -> None:
        p.expect("(")
        draft.place = p.here()
        super().read(p, draft)
        p.expect(")")

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.write("(")
        super().write(w, op)
        w.write(")")


class _Body(Piece):
    """`` (%a: T) {…}``."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.regions = [p.region(p.argument_list())]

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.write(" (")
        blocks = op.regions[0].blocks
        for index, argument in enumerate(blocks[0].arguments if blocks else ()):
            if index:
                w.write(", ")
            w.block_argument(argument)
        w.write(") ")
        w.region(op.regions[0], entry_arguments=False, terminators=True)


def _read_mesh(p: OpParser) -> Attribute:
    # The mnemonic is optional, as everywhere where an attribute stands alone.
    return p.attribute() if p.peek_attribute() else parse_mesh(p)


def _read_name(p: OpParser) -> Attribute:
    place = p.here()
    name = p.attribute()
    if not isinstance(name, StringAttr):
        p.error("invalid kind of attribute specified", place)
    return name


# Definitions


def _define(
    name: str,
    *pieces: str | Piece,
    pure: bool = False,
    symbol: bool = False,
    terminator: bool = False,
    body: bool = False,
    defaults: tuple[tuple[str, Attribute], ...] = (),
) -> None:
    """Define an operation by its form; one with a body is isolated and has the body's effects."""
    form = Form(name, *pieces)
    define(
        OpDefinition(
            name,
            form.writes,
            form.parse,
            form.print,
            pure=pure,
            symbol=symbol,
            terminator=terminator,
            recursive_effects=body,
            isolated=body,
            defaults=defaults,
        )
    )


_END = (ATTRIBUTES, " : ", _OperandType())
_AXES_READERS: dict[str, Reader] = {
    "sdy.all_gather": parse_axis_lists,
    "sdy.all_reduce": parse_axis_ref_list,
    "sdy.all_slice": parse_axis_lists,
    "sdy.all_to_all": parse_all_to_all_params,
    "sdy.reduce_scatter": parse_axis_lists,
    "sdy.replicated_to_unreduced": parse_axis_ref_list,
    "sdy.sharded_to_unreduced": parse_axis_lists,
}


def _define_collectives() -> None:
    for name, axes in COLLECTIVES.items():
        before = () if axes is None else (" ", _Stripped(axes, _AXES_READERS[name]))
        sharding = _Stripped("out_sharding", parse_sharding)
        rest = (" ", Operands(1), " out_sharding=", sharding, *_END)
        if name in REDUCING:
            default = ("reduction_op", IntegerAttr(int(ReductionOp.SUM), I32))
            _define(name, _ReductionOp(), *before, *rest, defaults=(default,))
        else:
            _define(name, *before, *rest)


def _define_others() -> None:
    sharding = _Stripped("sharding", parse_sharding)
    _define("sdy.reshard", " ", Operands(1), " ", sharding, *_END, pure=True)
    _define("sdy.sharding_constraint", " ", Operands(1), " ", sharding, *_END)
    _define("sdy.data_flow_edge", " ", Operands(1), _Optional("sharding", parse_sharding), *_END)
    _define("sdy.func_data_flow_edge", " ", Operands(1), *_END)
    _define(
        *("sdy.propagation_barrier", " ", Operands(1)),
        *(" allowed_direction=", _Direction("allowed_direction")),
        *(ATTRIBUTES, " : ", _OperandType(ranked=True)),
        pure=True,
    )
    _define(
        *("sdy.sharding_group", " ", Operands(1), " group_id=", _GroupId("group_id")),
        *(ATTRIBUTES, " : ", _OperandType(has_result=False, ranked=True)),
    )
    mesh = _Stripped("mesh", _read_mesh)
    _define("sdy.mesh", " ", _SymbolName("sym_name"), " = ", mesh, ATTRIBUTES, symbol=True)
    _define("sdy.return", ATTRIBUTES, OPERANDS_AND_TYPES, pure=True, terminator=True)
    elements = Elements(_elements_type, "invalid kind of attribute specified")
    constant = ConstantForm("sdy.constant", elements)
    define(OpDefinition("sdy.constant", ("value",), constant.parse, constant.print, pure=True))
    _define(
        *("sdy.manual_computation", _Inputs()),
        *(" in_shardings=", _Stripped("in_shardings", parse_stripped_shardings)),
        *(" out_shardings=", _Stripped("out_shardings", parse_stripped_shardings)),
        *(" manual_axes=", _Stripped("manual_axes", parse_manual_axes)),
        *(_Body(), ATTRIBUTES, " : ", SIGNATURE),
        body=True,
    )
    _define(
        *("sdy.named_computation", "<", _Stripped("name", _read_name), ">", _Inputs()),
        _Optional("in_shardings", parse_stripped_shardings),
        _Optional("out_shardings", parse_stripped_shardings),
        *(_Body(), ATTRIBUTES, " : ", SIGNATURE),
        body=True,
    )


def _define_attributes() -> None:
    closed_dialects.add("sdy")
    for mnemonic, reader in {**ATTRIBUTE_READERS, **RULE_READERS}.items():
        attribute_parsers[f"sdy.{mnemonic}"] = _attribute_parser(reader)


def _attribute_parser(
    reader: Callable[[OpParser], SdyAttribute],
) -> Callable[[OpParser, str], Attribute]:
    return lambda p, _: reader(p)


_define_collectives()
_define_others()
_define_attributes()
