"""Operations of the dialect, with their parsers and printers.

Importing this module registers them, and the dialect's attributes, with the
parser and the printer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from emu.mlir.attributes import Attribute, DenseElementsAttr, IntegerAttr, RawAttr, StringAttr
from emu.mlir.dialects.constants import print_constant
from emu.mlir.ir import Operation, Region, Value
from emu.mlir.registry import OpDefinition, attribute_parsers, closed_dialects, define, definition
from emu.mlir.text.type_parser import parse_type
from emu.mlir.types import IntegerType, TensorType, Type
from emu.sdy.dialect.attributes import (
    PropagationDirection,
    SdyAttribute,
    TensorShardingPerValue,
)
from emu.sdy.dialect.parsing import (
    ATTRIBUTE_READERS,
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

_I32 = IntegerType(32)
_I64 = IntegerType(64)


def allowed_direction(barrier: Operation) -> PropagationDirection:
    """Return the direction of an ``sdy.propagation_barrier``."""
    stored = barrier.properties.get("allowed_direction")
    if isinstance(stored, IntegerAttr):
        return PropagationDirection(stored.value)
    raise ValueError(f"{barrier.name} has no allowed_direction")


def elements_type(value: Attribute) -> Type:
    """Return the tensor type of an elements attribute."""
    if isinstance(value, DenseElementsAttr):
        return value.type
    if isinstance(value, RawAttr) and " : " in value.text:
        # ``dense_resource<name> : tensor<…>`` is kept as text only.
        text = value.text.rpartition(" : ")[2]
        return parse_type(text)
    raise ValueError(f"{value} holds no elements")


# Common parts


def _make(
    name: str,
    operands: Iterable[Value] = (),
    types: Iterable[Type] = (),
    *,
    properties: dict[str, Attribute],
    attributes: dict[str, Attribute],
    regions: Iterable[Region] = (),
) -> Operation:
    """Return the operation; inherent attributes in the dictionary override the syntax."""
    for key in definition(name).properties:
        if key in attributes:
            properties[key] = attributes.pop(key)
    return Operation(
        name, operands, types, properties=properties, attributes=attributes, regions=regions
    )


def _write(w: OpPrinter, op: Operation, parts: str) -> None:
    """Write the parts, the attribute dictionary and the type of the operand."""
    w.write(parts)
    w.attr_dict(op, elide=definition(op.name).properties)
    w.write(" : ")
    w.type(op.operands[0].type)


def _text(op: Operation, name: str) -> str:
    stored = op.properties.get(name)
    return stored.stripped_text() if isinstance(stored, SdyAttribute) else str(stored)


# Tensor in, tensor of the same type out
#
# Such an operation's text is: attributes, operand and sharding, in the order of
# its table entry, the dictionary, and the type.

Reader = Callable[["OpParser"], Attribute]
_OUT = "out_sharding"


def _collective(name: str, before: tuple[str, Reader] | None) -> None:
    """Define a collective: ``op before? %x out_sharding=<…> : T``."""

    def parse(p: OpParser) -> Operation:
        properties: dict[str, Attribute] = {}
        if before is not None:
            properties[before[0]] = before[1](p)
        operand = p.operand()
        p.expect_keyword(_OUT)
        p.expect("=")
        properties[_OUT] = parse_sharding(p)
        attributes = p.optional_attr_dict()
        p.expect(":")
        type_ = p.type()
        value = p.resolve(operand, type_)
        return _make(name, [value], [type_], properties=properties, attributes=attributes)

    def write(w: OpPrinter, op: Operation) -> None:
        w.write(f"{name} " if before is None else f"{name} {_text(op, before[0])} ")
        w.operand(op.operands[0])
        _write(w, op, f" {_OUT}={_text(op, _OUT)}")

    properties = (_OUT,) if before is None else (before[0], _OUT)
    define(OpDefinition(name, properties=properties, parse=parse, print=write))


def _resharding(name: str, *, pure: bool) -> None:
    """Define ``op %x <@mesh, …> : T``."""

    def parse(p: OpParser) -> Operation:
        operand = p.operand()
        properties: dict[str, Attribute] = {"sharding": parse_sharding(p)}
        attributes = p.optional_attr_dict()
        p.expect(":")
        type_ = p.type()
        value = p.resolve(operand, type_)
        return _make(name, [value], [type_], properties=properties, attributes=attributes)

    def write(w: OpPrinter, op: Operation) -> None:
        w.write(f"{name} ")
        w.operand(op.operands[0])
        _write(w, op, f" {_text(op, 'sharding')}")

    define(OpDefinition(name, properties=("sharding",), parse=parse, print=write, pure=pure))


def _tensor_type(p: OpParser) -> TensorType:
    place = p.here()
    type_ = p.type()
    if not isinstance(type_, TensorType):
        p.error(
            f"invalid kind of type specified: expected builtin.tensor, but found '{type_}'",
            place,
        )
    return type_


# Operations by themselves


def _parse_mesh(p: OpParser) -> Operation:
    properties: dict[str, Attribute] = {"sym_name": StringAttr(p.symbol())}
    p.expect("=")
    # The mnemonic is optional, as everywhere where an attribute stands alone.
    properties["mesh"] = p.attribute() if p.peek_attribute() else parse_mesh(p)
    return _make("sdy.mesh", properties=properties, attributes=p.optional_attr_dict())


def _print_mesh(w: OpPrinter, op: Operation) -> None:
    w.write("sdy.mesh ")
    w.symbol(op.symbol_name or "")
    w.write(f" = {_text(op, 'mesh')}")
    w.attr_dict(op, elide=("sym_name", "mesh"))


def _parse_return(p: OpParser) -> Operation:
    attributes = p.optional_attr_dict()
    operands = p.operands()
    values: list[Value] = []
    if operands:
        p.expect(":")
        values = p.resolve_all(operands, p.types())
    return _make("sdy.return", values, properties={}, attributes=attributes)


def _print_return(w: OpPrinter, op: Operation) -> None:
    w.write("sdy.return")
    w.attr_dict(op)
    if op.operands:
        w.write(" ")
        w.operands(op.operands)
        w.write(f" : {', '.join(str(value.type) for value in op.operands)}")


def _parse_group(p: OpParser) -> Operation:
    operand = p.operand()
    p.expect_keyword("group_id")
    p.expect("=")
    place = p.here()
    group = p.attribute(_I64)
    if not isinstance(group, IntegerAttr) or group.type != _I64:
        p.error("invalid kind of attribute specified", place)
    attributes = p.optional_attr_dict()
    p.expect(":")
    value = p.resolve(operand, _tensor_type(p))
    return _make(
        "sdy.sharding_group", [value], properties={"group_id": group}, attributes=attributes
    )


def _print_group(w: OpPrinter, op: Operation) -> None:
    w.write("sdy.sharding_group ")
    w.operand(op.operands[0])
    group = op.properties.get("group_id")
    _write(w, op, f" group_id={group.value if isinstance(group, IntegerAttr) else group}")


def _parse_constant(p: OpParser) -> Operation:
    properties: dict[str, Attribute] = {}
    if p.accept("("):
        # A value of another type has the generic form without quotes.
        p.expect(")")
        if p.accept("<"):
            properties = p.optional_attr_dict()
            p.expect(">")
        attributes = p.optional_attr_dict()
        p.expect(":")
        types = p.function_type().results
    else:
        attributes = p.optional_attr_dict()
        place = p.here()
        value = p.attribute()
        if not isinstance(value, (DenseElementsAttr, RawAttr)):
            p.error("invalid kind of attribute specified", place)
        properties["value"] = value
        types = (elements_type(value),)
    return _make("sdy.constant", (), types, properties=properties, attributes=attributes)


def _print_constant(w: OpPrinter, op: Operation) -> None:
    print_constant(w, op, elements_type(op.properties["value"]))


def _parse_edge(p: OpParser) -> Operation:
    operand = p.operand()
    properties: dict[str, Attribute] = {}
    if p.accept_keyword("sharding"):
        p.expect("=")
        properties["sharding"] = parse_sharding(p)
    attributes = p.optional_attr_dict()
    p.expect(":")
    type_ = p.type()
    value = p.resolve(operand, type_)
    return _make(
        "sdy.data_flow_edge", [value], [type_], properties=properties, attributes=attributes
    )


def _print_edge(w: OpPrinter, op: Operation) -> None:
    w.write("sdy.data_flow_edge ")
    w.operand(op.operands[0])
    stored = "sharding" in op.properties
    _write(w, op, f" sharding={_text(op, 'sharding')}" if stored else "")


def _parse_func_edge(p: OpParser) -> Operation:
    operand = p.operand()
    attributes = p.optional_attr_dict()
    p.expect(":")
    type_ = p.type()
    value = p.resolve(operand, type_)
    return _make("sdy.func_data_flow_edge", [value], [type_], properties={}, attributes=attributes)


def _print_func_edge(w: OpPrinter, op: Operation) -> None:
    w.write("sdy.func_data_flow_edge ")
    w.operand(op.operands[0])
    _write(w, op, "")


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


def _parse_barrier(p: OpParser) -> Operation:
    operand = p.operand()
    p.expect_keyword("allowed_direction")
    p.expect("=")
    direction = IntegerAttr(int(_direction(p)), _I32)
    attributes = p.optional_attr_dict()
    p.expect(":")
    type_ = _tensor_type(p)
    value = p.resolve(operand, type_)
    return _make(
        "sdy.propagation_barrier",
        [value],
        [type_],
        properties={"allowed_direction": direction},
        attributes=attributes,
    )


def _print_barrier(w: OpPrinter, op: Operation) -> None:
    w.write("sdy.propagation_barrier ")
    w.operand(op.operands[0])
    _write(w, op, f" allowed_direction={allowed_direction(op).name}")


# Operations with a body


def _parse_body(
    p: OpParser,
) -> tuple[Region, dict[str, Attribute], tuple[Type, ...], tuple[Type, ...]]:
    """Read ``(%a: T) {…} attr-dict : (…) -> …``."""
    region = p.region(p.argument_list())
    attributes = p.optional_attr_dict()
    p.expect(":")
    type_ = p.function_type()
    return region, attributes, type_.inputs, type_.results


def _print_body(w: OpPrinter, op: Operation) -> None:
    w.write(" (")
    blocks = op.regions[0].blocks
    for index, argument in enumerate(blocks[0].arguments if blocks else ()):
        if index:
            w.write(", ")
        w.block_argument(argument)
    w.write(") ")
    w.region(op.regions[0], entry_arguments=False, terminators=True)
    w.attr_dict(op, elide=definition(op.name).properties)
    w.write(" : ")
    w.functional_type(op)


def _shardings_text(stored: Attribute | None) -> str:
    if isinstance(stored, TensorShardingPerValue):
        return f"[{stripped_list(stored.shardings)}]"
    return str(stored)


def _parse_manual(p: OpParser) -> Operation:
    p.expect("(")
    place = p.here()
    operands = p.operands()
    p.expect(")")
    properties: dict[str, Attribute] = {}
    for name in ("in_shardings", "out_shardings"):
        p.expect_keyword(name)
        p.expect("=")
        properties[name] = parse_stripped_shardings(p)
    p.expect_keyword("manual_axes")
    p.expect("=")
    properties["manual_axes"] = parse_manual_axes(p)
    region, attributes, inputs, results = _parse_body(p)
    values = p.resolve_all(operands, inputs, place)
    return _make(
        "sdy.manual_computation",
        values,
        results,
        properties=properties,
        attributes=attributes,
        regions=[region],
    )


def _print_manual(w: OpPrinter, op: Operation) -> None:
    w.write("sdy.manual_computation(")
    w.operands(op.operands)
    w.write(")")
    for name in ("in_shardings", "out_shardings"):
        w.write(f" {name}={_shardings_text(op.properties.get(name))}")
    w.write(f" manual_axes={_text(op, 'manual_axes')}")
    _print_body(w, op)


def _parse_named(p: OpParser) -> Operation:
    p.expect("<")
    place = p.here()
    name = p.attribute()
    if not isinstance(name, StringAttr):
        p.error("invalid kind of attribute specified", place)
    p.expect(">")
    p.expect("(")
    place = p.here()
    operands = p.operands()
    p.expect(")")
    properties: dict[str, Attribute] = {"name": name}
    for key in ("in_shardings", "out_shardings"):
        if p.accept_keyword(key):
            p.expect("=")
            properties[key] = parse_stripped_shardings(p)
    region, attributes, inputs, results = _parse_body(p)
    values = p.resolve_all(operands, inputs, place)
    return _make(
        "sdy.named_computation",
        values,
        results,
        properties=properties,
        attributes=attributes,
        regions=[region],
    )


def _print_named(w: OpPrinter, op: Operation) -> None:
    w.write(f"sdy.named_computation<{op.properties.get('name')}>(")
    w.operands(op.operands)
    w.write(")")
    for name in ("in_shardings", "out_shardings"):
        if name in op.properties:
            w.write(f" {name}={_shardings_text(op.properties[name])}")
    _print_body(w, op)


def _define_collectives() -> None:
    lists: Reader = parse_axis_lists
    axes: Reader = parse_axis_ref_list
    _collective("sdy.all_gather", ("gathering_axes", lists))
    _collective("sdy.all_reduce", ("reduction_axes", axes))
    _collective("sdy.all_slice", ("slicing_axes", lists))
    _collective("sdy.all_to_all", ("params", parse_all_to_all_params))
    _collective("sdy.collective_permute", None)
    _collective("sdy.reduce_scatter", ("reduce_scatter_axes", lists))
    _collective("sdy.replicated_to_unreduced", ("axes", axes))
    _collective("sdy.sharded_to_unreduced", ("axes", lists))


def _define_others() -> None:
    _resharding("sdy.reshard", pure=True)
    _resharding("sdy.sharding_constraint", pure=False)
    define(OpDefinition("sdy.mesh", ("sym_name", "mesh"), _parse_mesh, _print_mesh, symbol=True))
    define(OpDefinition("sdy.return", (), _parse_return, _print_return, pure=True, terminator=True))
    define(OpDefinition("sdy.sharding_group", ("group_id",), _parse_group, _print_group))
    define(OpDefinition("sdy.constant", ("value",), _parse_constant, _print_constant, pure=True))
    define(OpDefinition("sdy.data_flow_edge", ("sharding",), _parse_edge, _print_edge))
    define(OpDefinition("sdy.func_data_flow_edge", (), _parse_func_edge, _print_func_edge))
    define(
        OpDefinition(
            "sdy.propagation_barrier",
            ("allowed_direction",),
            _parse_barrier,
            _print_barrier,
            pure=True,
        )
    )
    define(
        OpDefinition(
            "sdy.manual_computation",
            ("in_shardings", "out_shardings", "manual_axes"),
            _parse_manual,
            _print_manual,
            recursive_effects=True,
            isolated=True,
        )
    )
    define(
        OpDefinition(
            "sdy.named_computation",
            ("name", "in_shardings", "out_shardings"),
            _parse_named,
            _print_named,
            recursive_effects=True,
            isolated=True,
        )
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
