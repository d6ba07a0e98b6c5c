"""Attributes of the sdy dialect: meshes, axes, shardings, sharding rules.

Plain data with small questions. The algebra of axes (overlap, prefix, merge)
is in `emu.sdy.dialect.axes`, how they are written in
`emu.sdy.dialect.parsing` and `emu.sdy.dialect.printing`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum

from emu.mlir.attributes import Attribute

__all__ = [
    "AllToAllParam",
    "AllToAllParamList",
    "AxisRef",
    "AxisRefList",
    "AxisToPropagationDetails",
    "DimMapping",
    "DimensionSharding",
    "EdgeNodeType",
    "EdgeValueRef",
    "FactorType",
    "ListOfAxisRefLists",
    "ManualAxes",
    "Mesh",
    "MeshAxis",
    "OpShardingRule",
    "PropagationDirection",
    "PropagationEdges",
    "PropagationOneStep",
    "SdyAttribute",
    "SubAxisInfo",
    "TensorMapping",
    "TensorSharding",
    "TensorShardingPerValue",
]


class PropagationDirection(IntEnum):
    """Which way a sharding may go; the numbers' order matters (min and max)."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    BOTH = 3


class EdgeNodeType(Enum):
    """What an `EdgeValueRef` counts."""

    OPERAND = "operand"
    RESULT = "result"


class FactorType(Enum):
    """The kind of a factor of a sharding rule."""

    PASS_THROUGH = "pass_through"
    REDUCTION = "reduction"
    NEED_REPLICATION = "need_replication"
    PERMUTATION = "permutation"


@dataclass(frozen=True, slots=True)
class SdyAttribute(Attribute):
    """Base of the dialect's attributes."""

    def __str__(self) -> str:
        from emu.sdy.dialect.printing import attribute_text

        return attribute_text(self)


@dataclass(frozen=True, slots=True)
class MeshAxis(SdyAttribute):
    """``"x"=4``."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Mesh(SdyAttribute):
    """``<["x"=2, "y"=4], device_ids=[…]>``.

    Device ids in their natural order are the same as none, and are dropped.
    """

    axes: tuple[MeshAxis, ...]
    device_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        devices = self.device_ids
        count = self.total_size if self.axes else 0
        if devices and len(devices) == count and devices == tuple(range(count)):
            object.__setattr__(self, "device_ids", ())

    @property
    def total_size(self) -> int:
        """The number of devices."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def is_empty(self) -> bool:
        """No axes and no device ids."""
        return not self.axes and not self.device_ids

    @property
    def is_maximal(self) -> bool:
        """No axes and one device id: everything on that device."""
        return not self.axes and len(self.device_ids) == 1

    def has_axis(self, name: str) -> bool:
        """Whether it has an axis of that name."""
        return any(axis.name == name for axis in self.axes)

    def axis_size(self, name: str) -> int:
        """The size of an axis; raises KeyError for a name it does not have."""
        for axis in self.axes:
            if axis.name == name:
                return axis.size
        raise KeyError(name)

    def axis_index(self, name: str) -> int:
        """The position of an axis; raises KeyError for a name it does not have."""
        for index, axis in enumerate(self.axes):
            if axis.name == name:
                return index
        raise KeyError(name)

    def equals(self, other: Mesh, *, ignore_device_ids: bool = False) -> bool:
        """Equality, if asked for without looking at device ids.

        A maximal mesh never equals one that is not.
        """
        if not ignore_device_ids:
            return self == other
        return self.axes == other.axes and self.is_maximal == other.is_maximal


@dataclass(frozen=True, slots=True, order=True)
class SubAxisInfo(SdyAttribute):
    """``(pre_size)size``: the digits of an axis after ``pre_size`` values."""

    pre_size: int
    size: int

    @property
    def next_pre_size(self) -> int:
        """The pre-size of the sub-axis that follows."""
        return self.pre_size * self.size


@dataclass(frozen=True, slots=True)
class AxisRef(SdyAttribute):
    """``"x"`` or ``"x":(1)2``."""

    name: str
    sub_axis: SubAxisInfo | None = None

    def size(self, mesh: Mesh) -> int:
        """The number of shards along it."""
        return mesh.axis_size(self.name) if self.sub_axis is None else self.sub_axis.size


@dataclass(frozen=True, slots=True)
class DimensionSharding(SdyAttribute):
    """``{"x", "y":(2)4, ?}p1``: axes major to minor, open or closed."""

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True
    priority: int | None = None

    @property
    def priority_or_default(self) -> int:
        """The priority, 0 where none is given."""
        return 0 if self.priority is None else self.priority

    def sharded_size(self, mesh: Mesh) -> int:
        """In how many shards the dimension is cut."""
        return math.prod(axis.size(mesh) for axis in self.axes)

    def take_front(self, count: int) -> DimensionSharding:
        """The same with the first ``count`` axes only."""
        return DimensionSharding(self.axes[:count], self.is_closed, self.priority)

    def drop_front(self, count: int) -> DimensionSharding:
        """The same without the first ``count`` axes."""
        return DimensionSharding(self.axes[count:], self.is_closed, self.priority)

    def closed(self) -> DimensionSharding:
        """The same, closed."""
        return DimensionSharding(self.axes, True, self.priority)

    def opened(self) -> DimensionSharding:
        """The same, open."""
        return DimensionSharding(self.axes, False, self.priority)

    def without_priority(self) -> DimensionSharding:
        """The same without a priority."""
        return DimensionSharding(self.axes, self.is_closed)


@dataclass(frozen=True, slots=True)
class TensorSharding(SdyAttribute):
    """``<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced={"z"}>``.

    Attributes:
        mesh: The symbol of a mesh (without "@"), or a mesh written in place.
        dims: One sharding a dimension.
        replicated_axes: Axes along which it must stay replicated.
        unreduced_axes: Axes along which partial results are still to be added.
    """

    mesh: str | Mesh
    dims: tuple[DimensionSharding, ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.dims)

    @property
    def is_fully_closed(self) -> bool:
        """Whether no dimension is open."""
        return all(dim.is_closed for dim in self.dims)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether no dimension is cut."""
        return not any(dim.axes for dim in self.dims)

    @property
    def is_fully_replicated_and_open(self) -> bool:
        """Whether every dimension is open and none is cut."""
        return not any(dim.axes or dim.is_closed for dim in self.dims)

    @property
    def has_no_axes(self) -> bool:
        """Whether it mentions no axis at all."""
        return not (self.replicated_axes or self.unreduced_axes) and self.is_fully_replicated

    @property
    def mesh_name(self) -> str:
        """The mesh's symbol; raises ValueError for an inlined mesh."""
        if isinstance(self.mesh, str):
            return self.mesh
        raise ValueError("the sharding has its mesh inlined")

    def all_axes(self) -> list[AxisRef]:
        """Axes of the dimensions, replicated and unreduced ones, in that order."""
        axes = [axis for dim in self.dims for axis in dim.axes]
        return [*axes, *self.replicated_axes, *self.unreduced_axes]

    def with_dims(self, dims: Sequence[DimensionSharding]) -> TensorSharding:
        """The same with other dimensions."""
        return TensorSharding(self.mesh, tuple(dims), self.replicated_axes, self.unreduced_axes)

    def with_replicated(self, axes: Iterable[AxisRef]) -> TensorSharding:
        """The same with other replicated axes."""
        return TensorSharding(self.mesh, self.dims, tuple(axes), self.unreduced_axes)

    def with_unreduced(self, axes: Iterable[AxisRef]) -> TensorSharding:
        """The same with other unreduced axes."""
        return TensorSharding(self.mesh, self.dims, self.replicated_axes, tuple(axes))

    def with_dim(self, index: int, dim: DimensionSharding) -> TensorSharding:
        """The same with one other dimension."""
        dims = (*self.dims[:index], dim, *self.dims[index + 1 :])
        return TensorSharding(self.mesh, dims, self.replicated_axes, self.unreduced_axes)

    def closed(self) -> TensorSharding:
        """The same axes with every dimension closed; no replicated axes."""
        dims = tuple(dim.closed() for dim in self.dims)
        return TensorSharding(self.mesh, dims, (), self.unreduced_axes)

    def opened(self) -> TensorSharding:
        """The same with every dimension open."""
        dims = tuple(dim.opened() for dim in self.dims)
        return TensorSharding(self.mesh, dims, self.replicated_axes, self.unreduced_axes)

    @staticmethod
    def closed_with(
        mesh: str | Mesh,
        axes_per_dim: Iterable[Iterable[AxisRef]],
        unreduced_axes: Iterable[AxisRef] = (),
    ) -> TensorSharding:
        """A closed dimension for each list of axes."""
        dims = tuple(DimensionSharding(tuple(axes)) for axes in axes_per_dim)
        return TensorSharding(mesh, dims, (), tuple(unreduced_axes))

    @staticmethod
    def fully_open(rank: int, mesh: str | Mesh) -> TensorSharding:
        """No axes, every dimension open."""
        return TensorSharding(mesh, (DimensionSharding(is_closed=False),) * rank)

    @staticmethod
    def fully_closed(rank: int, mesh: str | Mesh) -> TensorSharding:
        """No axes, every dimension closed."""
        return TensorSharding(mesh, (DimensionSharding(),) * rank)


@dataclass(frozen=True, slots=True)
class TensorShardingPerValue(SdyAttribute):
    """``#sdy.sharding_per_value<[<@mesh, [..]>, ..]>``."""

    shardings: tuple[TensorSharding, ...] = ()

    def with_sharding(self, index: int, sharding: TensorSharding) -> TensorShardingPerValue:
        """The same with one other sharding."""
        if self.shardings[index] == sharding:
            return self
        shardings = self.shardings
        return TensorShardingPerValue((*shardings[:index], sharding, *shardings[index + 1 :]))


@dataclass(frozen=True, slots=True)
class DimMapping(SdyAttribute):
    """The factors of a dimension, major to minor."""

    factors: tuple[int, ...] = ()

    def is_minor_most(self, factor: int) -> bool:
        """Whether the factor is the last one."""
        return bool(self.factors) and self.factors[-1] == factor


@dataclass(frozen=True, slots=True)
class TensorMapping(SdyAttribute):
    """The factors of each dimension of a tensor."""

    dims: tuple[DimMapping, ...] = ()

    def contains_factor(self, factor: int) -> bool:
        """Whether a dimension has the factor."""
        return any(factor in dim.factors for dim in self.dims)


@dataclass(frozen=True, slots=True)
class OpShardingRule(SdyAttribute):
    """``#sdy.op_sharding_rule<([i, k], [k, j])->([i, j]) {i=8, …} reduction={k}>``."""

    factor_sizes: tuple[int, ...] = ()
    operands: tuple[TensorMapping, ...] = ()
    results: tuple[TensorMapping, ...] = ()
    reduction: tuple[int, ...] = ()
    need_replication: tuple[int, ...] = ()
    permutation: tuple[int, ...] = ()
    blocked_propagation: tuple[int, ...] = ()
    is_custom: bool = False

    def factor_type(self, factor: int) -> FactorType:
        """The kind of a factor."""
        if factor in self.reduction:
            return FactorType.REDUCTION
        if factor in self.need_replication:
            return FactorType.NEED_REPLICATION
        if factor in self.permutation:
            return FactorType.PERMUTATION
        return FactorType.PASS_THROUGH

    @property
    def tensors(self) -> tuple[TensorMapping, ...]:
        """The mappings of the operands, then of the results."""
        return self.operands + self.results

    def is_in_all_non_scalar_tensors(self, factor: int) -> bool:
        """Whether each tensor that has dimensions has the factor."""
        return all(t.contains_factor(factor) for t in self.tensors if t.dims)

    def is_batching_factor(self, factor: int) -> bool:
        """Whether it is a pass-through factor of all non-scalar tensors."""
        passes = self.factor_type(factor) is FactorType.PASS_THROUGH
        return passes and self.is_in_all_non_scalar_tensors(factor)

    @property
    def batching_factors(self) -> list[int]:
        """The batching factors, in order."""
        return [f for f in range(len(self.factor_sizes)) if self.is_batching_factor(f)]

    @property
    def non_scalar_tensors(self) -> list[int]:
        """Indices of the tensors that have dimensions, operands first."""
        return [i for i, tensor in enumerate(self.tensors) if tensor.dims]

    @property
    def has_compound_dimension(self) -> bool:
        """Whether a dimension has more than one factor."""
        return any(len(dim.factors) > 1 for tensor in self.tensors for dim in tensor.dims)


@dataclass(frozen=True, slots=True)
class ManualAxes(SdyAttribute):
    """``manual_axes={"x", "y"}``."""

    axes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AxisRefList(SdyAttribute):
    """``{"x", "y"}``."""

    axes: tuple[AxisRef, ...] = ()


@dataclass(frozen=True, slots=True)
class ListOfAxisRefLists(SdyAttribute):
    """``[{"x"}, {}]``: axes per dimension."""

    lists: tuple[tuple[AxisRef, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class AllToAllParam(SdyAttribute):
    """``{"b"}: 0->2``."""

    axes: tuple[AxisRef, ...]
    src_dim: int
    tgt_dim: int


@dataclass(frozen=True, slots=True)
class AllToAllParamList(SdyAttribute):
    """``[{"b"}: 0->2, {"c"}: 1->3]``."""

    params: tuple[AllToAllParam, ...] = ()

    def overlaps(self, other: AllToAllParamList) -> bool:
        """Whether a dimension occurs twice in the two lists together."""
        params = self.params + other.params
        dims = [dim for param in params for dim in (param.src_dim, param.tgt_dim)]
        return len(set(dims)) < len(dims)

    def combined_with(self, other: AllToAllParamList) -> AllToAllParamList:
        """Both lists in one, sorted by source dimension."""
        params = sorted(self.params + other.params, key=lambda param: param.src_dim)
        return AllToAllParamList(tuple(params))


@dataclass(frozen=True, slots=True)
class EdgeValueRef(SdyAttribute):
    """``operand-0`` or ``result-1``: an end of an edge of propagation."""

    type: EdgeNodeType
    index: int


@dataclass(frozen=True, slots=True)
class AxisToPropagationDetails(SdyAttribute):
    """From where to where an axis went in a step."""

    axis: AxisRef
    source: EdgeValueRef
    targets: tuple[EdgeValueRef, ...]


@dataclass(frozen=True, slots=True)
class PropagationOneStep(SdyAttribute):
    """The axes that a step moved."""

    step_index: int
    axis_entries: tuple[AxisToPropagationDetails, ...]


@dataclass(frozen=True, slots=True)
class PropagationEdges(SdyAttribute):
    """All steps at an operation."""

    steps: tuple[PropagationOneStep, ...] = ()
