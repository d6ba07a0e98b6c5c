"""Operations that create, move and cut: no element is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.stablehlo.checks import integer
from emu.stablehlo.reference.dtypes import constant_array, result_dtype
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import ELEMENTWISE, Scope, handles
from emu.stablehlo.reference.values import TOKEN, Array
from emu.stablehlo.syntax import ints


def result_shape(op: Operation, index: int = 0) -> tuple[int, ...]:
    """Return the static shape of a result."""
    type_ = op.results[index].type
    if not isinstance(type_, TensorType) or not type_.is_static:
        raise EvaluationError(f"{type_} has no static shape")
    return type_.static_shape


# Creation


@handles("stablehlo.constant", "chlo.constant")
def _constant(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (constant_array(op.properties["value"]),)


ELEMENTWISE |= {"stablehlo.constant", "chlo.constant"}


@handles("stablehlo.iota", "stablehlo.dynamic_iota")
def _iota(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    shape, dimension = result_shape(op), integer(op, "iota_dimension")
    line = np.arange(shape[dimension]).astype(result_dtype(op.result.type))
    line = line.reshape([-1 if d == dimension else 1 for d in range(len(shape))])
    return (np.broadcast_to(line, shape),)


@handles("stablehlo.create_token", "stablehlo.after_all")
def _token(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (TOKEN,)


@handles("stablehlo.get_dimension_size")
def _dimension_size(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (np.asarray(args[0].shape[integer(op, "dimension")], np.int32),)


# Shapes


@handles("stablehlo.reshape", "stablehlo.dynamic_reshape")
def _reshape(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (args[0].reshape(result_shape(op)),)


@handles("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim")
def _broadcast_in_dim(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    shape, places = result_shape(op), ints(op.properties["broadcast_dimensions"])
    return (broadcast_in_dim(args[0], places, shape),)


def broadcast_in_dim(x: Array, places: Sequence[int], shape: tuple[int, ...]) -> Array:
    """Broadcast an array whose dimension ``i`` becomes dimension ``places[i]``."""
    order = sorted(range(x.ndim), key=lambda d: places[d])
    sizes = [1] * len(shape)
    for dimension in order:
        sizes[places[dimension]] = x.shape[dimension]
    return np.broadcast_to(x.transpose(order).reshape(sizes), shape)


@handles("stablehlo.broadcast")
def _broadcast(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (np.broadcast_to(args[0], result_shape(op)),)


@handles("stablehlo.transpose")
def _transpose(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (args[0].transpose(ints(op.properties["permutation"])),)


@handles("stablehlo.reverse")
def _reverse(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (np.flip(args[0], ints(op.properties["dimensions"])),)


@handles("stablehlo.concatenate")
def _concatenate(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (np.concatenate(list(args), integer(op, "dimension")),)


# Slices


@handles("stablehlo.slice")
def _slice(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    names = ("start_indices", "limit_indices", "strides")
    ranges = zip(*(ints(op.properties[name]) for name in names), strict=True)
    return (args[0][tuple(slice(*each) for each in ranges)],)


def clamped_starts(
    starts: Sequence[Array], shape: Sequence[int], sizes: Sequence[int]
) -> tuple[int, ...]:
    """Return where a slice starts: the indices, moved so that all of it is inside."""
    return tuple(
        min(max(int(start), 0), full - size)
        for start, full, size in zip(starts, shape, sizes, strict=True)
    )


@handles("stablehlo.dynamic_slice")
def _dynamic_slice(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, *starts = args
    sizes = ints(op.properties["slice_sizes"])
    places = clamped_starts(starts, x.shape, sizes)
    return (x[tuple(slice(p, p + s) for p, s in zip(places, sizes, strict=True))],)


@handles("stablehlo.dynamic_update_slice")
def _dynamic_update_slice(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, update, *starts = args
    places = clamped_starts(starts, x.shape, update.shape)
    result = x.copy()
    result[tuple(slice(p, p + s) for p, s in zip(places, update.shape, strict=True))] = update
    return (result,)


@handles("stablehlo.pad")
def _pad(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    low, high, interior = (ints(op.properties[name]) for name in names)
    return (pad(args[0], args[1], low, high, interior),)


@handles("stablehlo.dynamic_pad")
def _dynamic_pad(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, value, *edges = args
    low, high, interior = ([int(v) for v in each] for each in edges)
    return (pad(x, value, low, high, interior),)


@handles("stablehlo.real_dynamic_slice")
def _real_dynamic_slice(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, *bounds = args
    ranges = zip(*([int(v) for v in each] for each in bounds), strict=True)
    return (x[tuple(slice(*each) for each in ranges)],)


def pad(
    x: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Array:
    """Put a value before, behind and between the elements; negative edges cut elements off, at most all."""
    shape = tuple(
        max(a + b + n + max(n - 1, 0) * i, 0)
        for a, b, n, i in zip(low, high, x.shape, interior, strict=True)
    )
    result = np.full(shape, value, x.dtype)
    targets, sources = [], []
    for a, n, i, size in zip(low, x.shape, interior, shape, strict=True):
        # Elements k with 0 <= a + k (i + 1) < size are inside.
        first = max(0, -(a // (i + 1))) if a < 0 else 0
        last = min(n, max(0, -(-(size - a) // (i + 1))))
        sources.append(slice(first, max(first, last)))
        begin = a + first * (i + 1)
        targets.append(slice(begin, begin + max(last - first, 0) * (i + 1), i + 1))
    source = x[tuple(sources)]
    if source.size:
        result[tuple(targets)] = source
    return result


@handles("stablehlo.set_dimension_size")
def _set_dimension_size(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    x, size = args
    dimension = integer(op, "dimension")
    if int(size) != x.shape[dimension]:
        raise EvaluationError(
            f"only the size that dimension {dimension} has, {x.shape[dimension]}, is evaluated, "
            f"but got {int(size)}"
        )
    return (x,)
