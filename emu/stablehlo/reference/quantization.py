"""Quantised tensors: their elements are the integers that are stored.

What an operation does to a quantised tensor is what it does to the numbers that the elements stand
for, rounded again: dequantise, compute, quantise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from emu.mlir.ir import Block, Operation, Value
from emu.mlir.text.type_parser import parse_type
from emu.mlir.types import DialectType, TensorType, Type
from emu.stablehlo.reference.dtypes import bit_width, dtype_of, is_float, is_signed
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array

_UNIFORM = re.compile(
    r"uniform<\s*([iu]\d+)\s*(?:<\s*(-?\d+)\s*:\s*(-?\d+)\s*>)?\s*:\s*(\w+)\s*(?::\s*(\d+)\s*)?,\s*(.*)>",
    re.DOTALL,
)
_MOVING = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("bitcast_convert", "broadcast", "broadcast_in_dim", "concatenate", "constant"),
        *("dynamic_broadcast_in_dim", "dynamic_gather", "dynamic_pad", "dynamic_reshape"),
        *("dynamic_slice", "dynamic_update_slice", "gather", "pad", "real_dynamic_slice"),
        *("reshape", "reverse", "select", "slice", "transpose", "all_gather", "all_to_all"),
        *("collective_broadcast", "collective_permute", "collective_reduce"),
    )
)
"""Operations that copy elements: they may see the stored integers."""

_HOLDING = frozenset(
    {
        *("func.call", "stablehlo.composite", "stablehlo.while", "stablehlo.if", "stablehlo.case"),
        *("stablehlo.tuple", "stablehlo.get_tuple_element", "stablehlo.optimization_barrier"),
        *("stablehlo.custom_call", "stablehlo.send", "stablehlo.recv", "stablehlo.infeed"),
        *("stablehlo.outfeed", "stablehlo.async_start", "stablehlo.async_done"),
        *("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"),
    }
)
"""Operations that pass values on, or know of quantisation themselves."""


@dataclass(frozen=True)
class Quantization:
    """How the elements of a quantised type stand for numbers.

    Attributes:
        storage: Integer dtype of the elements.
        expressed: Type of the numbers that they stand for.
        smallest: Smallest element.
        largest: Largest element.
        dimension: Dimension along which scales differ; None for one scale.
        scales: The scale, or one per index along the dimension.
        zero_points: The element that stands for zero, likewise.
    """

    storage: np.dtype[np.generic]
    expressed: Type
    smallest: int
    largest: int
    dimension: int | None
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]

    def _along(self, values: Sequence[float], rank: int) -> Array:
        if self.dimension is None:
            return np.asarray(values[0])
        shape = [-1 if d == self.dimension else 1 for d in range(rank)]
        return np.asarray(values).reshape(shape)

    def dequantized(self, stored: Array) -> Array:
        """Return the numbers that elements stand for."""
        dtype = dtype_of(self.expressed)
        zeros = self._along(self.zero_points, stored.ndim)
        scales: Array = self._along(self.scales, stored.ndim).astype(dtype)
        moved: Array = (stored.astype(np.int64) - zeros).astype(dtype)
        found: Array = moved * scales
        return found

    def quantized(self, numbers: Array) -> Array:
        """Return the elements that stand for numbers best; NaN stands for nothing and gives zero."""
        dtype = dtype_of(self.expressed)
        scales: Array = self._along(self.scales, numbers.ndim).astype(dtype)
        zeros: Array = self._along(self.zero_points, numbers.ndim).astype(dtype)
        wide: Array = numbers.astype(dtype)
        moved = np.asarray(wide / scales + zeros).astype(np.float64)
        rounded = np.rint(np.clip(moved, self.smallest, self.largest))
        found: Array = np.nan_to_num(rounded, nan=0.0).astype(np.int64).astype(self.storage)
        return found


@lru_cache(maxsize=256)
def quantization(element: Type) -> Quantization | None:
    """Return how a quantised element type stands for numbers; None for other types.

    Raises:
        EvaluationError: The type is quantised in a way that is not evaluated.
    """
    if not isinstance(element, DialectType) or not str(element).startswith("!quant."):
        return None
    match = _UNIFORM.fullmatch(str(element).removeprefix("!quant."))
    if match is None:
        raise EvaluationError(f"elements of type {element} are not evaluated")
    storage, low, high, expressed, dimension, scales = match.groups()
    dtype = dtype_of(parse_type(f"ui{storage[1:]}" if storage[0] == "u" else storage))
    half = 1 << (bit_width(dtype) - 1)
    smallest, largest = (-half, half - 1) if is_signed(dtype) else (0, 2 * half - 1)
    pairs = [each.partition(":") for each in scales.strip("{} \n").split(",")]
    try:
        numbers = tuple(float(scale) for scale, _, _ in pairs)
        zeros = tuple(int(zero or "0") for _, _, zero in pairs)
    except ValueError:
        raise EvaluationError(f"elements of type {element} are not evaluated") from None
    return Quantization(
        dtype,
        parse_type(expressed),
        smallest if low is None else int(low),
        largest if high is None else int(high),
        None if dimension is None else int(dimension),
        numbers,
        zeros,
    )


def is_quantized(type_: Type) -> bool:
    """Return whether a type is a tensor of quantised elements."""
    # Asked of every value of a program: the type's class tells most of them.
    if not isinstance(type_, TensorType) or not isinstance(type_.element, DialectType):
        return False
    return quantization(type_.element) is not None


def stored_dtype(element: Type) -> np.dtype[np.generic]:
    """Return the dtype of an element type's values: of a quantised one that of the integers."""
    found = quantization(element) if isinstance(element, DialectType) else None
    return dtype_of(element) if found is None else found.storage


def has_quantized_types(op: Operation) -> bool:
    """Return whether an operation takes or gives quantised tensors."""
    return any(is_quantized(value.type) for value in (*op.operands, *op.results))


def evaluate_quantized(
    op: Operation,
    args: Sequence[Array],
    compute: Callable[[Operation, Sequence[Array]], Sequence[Array]],
) -> Sequence[Array]:
    """Evaluate an operation on quantised tensors by what computes it on others."""
    if op.name in _HOLDING:
        return compute(op, args)
    if op.name in _MOVING:
        return compute(_retyped(op, _storage_type), args)
    wide = [_dequantized(x, v.type) for x, v in zip(args, op.operands, strict=True)]
    found = compute(_retyped(op, _expressed_type), wide)
    return [_quantized(x, v.type) for x, v in zip(found, op.results, strict=True)]


def _dequantized(value: Array, type_: Type) -> Array:
    found = quantization(type_.element) if isinstance(type_, TensorType) else None
    return value if found is None else found.dequantized(value)


def _quantized(value: Array, type_: Type) -> Array:
    found = quantization(type_.element) if isinstance(type_, TensorType) else None
    return value if found is None else found.quantized(value)


def to_quantized(value: Array, source: Type, target: Type) -> Array:
    """Return what ``uniform_quantize`` gives: of numbers, or of elements of another scale."""
    wide = _dequantized(value, source)
    if not is_float(wide.dtype):
        raise EvaluationError(f"only floats are quantised, but the operand is {source}")
    return _quantized(wide, target)


def to_dequantized(value: Array, source: Type) -> Array:
    """Return what ``uniform_dequantize`` gives."""
    return _dequantized(value, source)


# Types


def _storage_type(type_: Type) -> Type:
    found = quantization(type_.element) if isinstance(type_, TensorType) else None
    if found is None or not isinstance(type_, TensorType):
        return type_
    letters = "i" if is_signed(found.storage) else "ui"
    return TensorType(type_.shape, parse_type(f"{letters}{bit_width(found.storage)}"))


def _expressed_type(type_: Type) -> Type:
    found = quantization(type_.element) if isinstance(type_, TensorType) else None
    if found is None or not isinstance(type_, TensorType):
        return type_
    return TensorType(type_.shape, found.expressed)


def _retyped(op: Operation, change: Callable[[Type], Type]) -> Operation:
    """Return a copy of an operation, its regions included, of other types."""
    # Operands of its own: a copy must not show among the users of the program's values.
    block = Block()
    mapping: dict[Value, Value] = {
        value: block.add_argument(change(value.type), op.location) for value in op.operands
    }
    copy = op.clone(mapping)
    for each in copy.walk():
        values: list[Value] = [*each.results]
        values += [a for region in each.regions for b in region.blocks for a in b.arguments]
        for value in values:
            value.type = change(value.type)
    return copy
