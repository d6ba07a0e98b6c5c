"""Runs of a program of one device on threads, in which everything that collectives bring is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import emu.sdy
from emu.mlir.ir import Block, Operation
from emu.mlir.types import TensorType
from emu.sdy.costs.analysis import Analysis
from emu.sdy.execution.partitioned import partition
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.devices import Device, run_on_threads
from emu.stablehlo.reference.dtypes import dtype_of

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


def counted_run(analysis: Analysis, text: str) -> list[Counting]:
    """Run a program of one device on all devices, from random inputs."""
    partitioned = partition(emu.sdy.parse(text))
    rng = np.random.default_rng(0)
    wholes = [_random(rng, each.type) for each in partitioned.inputs]
    function = analysis.main.symbol_name or "main"

    def one(device: Device) -> Counting:
        counting = Counting(device)
        shards = [
            each.shard(x, device.process)
            for each, x in zip(partitioned.inputs, wholes, strict=True)
        ]
        evaluate(analysis.module, *shards, function=function, device=counting, observer=counting)
        return counting

    return run_on_threads(one, 1, analysis.n_devices)


def _random(rng: np.random.Generator, type_: TensorType) -> Array:
    dtype, shape = dtype_of(type_.element), type_.static_shape
    if dtype.kind in "biu":
        return np.asarray(rng.integers(0, 2, shape)).astype(dtype)
    return np.asarray(rng.normal(size=shape)).astype(dtype)
