"""State of the conversion of a module from global to local shapes.

A type alone does not show whether it is global or local. So the converted
operations stay unchanged, with their types, uses and shardings, until all are done:
each gets a new one before it, and a table maps old values to new ones. A conversion
thus sees its operation and those around it as the passes before left them. Only
arguments of blocks change in place; their global types are kept separately.

If a new value has another type than the sharding of the old one requires, an
earlier pass left out a reshard. Then a cast connects the two, which no device can
run, as in MLIR's conversions, and a warning says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emu.mlir.attributes import ArrayAttr, Attribute, DenseElementsAttr, SymbolRefAttr
from emu.mlir.diagnostics import Diagnostics
from emu.mlir.ir import BlockArgument, Operation, Value
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType, Type
from emu.sdy.dialect.attributes import AxisRef, Mesh, TensorSharding
from emu.sdy.dialect.axes import replica_groups, total_size
from emu.sdy.dialect.dataflow import (
    block_argument_owners,
    edge_owner_shardings,
    is_data_flow_op,
)
from emu.sdy.dialect.functions import func_arg_sharding
from emu.sdy.dialect.meshes import find_mesh
from emu.sdy.dialect.shardings import get_sharding
from emu.sdy.dialect.tensors import local_type
from emu.sdy.passes.builder import Builder
from emu.sdy.passes.insertion_point import Place, location_of
from emu.stablehlo.attributes import AxisRef as MeshAxisRef
from emu.stablehlo.attributes import ChannelHandle, ReplicaGroupMeshAxes

_CAST = "builtin.unrealized_conversion_cast"
_DEVICE_TO_DEVICE = 1
_MOST_DEVICES = 1 << 20

Axes = Sequence[AxisRef]


class CannotLocalize(Exception):
    """Raised if an operation has no local version, or the program is not fit for one.

    Attributes:
        illegal: Whether to report also that the operation stayed, as in MLIR's
            conversions; not where Shardy itself ends with a failed check.
        named: Whether the message begins with the name of the operation.
    """

    def __init__(self, message: str, *, illegal: bool = True, named: bool = True) -> None:
        super().__init__(message)
        self.illegal = illegal
        self.named = named


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the pass, under the same names."""

    per_dim_all_gather: bool = False
    combine_multi_dimension_reduce_scatter: bool = False
    enable_rgv3: bool = False
    fix_sub_axis_offsets: bool = True
    fix_wrong_results: bool = True
    replica_count: int = 1
    partition_count: int = 1


def axes_of(sharding: TensorSharding | None, dim: int) -> tuple[AxisRef, ...]:
    """Return the axes of a dimension; none without a sharding."""
    return () if sharding is None else sharding.dims[dim].axes


def is_replicated(sharding: TensorSharding | None) -> bool:
    """Return whether no dimension is sharded."""
    return sharding is None or sharding.is_fully_replicated


class Localization:
    """A module under conversion, with the new values of old ones and queries for conversions.

    Args:
        module: The module.
        options: Options of the pass.
        diagnostics: Receives warnings.

    Attributes:
        options: Options of the pass.
        joint: Operations that combine the partial results of a reduction, by the
            reduction and the replica groups; they get their regions at the end.
    """

    def __init__(self, module: Operation, options: Options, diagnostics: Diagnostics) -> None:
        self.options = options
        self._diagnostics = diagnostics
        self._table = SymbolTable(module)
        self._channel = _last_channel(module)
        self._values: dict[Value, Value] = {}
        self._global: dict[Value, Type] = {}
        self._arguments: dict[Value, TensorSharding] = {}
        self._done: dict[Operation, None] = {}
        self.joint: dict[tuple[Operation, str], Operation] = {}
        for op in module.walk():
            self._collect_arguments(op)

    def _collect_arguments(self, op: Operation) -> None:
        if op.name == "func.func":
            for argument in op.body().arguments if op.regions[0].blocks else ():
                if (sharding := func_arg_sharding(op, argument.index)) is not None:
                    self._arguments[argument] = sharding
        elif op.name == "stablehlo.while":
            # Shardy leaves these global, and then its verifier rejects the loop.
            for region in op.regions:
                for argument in region.blocks[0].arguments:
                    if (sharding := get_sharding(op.results[argument.index])) is not None:
                        self._arguments[argument] = sharding
        elif is_data_flow_op(op):
            shardings = edge_owner_shardings(op, arguments=True)
            self._arguments.update(zip(block_argument_owners(op), shardings, strict=False))

    # Shardings and types

    def sharding(self, value: Value) -> TensorSharding | None:
        """Return the sharding of an old value."""
        if isinstance(value, BlockArgument):
            return self._arguments.get(value)
        return get_sharding(value)

    def mesh(self, *shardings: TensorSharding | None, of: str = "") -> Mesh:
        """Return the mesh of the first sharding that has one.

        Args:
            shardings: The shardings.
            of: End of the message if there is none.
        """
        for sharding in shardings:
            if sharding is not None and (mesh := find_mesh(self._table, sharding.mesh)):
                return mesh
        raise CannotLocalize(f"failed to resolve mesh{of}")

    def local(self, type_: Type, sharding: TensorSharding | None) -> Type:
        """Return the type of a shard."""
        mesh = None if sharding is None else find_mesh(self._table, sharding.mesh)
        if sharding is None or mesh is None or not isinstance(type_, TensorType):
            return type_
        found = local_type(sharding, type_, mesh, allow_non_divisible=False)
        if found is None:
            raise CannotLocalize(
                "Failed to compute local type due to non-divisible sharding: "
                f"{type_} cannot be cut evenly by {sharding}",
                illegal=False,
            )
        return found

    def global_type(self, value: Value) -> TensorType:
        """Return the type of an old value before the conversion."""
        type_ = self._global.get(value, value.type)
        if isinstance(type_, TensorType):
            return type_
        raise CannotLocalize(f"expected a ranked tensor, but got {type_}", illegal=False)

    def local_type(self, value: Value) -> Type:
        """Return the type that the new value for an old one must have."""
        return self.local(self._global.get(value, value.type), self.sharding(value))

    def local_tensor(self, value: Value) -> TensorType:
        """Return ``local_type`` of a tensor."""
        type_ = self.local_type(value)
        if isinstance(type_, TensorType):
            return type_
        raise CannotLocalize(f"expected a ranked tensor, but got {type_}", illegal=False)

    # Values and operations

    def current(self, value: Value) -> Value:
        """Return the new value for an old one, in the type that it must have."""
        new = value
        while (replacement := self._values.get(new)) is not None:
            new = replacement
        wanted = self.local_type(value)
        if new.type == wanted:
            return new
        self._diagnostics.warning(
            location_of(value),
            f"the value has the local type {new.type}, but its sharding asks for {wanted}: a "
            "reshard is missing",
        )
        cast = Operation(_CAST, [new], [wanted], location=location_of(value))
        Place.after_value(new).insert(cast)
        self._values[value] = cast.result
        return cast.result

    def operands(self, op: Operation) -> list[Value]:
        """Return the new values for all operands."""
        return [self.current(value) for value in op.operands]

    def is_done(self, op: Operation) -> bool:
        """Return whether an operation was replaced."""
        return op in self._done

    def replace(self, op: Operation, values: Iterable[Value]) -> None:
        """Map the results to new values; the operation is erased at the end."""
        self._values.update(zip(op.results, values, strict=True))
        self._done[op] = None

    def substitute(self, argument: BlockArgument, value: Value) -> None:
        """Map the argument of a block that will be erased to a value."""
        self._values[argument] = value

    def localize(self, op: Operation) -> Operation:
        """Replace an operation by the same one with local types, and return that."""
        new = Operation(
            op.name,
            self.operands(op),
            [self.local_type(result) for result in op.results],
            properties=op.properties,
            attributes=op.attributes,
            successors=op.successors,
            location=op.location,
        )
        Place.before(op).insert(new)
        self.move_regions(op, new)
        self.replace(op, new.results)
        return new

    def move_regions(self, op: Operation, new: Operation) -> None:
        """Move the regions of an old operation to a new one."""
        for region in op.regions:
            moved = new.add_region()
            moved.take_body(region)
            for block in moved.blocks:
                self.retype(block.arguments)

    def retype(self, arguments: Iterable[BlockArgument]) -> None:
        """Change arguments of blocks to their local types."""
        for argument in arguments:
            local = self.local_type(argument)
            self._global.setdefault(argument, argument.type)
            argument.change_type(local)

    def finish(self) -> None:
        """Erase the replaced operations."""
        for op in self._done:
            op.drop_operands()
        for op in self._done:
            op.erase()
        for (reduction, _), joint in self.joint.items():
            joint.add_region(reduction.regions[0].clone({}))

    def warn(self, op: Operation, message: str) -> None:
        """Emit a warning about an operation."""
        self._diagnostics.warning(op.location, message)

    # Devices

    def device_id(self, build: Builder) -> Value:
        """Return the index of the device that runs the program."""
        return build.device_id(is_replica=self.options.replica_count > 1)

    def by_device(self, build: Builder, values: Sequence[int]) -> Value:
        """Return the entry of a table for the device that runs the program."""
        return build.by_device(values, self.device_id(build))

    def shard_indices(self, place: Operation, mesh: Mesh, axes: Axes) -> list[int]:
        """Return the index of each device's shard of a dimension.

        The digits of a sub-axis count from the major end of the axis: ``"x":(1)2`` of an
        axis of size 4 is the bit of weight 2. Until July 2026 Shardy took them from the
        minor end; without ``fix_sub_axis_offsets`` so does this function.
        """
        if mesh.total_size > _MOST_DEVICES:
            raise CannotLocalize(
                f"a mesh must have at most {_MOST_DEVICES} devices, since tables have an entry "
                f"for each, but got {mesh.total_size}"
            )
        right = _shard_indices(mesh, axes, from_major=True)
        if self.options.fix_sub_axis_offsets:
            return right
        theirs = _shard_indices(mesh, axes, from_major=False)
        if theirs != right:
            self._diagnostics.warning_once(
                "sub-axis-offsets",
                place.location,
                "offsets of shards along sub-axes are computed as Shardy did until July 2026, "
                "which counted the digits of a sub-axis from the wrong end: the program gives "
                "other results than the one with global shapes; fix-sub-axis-offsets=true "
                "computes them right",
            )
        return theirs

    def channel(self) -> ChannelHandle:
        """Return an unused channel."""
        self._channel += 1
        return ChannelHandle(self._channel, _DEVICE_TO_DEVICE)

    def groups(self, axes: Axes, mesh: Mesh, name: str | Mesh) -> tuple[Attribute, int]:
        """Return the replica groups of devices that differ along the axes, and their size."""
        size = total_size(axes, mesh)
        if self.options.enable_rgv3 and not any(axis.sub_axis for axis in axes):
            symbol = SymbolRefAttr(name) if isinstance(name, str) else name
            names = tuple(MeshAxisRef(axis.name) for axis in axes)
            return ReplicaGroupMeshAxes(symbol, ArrayAttr(names)), size
        groups = replica_groups(axes, mesh)
        devices = [device for group in groups for device in group]
        return DenseElementsAttr.of(devices, (len(groups), size)), size


def _shard_indices(mesh: Mesh, axes: Axes, *, from_major: bool) -> list[int]:
    digits = []
    for axis in axes:
        place = mesh.axis_index(axis.name)
        stride = math.prod(other.size for other in mesh.axes[place + 1 :])
        size = axis.size(mesh)
        if axis.sub_axis is not None:
            pre_size = axis.sub_axis.pre_size
            stride *= mesh.axis_size(axis.name) // (pre_size * size) if from_major else pre_size
        digits.append((stride, size))
    numbers = range(mesh.total_size)
    indices = []
    for number in numbers:
        index = 0
        for stride, size in digits:
            index = index * size + number // stride % size
        indices.append(index)
    if not mesh.device_ids:
        return indices
    by_device = dict(zip(mesh.device_ids, indices, strict=True))
    return [by_device[device] for device in numbers]


def _last_channel(module: Operation) -> int:
    handles = (op.attribute("channel_handle") for op in module.walk())
    return max(0, *(h.handle for h in handles if isinstance(h, ChannelHandle)), 0)
