"""``emu run torchrun ..``: the processes that ``torchrun`` would start are PEs of one launch instead."""

from __future__ import annotations

import argparse
from pathlib import Path

_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_OF_DEVICES = ("auto", "gpu", "npu")


def is_torchrun(options: argparse.Namespace) -> bool:
    """Return whether torchrun is what ``emu run`` is to run."""
    if options.module:
        return options.module[0] in _MODULES
    return options.script != "-" and Path(options.script).name == "torchrun"


def as_run(options: argparse.Namespace, n_devices: int, n_cores: int) -> argparse.Namespace:
    """Return the options of ``emu run`` that have the meaning of a command line of torchrun's.

    Restarts, rendezvous and logs have none: one launch starts all processes, once.

    Args:
        options: Those that were given, with torchrun as the script or module.
        n_devices: What ``--nproc-per-node auto``, ``gpu`` and ``npu`` stand for.
        n_cores: What ``--nproc-per-node cpu`` stands for.

    Raises:
        ArgumentError: The command line asks for several nodes, for a program that is not Python's, or for another
            number of processes than ``-n``.
    """
    from torch.distributed.run import get_args_parser

    from emu.comm.errors import ArgumentError

    if options.module and options.module[0] == _MODULES[1]:
        raise ArgumentError(
            f"module must be {_MODULES[0]}, but got {_MODULES[1]}, which tells each process its rank as an argument"
        )
    words = options.module[1:] if options.module else options.arguments
    given = get_args_parser().parse_args(words)
    if given.nnodes not in ("1", "1:1"):
        raise ArgumentError(f"nnodes must be 1 on one machine, but got {given.nnodes!r}")
    if given.no_python:
        raise ArgumentError("no_python must not be given: PEs run Python")
    n_pes = _processes(given.nproc_per_node, n_devices, n_cores)
    if options.n_pes not in (None, n_pes):
        raise ArgumentError(
            f"-n must be {n_pes}, as nproc_per_node, or not be given, but got {options.n_pes}"
        )
    program = [given.training_script, *given.training_script_args]
    chosen = argparse.Namespace(**vars(options))
    chosen.n_pes = n_pes
    chosen.module = program if given.module else None
    chosen.script, chosen.arguments = (None, []) if given.module else (program[0], program[1:])
    return chosen


def _processes(given: str, n_devices: int, n_cores: int) -> int:
    from emu.comm.errors import ArgumentError

    if given in _OF_DEVICES:
        return n_devices
    if given == "cpu":
        return n_cores
    try:
        return int(given)
    except ValueError:
        raise ArgumentError(
            f"nproc_per_node must be a number, cpu, {', '.join(_OF_DEVICES)}, but got {given!r}"
        ) from None
