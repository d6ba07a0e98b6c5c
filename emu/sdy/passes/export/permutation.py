"""``sdy-resolve-permutation-factors``: handles shards that need elements of other shards.

Along a permutation factor, a device's results depend on elements that other devices
hold: the windows of a convolution cross the borders of shards, a reversed dimension
starts on the last device. Mostly the tensors are resharded so that each device has
the whole dimension. A reverse can do better, since whole shards change places: the
devices reverse their own elements, and a mesh with its devices in the opposite order
describes where the shards are.

If the dimension is not sharded evenly, the last shards lack elements, whereas in the
reversed tensor the first ones would. So the tensor is padded to even shards, and its
elements are shifted up by the amount of padding: each device sends its last elements
to the next one (a halo exchange). The reversed tensor then has the padding at its
end, where it is removed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from emu.mlir.attributes import DenseElementsAttr
from emu.mlir.diagnostics import Location, PassFailed
from emu.mlir.ir import Block, Operation, Value
from emu.mlir.registry import definition
from emu.mlir.symbols import SymbolTable
from emu.mlir.types import TensorType, is_static_tensor
from emu.sdy.dialect.attributes import AxisRef, Mesh, OpShardingRule, TensorSharding
from emu.sdy.dialect.builders import (
    make_manual_computation,
    make_mesh,
    make_reshard,
    make_return,
)
from emu.sdy.dialect.meshes import common_mesh_or_name, get_mesh
from emu.sdy.dialect.shardings import get_sharding, get_shardings, set_sharding
from emu.sdy.passes.base import ModulePass, Session
from emu.sdy.passes.builder import Builder, tensor
from emu.sdy.passes.export.reshards.insertion import Rewrite
from emu.sdy.passes.insertion_point import Place, replace_other_uses
from emu.sdy.propagation.projection import project
from emu.sdy.rules import get_or_create
from emu.stablehlo.syntax import ints


def is_local_slice_dim(op: Operation, dim: int, sharding: TensorSharding, mesh: Mesh) -> bool:
    """Return whether a slice along a dimension leaves each element on its device.

    That is so if the dimension is not sharded, or if only its end is cut off and the
    size of shards stays the same.

    Args:
        op: The ``stablehlo.slice``.
        dim: The dimension.
        sharding: The operand's sharding.
        mesh: The sharding's mesh.
    """
    count = sharding.dims[dim].sharded_size(mesh)
    if count <= 1:
        return True
    starts, strides = ints(op.properties["start_indices"]), ints(op.properties["strides"])
    if starts[dim] != 0 or strides[dim] != 1:
        return False
    size, kept = (tensor(value).shape[dim] for value in (op.operands[0], op.result))
    return size is not None and kept is not None and -(-size // count) == -(-kept // count)


def _is_whole(sharding: TensorSharding | None) -> bool:
    return sharding is None or sharding.is_fully_replicated


class ResolvePermutationFactors(ModulePass, name="sdy-resolve-permutation-factors"):
    """Replace operations with permutation factors by ones that work on shards.

    Attributes:
        enable_halo_exchange: Whether to reverse shard by shard where possible.
            Otherwise permutation factors are replicated by reshards.
    """

    enable_halo_exchange: bool = True

    def run(self, op: Operation, session: Session) -> None:
        """Visit inner operations before outer ones."""
        resolver = _Resolver(op, session)
        for each in op.walk(post_order=True):
            if each.dialect != "stablehlo" or definition(each.name).terminator:
                continue
            rule = get_or_create(each, set_on_op=False, diagnostics=session.diagnostics)
            if rule is None or rule.is_custom or not rule.permutation:
                continue
            reverses = self.enable_halo_exchange and each.name == "stablehlo.reverse"
            if not reverses or not resolver.reverse(each):
                resolver.replicate(each, rule)


class _Resolver:
    def __init__(self, module: Operation, session: Session) -> None:
        self._module = module
        self._session = session
        self._table = SymbolTable(module)
        self._names: dict[Mesh, str] = {}
        for each in module.body():
            mesh = each.properties.get("mesh")
            if isinstance(mesh, Mesh) and each.symbol_name is not None:
                self._names[mesh] = each.symbol_name

    def _fail(self, op: Operation, message: str) -> PassFailed:
        self._session.diagnostics.error(op.location, message)
        return PassFailed(message)

    # By reshards

    def replicate(self, op: Operation, rule: OpShardingRule) -> None:
        """Reshard so that no permutation factor is sharded."""
        ins, outs = get_shardings(op.operands), get_shardings(op.results)
        name = common_mesh_or_name((*ins, *outs), self._table, ignore_device_ids=True)
        if name is None:
            return
        if isinstance(name, Mesh):
            raise self._inlined(op)
        mesh = get_mesh(self._table, name)
        if mesh.is_maximal:
            return
        projection = project(rule, ins, outs, mesh, closed_if_missing=True)
        changed = [False] * (len(ins) + len(outs))
        for factor in rule.permutation:
            if op.name == "stablehlo.slice" and self._slices_locally(op, factor, mesh):
                continue
            updated = projection.update(factor, ())
            changed = [a or b for a, b in zip(changed, updated, strict=True)]
        if any(changed):
            Rewrite(op, rule, projection, name, mesh, self._table).insert(ins, outs, changed)

    def _inlined(self, op: Operation) -> PassFailed:
        return self._fail(op, "a sharding has its mesh inlined: run sdy-lift-inlined-meshes first")

    def _slices_locally(self, op: Operation, factor: int, mesh: Mesh) -> bool:
        # The factors of a slice are its dimensions.
        sharding, result = get_sharding(op.operands[0]), get_sharding(op.result)
        if _is_whole(sharding) and _is_whole(result):
            return True
        if sharding is None or sharding != result:
            raise self._fail(
                op,
                "the operand and the result of a slice must have the same sharding: run "
                "sdy-insert-explicit-reshards first",
            )
        return is_local_slice_dim(op, factor, sharding, mesh)

    # By reversing the devices

    def reverse(self, op: Operation) -> bool:
        """Reverse shard by shard.

        Returns:
            Whether the operation is done. False if the padding would extend to more
            than one device.
        """
        operand = op.operands[0]
        sharding, type_ = get_sharding(operand), operand.type
        if sharding is None or sharding.is_fully_replicated or not is_static_tensor(type_):
            return True
        mesh = get_mesh(self._table, sharding.mesh)
        if mesh.is_maximal:
            return True
        plan = _plan_reverse(op, sharding, mesh, type_)
        if plan is None:
            return False
        if not plan.axes:
            return True
        if isinstance(sharding.mesh, Mesh):
            raise self._inlined(op)
        place = Place.before(op)
        value = operand
        if plan.manual_axes:
            value = _move_padding_to_front(op, sharding, mesh, plan)
        name = self._mesh_name(_reversed_mesh(mesh, plan.axes), sharding.mesh, op)
        reversed_sharding = TensorSharding(
            name, sharding.dims, sharding.replicated_axes, sharding.unreduced_axes
        )
        op.set_operand(0, place.insert(make_reshard(value, reversed_sharding, op.location)).result)
        set_sharding(op.result, sharding)
        if plan.manual_axes:
            op.result.change_type(value.type)
            _trim(op, type_, sharding)
        return True

    def _mesh_name(self, mesh: Mesh, base: str, op: Operation) -> str:
        """Return the name of a mesh's operation; insert one at the front if there is none."""
        name = self._names.get(mesh)
        if name is None:
            new = make_mesh(f"{base}_reversed", mesh, op.location)
            name = self._names[mesh] = self._table.insert(new, self._module.body().first)
        return name


@dataclass(frozen=True, slots=True)
class _Plan:
    """A plan for reversing shard by shard.

    Attributes:
        axes: Axes along which reversed dimensions are sharded.
        manual_axes: Names of the axes along which one is sharded unevenly.
        shape: The shape with all of these dimensions padded.
    """

    axes: tuple[AxisRef, ...]
    manual_axes: frozenset[str]
    shape: tuple[int, ...]


def _plan_reverse(
    op: Operation, sharding: TensorSharding, mesh: Mesh, type_: TensorType
) -> _Plan | None:
    """Return the plan; None if the padding does not fit into the last shard."""
    reversed_dims = ints(op.properties["dimensions"])
    shape = list(type_.static_shape)
    axes: list[AxisRef] = []
    manual: set[str] = set()
    for dim, dim_sharding in enumerate(sharding.dims):
        count = dim_sharding.sharded_size(mesh)
        if dim not in reversed_dims or count <= 1:
            continue
        axes += dim_sharding.axes
        size = shape[dim]
        if size % count:
            manual.update(axis.name for axis in dim_sharding.axes)
            shard = -(-size // count)
            shape[dim] = shard * count
            if shape[dim] - size > shard:
                return None
    return _Plan(tuple(axes), frozenset(manual), tuple(shape))


def _trim(op: Operation, type_: TensorType, sharding: TensorSharding) -> None:
    """Remove the padding from the result of ``op``."""
    shape = type_.static_shape
    trimmed = Builder.after(op).slice(op.result, [0] * len(shape), shape)
    set_sharding(trimmed, sharding)
    replace_other_uses(op.result, trimmed)


# Coordinates in a mesh


def _coordinates(device: int, mesh: Mesh) -> list[int]:
    """Return the coordinate along each axis of the device at a position in the mesh."""
    found = []
    for axis in reversed(mesh.axes):
        device, coordinate = divmod(device, axis.size)
        found.append(coordinate)
    return found[::-1]


def _position(coordinates: Iterable[int], mesh: Mesh) -> int:
    position = 0
    for coordinate, axis in zip(coordinates, mesh.axes, strict=True):
        position = position * axis.size + coordinate
    return position


def _component(axis: AxisRef, mesh: Mesh) -> tuple[int, int, int]:
    """Return the index of an axis in the mesh, and the size and stride of the sub-axis in it."""
    index, size = mesh.axis_index(axis.name), axis.size(mesh)
    pre = 1 if axis.sub_axis is None else axis.sub_axis.pre_size
    return index, size, mesh.axes[index].size // (pre * size)


def _reversed_mesh(mesh: Mesh, axes: Sequence[AxisRef]) -> Mesh:
    """Return the mesh with its devices in the opposite order along some axes."""
    devices = mesh.device_ids or tuple(range(mesh.total_size))
    components = [_component(axis, mesh) for axis in axes]
    found = []
    for position in range(mesh.total_size):
        old = _coordinates(position, mesh)
        new = list(old)
        for index, size, stride in components:
            coordinate = old[index] // stride % size
            new[index] += (size - 1 - 2 * coordinate) * stride
        found.append(devices[_position(new, mesh)])
    return Mesh(mesh.axes, tuple(found))


def _next_shards(mesh: Mesh, axes: Sequence[AxisRef]) -> list[tuple[int, int]]:
    """Return pairs of positions in the mesh: of each device and of the holder of the next shard.

    Args:
        mesh: The mesh.
        axes: The axes of the dimension, major to minor.
    """
    components = [_component(axis, mesh) for axis in reversed(axes)]
    pairs = []
    for position in range(mesh.total_size):
        coordinates = _coordinates(position, mesh)
        for index, size, stride in components:
            if coordinates[index] // stride % size + 1 < size:
                coordinates[index] += stride
                pairs.append((position, _position(coordinates, mesh)))
                break
            coordinates[index] -= (size - 1) * stride
    return pairs


# Halo exchange


def _move_padding_to_front(
    op: Operation, sharding: TensorSharding, mesh: Mesh, plan: _Plan
) -> Value:
    """Return the operand of a reverse, padded in front by a manual computation."""
    build, location, operand = Builder.before(op), op.location, op.operands[0]
    type_ = tensor(operand)
    padded = build.pad_high(operand, build.zero(type_.element), plan.shape)
    set_sharding(padded, sharding)
    manual = Mesh(tuple(axis for axis in mesh.axes if axis.name in plan.manual_axes))
    local = []
    for size, dim_sharding in zip(plan.shape, sharding.dims, strict=True):
        sizes = [axis.size(mesh) for axis in dim_sharding.axes if axis.name in plan.manual_axes]
        local.append(size // math.prod(sizes))
    body = Block()
    value: Value = body.add_argument(TensorType(tuple(local), type_.element), location)
    exchange = _Exchange(body, sharding, manual, location)
    for dim, (new, old) in enumerate(zip(plan.shape, type_.static_shape, strict=True)):
        if new > old:
            value = exchange.shift(value, dim, new - old)
    body.append(make_return([value], location))
    names = [axis.name for axis in manual.axes]
    return (
        Place.before(op)
        .insert(
            make_manual_computation(
                [padded], [padded.type], [sharding], [sharding], names, body, location
            )
        )
        .result
    )


class _Exchange:
    """A builder of halo exchanges in the body of a manual computation."""

    def __init__(
        self, body: Block, sharding: TensorSharding, manual: Mesh, location: Location
    ) -> None:
        self._body = body
        self._build = Builder(self._insert, location)
        self._sharding = sharding
        self._manual = manual
        self._inside = sharding.with_dims(
            [
                type(dim)(
                    tuple(axis for axis in dim.axes if not manual.has_axis(axis.name)),
                    dim.is_closed,
                    dim.priority,
                )
                for dim in sharding.dims
            ]
        )

    def _insert(self, op: Operation) -> None:
        self._body.append(op)
        set_sharding(op.result, self._inside)

    def shift(self, value: Value, dim: int, count: int) -> Value:
        """Shift elements up along a dimension, across the borders of shards.

        Args:
            value: The shard.
            dim: The dimension.
            count: Distance in elements, at most the size of a shard.
        """
        shape = tensor(value).static_shape
        kept = shape[dim] - count
        starts, limits = [0] * len(shape), list(shape)
        sent = value
        if kept:
            starts[dim] = kept
            sent = self._build.slice(value, starts, shape)
        received = self._send_to_next(sent, dim)
        if not kept:
            return received
        limits[dim] = kept
        rest = self._build.slice(value, [0] * len(shape), limits)
        return self._build.concatenate([received, rest], shape, dim)

    def _send_to_next(self, value: Value, dim: int) -> Value:
        axes = [a for a in self._sharding.dims[dim].axes if self._manual.has_axis(a.name)]
        pairs = _next_shards(self._manual, axes)
        numbers = [number for pair in pairs for number in pair]
        properties = {"source_target_pairs": DenseElementsAttr.of(numbers, (len(pairs), 2))}
        return self._build.op("collective_permute", [value], [value.type], properties).result
