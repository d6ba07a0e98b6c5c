"""What one operator of a library of tensors counts as, by its name, and the counts of a call that is made of some.

Operators of torch, of PyPTO and of MC2 share this table; names are ATen's, without overload and without the ``_`` of those that work
in place. docs/counting.md has the same as tables.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from emu.tile.counting.counts import Counts, DotCounts, TensorCounts
from emu.tile.counting.work import COMPARE, DOT, INTEGER, SPECIAL, VECTOR, Work


class Product(NamedTuple):
    """A product ``[batch, m, k] @ [batch, k, n]``."""

    batch: int
    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        """Its floating-point operations."""
        return 2 * self.batch * self.m * self.n * self.k


_SPECIAL = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "erf", "erfc", "erfinv"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("sigmoid", "logit", "lgamma", "digamma", "logaddexp", "softplus", "log_sigmoid_forward", "elu", "celu"),
    )
)  # fmt: skip
_COMPARE = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isposinf", "isneginf"}
)

MOVES = frozenset(
    (
        *("clone", "fill", "zero", "full_like", "ones_like", "zeros_like", "alias", "view_as_real"),
        *("expand", "permute", "reshape", "squeeze", "unsqueeze", "cat", "stack", "one_hot"),
        *("gather", "index", "index_select", "scatter", "embedding"),
    )
)  # fmt: skip
"""Operators that compute nothing."""

TESTS = frozenset({"any", "all"})
"""Reductions that compare each element of their operand."""

ADDED = frozenset({"scatter_add", "index_add"})
"""Operators that add each element of one operand at places that another names."""

SORTS = frozenset({"sort", "argsort", "topk"})
"""Operators that sort along an axis."""

FUSED: dict[str, tuple[int, int]] = {
    "addcmul": (3, 0),
    "addcdiv": (3, 0),
    "lerp": (3, 0),
    "silu": (1, 1),
    "silu_backward": (5, 1),
    "gelu": (4, 1),
    "gelu_backward": (8, 2),
    "mish": (1, 3),
    "sigmoid_backward": (3, 0),
    "tanh_backward": (3, 0),
    "threshold_backward": (1, 0),
    "native_dropout": (2, 0),
    "_softmax": (4, 1),
    "_log_softmax": (4, 1),
    "_softmax_backward_data": (4, 0),
    "_log_softmax_backward_data": (3, 1),
    "native_layer_norm": (8, 0),
    "native_layer_norm_backward": (14, 0),
    "native_group_norm": (8, 0),
    "native_group_norm_backward": (14, 0),
    "native_batch_norm": (8, 0),
    "native_batch_norm_backward": (14, 0),
    "_native_batch_norm_legit": (8, 0),
    "_fused_rms_norm": (4, 0),
    "_fused_rms_norm_backward": (9, 0),
    "mse_loss": (2, 0),
    "mse_loss_backward": (3, 0),
    "sum": (1, 0),
    "mean": (1, 0),
    "prod": (1, 0),
    "amax": (1, 0),
    "amin": (1, 0),
    "aminmax": (2, 0),
    "max": (1, 0),
    "min": (1, 0),
    "argmax": (1, 0),
    "argmin": (1, 0),
    "cumsum": (1, 0),
    "cumprod": (1, 0),
    "logsumexp": (3, 1),
    "norm": (2, 0),
    "linalg_vector_norm": (2, 0),
    "var": (4, 0),
    "std": (4, 0),
    "var_mean": (4, 0),
    "std_mean": (4, 0),
    "quantize": (3, 0),
    "dequantize": (2, 0),
    "dynamic_quantize": (4, 0),
}
"""Operations on floats and special functions for an element of the largest operand: of what is no plain element-wise operator."""


def element_wise(name: str, operand: str, result: str, count: int) -> Work:
    """Return the work of an element-wise operator: one operation for each element of its result.

    Args:
        name: The operator's.
        operand: dtype of its first operand.
        result: dtype of its result.
        count: Elements of its result.
    """
    if name in _COMPARE or name.startswith("logical_"):
        return _some(COMPARE, operand, count)
    if is_float(result):
        return _some(SPECIAL if name in _SPECIAL else VECTOR, result, count)
    return _some(INTEGER, result, count)


def fused(each: tuple[int, int], dtype: str, count: int) -> Work:
    """Return the work of plain operations and special functions for each of some elements; of integers the plain ones alone."""
    plain, special = each
    if not is_float(dtype):
        return _some(INTEGER, dtype, plain * count)
    return _some(VECTOR, dtype, plain * count) + _some(SPECIAL, dtype, special * count)


def added(dtype: str, count: int) -> Work:
    """Return the work of some additions."""
    return _some(VECTOR if is_float(dtype) else INTEGER, dtype, count)


def tested(dtype: str, count: int) -> Work:
    """Return the work of a comparison of each of some elements."""
    return _some(COMPARE, dtype, count)


def sorted_rows(dtype: str, extent: int, count: int) -> Work:
    """Return the work of sorting ``count`` elements in rows of ``extent``, as a sort of the tile IR has it."""
    rounds = math.ceil(math.log2(extent)) if extent > 1 else 0
    return _some(COMPARE, dtype, count * rounds)


def is_float(dtype: str) -> bool:
    """Return whether a dtype, by its name, is of floating-point or complex numbers."""
    return dtype.startswith(("f", "bf", "c"))


def _some(unit: str, dtype: str, count: int) -> Work:
    return Counter({(unit, dtype): count}) if count else Counter()


class OperatorCounts:
    """Adds up the operators of one call.

    Attributes:
        operators: How many there are.
        work: What they do.
    """

    def __init__(self) -> None:
        self.operators = 0
        self.work: Work = Counter()
        self._dots: Counter[tuple[Product, str, str, str]] = Counter()
        self._tensors: dict[tuple[str, str], list[int]] = {}

    def multiply(self, product: Product, first: str, second: str, accumulator: str) -> None:
        """Add a product.

        Args:
            product: Its extents.
            first: dtype of the first operand, as a device multiplies it.
            second: dtype of the second one.
            accumulator: dtype of the sums.
        """
        self._dots[product, first, second, accumulator] += 1
        if product.flops:
            self.work[DOT, first] += product.flops

    def move(self, operand: str, dtype: str, *, loaded: int = 0, stored: int = 0) -> None:
        """Add bytes that are loaded from an operand, or stored to it."""
        row = self._tensors.setdefault((operand, dtype), [0, 0])
        row[0] += loaded
        row[1] += stored

    def counts(self, name: str, place: tuple[str, int]) -> Counts:
        """Return the counts of the call.

        Args:
            name: The call's.
            place: File and line of it.
        """
        work: dict[str, dict[str, int]] = {}
        for (unit, dtype), count in sorted(self.work.items()):
            if count:
                work.setdefault(unit, {})[dtype] = count
        dots = tuple(
            DotCounts(p.batch, p.m, p.n, p.k, a, b, accumulator, times)
            for (p, a, b, accumulator), times in self._dots.items()
        )
        tensors = tuple(
            TensorCounts(operand, element, loaded, stored, 0, None, None, None, 0, 0)
            for (operand, element), (loaded, stored) in self._tensors.items()
            if loaded or stored
        )
        return Counts(name, *place, 1, 0, self.operators, work, dots, tensors, {}, None, ())
