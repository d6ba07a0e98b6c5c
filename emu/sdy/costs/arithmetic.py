"""Floating-point operations of single operations, counted from their shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from emu.mlir.ir import Operation, Value
from emu.mlir.types import ComplexType, FloatType, TensorType, Type
from emu.sdy.rules.reading import integers
from emu.stablehlo.attributes import ConvDimensionNumbers, DotDimensionNumbers, FftType

PRODUCT = "products"
ELEMENTWISE = "element-wise"
REDUCTION = "reductions"
ALGEBRA = "linear algebra and FFT"
TRANSCENDENTAL = "transcendentals"
"""Kinds of operations; transcendental functions are counted, but are no FLOPs."""

_TRANSCENDENTAL = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("atan2", "cbrt", "cosine", "exponential", "exponential_minus_one", "log", "log_plus_one"),
        *("logistic", "power", "rsqrt", "sine", "sqrt", "tan", "tanh"),
    )
) | {f"chlo.{n}" for n in ("erf", "erfc", "erf_inv", "lgamma", "digamma", "zeta", "polygamma")}
_ARITHMETIC = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("abs", "add", "ceil", "clamp", "compare", "divide", "floor", "is_finite", "maximum"),
        *("minimum", "multiply", "negate", "remainder", "round_nearest_afz", "round_nearest_even"),
        *("sign", "subtract"),
    )
)
_COMPLEX_COST = {"stablehlo.multiply": 6, "stablehlo.divide": 11, "stablehlo.abs": 3}

# Operations that move or make data; regions of these names are counted by their own entries.
_FREE = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("after_all", "all_gather", "all_reduce", "all_to_all", "and", "bitcast_convert", "case"),
        *("broadcast", "broadcast_in_dim", "collective_broadcast", "collective_permute", "complex"),
        *("composite", "concatenate", "constant", "convert", "count_leading_zeros", "create_token"),
        *("dynamic_slice", "dynamic_update_slice", "gather", "get_tuple_element", "if", "imag"),
        *("iota", "not", "optimization_barrier", "or", "pad", "partition_id", "popcnt", "real"),
        *("reduce_precision", "reduce_scatter", "replica_id", "reshape", "return", "reverse"),
        *("select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "slice"),
        *("transpose", "tuple", "while", "xor"),
    )
) | {"func.call", "func.return", "func.func", "sdy.constant", "sdy.return", "sdy.mesh"}


@dataclass(frozen=True)
class Work:
    """What one run of an operation computes.

    Attributes:
        kind: One of the kinds above.
        count: Number of floating-point operations, or of transcendental functions.
    """

    kind: str
    count: int


def work_of(op: Operation) -> Work | None:
    """Return what one run of an operation computes; None where that is not known.

    What operations inside of a loop, a branch or a called function compute is theirs.
    """
    if op.name in _TRANSCENDENTAL:
        return Work(TRANSCENDENTAL, _elements(op.result) if _is_inexact(op.result) else 0)
    if op.name in _ARITHMETIC:
        return Work(ELEMENTWISE, _arithmetic(op))
    counter = _COUNTERS.get(op.name)
    if counter is not None:
        return counter(op)
    return Work(ELEMENTWISE, 0) if op.name in _FREE else None


def _arithmetic(op: Operation) -> int:
    """Return the FLOPs of an element-wise operation; integers have none."""
    operand = op.operands[0]  # a comparison of floats gives booleans
    if not _is_inexact(operand):
        return 0
    each = 1
    if isinstance(_element(operand), ComplexType):
        each = _COMPLEX_COST.get(op.name, 2)
    return each * _elements(op.result)


def _element(value: Value) -> Type | None:
    return value.type.element if isinstance(value.type, TensorType) else None


def _is_inexact(value: Value) -> bool:
    return isinstance(_element(value), FloatType | ComplexType)


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.static_shape if isinstance(value.type, TensorType) else ()


def _elements(value: Value) -> int:
    return math.prod(_shape(value))


def _region(op: Operation, region: int = 0) -> int:
    """Return the FLOPs of one application of a region to scalars; transcendental functions are one."""
    found = (work_of(each) for each in op.regions[region].blocks[0])
    return sum(work.count for work in found if work is not None)


# Products


def _multiplies(op: Operation, count: int) -> Work:
    """Return a multiplication and an addition for each pair; of complex numbers, four of each."""
    is_complex = isinstance(_element(op.operands[0]), ComplexType)
    return Work(PRODUCT, count * (8 if is_complex else 2))


def _dot(op: Operation) -> Work:
    return _multiplies(op, _elements(op.result) * _shape(op.operands[0])[-1])


def _dot_general(op: Operation) -> Work | None:
    numbers = op.properties.get("dot_dimension_numbers")
    if not isinstance(numbers, DotDimensionNumbers):
        return None
    shape = _shape(op.operands[0])
    depth = math.prod(shape[dim] for dim in numbers.lhs_contracting_dimensions)
    return _multiplies(op, _elements(op.result) * depth)


def _convolution(op: Operation) -> Work | None:
    numbers = op.properties.get("dimension_numbers")
    if not isinstance(numbers, ConvDimensionNumbers):
        return None
    (image, kernel), result = map(_shape, op.operands), _shape(op.result)
    count = result[numbers.output_batch_dimension] * result[numbers.output_feature_dimension]
    count *= kernel[numbers.kernel_input_feature_dimension]
    spatial = len(numbers.output_spatial_dimensions)
    strides = integers(op, "window_strides") or (1,) * spatial
    dilations = integers(op, "lhs_dilation") or (1,) * spatial
    gaps = integers(op, "rhs_dilation") or (1,) * spatial
    padding = integers(op, "padding") or (0,) * (2 * spatial)
    for dim in range(spatial):
        count *= _pairs(
            image[numbers.input_spatial_dimensions[dim]],
            kernel[numbers.kernel_spatial_dimensions[dim]],
            result[numbers.output_spatial_dimensions[dim]],
            (strides[dim], dilations[dim], gaps[dim], padding[2 * dim]),
        )
    return _multiplies(op, count)


def _pairs(image: int, kernel: int, result: int, window: tuple[int, int, int, int]) -> int:
    """Return how many pairs of a result's place and a kernel's place meet an element of the image.

    What meets padding, or the holes of a dilated image, is not computed.
    """
    stride, dilation, gap, low = window
    period = dilation // math.gcd(stride, dilation)
    found = 0
    for tap in range(kernel):
        offset = tap * gap - low
        first = next((o for o in range(period) if (o * stride + offset) % dilation == 0), None)
        if first is None:
            continue
        # Places o = first + i * period with 0 <= o * stride + offset <= (image - 1) * dilation.
        lowest = max(first, -(-max(0, -offset) // stride))
        highest = min(result - 1, ((image - 1) * dilation - offset) // stride)
        lowest += (first - lowest) % period
        if highest >= lowest:
            found += (highest - lowest) // period + 1
    return found


# Reductions


def _reduce(op: Operation) -> Work:
    inputs = len(op.operands) // 2
    dropped = _elements(op.operands[0]) - _elements(op.results[0])
    return Work(REDUCTION, max(0, dropped) * _region(op) if inputs else 0)


def _reduce_window(op: Operation) -> Work:
    window = math.prod(integers(op, "window_dimensions") or ())
    return Work(REDUCTION, _elements(op.results[0]) * (window - 1) * _region(op))


def _select_and_scatter(op: Operation) -> Work:
    window = math.prod(integers(op, "window_dimensions") or ())
    source = _elements(op.operands[1])
    return Work(REDUCTION, source * ((window - 1) * _region(op, 0) + _region(op, 1)))


def _scatter(op: Operation) -> Work:
    updates = op.operands[-1]
    return Work(REDUCTION, _elements(updates) * _region(op))


def _map(op: Operation) -> Work:
    return Work(ELEMENTWISE, _elements(op.result) * _region(op))


# Leading terms of well-known counts


def _fft(op: Operation) -> Work:
    lengths = integers(op, "fft_length") or ()
    kind = op.properties.get("fft_type")
    # The half of a real transform's spectrum is left out; the longer side has all elements.
    size = max(_elements(op.operands[0]), _elements(op.result))
    count = 5 * size * math.log2(max(2, math.prod(lengths)))
    is_real = isinstance(kind, FftType) and kind.value in ("RFFT", "IRFFT")
    return Work(ALGEBRA, round(count / 2 if is_real else count))


def _cholesky(op: Operation) -> Work:
    n = _shape(op.result)[-1]
    return Work(ALGEBRA, _elements(op.result) * n // 3)


def _triangular_solve(op: Operation) -> Work:
    n = _shape(op.operands[0])[-1]
    return Work(ALGEBRA, _elements(op.result) * n)


_COUNTERS: dict[str, Callable[[Operation], Work | None]] = {
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.convolution": _convolution,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.scatter": _scatter,
    "stablehlo.map": _map,
    "stablehlo.fft": _fft,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.triangular_solve": _triangular_solve,
}
