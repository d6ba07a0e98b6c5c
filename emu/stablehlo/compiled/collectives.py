"""Plans of collectives: made once from operations, sent to PEs, and run on a device with its arrays.

``plan_collective`` resolves what attributes say; ``CollectivePlan.run`` communicates. On a device that has
groups of a World the arrays go through :mod:`emu.stablehlo.compiled.group_collectives`; on the threads and the
single device of the reference through ``Device.gather``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeGuard

import numpy as np

from emu.comm.world.group import Group
from emu.mlir.diagnostics import Location, shown_place
from emu.mlir.ir import Operation
from emu.stablehlo.checks import integer
from emu.stablehlo.compiled import group_collectives
from emu.stablehlo.compiled.reducers import Reducer, reducer_of
from emu.stablehlo.reference.communication import (
    ProcessGroups,
    ProcessPairs,
    process_groups,
    process_pairs,
)
from emu.stablehlo.reference.devices import Device
from emu.stablehlo.reference.elementwise import convert
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.values import Array

COLLECTIVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast"),
        *("collective_permute", "partition_id", "reduce_scatter", "replica_id"),
    )
)
"""Operations that can be planned."""


class GroupDevice(Device, Protocol):
    """A device whose processes are PEs of a World."""

    def group(self, members: Sequence[int]) -> Group:
        """Return the group of processes, in their order; this one is among them."""

    def shared_memory(self, nbytes: int) -> Array:
        """Return memory that other processes can use; all processes call alike."""


def has_groups(device: object) -> TypeGuard[GroupDevice]:
    """Return whether a device's processes are PEs of a World; a check by the protocol takes ten times as long."""
    return hasattr(device, "group")


@dataclass(frozen=True, eq=False)
class CollectivePlan:
    """A collective, with all that its attributes say.

    Attributes:
        operation: Name of the operation.
        location: Where it is in the source.
        groups: Which processes communicate; None for those that name none.
        pairs: Sources and targets of a collective_permute.
        dimensions: Dimensions that are gathered, scattered, split and concatenated.
        count: Number of members that an all_to_all wants; 0 for any.
        reducer: What a reduction does.
    """

    operation: str
    location: Location
    groups: ProcessGroups | None = None
    pairs: ProcessPairs | None = None
    dimensions: tuple[int, ...] = ()
    count: int = 0
    reducer: Reducer | None = None

    @property
    def may_reuse_input(self) -> bool:
        """Whether outputs may be the inputs' memory: then fewer bytes go through the caches."""
        return self.operation == "stablehlo.all_reduce"

    @property
    def writes_to_others(self) -> bool:
        """Whether processes may write to each other's outputs."""
        return self.operation in ("stablehlo.all_gather", "stablehlo.all_reduce")

    def run(self, device: Device, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Communicate; every process of the group calls.

        Args:
            device: The process that runs.
            inputs: One array per operand, of any strides.
            outputs: Arrays to fill, one per result. They overlap no input, but where
                ``may_reuse_input`` allows the same memory.

        Raises:
            EvaluationError: The groups do not fit the device.
            CollectiveMismatchError: PEs of a World call different collectives.
        """
        try:
            with np.errstate(all="ignore"):
                _RUNS[self.operation](self, device, inputs, outputs)
        except EvaluationError as error:
            if error.placed:
                raise
            text = f"{shown_place(self.location)}: {self.operation}: {error}"
            raise EvaluationError(text, placed=True) from error.__cause__

    def members(self, device: Device) -> list[int]:
        """Return the processes of a device's group, in order."""
        assert self.groups is not None
        found = _members(self.groups, device.process, device.n_replicas, device.n_partitions)
        if self.count not in (0, len(found)):
            raise EvaluationError(
                f"split_count is {self.count}, but the group has {len(found)} processes"
            )
        return found


@lru_cache(maxsize=4096)
def _members(groups: ProcessGroups, process: int, n_replicas: int, n_partitions: int) -> list[int]:
    return groups.of(process, n_replicas, n_partitions)


def plan_collective(op: Operation) -> CollectivePlan:
    """Return the plan of an operation of ``COLLECTIVES``.

    Raises:
        EvaluationError: Groups or pairs are no numbers, or a region uses values from outside of it.
    """
    name, location = op.name, op.location
    if name == "stablehlo.collective_permute":
        return CollectivePlan(name, location, pairs=process_pairs(op))
    if name in ("stablehlo.partition_id", "stablehlo.replica_id"):
        return CollectivePlan(name, location)
    if name not in COLLECTIVES:
        raise EvaluationError(f"{name} is no collective")
    names = {
        "stablehlo.all_gather": ("all_gather_dim",),
        "stablehlo.all_to_all": ("split_dimension", "concat_dimension"),
        "stablehlo.reduce_scatter": ("scatter_dimension",),
    }
    return CollectivePlan(
        name,
        location,
        groups=process_groups(op),
        dimensions=tuple(integer(op, each) for each in names.get(name, ())),
        count=integer(op, "split_count") if name == "stablehlo.all_to_all" else 0,
        reducer=reducer_of(op) if op.regions else None,
    )


# Runs

_Run = Callable[[CollectivePlan, Device, Sequence[Array], Sequence[Array]], None]


def _run_partition_id(
    plan: CollectivePlan, device: Device, inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    outputs[0][...] = device.process % device.n_partitions


def _run_replica_id(
    plan: CollectivePlan, device: Device, inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    outputs[0][...] = device.process // device.n_partitions


def _run_grouped(
    plan: CollectivePlan, device: Device, inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    """Run a collective of groups: operand by operand."""
    members = plan.members(device)
    for x, out in zip(inputs, outputs, strict=True):
        if len(members) == 1:
            if out is not x:
                out[...] = convert(x, out.dtype)
        elif not x.size:
            continue
        elif has_groups(device):
            _on_group(plan, device.group(members), x, out)
        else:
            out[...] = _of_parts(plan, members.index(device.process), device.gather(x, members))


def _on_group(plan: CollectivePlan, group: Group, x: Array, out: Array) -> None:
    kind, dimensions, reducer = plan.operation, plan.dimensions, plan.reducer
    if kind == "stablehlo.all_gather":
        group_collectives.all_gather(group, x, out, dimensions[0])
    elif kind == "stablehlo.all_to_all":
        group_collectives.all_to_all(group, x, out, *dimensions)
    elif kind == "stablehlo.collective_broadcast":
        group_collectives.broadcast(group, x, out)
    elif kind == "stablehlo.all_reduce":
        assert reducer is not None
        group_collectives.all_reduce(group, x, out, reducer)
    else:
        assert reducer is not None
        group_collectives.reduce_scatter(group, x, out, dimensions[0], reducer)


def _of_parts(plan: CollectivePlan, mine: int, parts: Sequence[Array]) -> Array:
    """Return the result of the member ``mine``, from the inputs of all."""
    kind, dimensions = plan.operation, plan.dimensions
    if kind == "stablehlo.all_gather":
        return np.concatenate(parts, dimensions[0])
    if kind == "stablehlo.collective_broadcast":
        return parts[0]
    if kind == "stablehlo.all_to_all":
        split, concat = dimensions
        return np.concatenate([np.split(p, len(parts), split)[mine] for p in parts], concat)
    assert plan.reducer is not None
    whole = plan.reducer.fold([convert(part, plan.reducer.dtype) for part in parts])
    if kind == "stablehlo.all_reduce":
        return whole
    return np.split(whole, len(parts), dimensions[0])[mine]


def _run_broadcast(
    plan: CollectivePlan, device: Device, inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    assert plan.groups is not None
    if plan.groups.find(device.process, device.n_replicas, device.n_partitions):
        _run_grouped(plan, device, inputs, outputs)
    else:
        for out in outputs:
            out[...] = np.zeros((), out.dtype)


def _run_permute(
    plan: CollectivePlan, device: Device, inputs: Sequence[Array], outputs: Sequence[Array]
) -> None:
    assert plan.pairs is not None
    pairs = plan.pairs.of(device.process, device.n_partitions)
    members = sorted({process for pair in pairs for process in pair})
    for x, out in zip(inputs, outputs, strict=True):
        if device.process not in members:
            out[...] = np.zeros((), out.dtype)
        elif has_groups(device) and x.size:
            places = {process: place for place, process in enumerate(members)}
            numbered = [(places[a], places[b]) for a, b in pairs]
            group_collectives.permute(device.group(members), x, out, numbered)
        else:
            found = device.permute(x, pairs)
            out[...] = np.zeros((), out.dtype) if found is None else found


_RUNS: dict[str, _Run] = {
    "stablehlo.all_gather": _run_grouped,
    "stablehlo.all_reduce": _run_grouped,
    "stablehlo.all_to_all": _run_grouped,
    "stablehlo.collective_broadcast": _run_broadcast,
    "stablehlo.collective_permute": _run_permute,
    "stablehlo.partition_id": _run_partition_id,
    "stablehlo.reduce_scatter": _run_grouped,
    "stablehlo.replica_id": _run_replica_id,
}
