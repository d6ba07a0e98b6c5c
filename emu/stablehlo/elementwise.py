"""Operations that work element by element."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from emu.mlir.attributes import IntegerAttr
from emu.stablehlo.attributes import (
    ComparisonDirection,
    ComparisonType,
    ResultAccuracy,
    ResultAccuracyMode,
)
from emu.stablehlo.syntax import (
    ATTRIBUTES,
    COMPLEX_TYPE,
    I32,
    SAME_TYPE,
    SELECT_TYPES,
    SIGNATURE,
    Draft,
    Enumeration,
    Form,
    Operands,
    Piece,
    define_form,
)

if TYPE_CHECKING:
    from emu.mlir.assembly import OpParser, OpPrinter
    from emu.mlir.ir import Operation

__all__ = ["ACCURACY_DEFAULT", "ACCURATE", "BINARY", "COMMUTATIVE", "UNARY"]

UNARY = (
    "abs",
    "ceil",
    "convert",
    "count_leading_zeros",
    "floor",
    "imag",
    "negate",
    "not",
    "popcnt",
    "real",
    "round_nearest_afz",
    "round_nearest_even",
    "sign",
    "uniform_dequantize",
    "uniform_quantize",
)
"""Unary operations without attributes."""

ACCURATE = (
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
)
"""Unary operations that can be asked for an accuracy."""

COMMUTATIVE = ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
"""Those that ``reduce`` can write in one line."""

BINARY = (
    *COMMUTATIVE,
    "atan2",
    "divide",
    "power",
    "remainder",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "subtract",
)

ACCURACY_DEFAULT = ResultAccuracy(ResultAccuracyMode("DEFAULT"))


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


def _elementwise(form: Form, more: tuple[str, ...] = ()) -> None:
    define_form(form, more, pure=True, elementwise=True)


def _define_all() -> None:
    for name in UNARY:
        _elementwise(Form(f"stablehlo.{name}", " ", Operands(1), ATTRIBUTES, " : ", SAME_TYPE))
    for name in ACCURATE:
        accuracy = {"result_accuracy": ACCURACY_DEFAULT}
        pieces = (" ", Operands(1), ATTRIBUTES, " : ", SAME_TYPE)
        _elementwise(Form(f"stablehlo.{name}", *pieces, defaults=accuracy), ("result_accuracy",))
    for name in BINARY:
        _elementwise(Form(f"stablehlo.{name}", " ", Operands(2), ATTRIBUTES, " : ", SAME_TYPE))
    _elementwise(Form("stablehlo.is_finite", " ", Operands(), ATTRIBUTES, " : ", SIGNATURE))
    _elementwise(Form("stablehlo.complex", " ", Operands(), ATTRIBUTES, " : ", COMPLEX_TYPE))
    _elementwise(Form("stablehlo.select", " ", Operands(), ATTRIBUTES, " : ", SELECT_TYPES))
    _elementwise(Form("stablehlo.clamp", " ", Operands(3), ATTRIBUTES, " : ", SAME_TYPE))
    direction = Enumeration("comparison_direction", ComparisonDirection)
    compare = (" ", direction, ", ", Operands(2), _CompareType(), ATTRIBUTES, " : ", SIGNATURE)
    _elementwise(Form("stablehlo.compare", *compare))
    reduce = (" ", Operands(1), ", format = ", _Bits(), ATTRIBUTES, " : ", SAME_TYPE)
    _elementwise(Form("stablehlo.reduce_precision", *reduce))


_define_all()
