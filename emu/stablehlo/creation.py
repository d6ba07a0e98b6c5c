"""Operations that make arrays: constants, ranges of numbers, random numbers."""

from __future__ import annotations

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.dialects.constants import print_constant
from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType, TensorType, Type
from emu.stablehlo.attributes import RngAlgorithm, RngDistribution
from emu.stablehlo.checks import Invalid, integer, tensor
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.kinds import STATIC_NUMBER_TENSOR, STATIC_TENSOR
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.syntax import (
    ATTRIBUTES,
    RESULT_TYPE,
    SIGNATURE,
    Draft,
    Enumeration,
    Integer,
    Operands,
    Piece,
)

# constant


def _constant_name(op: Operation) -> str:
    """Return ``c`` for integers and ``cst`` for all others."""
    type_ = op.results[0].type if op.results else None
    whole = isinstance(type_, TensorType) and isinstance(type_.element, IntegerType)
    return "c" if whole else "cst"


class _ElementsPiece(Piece):
    """Value of a constant; its type is that of the result."""

    writes = needs = ("value",)

    def read(self, p: OpParser, draft: Draft) -> None:
        place = p.here()
        value = p.attribute()
        type_ = _type_of(value)
        if type_ is None:
            p.error("expected elements attribute", place)
        draft.properties["value"] = value
        draft.result_types = [type_]

    def write(self, w: OpPrinter, op: Operation) -> None:
        w.attribute(op.properties["value"])


ELEMENTS = _ElementsPiece()


def _type_of(value: Attribute) -> Type | None:
    """Return the type of a constant's value; None where it is not elements."""
    if isinstance(value, DenseElementsAttr):
        return value.type
    return None


def _parse_constant(p: OpParser) -> Operation:
    draft = Draft("stablehlo.constant")
    if not p.accept("("):
        draft.take(p.optional_attr_dict())
        ELEMENTS.read(p, draft)
        return draft.finish(p)
    # The generic form without quotes: MLIR writes it where the value and the
    # result have different types.
    p.expect(")")
    if p.accept("<"):
        draft.take(p.optional_attr_dict())
        p.expect(">")
    draft.take(p.optional_attr_dict())
    p.expect(":")
    draft.take_signature(p.function_type())
    return draft.finish(p)


def _print_constant(w: OpPrinter, op: Operation) -> None:
    value = op.properties.get("value")
    if value is None or len(op.results) != 1:
        w.generic_operation(op)
        return
    print_constant(w, op, _type_of(value))


def _infer_constant(op: Operation) -> list[Type]:
    value = op.properties["value"]
    return [value.type if isinstance(value, DenseElementsAttr) else op.result.type]


define_ops(
    OpSpec(
        name="stablehlo.constant",
        parse=_parse_constant,
        print=_print_constant,
        operands=0,
        required=("value",),
        result_kind=STATIC_TENSOR,
        infer=_infer_constant,
        pure=True,
        constant=True,
        needs_no_rule=True,
        result_name=_constant_name,
    ),
)


# iota


def _check_iota(op: Operation) -> None:
    rank, dimension = tensor(op.result.type).rank, integer(op, "iota_dimension")
    if not rank:
        raise Invalid("does not support scalars.")
    if dimension >= rank:
        raise Invalid("iota dimension cannot go beyond the output rank.")


define_ops(
    OpSpec(
        name="stablehlo.iota",
        pieces=(" dim = ", Integer("iota_dimension"), ATTRIBUTES, " : ", RESULT_TYPE),
        operands=0,
        result_kind=STATIC_NUMBER_TENSOR,
        check=_check_iota,
        pure=True,
        needs_no_rule=True,
    ),
    OpSpec(
        name="stablehlo.dynamic_iota",
        pieces=(
            *(" ", Operands(1), ", dim = ", Integer("iota_dimension")),
            *(ATTRIBUTES, " : ", SIGNATURE),
        ),
        pure=True,
    ),
)


# Random numbers

define_ops(
    OpSpec(
        name="stablehlo.rng",
        pieces=(
            *(" ", Operands(3), ", distribution = "),
            Enumeration("rng_distribution", RngDistribution),
            *(ATTRIBUTES, " : ", SIGNATURE),
        ),
    ),
    OpSpec(
        name="stablehlo.rng_bit_generator",
        pieces=(
            *(" ", Operands(1), ", algorithm = "),
            Enumeration("rng_algorithm", RngAlgorithm),
            *(ATTRIBUTES, " : ", SIGNATURE),
        ),
        results=2,
        pure=True,
        result_name=lambda _: ("output_state", "output"),
    ),
)
