"""Projections: shardings of dimensions converted to shardings of factors, and back.

A sharding lists the axes of each *dimension*; a sharding rule relates tensors by
*factors*. A dimension that consists of several factors, ``[ij]`` with sizes 2
and 4, is sharded from the major end: its axes belong to the first factor until
that is fully sharded, then to the next. An axis larger than the rest of a factor
is split, so that ``"x"`` of size 4 on ``[ij]`` becomes
``i: "x":(1)2, j: "x":(2)2``.

Not every split falls on the border of two factors. Axes that do not divide the
rest of a factor become its *overflow axes*: they do not propagate, and they
return to their place when factors are converted back to dimensions. The last
factor of a dimension, the minor-most one, takes all remaining axes, whether they
divide it or not (in which case the tensor needs padding).

The conversion back has a limit, too. A factor can have axes only if all factors
before it in the dimension are fully sharded, since otherwise a shard would not be
contiguous; axes after the first incomplete factor are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from emu.sdy.dialect.attributes import (
    AxisRef,
    DimensionSharding,
    Mesh,
    OpShardingRule,
    ReductionOp,
    SubAxisInfo,
    TensorMapping,
    TensorSharding,
)
from emu.sdy.dialect.axes import add_or_merge, common_prefix_of_lists, is_prefix

Axes = tuple[AxisRef, ...]
"""Axes of a factor, major to minor."""


class Prefix(Enum):
    """Relations of a list of axes to another."""

    EQUAL = "equal"
    STRICT = "the first is a strict prefix of the second"
    NONE = "the first is no prefix of the second"


def list_prefix(first: Sequence[AxisRef], second: Sequence[AxisRef]) -> Prefix:
    """Return whether a list of axes is no, a strict or the same prefix of another.

    The last axis of ``first`` may itself be a prefix of its counterpart:
    ``["x", "y":(1)2]`` is a strict prefix of ``["x", "y"]``.
    """
    if not first:
        return Prefix.STRICT if second else Prefix.EQUAL
    last = len(first) - 1
    if last >= len(second) or tuple(first[:last]) != tuple(second[:last]):
        return Prefix.NONE
    if len(first) == len(second) and first[last] == second[last]:
        return Prefix.EQUAL
    return Prefix.STRICT if is_prefix(first[last], second[last]) else Prefix.NONE


@dataclass(frozen=True, slots=True)
class FactorSharding:
    """The sharding of a tensor along a factor.

    Attributes:
        axes: The axes, major to minor.
        is_closed: Whether no axis may be added.
        is_minor_most: Whether it is the last factor of its dimension.
        overflow_axes: Axes of the dimension that do not divide the factor.
    """

    axes: Axes = ()
    is_closed: bool = False
    is_minor_most: bool = False
    overflow_axes: Axes = ()


_UNKNOWN = FactorSharding()


@dataclass(slots=True)
class TensorFactors:
    """The sharding of a tensor by factor.

    Attributes:
        factors: Shardings of the tensor's factors, by the factor's index.
        replicated_axes: Axes along which it must stay replicated.
        unreduced_axes: Axes along which it is still to be reduced.
        reduction_op: The operator that reduces it along them.
    """

    factors: dict[int, FactorSharding] = field(default_factory=dict)
    replicated_axes: Axes = ()
    unreduced_axes: Axes = ()
    reduction_op: ReductionOp = ReductionOp.SUM

    def expand(self, factor: int, axes: Axes) -> bool:
        """Set the axes of a factor if they extend its current ones.

        Returns:
            Whether they did.
        """
        old = self.factors.get(factor)
        if old is None or list_prefix(old.axes, axes) is not Prefix.STRICT:
            return False
        self.factors[factor] = replace(old, axes=axes)
        return True

    def update(self, factor: int, axes: Axes, overflow_axes: Axes = ()) -> bool:
        """Set the axes of a factor, whatever it has.

        Returns:
            Whether that changed anything.
        """
        old = self.factors.get(factor)
        if old is None or (old.axes == axes and old.overflow_axes == overflow_axes):
            return False
        self.factors[factor] = replace(old, axes=axes, overflow_axes=overflow_axes)
        return True

    @property
    def has_overflow(self) -> bool:
        """Whether a factor has overflow axes."""
        return any(factor.overflow_axes for factor in self.factors.values())

    def sharded_size(self, mesh: Mesh) -> int:
        """Return the number of shards of the tensor."""
        return math.prod(
            axis.size(mesh)
            for factor in self.factors.values()
            for axis in (*factor.axes, *factor.overflow_axes)
        )

    def sharding(
        self, mapping: TensorMapping, factor_sizes: Sequence[int], mesh_name: str | Mesh, mesh: Mesh
    ) -> TensorSharding:
        """Return the sharding of the dimensions, without priorities."""
        dims = []
        for dim in mapping.dims:
            closed = False
            axes: list[AxisRef] = []
            for index in dim.factors:
                # After a factor with overflow axes there may be factors that the
                # tensor does not have (Shardy crashes on those of a reshape); they
                # have no axes.
                factor = self.factors.get(index, _UNKNOWN)
                closed = closed or factor.is_closed
                _append_axes(axes, factor.axes, mesh)
                if factor.overflow_axes:
                    _append_axes(axes, factor.overflow_axes, mesh)
                    break
                if math.prod(axis.size(mesh) for axis in factor.axes) < factor_sizes[index]:
                    break  # axes of later factors would need a strided view
            dims.append(DimensionSharding(tuple(axes), closed))
        return TensorSharding(
            mesh_name, tuple(dims), self.replicated_axes, self.unreduced_axes, self.reduction_op
        )


def _append_axes(axes: list[AxisRef], more: Axes, mesh: Mesh) -> None:
    """Append the axes of a factor; two sub-axes that meet may become one."""
    if more:
        add_or_merge(axes, more[0], mesh)
        axes.extend(more[1:])


@dataclass(slots=True)
class Projection:
    """The shardings of an operation's operands and results by factor."""

    operands: list[TensorFactors]
    results: list[TensorFactors]

    @property
    def tensors(self) -> list[TensorFactors]:
        """Operands, then the results."""
        return self.operands + self.results

    def copy(self) -> Projection:
        """Return an independent copy."""
        return Projection(
            [replace(tensor, factors=dict(tensor.factors)) for tensor in self.operands],
            [replace(tensor, factors=dict(tensor.factors)) for tensor in self.results],
        )

    def expand(self, factor: int, axes: Axes) -> list[bool]:
        """Apply ``TensorFactors.expand`` to every tensor, operands first."""
        return [tensor.expand(factor, axes) for tensor in self.tensors]

    def update(self, factor: int, axes: Axes, overflow_axes: Axes = ()) -> list[bool]:
        """Apply ``TensorFactors.update`` to every tensor, operands first."""
        return [tensor.update(factor, axes, overflow_axes) for tensor in self.tensors]

    def common_prefix_axes(self, factor_count: int) -> list[Axes]:
        """Return, for each factor, the longest common prefix of the tensors' lists."""
        common: list[Axes | None] = [None] * factor_count
        for tensor in self.tensors:
            for index, factor in tensor.factors.items():
                seen = common[index]
                common[index] = (
                    factor.axes
                    if seen is None
                    else tuple(common_prefix_of_lists(seen, factor.axes))
                )
        return [axes or () for axes in common]


class _Axes:
    """Axes that are taken piece by piece, major to minor."""

    __slots__ = ("_axes", "_index", "_mesh", "_pre_size", "size")

    def __init__(self, axes: Axes, mesh: Mesh) -> None:
        self._axes = axes
        self._mesh = mesh
        self._index = -1
        self._pre_size: int | None = None
        self.size = 0
        """Size of the rest of the current axis; 0 at the end."""
        self._advance()

    def _advance(self) -> None:
        self._index += 1
        if self._index >= len(self._axes):
            self.size = 0
            return
        axis = self._axes[self._index]
        self.size = axis.size(self._mesh)
        self._pre_size = None if axis.sub_axis is None else axis.sub_axis.pre_size

    def take(self) -> AxisRef:
        """Take the rest of the current axis."""
        sub = None if self._pre_size is None else SubAxisInfo(self._pre_size, self.size)
        taken = AxisRef(self._axes[self._index].name, sub)
        self._advance()
        return taken

    def split(self, size: int) -> AxisRef:
        """Take the major part, of that size, of the rest of the current axis."""
        sub = SubAxisInfo(self._pre_size or 1, size)
        self._pre_size = sub.next_pre_size
        self.size //= size
        return AxisRef(self._axes[self._index].name, sub)

    def take_all(self, into: Iterable[AxisRef] = ()) -> Axes:
        """Take all remaining axes, and return them after ``into``."""
        taken = list(into)
        while self.size:
            add_or_merge(taken, self.take(), self._mesh)
        return tuple(taken)


def _project_dim(
    factors: Sequence[int],
    dim: DimensionSharding,
    factor_sizes: Sequence[int],
    mesh: Mesh,
    into: dict[int, FactorSharding],
) -> None:
    axes = _Axes(dim.axes, mesh)
    last = factors[-1] if factors else None
    for index in factors:
        if index == last:
            into[index] = FactorSharding(axes.take_all(), dim.is_closed, is_minor_most=True)
            break
        left = factor_sizes[index]
        taken = []
        while axes.size:
            common = math.gcd(left, axes.size)
            if common == 1 and axes.size != 1:
                break
            left //= common
            taken.append(axes.take() if axes.size == common else axes.split(common))
        if left > 1 and axes.size:
            into[index] = FactorSharding(tuple(taken), dim.is_closed, False, axes.take_all())
            _close_next(factors, index, into)
            break
        into[index] = FactorSharding(tuple(taken), dim.is_closed)


def _close_next(factors: Sequence[int], index: int, into: dict[int, FactorSharding]) -> None:
    """Close the factor after one with overflow axes, where nothing may be added.

    The tensor does not have the factors after that one at all, as far as propagation
    is concerned.
    """
    following = factors[factors.index(index) + 1]
    into[following] = FactorSharding((), True, following == factors[-1])


def _project_tensor(
    mapping: TensorMapping,
    sharding: TensorSharding | None,
    factor_sizes: Sequence[int],
    mesh: Mesh,
    closed_if_missing: bool,
) -> TensorFactors:
    factors: dict[int, FactorSharding] = {}
    if sharding is None:
        empty = DimensionSharding((), closed_if_missing)
        for dim in mapping.dims:
            _project_dim(dim.factors, empty, factor_sizes, mesh, factors)
        return TensorFactors(factors)
    for dim, dim_sharding in zip(mapping.dims, sharding.dims, strict=True):
        _project_dim(dim.factors, dim_sharding, factor_sizes, mesh, factors)
    return TensorFactors(
        factors, sharding.replicated_axes, sharding.unreduced_axes, sharding.reduction_op
    )


def project(
    rule: OpShardingRule,
    operands: Sequence[TensorSharding | None],
    results: Sequence[TensorSharding | None],
    mesh: Mesh,
    *,
    closed_if_missing: bool = False,
) -> Projection:
    """Return the shardings of dimensions as shardings of factors.

    Args:
        rule: The sharding rule.
        operands: A sharding for each operand of the rule.
        results: A sharding for each result of the rule.
        mesh: The mesh of all of them.
        closed_if_missing: Treat a missing sharding as closed instead of open.
    """
    return Projection(
        [
            _project_tensor(mapping, sharding, rule.factor_sizes, mesh, closed_if_missing)
            for mapping, sharding in zip(rule.operands, operands, strict=True)
        ],
        [
            _project_tensor(mapping, sharding, rule.factor_sizes, mesh, closed_if_missing)
            for mapping, sharding in zip(rule.results, results, strict=True)
        ],
    )


def distribute_axes(
    factors: Sequence[FactorSharding], factor_sizes: Sequence[int], axes: Axes, mesh: Mesh
) -> list[FactorSharding]:
    """Distribute axes over the factors of a dimension, wherever they fit.

    Unlike in ``project``, an axis may skip a factor that it does not divide, and
    several factors may share one. Axes that fit nowhere become overflow axes of the
    last factor.

    Args:
        factors: The factors, major to minor.
        factor_sizes: Their sizes.
        axes: The axes to distribute, major to minor.
        mesh: The mesh of the axes.
    """
    taken = [list(factor.axes) for factor in factors]
    left = list(factor_sizes)
    rest = _Axes(axes, mesh)
    while rest.size:
        used = False
        for index, size in enumerate(left):
            common = math.gcd(size, rest.size)
            if size <= 1 or (common == 1 and rest.size != 1):
                continue
            used = True
            left[index] //= common
            if rest.size == common:
                add_or_merge(taken[index], rest.take(), mesh)
                break
            add_or_merge(taken[index], rest.split(common), mesh)
        if not used:
            break
    new = [replace(old, axes=tuple(axes)) for old, axes in zip(factors, taken, strict=True)]
    if rest.size:
        new[-1] = replace(new[-1], overflow_axes=rest.take_all(new[-1].overflow_axes))
    return new
