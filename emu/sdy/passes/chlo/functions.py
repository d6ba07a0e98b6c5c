"""Functions of CHLO as formulas that stay accurate for extreme arguments.

Each takes the operands of an operation and returns its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from emu.mlir.floats import FORMATS
from emu.mlir.types import ComplexType, FloatType, IntegerType, Type
from emu.sdy.passes.chlo.expressions import Expression, Formulas

Function = Callable[..., Expression | None]
"""A function of expressions; None if there is no formula for their type."""


def _square(x: Expression) -> Expression:
    if not isinstance(x.element, ComplexType):
        return x * x
    f, part = x.formulas, x.element.element
    real, imaginary = (f.call(name, x, element=part) for name in ("real", "imag"))
    # Infinite parts of the same size would give infinity - infinity.
    same = real.call("abs").compared("EQ", imaginary.call("abs"))
    difference = (real - imaginary) * (real + imaginary)
    first = f.select(same, real.constant(0.0), difference)
    product = real * imaginary
    return f.call("complex", first, product + product, element=x.element)


def _conj(x: Expression) -> Expression:
    if not isinstance(x.element, ComplexType):
        return x
    f, part = x.formulas, x.element.element
    real, imaginary = (f.call(name, x, element=part) for name in ("real", "imag"))
    return f.call("complex", real, -imaginary, element=x.element)


# Infinities


def _is_infinity(sign: int) -> Function:
    """Return the test for plus (1) or minus (-1) infinity, or (0) for either of them."""

    def function(x: Expression) -> Expression | None:
        if not isinstance(x.element, FloatType):
            return None
        if FORMATS[x.element.name].special != "ieee":  # there is none
            return x.compared("NE", x).call("and", x.compared("EQ", x))
        if not sign:
            x = x.call("abs")
        return x.compared("EQ", math.inf if sign >= 0 else -math.inf)

    return function


# Trigonometric functions


def _acos(x: Expression) -> Expression | None:
    if isinstance(x.element, ComplexType):
        return None
    # The angle of the point at height sqrt(1 - x²), with no digits lost near ±1.
    return ((1.0 - x) * (x + 1.0)).call("sqrt").call("atan2", x)


def _asin(x: Expression) -> Expression | None:
    if isinstance(x.element, ComplexType):
        return None
    half = x.call("atan2", ((1.0 - x) * (x + 1.0)).call("sqrt") + 1.0)
    return half + half


def _atan(x: Expression) -> Expression | None:
    return None if isinstance(x.element, ComplexType) else x.call("atan2", 1.0)


def _tan(x: Expression) -> Expression:
    return x.call("tan")


# Hyperbolic functions


def _half_exponentials(x: Expression) -> tuple[Expression, Expression]:
    """Return half of ``exp(x)`` and of ``exp(-x)``, finite as long as the half is."""
    log_half = -math.log(2)
    return (x + log_half).call("exponential"), (log_half - x).call("exponential")


def _cosh(x: Expression) -> Expression:
    up, down = _half_exponentials(x)
    return up + down


def _sinh(x: Expression) -> Expression:
    up, down = _half_exponentials(x)
    if isinstance(x.element, ComplexType):
        return up - down
    # Near 0 the two nearly cancel; with e = exp(x) - 1 it is (e + e / (e + 1)) / 2.
    e = x.call("exponential_minus_one")
    near = (e + e / (e + 1.0)) * 0.5
    return x.formulas.select(x.call("abs").compared("LT", 1.0), near, up - down)


def _largest_square(element: Type) -> float:
    """Return a power of two whose square is finite."""
    assert isinstance(element, FloatType)
    return 2.0 ** (FORMATS[element.name].bias // 2)


def _asinh(x: Expression) -> Expression | None:
    if isinstance(x.element, ComplexType):
        return None
    f, size = x.formulas, x.call("abs")
    # log(|x| + sqrt(x² + 1)), with no digits lost near 0.
    root = (size * size + 1.0).call("sqrt")
    near = (size + size * size / (root + 1.0)).call("log_plus_one")
    far = size.call("log") + math.log(2)
    found = f.select(size.compared("GE", _largest_square(x.element)), far, near)
    return x.call("sign") * found


def _acosh(x: Expression) -> Expression | None:
    if isinstance(x.element, ComplexType):
        return None
    above = x - 1.0
    near = (above + (above.call("sqrt") * (x + 1.0).call("sqrt"))).call("log_plus_one")
    far = x.call("log") + math.log(2)
    large = x.compared("GE", _largest_square(x.element))
    return x.formulas.select(large, far, near)


def _atanh(x: Expression) -> Expression | None:
    if isinstance(x.element, ComplexType):
        return None
    return (x.call("log_plus_one") - (-x).call("log_plus_one")) * 0.5


# Bits


def _next_after(x: Expression, y: Expression) -> Expression | None:
    """Return the next number after ``x`` towards ``y``; its bits are counted up or down."""
    if not isinstance(x.element, FloatType):
        return None
    f, width = x.formulas, FORMATS[x.element.name].width
    if FORMATS[x.element.name].special != "ieee" or FORMATS[x.element.name].explicit:
        return None
    bits = IntegerType(width)
    a, b = (f.call("bitcast_convert", each, element=bits) for each in (x, y))
    sign = a.constant(-(1 << (width - 1)))
    zero = x.compared("EQ", 0.0)
    away = x.call("abs").compared("LT", y.call("abs")).call("and", _same_sign(a, b))
    stepped = f.select(away, a + a.constant(1), a - a.constant(1))
    least = b.call("and", sign).call("or", a.constant(1))
    found = f.select(zero, least, stepped)
    found = f.select(x.compared("EQ", y), b, found)
    moved = f.call("bitcast_convert", found, element=x.element)
    unknown = x.compared("NE", x).call("or", y.compared("NE", y))
    return f.select(unknown, x.constant(math.nan), moved)


def _same_sign(a: Expression, b: Expression) -> Expression:
    return a.call("xor", b).compared("GE", a.constant(0))


# Most functions are computed in f32 for smaller formats; some work on the bits as they are.

_COMPUTED: dict[str, Function] = {
    "acos": _acos,
    "acosh": _acosh,
    "asin": _asin,
    "asinh": _asinh,
    "atan": _atan,
    "atanh": _atanh,
    "cosh": _cosh,
    "sinh": _sinh,
    "tan": _tan,
}
_AS_IT_IS: dict[str, Function] = {
    "conj": _conj,
    "is_inf": _is_infinity(0),
    "is_neg_inf": _is_infinity(-1),
    "is_pos_inf": _is_infinity(1),
    "next_after": _next_after,
    "square": _square,
}


def _in_f32(function: Function) -> Function:
    def computed(*operands: Expression) -> Expression | None:
        f: Formulas = operands[0].formulas
        found = function(*(f.computed(each.value) for each in operands))
        return None if found is None else found.converted(operands[0].element)

    return computed


FUNCTIONS: dict[str, Function] = {
    **_AS_IT_IS,
    **{name: _in_f32(function) for name, function in _COMPUTED.items()},
}
"""Functions, by name of the CHLO operation."""
