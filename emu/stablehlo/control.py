"""Operations with regions, calls, tuples and barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.mlir.attributes import ArrayAttr, BoolAttr, DictAttr, IntegerAttr, StringAttr
from emu.mlir.ir import Block, Operation, Region
from emu.mlir.registry import OpDefinition, define
from emu.mlir.types import TensorType, Type, UnrankedTensorType
from emu.stablehlo.attribute_text import read_dims
from emu.stablehlo.attributes import dims_text
from emu.stablehlo.elementwise import COMMUTATIVE
from emu.stablehlo.syntax import (
    ATTRIBUTES,
    I32,
    PAIRWISE_TYPES,
    SIGNATURE,
    TUPLE_TYPE,
    Draft,
    Form,
    Integer,
    Operands,
    Piece,
    String,
    array_of_ints,
    define_form,
    define_pure,
    ints,
)

if TYPE_CHECKING:
    from emu.mlir.assembly import Argument, Operand, OpParser, OpPrinter
    from emu.mlir.diagnostics import Location

__all__ = ["CUSTOM_CALL_DEFAULTS", "REGION_OPERATIONS"]

_COMMUTATIVE = frozenset(f"stablehlo.{name}" for name in COMMUTATIVE)


# While


def _parse_while(p: OpParser) -> Operation:
    draft = Draft("stablehlo.while")
    pairs = p.comma_separated("(", ")", lambda: _read_assignment(p))
    if pairs:
        p.expect(":")
        draft.result_types = p.types()
    draft.operand_types = draft.result_types
    draft.operands = [value for _, value in pairs]
    names = [name for name, _ in pairs]
    # Operands are resolved before the regions are read, as errors show.
    operands = p.resolve_all(draft.operands, draft.operand_types)
    draft.take(p.optional_attr_dict_with_keyword())
    for keyword in ("cond", "do"):
        p.expect_keyword(keyword)
        draft.regions.append(p.region(list(zip(names, draft.result_types, strict=False))))
    return Operation(
        draft.name,
        operands,
        draft.result_types,
        properties=draft.properties,
        attributes=draft.attributes,
        regions=draft.regions,
        location=p.op_location,
    )


def _read_assignment(p: OpParser) -> tuple[Operand, Operand]:
    name = p.operand()
    p.expect("=")
    return name, p.operand()


def _print_while(w: OpPrinter, op: Operation) -> None:
    if len(op.regions) != 2 or not all(region.blocks for region in op.regions):
        w.generic_operation(op)
        return
    condition, body = op.regions
    w.write("stablehlo.while(")
    arguments = body.blocks[0].arguments
    for index, (argument, operand) in enumerate(zip(arguments, op.operands, strict=False)):
        if index:
            w.write(", ")
        w.operand(argument)
        w.write(" = ")
        w.operand(operand)
    w.write(")")
    if op.operands:
        w.write(" : ")
        PAIRWISE_TYPES.write(w, op)
    w.attr_dict(op, with_keyword=True)
    w.newline()
    w.write("cond ")
    w.region(condition, entry_arguments=False)
    w.write(" do ")
    w.region(body, entry_arguments=False)


# Reduce


def _parse_reduce(p: OpParser) -> Operation:
    draft = Draft("stablehlo.reduce")
    start = p.here()
    pairs = p.comma_separated("", "", lambda: _read_input(p))
    draft.operands = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    place = p.here()
    inner = p.keyword() if p.accept_keyword("applies") else None
    if inner is not None and inner not in _COMMUTATIVE:
        p.error(
            "expected the inner-op to be a commutative binary-op from the stablehlo dialect, "
            "with zero region, producing single result",
            place,
        )
    for token in ("across", "dimensions"):
        p.expect_keyword(token)
    p.expect("=")
    draft.properties["dimensions"] = array_of_ints(read_dims(p))
    draft.take(p.optional_attr_dict())
    p.expect(":")
    draft.take_signature(p.function_type())
    if inner is None:
        p.expect_keyword("reducer")
        operands = p.resolve_all(draft.operands, draft.operand_types)
        region = p.region(_read_reducer_arguments(p))
    else:
        operands = p.resolve_all(draft.operands, draft.operand_types)
        if not operands:
            p.error("input types missing in reduce-op function type", place)
        region = _reducer(inner, _scalar(operands[0].type), start)
    return Operation(
        draft.name,
        operands,
        draft.result_types,
        properties=draft.properties,
        attributes=draft.attributes,
        regions=[region],
        # Located where its operands begin, as in StableHLO.
        location=start,
    )


def _read_input(p: OpParser) -> tuple[Operand, Operand]:
    """Read ``(%0 init: %1)``."""
    p.expect("(")
    value = p.operand()
    p.expect_keyword("init")
    p.expect(":")
    start = p.operand()
    p.expect(")")
    return value, start


def _read_reducer_arguments(p: OpParser) -> list[Argument]:
    """Read ``(%a: T, %b: T) …``: first all elements, then all accumulators."""
    pairs = []
    while p.peek("("):
        pairs.append(p.argument_list())
    return [pair[0] for pair in pairs] + [pair[1] for pair in pairs]


def _reducer(name: str, type_: Type, location: Location) -> Region:
    """The region of a reduce that is written with ``applies``."""
    block = Block()
    arguments = [block.add_argument(type_, location) for _ in range(2)]
    inner = block.append(Operation(name, arguments, [type_], location=location))
    block.append(Operation("stablehlo.return", inner.results, location=location))
    return Region([block])


def _scalar(type_: Type) -> Type:
    """A scalar of a tensor's element type."""
    if isinstance(type_, (TensorType, UnrankedTensorType)):
        type_ = type_.element
    return TensorType((), type_)


def _short_reducer(op: Operation) -> Operation | None:
    """The one commutative operation that the reducer consists of, if it does.

    It has to take the arguments as they are and to be what is returned; then
    its name says all.
    """
    block = op.body()
    inner, last = block.first, block.last
    if inner is None or last is None or inner.next_op is not last or not op.operands:
        return None
    if inner.name not in _COMMUTATIVE or last.name != "stablehlo.return":
        return None
    types = {value.type for value in (*inner.operands, *inner.results)}
    if types != {_scalar(op.operands[0].type)}:
        return None
    forwarded = list(inner.operands) == block.arguments
    return inner if forwarded and list(last.operands) == inner.results else None


def _print_reduce(w: OpPrinter, op: Operation) -> None:
    half = len(op.operands) // 2
    whole = len(op.regions) == 1 and op.regions[0].blocks and "dimensions" in op.properties
    if not whole or len(op.body().arguments) != 2 * half:
        w.generic_operation(op)
        return
    w.write("stablehlo.reduce")
    for index in range(half):
        w.write("(" if index == 0 else ", (")
        w.operand(op.operands[index])
        w.write(" init: ")
        w.operand(op.operands[index + half])
        w.write(")")
    inner = _short_reducer(op)
    if inner is not None:
        w.write(f" applies {inner.name}")
    w.write(f" across dimensions = {dims_text(ints(op.properties['dimensions']))}")
    w.attr_dict(op, elide=("dimensions",))
    w.write(" : ")
    w.functional_type(op)
    if inner is not None:
        return
    w.newline()
    w.write(" reducer")
    arguments = op.body().arguments
    for index in range(half):
        w.write("(")
        w.block_argument(arguments[index])
        w.write(", ")
        w.block_argument(arguments[index + half])
        w.write(") ")
    w.write(" ")
    w.region(op.regions[0], entry_arguments=False)


# Pieces of others


class _CallTarget(Piece):
    """``@name``, which is kept as a string."""

    writes = needs = ("call_target_name",)

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.properties["call_target_name"] = StringAttr(p.symbol())

    def write(self, w: OpPrinter, op: Operation) -> None:
        name = op.properties["call_target_name"]
        w.symbol(name.value if isinstance(name, StringAttr) else str(name))


class _Regions(Piece):
    """`` ({…}, {…})``, if there are any."""

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.peek("("):
            draft.regions += p.comma_separated("(", ")", p.region)

    def write(self, w: OpPrinter, op: Operation) -> None:
        for index, region in enumerate(op.regions):
            w.write(", " if index else " (")
            w.region(region)
        if op.regions:
            w.write(")")


class _TypesOfOperands(Piece):
    """`` : T, U``, if there are operands."""

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.accept(":"):
            draft.operand_types = p.types()

    def write(self, w: OpPrinter, op: Operation) -> None:
        if op.operands:
            w.write(" : ")
            PAIRWISE_TYPES.write(w, op)


class _Barred(Piece):
    """`` %0, %1 : T, U``, or ``()`` where nothing is barred."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.operands = p.operands()
        if draft.operands:
            p.expect(":")
            PAIRWISE_TYPES.read(p, draft)
        else:
            p.expect("(")
            p.expect(")")

    def write(self, w: OpPrinter, op: Operation) -> None:
        if not op.operands:
            w.write("()")
            return
        w.write(" ")
        w.operands(op.operands)
        w.write(" : ")
        PAIRWISE_TYPES.write(w, op)


# Definitions


CUSTOM_CALL_DEFAULTS = {
    "api_version": IntegerAttr(1, I32),
    "called_computations": ArrayAttr(()),
    "has_side_effect": BoolAttr(False),
    "output_operand_aliases": ArrayAttr(()),
}


def _define_calls() -> None:
    define_form(
        Form(
            "stablehlo.custom_call",
            *(" ", _CallTarget(), "(", Operands(), ")", ATTRIBUTES, " : ", SIGNATURE),
            defaults=CUSTOM_CALL_DEFAULTS,
        ),
        (*CUSTOM_CALL_DEFAULTS, "backend_config", "operand_layouts", "result_layouts"),
        pure_if=lambda op: op.properties.get("has_side_effect") != BoolAttr(True),
    )
    defaults = {"composite_attributes": DictAttr(()), "version": IntegerAttr(0, I32)}
    define_form(
        Form(
            "stablehlo.composite",
            *(" ", String("name"), " ", Operands(), _Regions(), ATTRIBUTES, " : ", SIGNATURE),
            defaults=defaults,
        ),
        (*defaults, "decomposition"),
    )


def _define_all() -> None:
    define(
        OpDefinition(
            "stablehlo.while",
            parse=_parse_while,
            print=_print_while,
            recursive_effects=True,
            argument_name="iterArg",
        )
    )
    define(
        OpDefinition(
            "stablehlo.reduce",
            ("dimensions",),
            parse=_parse_reduce,
            print=_print_reduce,
            recursive_effects=True,
        )
    )
    for name, properties in REGION_OPERATIONS.items():
        define(OpDefinition(f"stablehlo.{name}", properties, recursive_effects=True))
    define(OpDefinition("stablehlo.async_start", isolated=True))
    define(OpDefinition("stablehlo.async_done"))
    define_form(
        Form("stablehlo.return", " ", Operands(), ATTRIBUTES, _TypesOfOperands()),
        pure=True,
        terminator=True,
    )
    define_pure("optimization_barrier", ATTRIBUTES, _Barred())
    define_pure("tuple", " ", Operands(), ATTRIBUTES, " : ", TUPLE_TYPE)
    index = Integer("index", I32)
    define_pure(
        "get_tuple_element", " ", Operands(1), "[", index, "]", ATTRIBUTES, " : ", SIGNATURE
    )
    _define_calls()


REGION_OPERATIONS = {
    "if": (),
    "case": (),
    "map": ("dimensions",),
    "sort": ("dimension", "is_stable"),
    "reduce_window": (
        "window_dimensions",
        "window_strides",
        "base_dilations",
        "window_dilations",
        "padding",
    ),
    "select_and_scatter": ("window_dimensions", "window_strides", "padding"),
}
"""Those that have the effects of their regions only, and no pretty form."""

_define_all()
