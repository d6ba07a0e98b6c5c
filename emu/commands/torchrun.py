"""``emu run torchrun ..``: the processes that ``torchrun`` would start are PEs of one launch instead; on several nodes, of a World over hosts."""

from __future__ import annotations

import argparse
from pathlib import Path

from emu.commands.torchrun_nodes import Nodes

_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_OF_DEVICES = ("auto", "gpu", "npu")
_MOST_NODES = 4096
_STATIC_PORT, _C10D_PORT, _LAST_PORT = 29500, 29400, 65535
"""Ports of torchrun's ways to meet, where none is given."""
PATIENCE_S, _MOST_PATIENCE_S = 600.0, 86_400.0
"""Seconds until all nodes must have come."""


def is_torchrun(options: argparse.Namespace) -> bool:
    """Return whether torchrun is what ``emu run`` is to run."""
    if options.module:
        return options.module[0] in _MODULES
    return options.script != "-" and Path(options.script).name == "torchrun"


def as_run(options: argparse.Namespace, n_devices: int, n_cores: int) -> argparse.Namespace:
    """Return the options of ``emu run`` that have the meaning of a command line of torchrun's.

    Restarts and logs have none: one launch starts all processes, once. With several nodes ``pes_per_node`` is set, and ``nodes`` says how they meet.

    Args:
        options: Those that were given, with torchrun as the script or module.
        n_devices: What ``--nproc-per-node auto``, ``gpu`` and ``npu`` stand for.
        n_cores: What ``--nproc-per-node cpu`` stands for.

    Raises:
        ArgumentError: The command line asks for a number of nodes that may change, for a program that is not Python's, or for another
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
    nodes = _nodes(given)
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
    chosen.nodes = nodes
    if nodes is not None:
        _check_alone(options)
        chosen.n_pes, chosen.pes_per_node = None, n_pes
    chosen.module = program if given.module else None
    chosen.script, chosen.arguments = (None, []) if given.module else (program[0], program[1:])
    return chosen


def words_of(options: argparse.Namespace, chosen: argparse.Namespace) -> list[str]:
    """Return the words of ``emu run`` that mean the same on one of several hosts.

    Args:
        options: Those that were given, with torchrun as the script or module.
        chosen: What :func:`as_run` made of them.
    """
    behind = options.module or [options.script, *options.arguments]
    before = list(options.words)[: len(options.words) - len(behind)]
    if options.module and before[-1] in ("-m", "--module"):
        before.pop()
    program = ["-m", *chosen.module] if chosen.module else [chosen.script, *chosen.arguments]
    return [*before, "--pes-per-node", str(chosen.pes_per_node), *program]


def _check_alone(options: argparse.Namespace) -> None:
    from emu.comm.errors import ArgumentError

    for name in ("hosts", "pes_per_node"):
        if getattr(options, name) is not None:
            raise ArgumentError(
                f"--{name.replace('_', '-')} must not be given with torchrun, whose nnodes and nproc_per_node say it"
            )


def _nodes(given: argparse.Namespace) -> Nodes | None:
    """Return the nodes that a command line of torchrun's means; None: this one alone."""
    from emu.comm.errors import ArgumentError

    least, _, most = str(given.nnodes).partition(":")
    if (most or least) != least or not least.isdecimal() or not 1 <= int(least) <= _MOST_NODES:
        raise ArgumentError(
            f"nnodes must be one number in [1, {_MOST_NODES}], as emu starts all nodes once, but got {given.nnodes!r}"
        )
    if int(least) == 1 or given.standalone:
        return None
    is_static = given.rdzv_backend == "static"
    host, port = given.master_addr, given.master_port or _STATIC_PORT
    if given.rdzv_endpoint:
        host, _, text = given.rdzv_endpoint.rpartition(":")
        if not host:
            host, text = text, ""
        port = text or (_STATIC_PORT if is_static else _C10D_PORT)
    elif not is_static:
        raise ArgumentError(
            f"rdzv_endpoint must be given with rdzv_backend {given.rdzv_backend!r}: HOST:PORT of one of the nodes"
        )
    if not str(port).isdecimal() or not 1 <= int(port) <= _LAST_PORT:
        raise ArgumentError(f"the port of the nodes must be in [1, {_LAST_PORT}], but got {port!r}")
    rank = int(given.node_rank) if is_static else None
    if rank is not None and not 0 <= rank < int(least):
        raise ArgumentError(f"node_rank must be in [0, {int(least) - 1}], but got {rank}")
    return Nodes(int(least), rank, (host.strip("[]"), int(port)), given.rdzv_id, _timeout(given))


def _timeout(given: argparse.Namespace) -> float:
    """Return how long nodes wait for each other."""
    from emu.comm.errors import ArgumentError

    parts = [part.partition("=") for part in given.rdzv_conf.split(",") if part]
    said = {name.strip(): value.strip() for name, _, value in parts}
    text = said.get("join_timeout", said.get("timeout", str(PATIENCE_S)))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= _MOST_PATIENCE_S:
        raise ArgumentError(
            f"join_timeout of rdzv_conf must be in (0, {_MOST_PATIENCE_S}] seconds, but got {text!r}"
        )
    return seconds


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
