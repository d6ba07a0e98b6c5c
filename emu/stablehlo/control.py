"""Control flow, calls, tuples and barriers."""

from __future__ import annotations

from dataclasses import replace

from emu.mlir.assembly import Operand, OpParser, OpPrinter
from emu.mlir.attributes import ArrayAttr, BoolAttr, DictAttr, IntegerAttr, StringAttr
from emu.mlir.forms import (
    ATTRIBUTES,
    I32,
    PAIRWISE_TYPES,
    SIGNATURE,
    TUPLE_TYPE,
    Draft,
    Integer,
    Operands,
    Piece,
    String,
)
from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType, TensorType, TupleType, Type
from emu.stablehlo.checks import (
    Invalid,
    compatible,
    integer,
    operand_tensor,
    quoted_types,
    same_as_operands,
)
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.traits import pairwise_types

# while


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
        location=p.op_place,
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


def _check_while(op: Operation) -> None:
    operands = [value.type for value in op.operands]
    condition, body = (region.blocks[0] for region in op.regions)
    last, ends = body.last, condition.last
    if last is None or ends is None:
        raise Invalid("The while body-region expected to have a terminator")
    for what, types in (
        ("condition block arguments", [a.type for a in condition.arguments]),
        ("body block arguments", [a.type for a in body.arguments]),
        ("body block return types", [value.type for value in last.operands]),
    ):
        if len(types) != len(operands) or not all(map(compatible, operands, types)):
            raise Invalid(
                f"expect operands to be compatible with {what} but got {quoted_types(operands)} vs "
                f"{quoted_types(types)}"
            )
    if len(ends.operands) != 1:
        raise Invalid(f"expect condition body returns a single value but got {len(ends.operands)}")
    result = ends.operands[0].type
    if result != TensorType((), IntegerType(1)):
        raise Invalid(
            f"expect condition block return a zero-ranked tensor of i1 but got '{result}'"
        )


define_ops(
    OpSpec(
        name="stablehlo.while",
        parse=_parse_while,
        print=_print_while,
        results=None,
        regions=("cond", "body"),
        check=_check_while,
        infer=same_as_operands,
        recursive_effects=True,
        needs_no_rule=True,
        argument_name="iterArg",
    ),
)


# case, if, return


def _infer_conditional(op: Operation) -> list[Type]:
    if not op.regions:
        raise Invalid("expect at least one branch")
    if rank := operand_tensor(op).rank:
        raise Invalid(f"operand should be rank 0 tensor but got rank {rank}")
    results: list[list[Type]] = []
    for index, region in enumerate(op.regions):
        last = region.blocks[0].last if region.blocks else None
        if last is None:
            raise Invalid("expect non-empty region")
        if count := len(region.blocks[0].arguments):
            raise Invalid(f"branch {index} must have 0 arguments, but found {count}")
        types = [value.type for value in last.operands]
        results.append(types)
        first = results[0]
        if len(first) != len(types) or not all(map(compatible, first, types)):
            raise Invalid(
                f"branch 0 and branch {index} have mismatched return types: {quoted_types(first)} vs "
                f"{quoted_types(types)}"
            )
    return results[0]


class _TypesOfOperands(Piece):
    """`` : T, U``, if there are operands."""

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.accept(":"):
            draft.operand_types = p.types()

    def write(self, w: OpPrinter, op: Operation) -> None:
        if op.operands:
            w.write(" : ")
            PAIRWISE_TYPES.write(w, op)


_CONDITIONAL = OpSpec(
    name="", operands=1, results=None, infer=_infer_conditional, recursive_effects=True
)
define_ops(
    replace(_CONDITIONAL, name="stablehlo.case", regions=None, needs_no_rule=True),
    replace(_CONDITIONAL, name="stablehlo.if", regions=("true_branch", "false_branch")),
    OpSpec(
        name="stablehlo.return",
        pieces=(" ", Operands(), ATTRIBUTES, _TypesOfOperands()),
        results=0,
        pure=True,
        terminator=True,
    ),
)


# optimization_barrier


class _BarrierOperands(Piece):
    """`` %0, %1 : T, U``, or ``()`` without operands."""

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


define_ops(
    OpSpec(
        name="stablehlo.optimization_barrier",
        pieces=(ATTRIBUTES, _BarrierOperands()),
        results=None,
        traits=(pairwise_types,),
        infer=same_as_operands,
        pure=True,
        needs_no_rule=True,
    ),
)


# Tuples


def _infer_get_tuple_element(op: Operation) -> list[Type]:
    source, index = op.operands[0].type, integer(op, "index")
    if not isinstance(source, TupleType):
        raise Invalid(f"expected a tuple, but got '{source}'")
    if index >= len(source.elements):
        raise Invalid(f"index {index} is out of bounds of operand with size {len(source.elements)}")
    return [source.elements[index]]


def _infer_tuple(op: Operation) -> list[Type]:
    return [TupleType(tuple(value.type for value in op.operands))]


define_ops(
    OpSpec(
        name="stablehlo.tuple",
        pieces=(" ", Operands(), ATTRIBUTES, " : ", TUPLE_TYPE),
        infer=_infer_tuple,
        pure=True,
    ),
    OpSpec(
        name="stablehlo.get_tuple_element",
        pieces=(
            *(" ", Operands(1), "[", Integer("index", I32), "]"),
            *(ATTRIBUTES, " : ", SIGNATURE),
        ),
        infer=_infer_get_tuple_element,
        pure=True,
        needs_no_rule=True,
    ),
)


# Calls


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


_CUSTOM_CALL_DEFAULTS = {
    "api_version": IntegerAttr(1, I32),
    "called_computations": ArrayAttr(()),
    "has_side_effect": BoolAttr(False),
    "output_operand_aliases": ArrayAttr(()),
}
_COMPOSITE_DEFAULTS = {"composite_attributes": DictAttr(()), "version": IntegerAttr(0, I32)}
define_ops(
    OpSpec(
        name="stablehlo.custom_call",
        pieces=(
            *(" ", _CallTarget(), "(", Operands(), ")"),
            *(ATTRIBUTES, " : ", SIGNATURE),
        ),
        form_defaults=_CUSTOM_CALL_DEFAULTS,
        results=None,
        optional=(*_CUSTOM_CALL_DEFAULTS, "backend_config", "operand_layouts", "result_layouts"),
        pure_if=lambda op: op.properties.get("has_side_effect") != BoolAttr(True),
    ),
    OpSpec(
        name="stablehlo.composite",
        pieces=(
            *(" ", String("name"), " ", Operands(), _Regions()),
            *(ATTRIBUTES, " : ", SIGNATURE),
        ),
        form_defaults=_COMPOSITE_DEFAULTS,
        results=None,
        regions=None,
        required=("decomposition",),
        optional=tuple(_COMPOSITE_DEFAULTS),
    ),
    OpSpec(name="stablehlo.async_start", regions=("body",), isolated=True),
    OpSpec(name="stablehlo.async_done", operands=1),
)
