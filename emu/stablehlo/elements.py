"""Which element types an operation takes and gives.

A kind is a few letters, in the order in which MLIR names them: F floats, f
those of 32 and 64 bits, P booleans, I integers, S integers without a sign of
their own, C complex numbers, Q quantized numbers, A those with a scale for each
slice. A leading 0 asks for scalars, a leading = for a static shape.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.mlir.ir import Operation
from emu.mlir.types import ComplexType, DialectType, FloatType, IntegerType, TensorType, Type
from emu.stablehlo.elementwise import ACCURATE

__all__ = ["ELEMENTS", "wrong_element"]

_WIDTHS = frozenset({2, 4, 8, 16, 32, 64})
_NO_FLOATS = frozenset({"tf32", "f80", "f128"})


def _integer(type_: Type, signs: tuple[str, ...]) -> bool:
    return isinstance(type_, IntegerType) and type_.width in _WIDTHS and type_.signedness in signs


def _is_float(type_: Type) -> bool:
    return isinstance(type_, FloatType) and type_.name not in _NO_FLOATS


def _is_wide(type_: Type) -> bool:
    return isinstance(type_, FloatType) and type_.name in ("f32", "f64")


def _is_quantized(type_: Type) -> bool:
    return isinstance(type_, DialectType) and type_.dialect == "quant"


_LETTERS: dict[str, tuple[str, Callable[[Type], bool]]] = {
    "F": ("4/6/8/16/32/64-bit float", _is_float),
    "f": ("32/64-bit float", _is_wide),
    "P": ("bool", lambda type_: type_ == IntegerType(1)),
    "I": ("2/4/8/16/32/64-bit integer", lambda type_: _integer(type_, ("", "u"))),
    "S": ("2/4/8/16/32/64-bit signless integer", lambda type_: _integer(type_, ("",))),
    "C": (
        "complex type with 32/64-bit float elements",
        lambda type_: isinstance(type_, ComplexType) and _is_wide(type_.element),
    ),
    "Q": ("per-tensor integer quantized", _is_quantized),
    "A": ("per-axis integer quantized", _is_quantized),
}

_ALL = "FPICQ"
_ANY = "FPICQA"
_FLOATS = "FCQ"
_NUMBERS = "IFCQ"

ELEMENTS: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(ACCURATE, ((_FLOATS,), _FLOATS)),
    **dict.fromkeys(("ceil", "floor", "round_nearest_afz", "round_nearest_even"), (("FQ",), "FQ")),
    **dict.fromkeys(("count_leading_zeros", "popcnt"), (("I",), "I")),
    **dict.fromkeys(("and", "or", "xor"), (("PI", "PI"), "PI")),
    **dict.fromkeys(("divide", "power", "remainder", "subtract"), ((_NUMBERS, _NUMBERS), _NUMBERS)),
    **dict.fromkeys(
        ("shift_left", "shift_right_arithmetic", "shift_right_logical"), (("I", "I"), "I")
    ),
    **dict.fromkeys(("maximum", "minimum", "multiply"), ((_ALL, _ALL), _ALL)),
    "abs": (("SFCQ",), "SFQ"),
    "add": ((_ANY, _ANY), _ANY),
    "atan2": ((_FLOATS, _FLOATS), _FLOATS),
    "cholesky": ((_FLOATS,), _FLOATS),
    "clamp": ((_ALL, _ALL, _ALL), _ALL),
    "compare": ((_ALL, _ALL), "P"),
    "complex": (("f", "f"), "C"),
    "constant": ((), f"={_ALL}"),
    "convert": (("FPIC",), "FPIC"),
    "fft": (("FC",), "FC"),
    "imag": (("FC",), "F"),
    "iota": ((), f"={_NUMBERS}"),
    "is_finite": (("FQ",), "P"),
    "negate": ((_NUMBERS,), _NUMBERS),
    "not": (("PI",), "PI"),
    "pad": ((_ALL, f"0{_ALL}"), _ALL),
    "real": (("FC",), "F"),
    "reduce_precision": (("FQ",), "FQ"),
    "reverse": ((_ALL,), _ALL),
    "select": (("P", _ALL, _ALL), _ALL),
    "sign": (("SFCQ",), "SFCQ"),
    "slice": ((_ALL,), _ALL),
    "transpose": ((_ANY,), _ANY),
}
"""By name without ``stablehlo.``: the operands' kinds and the result's."""


def _has_kind(type_: Type, kind: str) -> bool:
    if not isinstance(type_, TensorType) or (kind[0] == "0" and type_.shape):
        return False
    if kind[0] == "=" and not type_.is_static:
        return False
    return any(_LETTERS[letter][1](type_.element) for letter in kind.lstrip("0="))


def _described(kind: str) -> str:
    what = {"0": "0D", "=": "statically shaped"}.get(kind[0], "ranked")
    names = " or ".join(_LETTERS[letter][0] for letter in kind.lstrip("0="))
    return f"{what} tensor of {names} values"


def wrong_element(op: Operation) -> str | None:
    """What is wrong with the element types; None if nothing is."""
    kinds, result = ELEMENTS.get(op.name.partition(".")[2], ((), ""))
    for index, kind in enumerate(kinds):
        type_ = op.operands[index].type
        if not _has_kind(type_, kind):
            return f"operand #{index} must be {_described(kind)}, but got '{type_}'"
    if result and not _has_kind(op.result.type, result):
        return f"result #0 must be {_described(result)}, but got '{op.result.type}'"
    return None
