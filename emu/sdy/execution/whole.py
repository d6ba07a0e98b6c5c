"""The meaning of sdy operations for the whole program, on tensors of their global shapes.

To change how a tensor is sharded changes none of its values, so most operations pass their operand
on. A manual computation is different: its body sees shards. It runs once per device of its mesh, in
threads if the program runs on one device. Whoever imports ``evaluate`` from here has the handlers.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.sdy.dialect.attributes import ManualAxes, Mesh, TensorShardingPerValue
from emu.sdy.dialect.meshes import get_mesh
from emu.sdy.execution.shards import Placement, coordinates
from emu.stablehlo.reference import evaluate as evaluate  # noqa: PLC0414  # with these handlers
from emu.stablehlo.reference.devices import Device, SingleDevice, run_on_threads
from emu.stablehlo.reference.dtypes import constant_array
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.values import Array

_PASSING = (
    *("all_gather", "all_slice", "all_to_all", "all_reduce", "reduce_scatter", "reshard"),
    *("collective_permute", "data_flow_edge", "func_data_flow_edge", "propagation_barrier"),
    *("replicated_to_unreduced", "sharded_to_unreduced", "sharding_constraint"),
)


@handles(*(f"sdy.{name}" for name in _PASSING))
def _pass_on(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return args


@handles("sdy.sharding_group")
def _sharding_group(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return ()


@handles("sdy.constant")
def _constant(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return (constant_array(op.properties["value"]),)


@handles("sdy.named_computation")
def _named_computation(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return scope.run(op.regions[0], args)


@handles("sdy.manual_computation")
def _manual_computation(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    inputs, outputs, mesh = manual_placements(op)
    device = scope.program.device
    if device.n_replicas * device.n_partitions > 1:
        return _on_device(op, args, scope.on(device), inputs, outputs, mesh)
    if not mesh.axes:
        return scope.run(op.regions[0], args)

    def run(thread: Device) -> Sequence[Array]:
        return _on_device(op, args, scope.on(thread), inputs, outputs, mesh)

    return run_on_threads(run, 1, mesh.total_size)[0]


def manual_placements(op: Operation) -> tuple[list[Placement], list[Placement], Mesh]:
    """Return where a manual computation's operands and results are, and its mesh."""
    given, taken = op.properties["in_shardings"], op.properties["out_shardings"]
    axes = op.properties["manual_axes"]
    assert isinstance(given, TensorShardingPerValue)
    assert isinstance(taken, TensorShardingPerValue)
    assert isinstance(axes, ManualAxes)
    shardings = (*given.shardings, *taken.shardings)
    mesh = get_mesh(op, shardings[0].mesh) if shardings else Mesh(())
    types = [value.type for value in (*op.operands, *op.results)]
    found = []
    for type_, sharding in zip(types, shardings, strict=True):
        if not isinstance(type_, TensorType):
            raise EvaluationError(f"a manual computation of {type_} is not evaluated")
        found.append(Placement(type_, sharding, mesh, axes.axes))
    return found[: len(op.operands)], found[len(op.operands) :], mesh


def _on_device(
    op: Operation,
    args: Sequence[Array],
    scope: Scope,
    inputs: Sequence[Placement],
    outputs: Sequence[Placement],
    mesh: Mesh,
) -> Sequence[Array]:
    """Run the body on a device's shards, and gather what its peers along the manual axes have."""
    device = scope.program.device
    shards = [p.shard(x, device.process) for p, x in zip(inputs, args, strict=True)]
    found = scope.run(op.regions[0], shards)
    if isinstance(device, SingleDevice):
        return found
    # Along the free axes devices compute the same thing: only those that differ along manual axes are asked.
    peers = manual_peers(op, mesh, device.process)
    return [p.assemble(device.gather(x, peers), peers) for p, x in zip(outputs, found, strict=True)]


def manual_peers(op: Operation, mesh: Mesh, device: int) -> list[int]:
    """Return the devices that differ from a device along manual axes only, itself included."""
    axes = op.properties["manual_axes"]
    assert isinstance(axes, ManualAxes)
    here = coordinates(mesh, device)
    free = [axis.name for axis in mesh.axes if axis.name not in axes.axes]
    places = {d: coordinates(mesh, d) for d in mesh.device_ids or range(mesh.total_size)}
    return [d for d, place in places.items() if all(place[n] == here[n] for n in free)]
