"""Operations of CHLO and MHLO that JAX writes."""

from __future__ import annotations

from dataclasses import replace

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import BoolAttr, DenseArrayAttr, IntegerAttr
from emu.mlir.forms import (
    ATTRIBUTES,
    I32,
    I64,
    SAME_TYPE,
    SIGNATURE,
    Draft,
    Integer,
    Operands,
    Piece,
)
from emu.mlir.ir import BlockArgument, Operation
from emu.mlir.registry import known_dialects
from emu.stablehlo.creation import ELEMENTS
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.spec import OpSpec

# Forms


class _ArrowTypes(Piece):
    """``T, U -> R``, with parentheses around several results."""

    def read(self, p: OpParser, draft: Draft) -> None:
        draft.operand_types = p.types()
        p.expect("->")
        if p.accept("("):
            draft.result_types = p.types()
            p.expect(")")
        else:
            draft.result_types = [p.type()]

    def write(self, w: OpPrinter, op: Operation) -> None:
        results = ", ".join(str(result.type) for result in op.results)
        operands = ", ".join(str(operand.type) for operand in op.operands)
        w.write(f"{operands} -> {results if len(op.results) == 1 else f'({results})'}")


class _Largest(Piece):
    """``, largest = false``; true is not written."""

    writes = ("largest",)

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.accept(","):
            p.expect_keyword("largest")
            p.expect("=")
            draft.properties["largest"] = p.attribute()

    def write(self, w: OpPrinter, op: Operation) -> None:
        if op.properties.get("largest") == BoolAttr(False):
            w.write(", largest = false")


_ARROW_TYPES = _ArrowTypes()

# Element by element

_UNARY = OpSpec(
    name="",
    pieces=(" ", Operands(1), ATTRIBUTES, " : ", _ARROW_TYPES),
    pure=True,
    elementwise=True,
)
for _name in (
    "_asin_acos_kernel",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bessel_i1e",
    "conj",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "is_inf",
    "is_neg_inf",
    "is_pos_inf",
    "lgamma",
    "sinh",
    "square",
    "tan",
):
    define_ops(replace(_UNARY, name=f"chlo.{_name}"))
define_ops(
    replace(_UNARY, name="mhlo.erf", pieces=(" ", Operands(1), ATTRIBUTES, " : ", SAME_TYPE)),
    replace(_UNARY, name="chlo.constant_like", pieces=(), operands=1, required=("value",)),
)

for _name in ("mulhi", "next_after", "polygamma", "zeta"):
    define_ops(
        OpSpec(
            name=f"chlo.{_name}",
            pieces=(" ", Operands(2), ATTRIBUTES, " : ", _ARROW_TYPES),
            pure=True,
        )
    )

# These broadcast their operands to each other.
_BROADCASTING = OpSpec(
    name="",
    pieces=(" ", Operands(2), ATTRIBUTES, " : ", SIGNATURE),
    optional=("broadcast_dimensions",),
    pure=True,
    elementwise=True,
)
for _name in (
    "broadcast_add",
    "broadcast_and",
    "broadcast_atan2",
    "broadcast_complex",
    "broadcast_divide",
    "broadcast_maximum",
    "broadcast_minimum",
    "broadcast_multiply",
    "broadcast_next_after",
    "broadcast_or",
    "broadcast_polygamma",
    "broadcast_power",
    "broadcast_remainder",
    "broadcast_shift_left",
    "broadcast_shift_right_arithmetic",
    "broadcast_shift_right_logical",
    "broadcast_subtract",
    "broadcast_xor",
    "broadcast_zeta",
):
    define_ops(replace(_BROADCASTING, name=f"chlo.{_name}"))
define_ops(
    replace(
        _BROADCASTING,
        name="chlo.broadcast_compare",
        required=("comparison_direction",),
        optional=("broadcast_dimensions", "compare_type"),
    ),
    replace(
        _BROADCASTING,
        name="chlo.broadcast_select",
        pieces=(" ", Operands(3), ATTRIBUTES, " : ", SIGNATURE),
        optional=(),
    ),
)


# Constants, products, the largest elements

define_ops(
    OpSpec(
        name="chlo.constant",
        pieces=(ATTRIBUTES, " ", ELEMENTS),
        operands=0,
        pure=True,
        constant=True,
    ),
    OpSpec(
        name="chlo.ragged_dot",
        operands=3,
        required=("ragged_dot_dimension_numbers",),
        optional=("precision_config",),
        pure=True,
    ),
)
_TOP_K = OpSpec(
    name="chlo.top_k",
    pieces=("(", Operands(1), ", k = ", Integer("k"), ")", ATTRIBUTES, " : ", _ARROW_TYPES),
    results=2,
    pure=True,
    result_name=lambda _: ("values", "indices"),
)
define_ops(
    _TOP_K,
    replace(
        _TOP_K,
        name="mhlo.topk",
        pieces=(
            *("(", Operands(1), ", k = ", Integer("k"), _Largest(), ")"),
            *(ATTRIBUTES, " : ", _ARROW_TYPES),
        ),
    ),
)


# scan


def _segments(*sizes: int) -> DenseArrayAttr:
    return DenseArrayAttr(I32, sizes)


def _parse_scan(p: OpParser) -> Operation:
    draft = Draft("chlo.scan")
    inputs = p.comma_separated("(", ")", p.operand)
    p.expect_keyword("inits")
    carries = p.comma_separated("(", ")", p.operand)
    p.expect_keyword("dimension")
    p.expect("=")
    draft.properties["dimension"] = IntegerAttr(p.integer(), I64)
    draft.take(p.optional_attr_dict_with_keyword())
    draft.regions.append(p.region())
    p.expect(":")
    place = p.here()
    draft.take_signature(p.function_type())
    draft.operands = inputs + carries
    if len(draft.operands) != len(draft.operand_types):
        p.error("operand types must match the number of inputs and inits", place)
    outputs = len(draft.result_types) - len(carries)
    if outputs < 0:
        p.error("not enough result types to cover the required carries", place)
    draft.properties["operandSegmentSizes"] = _segments(len(inputs), len(carries))
    draft.properties["resultSegmentSizes"] = _segments(outputs, len(carries))
    return draft.finish(p)


def _scan_inputs(op: Operation) -> int:
    sizes = op.properties.get("operandSegmentSizes")
    return sizes.values[0] if isinstance(sizes, DenseArrayAttr) and sizes.values else 0


def _print_scan(w: OpPrinter, op: Operation) -> None:
    if "dimension" not in op.properties or len(op.regions) != 1:
        w.generic_operation(op)
        return
    count = _scan_inputs(op)
    w.write("chlo.scan(")
    w.operands(op.operands[:count])
    w.write(") inits (")
    w.operands(op.operands[count:])
    w.write(") dimension=")
    dimension = op.properties["dimension"]
    w.write(str(dimension.value) if isinstance(dimension, IntegerAttr) else str(dimension))
    w.write(" ")
    elide = ("dimension", "operandSegmentSizes", "resultSegmentSizes")
    w.attr_dict(op, elide=elide, with_keyword=True)
    w.write(" ")
    w.region(op.regions[0])
    w.write(" : ")
    w.functional_type(op)


def _scan_argument(argument: BlockArgument) -> str:
    op = argument.owner.parent_op
    return "input" if op is not None and argument.index < _scan_inputs(op) else "carry"


define_ops(
    OpSpec(
        name="chlo.scan",
        parse=_parse_scan,
        print=_print_scan,
        results=None,
        regions=("body",),
        required=("dimension",),
        optional=(
            "scan_dim_size",
            "is_reverse",
            "is_associative",
            "operandSegmentSizes",
            "resultSegmentSizes",
        ),
        recursive_effects=True,
        isolated=True,
        argument_name=_scan_argument,
    ),
)
# MHLO has more operations than are defined here; they pass in generic form.
known_dialects.discard("mhlo")
