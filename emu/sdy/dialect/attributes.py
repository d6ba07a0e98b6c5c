"""Attributes of the sdy dialect: meshes, axes, shardings, sharding rules.

Plain data with small queries. The algebra of axes (overlap, prefix, merge) is
in ``emu.sdy.dialect.axes``, the parser in ``emu.sdy.dialect.parsing``.

An attribute has three textual forms. By itself it is ``#sdy.sharding<…>`` where
its text is one pair of angle brackets, else ``#sdy<axis_ref"x">``: that is
``str(attribute)``. Inside another attribute of the dialect, or in an operation
that knows which kind comes, mnemonic and dialect are left out: ``<…>``, ``"x"``.
That is ``stripped_text()``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar

from emu.mlir.attributes import Attribute
from emu.mlir.literals import quoted, symbol_text
from emu.sdy.dialect.text import factor_symbol, stripped_list

# A text of this form can follow "#sdy." directly; any other one goes into "#sdy<…>".
_PRETTY = re.compile(r"[A-Za-z][A-Za-z0-9_.]*(?:<.*>)?\Z", re.ASCII | re.DOTALL)


class PropagationDirection(IntEnum):
    """Directions in which a sharding may propagate; their order matters (min and max)."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2
    BOTH = 3


class ReductionOp(IntEnum):
    """Operators that combine partial results."""

    SUM = 0
    MAX = 1
    MIN = 2

    @property
    def keyword(self) -> str:
        """The operator's name in a text."""
        return self.name.lower()


class FactorType(Enum):
    """Kinds of factors of a sharding rule."""

    PASS_THROUGH = "pass_through"
    REDUCTION = "reduction"
    NEED_REPLICATION = "need_replication"
    PERMUTATION = "permutation"


@dataclass(frozen=True, slots=True)
class SdyAttribute(Attribute):
    """Base class of the dialect's attributes."""

    mnemonic: ClassVar[str]
    """The attribute's name in ``#sdy.name<…>``."""

    def stripped_text(self) -> str:
        """Return the text without ``#sdy`` and the mnemonic."""
        return self._body()

    def _body(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        body = self.mnemonic + self.stripped_text()
        return f"#sdy.{body}" if _PRETTY.match(body) else f"#sdy<{body}>"


@dataclass(frozen=True, slots=True)
class MeshAxis(SdyAttribute):
    """A named axis of a mesh with its size: ``"x"=4``."""

    mnemonic: ClassVar[str] = "mesh_axis"

    name: str
    size: int

    def _body(self) -> str:
        return f"{quoted(self.name)}={self.size}"


@dataclass(frozen=True, slots=True)
class Mesh(SdyAttribute):
    """A mesh of devices: ``<["x"=2, "y"=4], device_ids=[…]>``.

    Device ids in natural order mean the same as no device ids and are dropped.
    """

    mnemonic: ClassVar[str] = "mesh"

    axes: tuple[MeshAxis, ...]
    device_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        devices = self.device_ids
        count = self.total_size if self.axes else 0
        if devices and len(devices) == count and devices == tuple(range(count)):
            object.__setattr__(self, "device_ids", ())

    @property
    def total_size(self) -> int:
        """Number of devices."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def is_empty(self) -> bool:
        """Whether the mesh has neither axes nor device ids."""
        return not self.axes and not self.device_ids

    @property
    def is_maximal(self) -> bool:
        """Whether the mesh has no axes and one device id: everything is on that device."""
        return not self.axes and len(self.device_ids) == 1

    def has_axis(self, name: str) -> bool:
        """Return whether the mesh has an axis of that name."""
        return any(axis.name == name for axis in self.axes)

    def axis_size(self, name: str) -> int:
        """Return the size of an axis; raise KeyError if there is none of that name."""
        for axis in self.axes:
            if axis.name == name:
                return axis.size
        raise KeyError(name)

    def axis_index(self, name: str) -> int:
        """Return the position of an axis; raise KeyError if there is none of that name."""
        for index, axis in enumerate(self.axes):
            if axis.name == name:
                return index
        raise KeyError(name)

    def equals(self, other: Mesh, *, ignore_device_ids: bool = False) -> bool:
        """Return whether two meshes are equal, optionally apart from their device ids.

        A maximal mesh never equals one that is not maximal.
        """
        if not ignore_device_ids:
            return self == other
        return self.axes == other.axes and self.is_maximal == other.is_maximal

    def _body(self) -> str:
        axes = ", ".join(axis.stripped_text() for axis in self.axes)
        if not self.device_ids:
            return f"<[{axes}]>"
        return f"<[{axes}], device_ids=[{', '.join(map(str, self.device_ids))}]>"


@dataclass(frozen=True, slots=True, order=True)
class SubAxisInfo(SdyAttribute):
    """A part of an axis, ``(pre_size)size``: the digit of radix size after pre_size values."""

    mnemonic: ClassVar[str] = "sub_axis_info"

    pre_size: int
    size: int

    @property
    def next_pre_size(self) -> int:
        """Pre-size of the sub-axis that follows."""
        return self.pre_size * self.size

    def _body(self) -> str:
        return f"({self.pre_size}){self.size}"


@dataclass(frozen=True, slots=True)
class AxisRef(SdyAttribute):
    """A reference to an axis or a sub-axis: ``"x"`` or ``"x":(1)2``."""

    mnemonic: ClassVar[str] = "axis_ref"

    name: str
    sub_axis: SubAxisInfo | None = None

    def size(self, mesh: Mesh) -> int:
        """Return the number of shards along the axis."""
        return mesh.axis_size(self.name) if self.sub_axis is None else self.sub_axis.size

    def _body(self) -> str:
        name = quoted(self.name)
        return name if self.sub_axis is None else f"{name}:{self.sub_axis.stripped_text()}"


@dataclass(frozen=True, slots=True)
class DimensionSharding(SdyAttribute):
    """The sharding of a dimension: ``{"x", "y":(2)4, ?}p1``, axes major to minor."""

    mnemonic: ClassVar[str] = "dimension_sharding"

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True
    priority: int | None = None

    @property
    def priority_or_default(self) -> int:
        """Priority, 0 if there is none."""
        return 0 if self.priority is None else self.priority

    def sharded_size(self, mesh: Mesh) -> int:
        """Return the number of shards of the dimension."""
        return math.prod(axis.size(mesh) for axis in self.axes)

    def take_front(self, count: int) -> DimensionSharding:
        """Return the same sharding with only the first ``count`` axes."""
        return DimensionSharding(self.axes[:count], self.is_closed, self.priority)

    def drop_front(self, count: int) -> DimensionSharding:
        """Return the same sharding without the first ``count`` axes."""
        return DimensionSharding(self.axes[count:], self.is_closed, self.priority)

    def closed(self) -> DimensionSharding:
        """Return the same sharding, closed."""
        return DimensionSharding(self.axes, True, self.priority)

    def opened(self) -> DimensionSharding:
        """Return the same sharding, open."""
        return DimensionSharding(self.axes, False, self.priority)

    def _body(self) -> str:
        items = [axis.stripped_text() for axis in self.axes]
        if not self.is_closed:
            items.append("?")
        text = f"{{{', '.join(items)}}}"
        return text if self.priority is None else f"{text}p{self.priority}"


@dataclass(frozen=True, slots=True)
class TensorSharding(SdyAttribute):
    """The sharding of a tensor: ``<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced=max{"z"}>``.

    Attributes:
        mesh: The symbol of a mesh (without "@"), or an inlined mesh.
        dims: One sharding per dimension.
        replicated_axes: Axes along which the tensor must stay replicated.
        unreduced_axes: Axes along which partial results are still to be combined.
        reduction_op: The operator that combines them; always SUM where there are no
            unreduced axes. Default: SUM.
    """

    mnemonic: ClassVar[str] = "sharding"

    mesh: str | Mesh
    dims: tuple[DimensionSharding, ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()
    reduction_op: ReductionOp = ReductionOp.SUM

    def __post_init__(self) -> None:
        if self.reduction_op is not ReductionOp.SUM and not self.unreduced_axes:
            object.__setattr__(self, "reduction_op", ReductionOp.SUM)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def is_fully_closed(self) -> bool:
        """Whether no dimension is open."""
        return all(dim.is_closed for dim in self.dims)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether no dimension has an axis."""
        return not any(dim.axes for dim in self.dims)

    @property
    def mesh_name(self) -> str:
        """Symbol of the mesh; raises ValueError for an inlined mesh."""
        if isinstance(self.mesh, str):
            return self.mesh
        raise ValueError("the sharding has its mesh inlined")

    def all_axes(self) -> list[AxisRef]:
        """Return the axes of the dimensions, then the replicated, then the unreduced axes."""
        axes = [axis for dim in self.dims for axis in dim.axes]
        return [*axes, *self.replicated_axes, *self.unreduced_axes]

    def with_dims(self, dims: Sequence[DimensionSharding]) -> TensorSharding:
        """Return the same sharding with other dimensions."""
        return TensorSharding(
            self.mesh, tuple(dims), self.replicated_axes, self.unreduced_axes, self.reduction_op
        )

    def with_unreduced(self, axes: Iterable[AxisRef]) -> TensorSharding:
        """Return the same sharding with other unreduced axes, of the same operator."""
        return TensorSharding(
            self.mesh, self.dims, self.replicated_axes, tuple(axes), self.reduction_op
        )

    def closed(self) -> TensorSharding:
        """Return the same sharding with every dimension closed and no replicated axes."""
        dims = tuple(dim.closed() for dim in self.dims)
        return TensorSharding(self.mesh, dims, (), self.unreduced_axes, self.reduction_op)

    def opened(self) -> TensorSharding:
        """Return the same sharding with every dimension open."""
        return self.with_dims([dim.opened() for dim in self.dims])

    @staticmethod
    def closed_with(
        mesh: str | Mesh,
        axes_per_dim: Iterable[Iterable[AxisRef]],
        unreduced_axes: Iterable[AxisRef] = (),
        reduction_op: ReductionOp = ReductionOp.SUM,
    ) -> TensorSharding:
        """Return a sharding with one closed dimension per list of axes."""
        dims = tuple(DimensionSharding(tuple(axes)) for axes in axes_per_dim)
        return TensorSharding(mesh, dims, (), tuple(unreduced_axes), reduction_op)

    @staticmethod
    def fully_open(rank: int, mesh: str | Mesh) -> TensorSharding:
        """Return a sharding without axes whose dimensions are all open."""
        return TensorSharding(mesh, (DimensionSharding(is_closed=False),) * rank)

    @staticmethod
    def fully_closed(rank: int, mesh: str | Mesh) -> TensorSharding:
        """Return a sharding without axes whose dimensions are all closed."""
        return TensorSharding(mesh, (DimensionSharding(),) * rank)

    def _body(self) -> str:
        mesh = self.mesh
        place = f"mesh{mesh.stripped_text()}" if isinstance(mesh, Mesh) else symbol_text(mesh)
        text = f"<{place}, [{stripped_list(self.dims)}]"
        if self.replicated_axes:
            text += f", replicated={{{stripped_list(self.replicated_axes)}}}"
        if self.unreduced_axes:
            op = "" if self.reduction_op is ReductionOp.SUM else self.reduction_op.keyword
            text += f", unreduced={op}{{{stripped_list(self.unreduced_axes)}}}"
        return text + ">"


@dataclass(frozen=True, slots=True)
class TensorShardingPerValue(SdyAttribute):
    """One sharding per operand or result: ``#sdy.sharding_per_value<[<@mesh, [..]>, ..]>``."""

    mnemonic: ClassVar[str] = "sharding_per_value"

    shardings: tuple[TensorSharding, ...] = ()

    def with_sharding(self, index: int, sharding: TensorSharding) -> TensorShardingPerValue:
        """Return the same shardings with the one at ``index`` replaced."""
        if self.shardings[index] == sharding:
            return self
        shardings = self.shardings
        return TensorShardingPerValue((*shardings[:index], sharding, *shardings[index + 1 :]))

    def _body(self) -> str:
        return f"<[{stripped_list(self.shardings)}]>"


@dataclass(frozen=True, slots=True)
class DimMapping(SdyAttribute):
    """Factors of a dimension, major to minor."""

    mnemonic: ClassVar[str] = "dim_mapping"

    factors: tuple[int, ...] = ()

    def is_minor_most(self, factor: int) -> bool:
        """Return whether the factor is the last one."""
        return bool(self.factors) and self.factors[-1] == factor

    def _body(self) -> str:
        return "".join(map(factor_symbol, self.factors))


@dataclass(frozen=True, slots=True)
class TensorMapping(SdyAttribute):
    """Factors of each dimension of a tensor."""

    mnemonic: ClassVar[str] = "tensor_mapping"

    dims: tuple[DimMapping, ...] = ()

    def contains_factor(self, factor: int) -> bool:
        """Return whether a dimension has the factor."""
        return any(factor in dim.factors for dim in self.dims)

    def _body(self) -> str:
        # A dimension without factors has an empty text, so it is written with its full name.
        dims = (dim.stripped_text() or "#sdy.dim_mapping" for dim in self.dims)
        return f"[{', '.join(dims)}]"


@dataclass(frozen=True, slots=True)
class OpShardingRule(SdyAttribute):
    """The sharding rule of an operation: ``<([i, k], [k, j])->([i, j]) {i=8, …}>``."""

    mnemonic: ClassVar[str] = "op_sharding_rule"

    factor_sizes: tuple[int, ...] = ()
    operands: tuple[TensorMapping, ...] = ()
    results: tuple[TensorMapping, ...] = ()
    reduction: tuple[int, ...] = ()
    need_replication: tuple[int, ...] = ()
    permutation: tuple[int, ...] = ()
    blocked_propagation: tuple[int, ...] = ()
    is_custom: bool = False

    def factor_type(self, factor: int) -> FactorType:
        """Return the kind of a factor."""
        if factor in self.reduction:
            return FactorType.REDUCTION
        if factor in self.need_replication:
            return FactorType.NEED_REPLICATION
        if factor in self.permutation:
            return FactorType.PERMUTATION
        return FactorType.PASS_THROUGH

    @property
    def tensors(self) -> tuple[TensorMapping, ...]:
        """Mappings of the operands, then of the results."""
        return self.operands + self.results

    def is_in_all_non_scalar_tensors(self, factor: int) -> bool:
        """Return whether every tensor with dimensions has the factor."""
        return all(t.contains_factor(factor) for t in self.tensors if t.dims)

    def is_batching_factor(self, factor: int) -> bool:
        """Return whether the factor is a pass-through factor of all non-scalar tensors."""
        passes = self.factor_type(factor) is FactorType.PASS_THROUGH
        return passes and self.is_in_all_non_scalar_tensors(factor)

    @property
    def batching_factors(self) -> list[int]:
        """Batching factors, in order."""
        return [f for f in range(len(self.factor_sizes)) if self.is_batching_factor(f)]

    @property
    def non_scalar_tensors(self) -> list[int]:
        """Indices of the tensors that have dimensions, operands first."""
        return [i for i, tensor in enumerate(self.tensors) if tensor.dims]

    @property
    def has_compound_dimension(self) -> bool:
        """Whether a dimension has more than one factor."""
        return any(len(dim.factors) > 1 for tensor in self.tensors for dim in tensor.dims)

    def _body(self) -> str:
        text = f"<({stripped_list(self.operands)})->({stripped_list(self.results)})"
        if self.factor_sizes:
            sizes = (f"{factor_symbol(i)}={size}" for i, size in enumerate(self.factor_sizes))
            text += f" {{{', '.join(sizes)}}}"
        for name in ("reduction", "need_replication", "permutation", "blocked_propagation"):
            factors = getattr(self, name)
            if factors:
                text += f" {name}={{{', '.join(map(factor_symbol, factors))}}}"
        return text + (", custom>" if self.is_custom else ">")


@dataclass(frozen=True, slots=True)
class ManualAxes(SdyAttribute):
    """The manual axes of a manual computation: ``{"x", "y"}``."""

    mnemonic: ClassVar[str] = "manual_axes"

    axes: tuple[str, ...] = ()

    def _body(self) -> str:
        return f"{{{', '.join(map(quoted, self.axes))}}}"


@dataclass(frozen=True, slots=True)
class AxisRefList(SdyAttribute):
    """A list of axes: ``{"x", "y"}``."""

    mnemonic: ClassVar[str] = "axis_ref_list"

    axes: tuple[AxisRef, ...] = ()

    def _body(self) -> str:
        return f"{{{stripped_list(self.axes)}}}"


@dataclass(frozen=True, slots=True)
class ListOfAxisRefLists(SdyAttribute):
    """A list of axes per dimension: ``[{"x"}, {}]``."""

    mnemonic: ClassVar[str] = "list_of_axis_ref_lists"

    lists: tuple[tuple[AxisRef, ...], ...] = ()

    def _body(self) -> str:
        lists = (f"{{{stripped_list(axes)}}}" for axes in self.lists)
        return f"[{', '.join(lists)}]"


@dataclass(frozen=True, slots=True)
class AllToAllParam(SdyAttribute):
    """Axes that an all-to-all moves from one dimension to another: ``{"b"}: 0->2``."""

    mnemonic: ClassVar[str] = "all_to_all_param"

    axes: tuple[AxisRef, ...]
    src_dim: int
    tgt_dim: int

    def _body(self) -> str:
        return f"{{{stripped_list(self.axes)}}}: {self.src_dim}->{self.tgt_dim}"


@dataclass(frozen=True, slots=True)
class AllToAllParamList(SdyAttribute):
    """All moves of an all-to-all: ``[{"b"}: 0->2, {"c"}: 1->3]``."""

    mnemonic: ClassVar[str] = "all_to_all_param_list"

    params: tuple[AllToAllParam, ...] = ()

    def overlaps(self, other: AllToAllParamList) -> bool:
        """Return whether a dimension occurs twice in the two lists together."""
        params = self.params + other.params
        dims = [dim for param in params for dim in (param.src_dim, param.tgt_dim)]
        return len(set(dims)) < len(dims)

    def _body(self) -> str:
        return f"[{stripped_list(self.params)}]"
