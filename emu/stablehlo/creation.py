"""Operations that make arrays: constants, ranges of numbers, random numbers."""

from __future__ import annotations

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.dialects.constants import ConstantForm, Elements
from emu.mlir.forms import ATTRIBUTES, RESULT_TYPE, SIGNATURE, Integer, Operands
from emu.mlir.ir import Operation
from emu.mlir.types import IntegerType, TensorType, Type
from emu.stablehlo.attributes import RngAlgorithm, RngDistribution
from emu.stablehlo.checks import Invalid, integer, tensor
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.kinds import STATIC_NUMBER_TENSOR, STATIC_TENSOR
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.syntax import Enumeration

# constant


def _constant_name(op: Operation) -> str:
    """Return ``c`` for integers and ``cst`` for all others."""
    type_ = op.results[0].type if op.results else None
    whole = isinstance(type_, TensorType) and isinstance(type_.element, IntegerType)
    return "c" if whole else "cst"


def _type_of(value: Attribute) -> Type | None:
    """Return the type of a constant's value; None where it is not elements."""
    return value.type if isinstance(value, DenseElementsAttr) else None


ELEMENTS = Elements(_type_of, "expected elements attribute")
_CONSTANT = ConstantForm("stablehlo.constant", ELEMENTS)


def _infer_constant(op: Operation) -> list[Type]:
    value = op.properties["value"]
    return [value.type if isinstance(value, DenseElementsAttr) else op.result.type]


define_ops(
    OpSpec(
        name="stablehlo.constant",
        parse=_CONSTANT.parse,
        print=_CONSTANT.print,
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
