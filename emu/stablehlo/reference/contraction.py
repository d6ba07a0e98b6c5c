"""Products: ``dot_general`` and its relatives, and convolutions.

Products of floats are added up in double precision and rounded once; integers wrap as their result's
type does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.mlir.attributes import Attribute, DenseArrayAttr, DenseElementsAttr, StringAttr
from emu.mlir.ir import Operation
from emu.stablehlo.attributes import ConvDimensionNumbers, DotDimensionNumbers
from emu.stablehlo.checks import integer
from emu.stablehlo.reference.dtypes import (
    constant_array,
    is_complex,
    is_integer,
    result_dtype,
    wrap,
)
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.reduction import window_view
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.shaping import pad, result_shape
from emu.stablehlo.reference.values import Array
from emu.stablehlo.windows import windows


def _wide(x: Array) -> Array:
    if is_complex(x.dtype):
        return x.astype(np.complex128)
    is_whole = is_integer(x.dtype) or x.dtype.kind == "b"
    return x.astype(np.int64) if is_whole else x.astype(np.float64)


def _rounded(x: Array, dtype: np.dtype[np.generic]) -> Array:
    if dtype.kind == "b":
        return np.asarray(x != 0)
    return wrap(x, dtype) if is_integer(dtype) else x.astype(dtype)


def dot_general(left: Array, right: Array, numbers: DotDimensionNumbers) -> Array:
    """Return the product in double precision: batch, free left, free right dimensions."""
    batch, contract = numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions
    other, other_contract = numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions
    free = [d for d in range(left.ndim) if d not in (*batch, *contract)]
    other_free = [d for d in range(right.ndim) if d not in (*other, *other_contract)]
    sizes = [left.shape[d] for d in batch]
    rows, columns = [left.shape[d] for d in free], [right.shape[d] for d in other_free]
    length = int(np.prod([left.shape[d] for d in contract], dtype=int))
    a = np.transpose(_wide(left), [*batch, *free, *contract])
    b = np.transpose(_wide(right), [*other, *other_contract, *other_free])
    a = a.reshape(*sizes, int(np.prod(rows, dtype=int)), length)
    b = b.reshape(*sizes, length, int(np.prod(columns, dtype=int)))
    product: Array = np.matmul(a, b)
    return product.reshape((*sizes, *rows, *columns))


@handles("stablehlo.dot_general")
def _dot_general(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    numbers = op.properties["dot_dimension_numbers"]
    assert isinstance(numbers, DotDimensionNumbers)
    return (_rounded(dot_general(args[0], args[1], numbers), result_dtype(op.result.type)),)


@handles("stablehlo.dot")
def _dot(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    left, right = args
    numbers = DotDimensionNumbers(
        lhs_contracting_dimensions=(left.ndim - 1,), rhs_contracting_dimensions=(0,)
    )
    return (_rounded(dot_general(left, right, numbers), result_dtype(op.result.type)),)


@handles("stablehlo.einsum", "stablehlo.unary_einsum")
def _einsum(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    config = op.properties["einsum_config"]
    assert isinstance(config, StringAttr)
    found = np.einsum(config.value, *map(_wide, args))
    return (_rounded(found, result_dtype(op.result.type)),)


# Convolutions


def _flags(attribute: Attribute | None, count: int) -> tuple[bool, ...]:
    if isinstance(attribute, DenseElementsAttr):
        return tuple(map(bool, constant_array(attribute).reshape(-1)))
    if isinstance(attribute, DenseArrayAttr):
        return tuple(map(bool, attribute.values))
    return (False,) * count


@handles("stablehlo.convolution", "stablehlo.dynamic_conv")
def _convolution(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    numbers = op.properties["dimension_numbers"]
    if not isinstance(numbers, ConvDimensionNumbers):
        raise EvaluationError("dimension_numbers are not those of a convolution")
    count = len(numbers.input_spatial_dimensions)
    extents = [args[1].shape[d] for d in numbers.kernel_spatial_dimensions]
    found = windows(op, extents, ("lhs_dilation", "rhs_dilation"))
    edges = [w.padding for w in found]
    if len(args) == 3:  # of dynamic_conv
        edges = [(int(low), int(high)) for low, high in args[2]]
    reversal = _flags(op.properties.get("window_reversal"), count)
    features = integer(op, "feature_group_count")
    batches = integer(op, "batch_group_count")
    x = _wide(args[0]).transpose(
        numbers.input_batch_dimension,
        numbers.input_feature_dimension,
        *numbers.input_spatial_dimensions,
    )
    kernel = _wide(args[1]).transpose(
        numbers.kernel_output_feature_dimension,
        numbers.kernel_input_feature_dimension,
        *numbers.kernel_spatial_dimensions,
    )
    kernel = np.flip(kernel, tuple(2 + d for d, is_reversed in enumerate(reversal) if is_reversed))
    low, high = ((0, 0, *(pair[side] for pair in edges)) for side in (0, 1))
    interior = (0, 0, *(w.base_dilation - 1 for w in found))
    x = pad(x, np.zeros((), x.dtype), low, high, interior)
    sizes = kernel.shape[2:]
    strides, dilations = [w.stride for w in found], [w.dilation for w in found]
    view = window_view(x, (1, 1, *sizes), (1, 1, *strides), (1, 1, *dilations))
    places = view.shape[2 : 2 + count]
    view = view.reshape(x.shape[0], x.shape[1], *places, *sizes)
    product = _grouped(view, kernel, features, batches, count)
    output = (
        numbers.output_batch_dimension,
        numbers.output_feature_dimension,
        *numbers.output_spatial_dimensions,
    )
    product = product.transpose(np.argsort(output))
    assert product.shape == result_shape(op)
    return (_rounded(product, result_dtype(op.result.type)),)


def _grouped(view: Array, kernel: Array, features: int, batches: int, count: int) -> Array:
    """Multiply windows ``[batch, feature, *places, *window]`` by kernels ``[out, in, *window]``."""
    groups = max(features, batches)
    count_and_axis = (features, 1) if features > 1 else (batches, 0)
    parts = np.split(view, *count_and_axis)
    window = list(range(2 + count, 2 + 2 * count))
    found = []
    for part, weights in zip(parts, np.split(kernel, groups, axis=0), strict=True):
        product = np.tensordot(part, weights, ([1, *window], [1, *range(2, 2 + count)]))
        found.append(np.moveaxis(product, -1, 1))
    return np.concatenate(found, axis=1)
