"""Predictions compared with runs: the bytes that messages really carry, collective by collective.

Each program runs on threads, one per device, and each collective that a device calls is recorded with
what it brings. The algorithm that the prediction names is then carried out by messages, with these very
arrays: the results must be those of the run, and bytes, steps and numbers of runs those predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sdy_messages as messages

import emu.sdy
from emu.mlir.ir import Block, Operation
from emu.sdy.costs.analysis import Analysis, Works, analyse
from emu.sdy.costs.data import Collective
from emu.sdy.execution.partitioned import partition
from emu.stablehlo.checks import integer
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.devices import Device, run_on_threads

PROGRAMS = Path(__file__).parent / "programs"
ALL = sorted(path.stem for path in PROGRAMS.glob("*.mlir"))
Array = np.ndarray[Any, Any]


class Counting:
    """A device that keeps what collectives bring, and an observer that knows whose they are."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.process = device.process
        self.n_replicas, self.n_partitions = device.n_replicas, device.n_partitions
        self.pending: list[tuple[Array, Any]] = []
        self.calls: dict[Operation, list[tuple[list[tuple[Array, Any]], list[Array]]]] = {}

    def gather(self, value: Array, group: Sequence[int]) -> list[Array]:
        self.pending.append((value.copy(), tuple(group)))
        return self.device.gather(value, group)

    def permute(self, value: Array, pairs: Sequence[tuple[int, int]]) -> Array | None:
        self.pending.append((value.copy(), tuple(pairs)))
        return self.device.permute(value, pairs)

    def enter(self, block: Block, arguments: Sequence[Array]) -> None:
        pass

    def leave(self, op: Operation, results: Sequence[Array]) -> None:
        if self.pending:
            self.calls.setdefault(op, []).append((self.pending, list(results)))
            self.pending = []


def run(analysis: Analysis, text: str) -> list[Counting]:
    """Run a program of one device on all devices, from random inputs."""
    partitioned = partition(emu.sdy.parse(text))
    rng = np.random.default_rng(0)
    wholes = [
        rng.normal(size=each.type.static_shape).astype(np.float32) for each in partitioned.inputs
    ]

    def one(device: Device) -> Counting:
        counting = Counting(device)
        shards = [
            each.shard(x, device.process)
            for each, x in zip(partitioned.inputs, wholes, strict=True)
        ]
        evaluate(analysis.module, *shards, function="main", device=counting, observer=counting)
        return counting

    return run_on_threads(one, 1, analysis.n_devices)


@pytest.mark.parametrize("link", ["450GB/s,0us", "450GB/s,2us", "inf,1ms"])
@pytest.mark.parametrize("name", ALL)
def test_messages_carry_the_predicted_bytes(name: str, link: str) -> None:
    text = (PROGRAMS / f"{name}.mlir").read_text()
    analysis = analyse(text, link=link)
    collectives = analysis.collectives(analysis.runs(Works()))
    assert tuple(collectives.values()) == emu.sdy.cost(text, link=link).collectives
    devices = run(analysis, text)
    called = {op for device in devices for op in device.calls}
    assert called == set(collectives)
    for op, predicted in collectives.items():
        for device in devices:
            assert len(device.calls[op]) == predicted.runs
        for turn in range(predicted.runs):
            check(op, predicted, [device.calls[op][turn] for device in devices])


def check(op: Operation, predicted: Collective, calls: list[Any]) -> None:
    """Carry a collective out in each group, and compare it with the run and the prediction."""
    brought = [[value for value, _ in pending] for pending, _ in calls]
    results = [found for _, found in calls]
    assert all(sum(v.nbytes for v in each) == predicted.payload_bytes for each in brought)
    groups = dict.fromkeys(where for pending, _ in calls for _, where in pending)
    sent, steps = [], []
    for group in groups:
        if predicted.kind == "collective_permute":
            network = messages.Network(len(calls))
            moved = {a: (b, brought[a][0]) for a, b in group if a != b}
            for target, array in network.step(moved).items():
                np.testing.assert_array_equal(array, results[target][0])
        else:
            network = messages.Network(len(group))
            found = carried_out(
                network, op, predicted.algorithm, [brought[member] for member in group]
            )
            for member, each in zip(group, found, strict=True):
                for mine, theirs in zip(each, results[member], strict=True):
                    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
        sent.append(max(network.sent))
        steps.append(network.steps)
    assert max(sent) == predicted.bytes_sent, (predicted.kind, predicted.algorithm)
    assert max(steps) == predicted.steps


def carried_out(
    network: messages.Network, op: Operation, algorithm: str, brought: list[list[Array]]
) -> list[list[Array]]:
    """Return the results of each member of a group, of a collective with one operand."""
    arrays = [each[0] for each in brought]
    size, is_ring = network.size, algorithm == "ring"
    if op.name == "stablehlo.all_gather":
        gather = messages.ring_all_gather if is_ring else messages.doubling_all_gather
        dim = integer(op, "all_gather_dim")
        return [[np.concatenate(parts, dim)] for parts in gather(network, arrays)]
    if op.name == "stablehlo.all_reduce":
        assert op.regions[0].blocks[0].first.name == "stablehlo.add"
        reduce = messages.ring_all_reduce if is_ring else messages.doubling_all_reduce
        return [[found] for found in reduce(network, arrays, np.add)]
    if op.name == "stablehlo.reduce_scatter":
        dim = integer(op, "scatter_dimension")
        chunks = [np.split(array, size, dim) for array in arrays]
        scatter = messages.ring_reduce_scatter if is_ring else messages.halving_reduce_scatter
        owned = dict(scatter(network, chunks, np.add))
        return [[owned[member]] for member in range(size)]
    assert op.name == "stablehlo.all_to_all"
    assert algorithm == "pairwise exchange"
    split, concat = integer(op, "split_dimension"), integer(op, "concat_dimension")
    chunks = [np.split(array, size, split) for array in arrays]
    return [
        [np.concatenate(parts, concat)] for parts in messages.pairwise_all_to_all(network, chunks)
    ]


def test_the_programs_have_every_kind_and_algorithm() -> None:
    found = {
        (each.kind, each.algorithm)
        for name in ALL
        for link in ("450GB/s,0us", "inf,1ms")
        for each in emu.sdy.cost((PROGRAMS / f"{name}.mlir").read_text(), link=link).collectives
    }
    assert {
        ("all_reduce", "ring"),
        ("all_reduce", "recursive doubling"),
        ("all_gather", "ring"),
        ("all_gather", "recursive doubling"),
        ("reduce_scatter", "ring"),
        ("all_to_all", "pairwise exchange"),
        ("collective_permute", "direct"),
    } <= found
