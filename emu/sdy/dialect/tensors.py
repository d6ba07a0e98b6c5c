"""Shapes of values, and queries and changes of shardings as plain data."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from emu.mlir.ir import Value
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    TensorSharding,
)

# Shapes


def static_shape(type_: Type) -> tuple[int, ...] | None:
    """Return the shape of a ranked tensor without dynamic dimensions, else None."""
    if isinstance(type_, TensorType) and None not in type_.shape:
        return type_.shape  # type: ignore[return-value]  # just checked
    return None


def tensor_rank(of: Type | Value) -> int:
    """Return the rank of a ranked tensor, 0 for anything else."""
    type_ = of.type if isinstance(of, Value) else of
    return len(type_.shape) if isinstance(type_, TensorType) else 0


def is_scalar(value: Value) -> bool:
    """Return whether the value is a tensor of rank 0."""
    return isinstance(value.type, TensorType) and not value.type.shape


# Shardings


def fully_closed_shardings(types: Iterable[Type], mesh: str | Mesh) -> tuple[TensorSharding, ...]:
    """Return a closed sharding without axes for each type."""
    return tuple(TensorSharding.fully_closed(tensor_rank(type_), mesh) for type_ in types)


def open_shardings_with(
    types: Iterable[Type], index: int, sharding: TensorSharding
) -> tuple[TensorSharding, ...]:
    """Return an open sharding for each type, except for the given one at ``index``."""
    return tuple(
        sharding if i == index else TensorSharding.fully_open(tensor_rank(type_), sharding.mesh)
        for i, type_ in enumerate(types)
    )


def is_equivalent(
    sharding: TensorSharding,
    other: TensorSharding | None,
    *,
    ignore_unreduced_axes: bool = False,
) -> bool:
    """Return whether both split each dimension along the same axes of one mesh.

    They must also be unreduced along the same axes. No sharding is equivalent to one
    that splits no dimension and is reduced. Whether dimensions are open does not
    matter, nor do replicated axes.

    Args:
        sharding: A sharding.
        other: The other one, or None.
        ignore_unreduced_axes: Whether unreduced axes do not matter either. Default: False.
    """
    unreduced = () if ignore_unreduced_axes else sharding.unreduced_axes
    other_unreduced = () if ignore_unreduced_axes or other is None else other.unreduced_axes
    if sharding.is_fully_replicated and not unreduced:
        return other is None or (other.is_fully_replicated and not other_unreduced)
    if other is None or sharding.mesh != other.mesh or len(sharding.dims) != len(other.dims):
        return False
    if unreduced != other_unreduced:
        return False
    return all(a.axes == b.axes for a, b in zip(sharding.dims, other.dims, strict=True))


def local_type(
    sharding: TensorSharding, type_: Type, mesh: Mesh, *, allow_non_divisible: bool = True
) -> Type | None:
    """Return the type of one shard; a type that is not a ranked tensor is returned unchanged.

    Args:
        sharding: The sharding of the tensor.
        type_: The global type.
        mesh: The sharding's mesh.
        allow_non_divisible: Round sizes up; otherwise return None if a dimension
            does not divide evenly.
    """
    if not sharding.dims or not isinstance(type_, TensorType):
        return type_
    shape: list[int | None] = []
    for size, dim in zip(type_.shape, sharding.dims, strict=True):
        if size is None:
            shape.append(None)
            continue
        shards = dim.sharded_size(mesh)
        if size % shards and not allow_non_divisible:
            return None
        shape.append(-(-size // shards))
    return TensorType(tuple(shape), type_.element, type_.encoding)


def global_type(sharding: TensorSharding, type_: TensorType, mesh: Mesh) -> TensorType:
    """Return the global type, given the type of one shard and no padding."""
    if not sharding.dims:
        return type_
    shape = tuple(
        None if size is None else size * dim.sharded_size(mesh)
        for size, dim in zip(type_.shape, sharding.dims, strict=True)
    )
    return TensorType(shape, type_.element)


# Manual and free axes
#
# In the shardings of a manual computation each dimension lists the axes that
# are manual before the free ones.


def first_free_axis(axes: Sequence[AxisRef], manual_axes: Sequence[str]) -> int:
    """Return the position of the first axis that is not manual; manual axes come first.

    A binary search, as in Shardy: if the order is wrong (a neighbour brought a
    manual axis after a free one), its result decides what is propagated.
    """
    return bisect_left(range(len(axes)), True, key=lambda i: axes[i].name not in manual_axes)


def erase_manual_axes(sharding: TensorSharding, manual_axes: Sequence[str]) -> TensorSharding:
    """Return a manual computation's sharding as its body sees it: with the free axes only."""
    if not manual_axes:
        return sharding

    def free(axes: tuple[AxisRef, ...]) -> tuple[AxisRef, ...]:
        return tuple(axis for axis in axes if axis.name not in manual_axes)

    return TensorSharding(
        sharding.mesh,
        tuple(dim.drop_front(first_free_axis(dim.axes, manual_axes)) for dim in sharding.dims),
        free(sharding.replicated_axes),
        free(sharding.unreduced_axes),
        sharding.reduction_op,
    )


def add_free_axes(
    outer: TensorSharding, inner: TensorSharding, manual_axes: Sequence[str]
) -> TensorSharding:
    """Return the manual axes of ``outer`` followed by the free ones of ``inner``.

    Dimensions are open, and have a priority, as in ``inner``; replicated and
    unreduced axes are those of ``outer``.
    """
    dims = tuple(
        DimensionSharding(
            old.axes[: first_free_axis(old.axes, manual_axes)] + new.axes,
            new.is_closed,
            new.priority,
        )
        for old, new in zip(outer.dims, inner.dims, strict=False)
    )
    return TensorSharding(
        inner.mesh, dims, outer.replicated_axes, outer.unreduced_axes, outer.reduction_op
    )
