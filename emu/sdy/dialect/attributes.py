"""Attributes of the sdy dialect: meshes, axes, shardings, sharding rules.

Plain data with small questions. The algebra of axes (overlap, prefix, merge)
is in `emu.sdy.dialect.axes`, how they are written in
`emu.sdy.dialect.parsing` and `emu.sdy.dialect.printing`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from emu.sdy.mlir.attributes import Attribute

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
class PropagationDirectionAttr(SdyAttribute):
    """A direction as an attribute of ``sdy.propagation_barrier``."""

    value: PropagationDirection


@dataclass(frozen=True, slots=True)
class MeshAxis(SdyAttribute):
    """``"x"=4``."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Mesh(SdyAttribute):
    """``<["x"=2, "y"=4], device_ids=[…]>``."""

    axes: tuple[MeshAxis, ...]
    device_ids: tuple[int, ...] = ()

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
        """Equality, if asked for without looking at device ids."""
        return self.axes == other.axes and (
            ignore_device_ids or self.device_ids == other.device_ids
        )


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
    def mesh_name(self) -> str:
        """The mesh's symbol; raises ValueError for an inlined mesh."""
        if isinstance(self.mesh, Mesh):
            raise ValueError("the sharding has its mesh inlined")
        return self.mesh

    def all_axes(self) -> list[AxisRef]:
        """Axes of the dimensions, replicated and unreduced ones, in that order."""
        axes = [axis for dim in self.dims for axis in dim.axes]
        return [*axes, *self.replicated_axes, *self.unreduced_axes]

    def with_dims(self, dims: Sequence[DimensionSharding]) -> TensorSharding:
        """The same with other dimensions."""
        return replace(self, dims=tuple(dims))

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


@dataclass(frozen=True, slots=True)
class DimMapping(SdyAttribute):
    """The factors of a dimension, major to minor."""

    factors: tuple[int, ...] = ()


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
