"""Partitioned programs whose devices are threads, beside the programs with global shapes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import emu.sdy
import emu.sdy.execution.whole  # handlers of sdy operations
from emu.mlir.ir import Operation
from emu.sdy.execution.partitioned import DEFAULT_PIPELINE, main_function, partition
from emu.stablehlo.reference import evaluate
from emu.stablehlo.reference.devices import Device, run_on_threads
from emu.stablehlo.reference.scope import CustomCall
from emu.stablehlo.reference.values import Array


def by_hand(*, halo: bool = True) -> str:
    """Return Shardy's passes one by one, without ours; ``halo`` is whether to exchange halos."""
    option = str(halo).lower()
    return (
        "sdy-insert-explicit-reshards{enable-full-version=true},"
        f"sdy-resolve-permutation-factors{{enable-halo-exchange={option}}},"
        "sdy-reshard-to-collectives,sdy-pad-for-divisibility,sdy-convert-global-to-local"
    )


def whole(
    text: str, *inputs: Array, custom_calls: dict[str, CustomCall] | None = None
) -> list[Array]:
    """Return what a program with global shapes gives."""
    return evaluate(emu.sdy.parse(text), *inputs, custom_calls=custom_calls)


def on_devices(
    text: str,
    *inputs: Array,
    passes: str = DEFAULT_PIPELINE,
    custom_calls: dict[str, CustomCall] | None = None,
) -> list[Array]:
    """Partition a program, run it on a thread per device, and return the whole results.

    Raises an AssertionError where copies of a result are not the same.
    """
    program = partition(emu.sdy.parse(text), passes)
    name = str(main_function(program.local).symbol_name)

    def run(device: Device) -> Sequence[Array]:
        pairs = zip(program.inputs, inputs, strict=True)
        shards = [placement.shard(x, device.process) for placement, x in pairs]
        return evaluate(
            program.local, *shards, function=name, device=device, custom_calls=custom_calls
        )

    per_device = run_on_threads(run, 1, program.n_devices)
    found = []
    for index, placement in enumerate(program.results):
        parts = [results[index] for results in per_device]
        result = placement.assemble(parts, range(program.n_devices))
        for device, part in enumerate(parts):
            np.testing.assert_array_equal(part, placement.shard(result, device))
        found.append(result)
    return found


def operations(text: str, passes: str) -> list[Operation]:
    """Return the operations of a program after passes."""
    module = emu.sdy.parse(text)
    emu.sdy.run_passes(module, passes)
    return list(module.walk())
