"""Calls of a program whose PEs are on several hosts: they start for each call, and get and return shards.

Each process of an MPI program makes the call, with the same inputs, and each gets all shards of the results.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.launching import launch
from emu.comm.world.current import world
from emu.sdy.execution.device import WorldDevice
from emu.sdy.execution.local_program import LocalProgram
from emu.sdy.execution.resident import PRELOAD
from emu.sdy.execution.trace import Values
from emu.stablehlo.reference.values import Array


def run_over_hosts(
    program: LocalProgram,
    n_replicas: int,
    shards: Sequence[Sequence[Array]],
    options: LaunchOptions,
) -> tuple[list[Values], list[list[Array]]]:
    """Run a program once; return what the probes of each device saw, and the shards of its results.

    Args:
        program: The program.
        n_replicas: Number of replicas.
        shards: The inputs' shards of each device.
        options: Settings of the launch, whose transport reaches other hosts.
    """
    # Pickled one by one: each PE makes arrays of its own only.
    packed = [pickle.dumps(each, pickle.HIGHEST_PROTOCOL) for each in shards]
    chosen = replace(options, preload=(*options.preload, PRELOAD))
    found = launch(_run, len(shards), args=(program, n_replicas, packed), options=chosen)
    return [values for values, _ in found], [outputs for _, outputs in found]


def _run(
    program: LocalProgram, n_replicas: int, packed: Sequence[bytes]
) -> tuple[Values, list[Array]]:
    here = world()
    inputs: list[Array] = pickle.loads(packed[here.my_pe])
    bound = program.bind(WorldDevice(here, n_replicas, here.n_pes // n_replicas))
    outputs = bound.new_outputs()
    return bound(inputs, outputs), outputs
