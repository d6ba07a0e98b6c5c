"""Operations that work element by element."""

from __future__ import annotations

import re
from dataclasses import replace

from emu.mlir.assembly import OpParser, OpPrinter
from emu.mlir.attributes import IntegerAttr
from emu.mlir.forms import ATTRIBUTES, I32, SAME_TYPE, SIGNATURE, Draft, Operands, Piece
from emu.mlir.ir import Operation
from emu.mlir.types import ComplexType, IntegerType, TensorType, Type
from emu.stablehlo.attributes import (
    ComparisonDirection,
    ComparisonType,
    ResultAccuracy,
    ResultAccuracyMode,
)
from emu.stablehlo.checks import (
    Invalid,
    compatible,
    compatible_shapes,
    operand_tensor,
    sizes_text,
)
from emu.stablehlo.dialect import define_ops
from emu.stablehlo.kinds import (
    ANY_TENSOR,
    BOOL_TENSOR,
    COMPLEX_TENSOR,
    CONVERTIBLE_TENSOR,
    FLOAT_OR_COMPLEX_TENSOR,
    FLOAT_TENSOR,
    INEXACT_TENSOR,
    INTEGER_TENSOR,
    LOGICAL_TENSOR,
    MAGNITUDE_TENSOR,
    NUMBER_TENSOR,
    QUANTIZABLE_FLOAT_TENSOR,
    SIGNED_TENSOR,
    TENSOR,
    WIDE_FLOAT_TENSOR,
    TensorKind,
)
from emu.stablehlo.spec import OpSpec
from emu.stablehlo.syntax import COMPLEX_TYPE, SELECT_TYPES, Enumeration
from emu.stablehlo.traits import (
    compatible_element_types,
    compatible_operand_elements,
    compatible_types,
    elementwise_shapes,
    same_element_types,
    same_operand_elements,
    same_shape,
)

_BOOL = IntegerType(1)


# Types


def _infer_common(op: Operation) -> list[Type]:
    """Infer that all types are one, of which some operands know more sizes than others."""
    types = [v.type for v in op.operands if isinstance(v.type, TensorType)]
    if not types:
        return [op.operands[0].type]
    first = types[0]
    shape = list(first.shape)
    for other in types[1:]:
        if other.rank != first.rank:
            raise Invalid(f"Mismatched ranks of types{first.rank} vs {other.rank}")
        for dim, (left, right) in enumerate(zip(shape, other.shape, strict=True)):
            if left is not None and right is not None and left != right:
                raise Invalid(f"Mismatched dimension sizes {left} and {right} in dimension {dim}")
            shape[dim] = right if left is None else left
    return [TensorType(tuple(shape), first.element)]


def _real_part(type_: Type) -> Type:
    return type_.element if isinstance(type_, ComplexType) else type_


def _infer_real(op: Operation) -> list[Type]:
    source = operand_tensor(op)
    return [TensorType(source.shape, _real_part(source.element))]


def _infer_predicate(op: Operation) -> list[Type]:
    return [TensorType(operand_tensor(op).shape, _BOOL)]


def _infer_complex(op: Operation) -> list[Type]:
    source = operand_tensor(op)
    return [TensorType(source.shape, ComplexType(source.element))]


def _infer_select(op: Operation) -> list[Type]:
    predicate, true, false = (operand_tensor(op, i) for i in range(3))
    if not compatible(true, false):
        raise Invalid("requires compatible types for non-predicate operands")
    if predicate.rank and not compatible_shapes(predicate.shape, true.shape):
        raise Invalid("requires the same shape for all operands")
    shape = tuple(b if a is None else a for a, b in zip(true.shape, false.shape, strict=True))
    return [TensorType(shape, true.element)]


def _infer_clamp(op: Operation) -> list[Type]:
    source = operand_tensor(op, 1)
    for name, index in (("min", 0), ("max", 2)):
        limit = operand_tensor(op, index)
        if limit.rank and not compatible_shapes(limit.shape, source.shape):
            raise Invalid(
                f"{name} shape [{sizes_text(limit.shape)}] is not scalar and is not compatible to "
                f"operand shape [{sizes_text(source.shape)}]"
            )
    return [source]


# Forms


class _CompareType(Piece):
    """``, FLOAT``, if the comparison says so."""

    writes = ("compare_type",)
    _word = Enumeration("compare_type", ComparisonType)

    def read(self, p: OpParser, draft: Draft) -> None:
        if p.accept(","):
            self._word.read(p, draft)

    def write(self, w: OpPrinter, op: Operation) -> None:
        if "compare_type" in op.properties:
            w.write(", ")
            self._word.write(w, op)


class _Bits(Piece):
    """``e5m10``: bits of the exponent and of the mantissa."""

    writes = needs = ("exponent_bits", "mantissa_bits")

    def read(self, p: OpParser, draft: Draft) -> None:
        place = p.here()
        word = p.keyword()
        match = re.fullmatch(r"e([0-9]+)m([0-9]+)", word)
        if match is None:
            p.error(f"expected exponent mantissa in format e#m#, saw {word}", place)
        for name, digits in zip(self.writes, match.groups(), strict=True):
            draft.properties[name] = IntegerAttr(int(digits), I32)

    def write(self, w: OpPrinter, op: Operation) -> None:
        exponent, mantissa = (op.properties[name] for name in self.writes)
        if isinstance(exponent, IntegerAttr) and isinstance(mantissa, IntegerAttr):
            w.write(f"e{exponent.value}m{mantissa.value}")


# Unary operations

_UNARY = OpSpec(
    name="",
    pieces=(" ", Operands(1), ATTRIBUTES, " : ", SAME_TYPE),
    pure=True,
    elementwise=True,
    pointwise=True,
)
_TYPE_PRESERVING = replace(
    _UNARY, traits=(compatible_types,), infer=_infer_common, checks_inferred=False
)
"""Unary operations whose result has the operand's type."""


def _define_type_preserving(kind: TensorKind, *names: str) -> None:
    for name in names:
        define_ops(
            replace(
                _TYPE_PRESERVING, name=f"stablehlo.{name}", operand_kinds=(kind,), result_kind=kind
            )
        )


_define_type_preserving(
    QUANTIZABLE_FLOAT_TENSOR, "ceil", "floor", "round_nearest_afz", "round_nearest_even"
)
_define_type_preserving(INTEGER_TENSOR, "count_leading_zeros", "popcnt")
_define_type_preserving(NUMBER_TENSOR, "negate")
_define_type_preserving(LOGICAL_TENSOR, "not")
_define_type_preserving(SIGNED_TENSOR, "sign")

for _name in (
    "cbrt",
    "cosine",
    "exponential",
    "exponential_minus_one",
    "log",
    "log_plus_one",
    "logistic",
    "rsqrt",
    "sine",
    "sqrt",
    "tan",
    "tanh",
):
    # These may be given an accuracy.
    define_ops(
        replace(
            _TYPE_PRESERVING,
            name=f"stablehlo.{_name}",
            form_defaults={"result_accuracy": ResultAccuracy(ResultAccuracyMode("DEFAULT"))},
            optional=("result_accuracy",),
            operand_kinds=(INEXACT_TENSOR,),
            result_kind=INEXACT_TENSOR,
        )
    )

define_ops(
    replace(
        _UNARY,
        name="stablehlo.abs",
        operand_kinds=(SIGNED_TENSOR,),
        result_kind=MAGNITUDE_TENSOR,
        traits=(elementwise_shapes,),
        infer=_infer_real,
    ),
)
for _name in ("imag", "real"):
    define_ops(
        replace(
            _UNARY,
            name=f"stablehlo.{_name}",
            operand_kinds=(FLOAT_OR_COMPLEX_TENSOR,),
            result_kind=FLOAT_TENSOR,
            traits=(elementwise_shapes,),
            infer=_infer_real,
        )
    )
define_ops(
    replace(
        _UNARY,
        name="stablehlo.convert",
        operand_kinds=(CONVERTIBLE_TENSOR,),
        result_kind=CONVERTIBLE_TENSOR,
        traits=(same_shape,),
    ),
    replace(
        _UNARY,
        name="stablehlo.is_finite",
        pieces=(" ", Operands(), ATTRIBUTES, " : ", SIGNATURE),
        operands=1,
        operand_kinds=(QUANTIZABLE_FLOAT_TENSOR,),
        result_kind=BOOL_TENSOR,
        traits=(elementwise_shapes,),
        infer=_infer_predicate,
    ),
    replace(
        _TYPE_PRESERVING,
        name="stablehlo.reduce_precision",
        pieces=(" ", Operands(1), ", format = ", _Bits(), ATTRIBUTES, " : ", SAME_TYPE),
        operand_kinds=(QUANTIZABLE_FLOAT_TENSOR,),
        result_kind=QUANTIZABLE_FLOAT_TENSOR,
        traits=(elementwise_shapes, compatible_types),
    ),
)
for _name in ("uniform_dequantize", "uniform_quantize"):
    # Shardy has no sharding rule for these two.
    define_ops(
        replace(_UNARY, name=f"stablehlo.{_name}", traits=(elementwise_shapes,), pointwise=False)
    )


# Binary operations

_BINARY = OpSpec(
    name="",
    pieces=(" ", Operands(2), ATTRIBUTES, " : ", SAME_TYPE),
    traits=(compatible_types,),
    infer=_infer_common,
    checks_inferred=False,
    pure=True,
    elementwise=True,
    pointwise=True,
)


def _define_binary(kind: TensorKind, *names: str, commutative: bool = False) -> None:
    for name in names:
        define_ops(
            replace(
                _BINARY,
                name=f"stablehlo.{name}",
                operand_kinds=(kind, kind),
                result_kind=kind,
                commutative=commutative,
            )
        )


_define_binary(LOGICAL_TENSOR, "and", "or", "xor", commutative=True)
_define_binary(TENSOR, "maximum", "minimum", "multiply", commutative=True)
_define_binary(INEXACT_TENSOR, "atan2")
_define_binary(NUMBER_TENSOR, "divide", "power", "remainder", "subtract")
_define_binary(INTEGER_TENSOR, "shift_left", "shift_right_arithmetic", "shift_right_logical")
define_ops(
    replace(
        _BINARY,
        name="stablehlo.add",
        operand_kinds=(ANY_TENSOR, ANY_TENSOR),
        result_kind=ANY_TENSOR,
        traits=(same_shape, same_element_types),
        commutative=True,
    ),
    replace(
        _BINARY,
        name="stablehlo.compare",
        pieces=(
            " ",
            Enumeration("comparison_direction", ComparisonDirection),
            ", ",
            Operands(2),
            _CompareType(),
            ATTRIBUTES,
            " : ",
            SIGNATURE,
        ),
        operand_kinds=(TENSOR, TENSOR),
        result_kind=BOOL_TENSOR,
        traits=(elementwise_shapes, compatible_operand_elements),
        infer=_infer_predicate,
        checks_inferred=True,
    ),
    replace(
        _BINARY,
        name="stablehlo.complex",
        pieces=(" ", Operands(), ATTRIBUTES, " : ", COMPLEX_TYPE),
        operands=2,
        operand_kinds=(WIDE_FLOAT_TENSOR, WIDE_FLOAT_TENSOR),
        result_kind=COMPLEX_TENSOR,
        traits=(same_operand_elements, same_shape),
        infer=_infer_complex,
        checks_inferred=True,
    ),
)


# Operations of three operands, of which some may be scalars

define_ops(
    OpSpec(
        name="stablehlo.select",
        pieces=(" ", Operands(), ATTRIBUTES, " : ", SELECT_TYPES),
        operands=3,
        operand_kinds=(BOOL_TENSOR, TENSOR, TENSOR),
        result_kind=TENSOR,
        infer=_infer_select,
        pure=True,
        elementwise=True,
    ),
    OpSpec(
        name="stablehlo.clamp",
        pieces=(" ", Operands(3), ATTRIBUTES, " : ", SAME_TYPE),
        operand_kinds=(TENSOR, TENSOR, TENSOR),
        result_kind=TENSOR,
        traits=(compatible_element_types,),
        infer=_infer_clamp,
        pure=True,
        elementwise=True,
    ),
)
