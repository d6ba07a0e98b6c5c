"""Collectives: what a device sends to others and takes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from emu.mlir.attributes import Attribute, DenseElementsAttr
from emu.mlir.ir import Operation
from emu.stablehlo.attributes import ChannelHandle
from emu.stablehlo.checks import integer
from emu.stablehlo.communication import root_operand
from emu.stablehlo.reference.devices import Device
from emu.stablehlo.reference.dtypes import constant_array, result_dtype
from emu.stablehlo.reference.elementwise import convert
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.reduction import fold
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.values import Array


@handles("stablehlo.partition_id")
def _partition_id(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device = scope.program.device
    return (np.asarray(device.process % device.n_partitions, np.uint32),)


@handles("stablehlo.replica_id")
def _replica_id(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device = scope.program.device
    return (np.asarray(device.process // device.n_partitions, np.uint32),)


# Groups


def _rows(attribute: Attribute | None) -> list[list[int]]:
    if not isinstance(attribute, DenseElementsAttr):
        raise EvaluationError(f"groups must be numbers, but are {str(attribute)[:60]}")
    table = constant_array(attribute)
    if table.ndim != 2:
        raise EvaluationError(f"groups must be a matrix, but have {table.ndim} dimensions")
    # Shorter groups are filled up with -1.
    return [[int(v) for v in row if int(v) >= 0] for row in table]


def _channel(op: Operation) -> int:
    handle = op.properties.get("channel_handle")
    return handle.handle if isinstance(handle, ChannelHandle) else 0


@dataclass(frozen=True, slots=True)
class ProcessGroups:
    """Which processes communicate with each other, for any number of replicas and partitions.

    Attributes:
        rows: The operation's groups, as numbers.
        members: What the numbers are: "processes", "replicas" (each partition communicates by itself),
            "partitions" (each replica by itself) or "all partitions" (of the replicas named).
    """

    rows: tuple[tuple[int, ...], ...]
    members: str

    def of(self, process: int, n_replicas: int, n_partitions: int) -> list[int]:
        """Return the processes of a process's group, in order.

        Raises:
            EvaluationError: The process is not in exactly one group.
        """
        found = self.find(process, n_replicas, n_partitions)
        if len(found) != 1:
            raise EvaluationError(f"process {process} is in {len(found)} groups, not in one")
        return found[0]

    def find(self, process: int, n_replicas: int, n_partitions: int) -> list[list[int]]:
        """Return all groups that a process is in."""
        replica, partition = divmod(process, n_partitions)
        partitions = range(n_partitions)
        rows: Sequence[Sequence[int]] = self.rows
        if self.members == "processes":
            groups = [list(row) for row in rows]
        elif self.members == "replicas":
            rows = rows or [range(n_replicas)]
            groups = [[r * n_partitions + partition for r in row] for row in rows]
        elif self.members == "partitions":
            groups = [[replica * n_partitions + p for p in row] for row in rows]
        else:
            groups = [[r * n_partitions + p for p in partitions for r in row] for row in rows]
        return [group for group in groups if process in group]


def process_groups(op: Operation) -> ProcessGroups:
    """Return the groups of a collective.

    Without a channel groups hold replicas, and each partition communicates by itself; with one
    they hold replicas of which all partitions take part, or with ``use_global_device_ids``
    processes. The groups of all_to_all and collective_broadcast with a channel hold partitions.
    """
    if "use_global_device_ids" in op.properties:
        members = "processes"
    elif _channel(op) <= 0:
        members = "replicas"
    elif op.name in ("stablehlo.all_to_all", "stablehlo.collective_broadcast"):
        members = "partitions"
    else:
        members = "all partitions"
    rows = _rows(op.properties.get("replica_groups"))
    return ProcessGroups(tuple(map(tuple, rows)), members)


def process_group(op: Operation, device: Device) -> list[int]:
    """Return the processes of this device's group, in order."""
    return process_groups(op).of(device.process, device.n_replicas, device.n_partitions)


@dataclass(frozen=True, slots=True)
class ProcessPairs:
    """Sources and targets of a collective_permute.

    Attributes:
        rows: The operation's pairs.
        are_partitions: Whether the numbers are partitions; else they are replicas.
    """

    rows: tuple[tuple[int, ...], ...]
    are_partitions: bool

    def of(self, process: int, n_partitions: int) -> list[tuple[int, int]]:
        """Return the pairs of processes among which a process may be."""
        replica, partition = divmod(process, n_partitions)
        if self.are_partitions:
            return [(replica * n_partitions + a, replica * n_partitions + b) for a, b in self.rows]
        return [(a * n_partitions + partition, b * n_partitions + partition) for a, b in self.rows]


def process_pairs(op: Operation) -> ProcessPairs:
    """Return the pairs of a collective_permute.

    Raises:
        EvaluationError: A source or a target is named twice.
    """
    rows = _rows(op.properties.get("source_target_pairs"))
    for name, ends in zip(("source", "target"), zip(*rows, strict=True), strict=False):
        if len(set(ends)) < len(ends):
            raise EvaluationError(f"source_target_pairs name a {name} twice")
    return ProcessPairs(tuple(map(tuple, rows)), _channel(op) > 0)


# Operations


@handles("stablehlo.all_gather")
def _all_gather(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device, dimension = scope.program.device, integer(op, "all_gather_dim")
    group = process_group(op, device)
    return [np.concatenate(device.gather(x, group), dimension) for x in args]


@handles("stablehlo.all_reduce")
def _all_reduce(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    return [_reduced(op, x, scope) for x in args]


def _reduced(op: Operation, x: Array, scope: Scope) -> Array:
    """Reduce an array with the region over the group, in the group's order."""
    device = scope.program.device
    parameter = op.regions[0].blocks[0].arguments[0].type
    dtype = result_dtype(parameter)
    parts = [convert(part, dtype) for part in device.gather(x, process_group(op, device))]
    if len(parts) == 1:
        return parts[0]
    (found,) = fold(op.regions[0], [parts[0]], [np.stack(parts[1:])], scope)
    return found


@handles("stablehlo.reduce_scatter")
def _reduce_scatter(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device, dimension = scope.program.device, integer(op, "scatter_dimension")
    group = process_group(op, device)
    whole = _reduced(op, args[0], scope)
    return (np.split(whole, len(group), dimension)[group.index(device.process)],)


@handles("stablehlo.all_to_all")
def _all_to_all(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device, group = scope.program.device, process_group(op, scope.program.device)
    split, concat = integer(op, "split_dimension"), integer(op, "concat_dimension")
    count = integer(op, "split_count")
    if count != len(group):
        raise EvaluationError(f"split_count is {count}, but the group has {len(group)} processes")
    mine = group.index(device.process)
    return [
        np.concatenate(
            [np.split(part, count, split)[mine] for part in device.gather(x, group)], concat
        )
        for x in args
    ]


@handles("stablehlo.collective_permute")
def _collective_permute(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device = scope.program.device
    pairs = process_pairs(op).of(device.process, device.n_partitions)
    found = device.permute(args[0], pairs)
    return (np.zeros_like(args[0]) if found is None else found,)


@handles("stablehlo.collective_broadcast")
def _collective_broadcast(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device, (data, roots) = scope.program.device, _rooted(op, args)
    found = process_groups(op).find(device.process, device.n_replicas, device.n_partitions)
    if not found:
        return [np.zeros_like(each) for each in data]
    group = process_group(op, device)
    _check_roots(roots, group)
    return [device.gather(x, group)[root] for x, root in zip(data, roots, strict=True)]


@handles("stablehlo.collective_reduce")
def _collective_reduce(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device, (data, roots) = scope.program.device, _rooted(op, args)
    group = process_group(op, device)
    _check_roots(roots, group)
    found = [_reduced(op, x, scope) for x in data]
    # Only a group's root has the result.
    return [
        x if group[root] == device.process else np.zeros_like(x)
        for x, root in zip(found, roots, strict=True)
    ]


def _rooted(op: Operation, args: Sequence[Array]) -> tuple[Sequence[Array], list[int]]:
    """Return the data of a collective with roots, and the place of each one's root in the group."""
    last = root_operand(op)
    if last is None:
        return args, [0] * len(args)
    return args[:last], [int(root) for root in args[last]]


def _check_roots(roots: Sequence[int], group: Sequence[int]) -> None:
    for root in roots:
        if not 0 <= root < len(group):
            raise EvaluationError(f"root {root} is not in a group of {len(group)} processes")


@handles("stablehlo.cross-replica-sum")
def _cross_replica_sum(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    device = scope.program.device
    parts = device.gather(args[0], process_group(op, device))
    return (np.asarray(sum(parts[1:], parts[0])).astype(args[0].dtype),)
