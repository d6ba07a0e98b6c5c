"""Operations of CHLO that JAX leaves in its programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from emu.mlir.attributes import BoolAttr, DenseArrayAttr, FloatAttr, IntegerAttr
from emu.mlir.floats import value_of
from emu.mlir.ir import Operation
from emu.stablehlo.attributes import (
    DotDimensionNumbers,
    RaggedDotDimensionNumbers,
)
from emu.stablehlo.checks import integer
from emu.stablehlo.reference.contraction import dot_general
from emu.stablehlo.reference.dtypes import bit_width, is_complex, is_float, is_integer, result_dtype
from emu.stablehlo.reference.elementwise import total_order
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import HANDLERS, Scope, define_elementwise, handles
from emu.stablehlo.reference.shaping import broadcast_in_dim, result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.syntax import ints


def _special(name: str) -> Callable[..., Array]:
    """Return a function of scipy.special, loaded when it is called."""

    def computed(*args: Array) -> Array:
        try:
            import scipy.special
        except ImportError:
            raise EvaluationError("needs the package scipy, which is not installed") from None
        wide = [a.astype(np.complex128 if is_complex(a.dtype) else np.float64) for a in args]
        return np.asarray(getattr(scipy.special, name)(*wide)).astype(args[0].dtype)

    return computed


def _each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """Apply a function of Python's ``math`` to each element, in double precision."""
    vectorised = np.vectorize(function, otypes=[np.float64])
    return lambda x: np.asarray(vectorised(x.astype(np.float64))).astype(x.dtype)


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    return math.lgamma(x)


def _in_double(function: Callable[..., Array]) -> Callable[..., Array]:
    def computed(*args: Array) -> Array:
        wide = [a.astype(np.complex128 if is_complex(a.dtype) else np.float64) for a in args]
        return np.asarray(function(*wide)).astype(args[0].dtype)

    return computed


_UNARY: dict[str, Callable[..., Array]] = {
    "acos": _in_double(np.arccos),
    "acosh": _in_double(np.arccosh),
    "asin": _in_double(np.arcsin),
    "asinh": _in_double(np.arcsinh),
    "atan": _in_double(np.arctan),
    "atanh": _in_double(np.arctanh),
    "bessel_i1e": _special("i1e"),
    "conj": np.conj,
    "cosh": _in_double(np.cosh),
    "digamma": _special("digamma"),
    "erf": _each(math.erf),
    "erf_inv": _special("erfinv"),
    "erfc": _each(math.erfc),
    "is_inf": np.isinf,
    "is_neg_inf": lambda x: np.isinf(x) & np.signbit(x),
    "is_pos_inf": lambda x: np.isinf(x) & ~np.signbit(x),
    "lgamma": _each(_lgamma),
    "next_after": np.nextafter,
    "sinh": _in_double(np.sinh),
    "square": np.square,
    "tan": _in_double(np.tan),
    "zeta": _special("zeta"),
}


def _polygamma(n: Array, x: Array) -> Array:
    """Compute by the zeta function, since scipy's takes whole orders only."""
    order = n.astype(np.float64)
    factor = np.where(order % 2 == 0, -1.0, 1.0) * np.vectorize(math.gamma)(order + 1)
    zeta = _special("zeta")(order + 1, x.astype(np.float64))
    digamma = _special("digamma")(x.astype(np.float64))
    return np.where(order == 0, digamma, factor * zeta).astype(x.dtype)


_UNARY["polygamma"] = _polygamma


def _mulhi(x: Array, y: Array) -> Array:
    """Return the upper half of the bits of products."""
    shift = bit_width(x.dtype)
    products = x.astype(object) * y.astype(object)
    return np.asarray(products >> shift).astype(x.dtype)


_UNARY["mulhi"] = _mulhi

for _name, _function in _UNARY.items():
    define_elementwise(f"chlo.{_name}", _function)
define_elementwise("mhlo.erf", _UNARY["erf"])


@handles("chlo.constant_like")
def _constant_like(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    value = op.properties["value"]
    if isinstance(value, FloatAttr):
        number: float = float(value_of(value.bits, str(value.type)))
    elif isinstance(value, IntegerAttr):
        number = value.value
    else:
        raise EvaluationError(f"value must be a number, but is {value}")
    return (np.full(args[0].shape, number, result_dtype(op.result.type)),)


# Implicit broadcasts


_BROADCAST = (
    *("add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply", "or", "power"),
    *("remainder", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract"),
    *("xor", "select", "next_after", "polygamma", "zeta"),
)


def _aligned(op: Operation, args: Sequence[Array]) -> list[Array]:
    """Return the operands with the result's rank."""
    places, rank = ints(op.properties.get("broadcast_dimensions")), len(result_shape(op))
    if not places:
        return list(args)
    return [
        x if x.ndim == rank else broadcast_in_dim(x, places, tuple(_spread(x, places, rank)))
        for x in args
    ]


def _spread(x: Array, places: Sequence[int], rank: int) -> list[int]:
    sizes = [1] * rank
    for size, place in zip(x.shape, places, strict=True):
        sizes[place] = size
    return sizes


def _define_broadcasts() -> None:
    for name in _BROADCAST:
        source = f"chlo.{name}" if f"chlo.{name}" in HANDLERS else f"stablehlo.{name}"
        _define_broadcast(f"chlo.broadcast_{name}", source)
    _define_broadcast("chlo.broadcast_compare", "stablehlo.compare")


def _define_broadcast(name: str, source: str) -> None:
    function = HANDLERS[source]

    @handles(name)
    def _(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
        found = function(op, _aligned(op, args), scope)
        return [np.broadcast_to(each, result_shape(op)) for each in found]


_define_broadcasts()


# The largest elements


@handles("chlo.top_k", "mhlo.topk")
def _top_k(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    (x,) = args
    count = integer(op, "k")
    largest = op.properties.get("largest") != BoolAttr(False)
    keys = total_order(x) if is_float(x.dtype) else x
    if not is_integer(keys.dtype):
        keys = keys.astype(np.int8)
    # Equal elements come in the order of their indices; complements reverse the order without overflow.
    order = np.argsort(~keys if largest else keys, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(x, order, -1), order.astype(result_dtype(op.results[1].type))


@handles("chlo.scan")
def _scan(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    sizes = op.properties["operandSegmentSizes"]
    count = sizes.values[0] if isinstance(sizes, DenseArrayAttr) else 0
    inputs, carries = args[:count], list(args[count:])
    dimension = integer(op, "dimension")
    length = inputs[0].shape[dimension] if inputs else integer(op, "scan_dim_size")
    steps = range(length)
    rows: list[list[Array]] = []
    if op.properties.get("is_reverse") == BoolAttr(True):
        steps = steps[::-1]
    for step in steps:
        found = scope.run(op.regions[0], [*(x.take(step, dimension) for x in inputs), *carries])
        outputs = len(found) - len(carries)
        rows.append(found[:outputs])
        carries = found[outputs:]
    if steps and steps[0] != 0:
        rows.reverse()
    stacked = [np.stack(parts, dimension) for parts in zip(*rows, strict=True)]
    return [*stacked, *carries]


@handles("chlo.ragged_dot")
def _ragged_dot(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    left, right, sizes = args
    n = op.properties["ragged_dot_dimension_numbers"]
    assert isinstance(n, RaggedDotDimensionNumbers)
    (ragged,) = n.lhs_ragged_dimensions
    dtype = result_dtype(op.result.type)
    if ragged in n.lhs_contracting_dimensions or ragged in n.lhs_batching_dimensions:
        raise EvaluationError("only a ragged free dimension of the left operand is evaluated")
    (group,) = n.rhs_group_dimensions

    def lower(dims: Sequence[int]) -> tuple[int, ...]:
        return tuple(d - (d > group) for d in dims)

    numbers = DotDimensionNumbers(
        n.lhs_batching_dimensions,
        lower(n.rhs_batching_dimensions),
        n.lhs_contracting_dimensions,
        lower(n.rhs_contracting_dimensions),
    )
    ends = np.cumsum(sizes.astype(np.int64))
    taken = (*n.lhs_batching_dimensions, *n.lhs_contracting_dimensions)
    free = [d for d in range(left.ndim) if d not in taken]
    axis = len(n.lhs_batching_dimensions) + free.index(ragged)
    parts, begin = [], 0
    for index, end in enumerate(ends.reshape(-1)):
        stop = min(int(end), left.shape[ragged])
        rows = left.take(range(begin, max(begin, stop)), ragged)
        parts.append(dot_general(rows, right.take(index, group), numbers))
        begin = max(begin, stop)
    found = np.concatenate(parts, axis)
    rest = left.shape[ragged] - found.shape[axis]
    if rest:
        shape = list(found.shape)
        shape[axis] = rest
        found = np.concatenate([found, np.zeros(shape)], axis)
    return (found.astype(dtype),)
