"""``dot_general`` and ``dot`` by the kernels of ``emu.kernels.matmul``.

Sums of fp32, fp16 and bf16 are single chains of fused multiply-adds in fp32, where the reference adds in double
precision and rounds once; integers wrap alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.kernels.matmul import matmul, pack
from emu.stablehlo.attributes import DotDimensionNumbers
from emu.stablehlo.compiled.forms import Action, Context, Form, Memory, Site, plans
from emu.stablehlo.compiled.views import reshaped
from emu.stablehlo.reference.dtypes import is_complex, is_float, result_dtype
from emu.stablehlo.reference.values import Array

_MOST_ROWS = 128
"""Rows up to which a product of packed weights is faster; above, it takes as long to read them as to multiply."""

_FLOATS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Side:
    """How an operand becomes a stack of matrices.

    Attributes:
        order: Its dimensions: batch, then rows, then columns.
        shape: Shape of the stack.
        copied: Whether elements must be moved for that.
    """

    order: tuple[int, ...]
    shape: tuple[int, ...]
    copied: bool

    def stack(self, x: Array) -> Array:
        """Return the stack as a view, or as a copy."""
        return x.transpose(self.order).reshape(self.shape)


@dataclass(frozen=True)
class Product(Form):
    """A product of stacks of matrices.

    Attributes:
        left: The left operand: batch, m, k.
        right: The right one: batch, k, n.
        shape: Shape of the result as a stack.
        by_numpy: Whether NumPy multiplies: of dtypes that the kernels don't have.
        is_widened: Whether the kernels multiply in fp32 what takes one byte.
    """

    left: Side
    right: Side
    shape: tuple[int, ...]
    by_numpy: bool
    is_widened: bool = False

    def bind(self, site: Site) -> Action:
        """Return what multiplies."""
        memory, (a, b) = site.memory, site.step.operands
        (c,) = site.step.results
        left = _Operand(memory, a, self.left)
        right = _Operand(memory, b, self.right)
        result = _Operand(memory, c, Side(tuple(range(len(self.shape))), self.shape, False), True)
        if self.is_widened:
            return lambda: _widened_product(left.get(), right.get(), result.get())
        if self.by_numpy:
            return lambda: numpy_product(left.get(), right.get(), result.get())
        if self._is_worth_packing(memory, b):
            packed = pack(right.get())
            return lambda: matmul(left.get(), packed, out=result.get())
        return lambda: matmul(left.get(), right.get(), out=result.get())

    def _is_worth_packing(self, memory: Memory, slot: int) -> bool:
        """Return whether the right operand is a constant that is better packed once, when it is bound."""
        rows = math.prod(self.left.shape[:-1])
        return (
            memory.is_constant(slot)
            and len(self.right.shape) == 2
            and 0 < rows <= _MOST_ROWS
            and math.prod(self.right.shape) > 0
        )


class _Operand:
    """The stack of a slot, made again only where the slot has another array."""

    def __init__(self, memory: Memory, slot: int, side: Side, is_result: bool = False) -> None:
        self._env, self._slot, self._side = memory.env, slot, side
        self._is_result = is_result
        self._seen: Array | None = None
        self._stack: Array | None = None

    def get(self) -> Array:
        """Return the stack."""
        now = self._env[self._slot]
        if now is not self._seen or self._stack is None:
            side = self._side
            self._stack = now.reshape(side.shape) if self._is_result else side.stack(now)
            self._seen = None if side.copied else now
        return self._stack


def numpy_product(a: Array, b: Array, c: Array) -> None:
    """Multiply integers modulo the width of the result, or complex numbers."""
    np.matmul(a.astype(c.dtype, copy=False), b.astype(c.dtype, copy=False), out=c)


@functools.cache
def _numbers(dtype: np.dtype[np.generic]) -> Array:
    """Return the 256 numbers of a float of one byte in fp32, by their bits."""
    return np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)


def _widened_product(a: Array, b: Array, c: Array) -> None:
    """Multiply floats of one byte, whose products are exact in fp32."""
    left, right = (np.take(_numbers(x.dtype), x.view(np.uint8)) for x in (a, b))
    if c.dtype == np.float32:
        matmul(left, right, out=c)
    else:
        np.copyto(c, matmul(left, right).astype(c.dtype))


@plans("stablehlo.dot_general")
def _dot_general(context: Context) -> Form | None:
    numbers = context.op.properties["dot_dimension_numbers"]
    if not isinstance(numbers, DotDimensionNumbers):
        return None
    return _product(context, numbers)


@plans("stablehlo.dot")
def _dot(context: Context) -> Form | None:
    left = context.operands[0]
    numbers = DotDimensionNumbers(
        lhs_contracting_dimensions=(left.ndim - 1,), rhs_contracting_dimensions=(0,)
    )
    return _product(context, numbers)


def _product(context: Context, numbers: DotDimensionNumbers) -> Form | None:
    left, right = context.operands
    dtype = result_dtype(context.op.result.type)
    by_numpy = is_by_numpy(left.dtype, right.dtype, dtype)
    is_widened = all(d.name.startswith("float8") for d in (left.dtype, right.dtype))
    is_widened = is_widened and is_float(dtype) and dtype != np.float64
    if by_numpy is None and not is_widened:
        return None
    batch, contract = numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions
    other, other_contract = numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions
    free = [d for d in range(left.ndim) if d not in (*batch, *contract)]
    other_free = [d for d in range(right.ndim) if d not in (*other, *other_contract)]
    sizes = _batch(left, right, batch, other)
    rows, depth = _extent(left, free), _extent(left, contract)
    columns = _extent(right, other_free)
    first = _side(left, (*batch, *free, *contract), (*sizes, rows, depth))
    second = _side(right, (*other, *other_contract, *other_free), (*sizes, depth, columns))
    return Product(first, second, (*sizes, rows, columns), bool(by_numpy), is_widened)


def _batch(left: Array, right: Array, batch: Sequence[int], other: Sequence[int]) -> list[int]:
    """Return the batch dimensions, as one if that needs no copy of an operand."""
    sizes = [left.shape[d] for d in batch]
    total = math.prod(sizes)
    for x, dims in ((left, batch), (right, other)):
        rest = [d for d in range(x.ndim) if d not in dims]
        if reshaped(x.transpose([*dims, *rest]), (total, *(x.shape[d] for d in rest))) is None:
            return sizes
    return [] if total == 1 else [total]


def _extent(x: Array, dimensions: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in dimensions)


def _side(x: Array, order: tuple[int, ...], shape: tuple[int, ...]) -> Side:
    return Side(order, shape, reshaped(x.transpose(order), shape) is None)


def is_by_numpy(
    left: np.dtype[np.generic], right: np.dtype[np.generic], result: np.dtype[np.generic]
) -> bool | None:
    """Return whether NumPy multiplies dtypes; None where nothing does but the reference."""
    if is_complex(result):
        return True if left == right == result else None
    if left == right and left.name in _FLOATS and result.name in _FLOATS:
        return False
    if left == right == result == np.float64:
        return False
    if left == right == np.int8 and result == np.int32:
        return False
    whole = all(d.kind in "iu" for d in (left, right, result))
    return True if whole else None
