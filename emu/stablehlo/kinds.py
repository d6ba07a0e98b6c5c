"""Kinds of tensors that operations take and give: element types and what they are called.

The order of the element kinds is the one in which StableHLO names them in errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from emu.mlir.types import ComplexType, DialectType, FloatType, IntegerType, TensorType, Type

_WIDTHS = frozenset({2, 4, 8, 16, 32, 64})
# MLIR has these formats, StableHLO does not.
_NO_FLOATS = frozenset({"tf32", "f80", "f128"})


class _ElementKind(NamedTuple):
    """Element types with the name that errors have for them."""

    name: str
    holds: Callable[[Type], bool]


@dataclass(frozen=True, slots=True)
class TensorKind:
    """Ranked tensors of some kinds of elements.

    Attributes:
        elements: Kinds of the elements.
        shape: "ranked", "0D" for scalars or "statically shaped".
    """

    elements: tuple[_ElementKind, ...]
    shape: str = "ranked"

    def holds(self, type_: Type) -> bool:
        """Return whether a type is of the kind."""
        if not isinstance(type_, TensorType) or (self.shape == "0D" and type_.shape):
            return False
        if self.shape == "statically shaped" and not type_.is_static:
            return False
        return any(kind.holds(type_.element) for kind in self.elements)

    def __str__(self) -> str:
        names = " or ".join(kind.name for kind in self.elements)
        return f"{self.shape} tensor of {names} values"


def _is_integer(type_: Type, signs: tuple[str, ...]) -> bool:
    return isinstance(type_, IntegerType) and type_.width in _WIDTHS and type_.signedness in signs


def _is_float(type_: Type) -> bool:
    return isinstance(type_, FloatType) and type_.name not in _NO_FLOATS


def _is_wide_float(type_: Type) -> bool:
    return isinstance(type_, FloatType) and type_.name in ("f32", "f64")


def _is_complex(type_: Type) -> bool:
    return isinstance(type_, ComplexType) and _is_wide_float(type_.element)


def _is_quantized(type_: Type) -> bool:
    return isinstance(type_, DialectType) and type_.dialect == "quant"


_FLOAT = _ElementKind("4/6/8/16/32/64-bit float", _is_float)
_WIDE_FLOAT = _ElementKind("32/64-bit float", _is_wide_float)
_BOOL = _ElementKind("bool", lambda type_: type_ == IntegerType(1))
_INTEGER = _ElementKind("2/4/8/16/32/64-bit integer", lambda t: _is_integer(t, ("", "u")))
_SIGNLESS = _ElementKind("2/4/8/16/32/64-bit signless integer", lambda t: _is_integer(t, ("",)))
_COMPLEX = _ElementKind("complex type with 32/64-bit float elements", _is_complex)
_QUANTIZED = _ElementKind("per-tensor integer quantized", _is_quantized)
_AXIS_QUANTIZED = _ElementKind("per-axis integer quantized", _is_quantized)

_ALL = (_FLOAT, _BOOL, _INTEGER, _COMPLEX, _QUANTIZED)
_NUMBERS = (_INTEGER, _FLOAT, _COMPLEX, _QUANTIZED)

TENSOR = TensorKind(_ALL)
ANY_TENSOR = TensorKind((*_ALL, _AXIS_QUANTIZED))
ZERO_RANK_TENSOR = TensorKind(_ALL, "0D")
STATIC_TENSOR = TensorKind(_ALL, "statically shaped")
NUMBER_TENSOR = TensorKind(_NUMBERS)
STATIC_NUMBER_TENSOR = TensorKind(_NUMBERS, "statically shaped")
INEXACT_TENSOR = TensorKind((_FLOAT, _COMPLEX, _QUANTIZED))
QUANTIZABLE_FLOAT_TENSOR = TensorKind((_FLOAT, _QUANTIZED))
FLOAT_OR_COMPLEX_TENSOR = TensorKind((_FLOAT, _COMPLEX))
FLOAT_TENSOR = TensorKind((_FLOAT,))
WIDE_FLOAT_TENSOR = TensorKind((_WIDE_FLOAT,))
COMPLEX_TENSOR = TensorKind((_COMPLEX,))
INTEGER_TENSOR = TensorKind((_INTEGER,))
LOGICAL_TENSOR = TensorKind((_BOOL, _INTEGER))
BOOL_TENSOR = TensorKind((_BOOL,))
SIGNED_TENSOR = TensorKind((_SIGNLESS, _FLOAT, _COMPLEX, _QUANTIZED))
MAGNITUDE_TENSOR = TensorKind((_SIGNLESS, _FLOAT, _QUANTIZED))
CONVERTIBLE_TENSOR = TensorKind((_FLOAT, _BOOL, _INTEGER, _COMPLEX))
