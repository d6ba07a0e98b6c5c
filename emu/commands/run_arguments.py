"""The arguments of ``emu run``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from emu.commands import option_types
from emu.kernels.core.device_models import MODELS


def cores() -> int:
    """Return the number of cores of the host."""
    return os.cpu_count() or 1


def add_run(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    command: Callable[[argparse.Namespace], int],
) -> None:
    """Add the command.

    Args:
        commands: The commands of the program.
        command: What runs it; returns the exit status.
    """
    run = commands.add_parser(
        "run",
        help="run a Python script or module on several PEs",
        usage="emu run [options] (SCRIPT | -m MODULE | -) [ARGUMENT ...]",
        description="Every PE runs the script as __main__; emu.world() says which PE it is.",
    )
    run.add_argument(
        "-n",
        dest="n_pes",
        type=option_types.pes,
        metavar="N",
        help=f"number of PEs (default: the number of cores, here {cores()}; 1 for a script that "
        "imports nothing with a World)",
    )
    run.add_argument(
        "--pes-per-node",
        type=option_types.count,
        metavar="N",
        help="one World over all hosts on which mpiexec or srun has started this command once, with N PEs on each; "
        "needs mpi4py (default: all PEs are on this host)",
    )
    run.add_argument(
        "--hosts",
        metavar="A,B,...",
        help="with --pes-per-node: start this command by mpiexec on these hosts",
    )
    run.add_argument(
        "--timeout",
        type=option_types.seconds,
        default=60.0,
        metavar="S",
        help="seconds without progress after which waiting PEs are reported as deadlocked "
        "(default: %(default)g)",
    )
    run.add_argument(
        "--progress",
        action="store_true",
        help="show in the terminal what each PE does, while it runs (nothing where standard error is no terminal, nor with "
        "--explore and --replay)",
    )
    _add_surroundings(run)
    _add_checks(run)
    _add_trace(run)
    _add_orders(run)
    run.add_argument(
        "-m",
        dest="module",
        nargs=argparse.REMAINDER,
        metavar="MODULE ...",
        help="run a module, as python -m does, instead of a file",
    )
    run.add_argument("script", nargs="?", help="the Python file; -: standard input")
    run.add_argument(
        "arguments", nargs=argparse.REMAINDER, help="what the script gets as sys.argv[1:]"
    )
    run.set_defaults(command=command, fail=run.error)


def _add_surroundings(run: argparse.ArgumentParser) -> None:
    """Add the options for what PEs see: each other's links, devices, and the terminal."""
    run.add_argument(
        "--no-prefix",
        dest="prefix",
        action="store_false",
        help="do not put the PE's number before each line it prints",
    )
    run.add_argument(
        "--link",
        type=option_types.link,
        metavar="BANDWIDTH[,LATENCY]",
        help="emulate a link between each two PEs, as in 25GB/s,2us (default: as fast as memory is)",
    )
    run.add_argument(
        "--devices",
        type=option_types.count,
        metavar="D",
        help="number of emulated npu and cuda devices that a PE sees "
        "(default: EMU_DEVICES, or as many as there are PEs)",
    )
    run.add_argument(
        "--ranks-per-node",
        type=option_types.count,
        metavar="R",
        help="number of PEs that make up a node: LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK and NVSHMEM's teams of a node "
        "say so; memory stays shared by all (default: all PEs are one node)",
    )
    run.add_argument(
        "--device-model",
        type=option_types.device_model,
        metavar="GPU",
        help="GPU that cuda devices answer as when they are asked for their name, compute capability and sizes: "
        f"{', '.join(MODELS)} (default: EMU_DEVICE_MODEL, or none of them)",
    )
    run.add_argument(
        "--stdin",
        type=option_types.stdin,
        default=0,
        metavar="PE|all|none",
        help="which PE gets standard input; all: each gets a copy (default: %(default)s)",
    )


def _add_checks(run: argparse.ArgumentParser) -> None:
    """Add the options that look into a program while it runs."""
    run.add_argument(
        "--interpret",
        action="store_true",
        help="execute the kernels of Triton as Python, statement by statement, so that breakpoint() and print "
        "work in them",
    )
    run.add_argument(
        "--program",
        metavar="X[,Y[,Z]]",
        help="with --interpret: run this one program of each grid alone",
    )
    run.add_argument(
        "--check",
        type=option_types.check,
        metavar="CHECK",
        help="race: report two accesses of the same symmetric memory, or of memory by two programs of a Triton grid, one of "
        "them a write, that nothing orders (race:all: also stores of the same bits by two programs); leak: report symmetric arrays that nobody freed; "
        "bounds: stop at the first address of a Triton kernel that is outside of its tensor's memory; "
        "bounds:all: leave such lanes out, and report all of them; uninit: stop where a kernel uses what it has read of "
        "device memory that was never written; streams: stop where torch's operators or kernels on different streams use "
        "the same memory and nothing orders them; all: all of these; several with commas between them (default: EMU_CHECK)",
    )
    run.add_argument(
        "--memory-model",
        choices=("weak", "strong"),
        help="with --check race: what the program may count on. weak: what OpenSHMEM promises, so that a put needs fence, quiet "
        "or put_signal before others may be told of it; strong: what emu promises, where a put is complete when it returns "
        "(default: EMU_MEMORY_MODEL, or weak)",
    )
    run.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write what checks have found on PEs, and a deadlock with its wait-for graph, to a file, too: a page if its name "
        "ends in .html, else JSON",
    )
    run.add_argument(
        "--count",
        action="store_true",
        help="count exactly what each Triton kernel does, and print it at the end: flops by dtype and unit, bytes loaded and stored "
        "by tensor, unique bytes, lanes that were masked off, atomic operations",
    )
    run.add_argument(
        "--predict",
        metavar="DEVICE",
        help="say at the end what the run would have taken on a device (h100, h200, mi300x, a2, a3, FILE.toml), and what bounds "
        "each kernel, from exact counts; see emu predict",
    )
    run.add_argument(
        "--autotune",
        type=option_types.autotune,
        metavar="HOW",
        help="which configuration an autotuned Triton kernel takes: full measures all in each process, cached measures "
        "them once and keeps the times on disk, first takes the first that compiles (default: EMU_AUTOTUNE, or full)",
    )
    run.add_argument(
        "--fault",
        action="append",
        type=option_types.fault,
        default=[],
        metavar="SPEC",
        help="let something go wrong on purpose, and log it when it does; may be given several times. kill:pe=3,at=op:1200 or at=put:5: "
        "a PE is killed before an operation; slow:pe=2,x10 or ms=5; late:from=0,to=1,ms=50: stores arrive later; drop-signal:, "
        "duplicate-signal: and corrupt:from=0,to=1,nth=3[,bit=17]: a signal or a store is lost, repeated, or wrong in a bit; "
        "alloc-fail: and enospc:pe=1,nth=2: an allocation fails, or has no memory (default: EMU_FAULT)",
    )
    run.add_argument(
        "--poison",
        action="store_true",
        help="fill new symmetric memory, and torch.empty on emulated devices, with NaN, or 0xA5 in every byte",
    )


def _add_trace(run: argparse.ArgumentParser) -> None:
    """Add the option that records what the PEs do."""
    run.add_argument(
        "--trace",
        action="append",
        type=option_types.trace,
        default=[],
        metavar="FILE",
        help="write down what each PE does and when; may be given several times. The end of the name says how: .pftrace for "
        "ui.perfetto.dev, .json for TensorBoard, HTA, Chakra and chrome://tracing, .emutrace for emu trace",
    )


def _add_orders(run: argparse.ArgumentParser) -> None:
    """Add the options for the order of the PEs' operations."""
    run.add_argument(
        "--explore",
        type=option_types.orders,
        metavar="N|all",
        help="run the program in up to N orders of its PEs' operations, or in all, until one fails; write the shortest one "
        "that fails alike to emu-replay-….json",
    )
    run.add_argument(
        "--seed",
        type=option_types.seed,
        metavar="SEED",
        help="with --explore: seed of the orders (default: another one each time, which is printed)",
    )
    run.add_argument(
        "--strategy",
        choices=("mix", "pct", "random", "delay", "starve"),
        help="with --explore: how orders are drawn. pct: random priorities that change at few points; random: any PE comes next; "
        "delay: stores arrive as late as they may; starve: one PE hardly ever comes; mix: each in turn (default)",
    )
    run.add_argument(
        "--replay",
        metavar="FILE",
        help="run the program in the order in a file that --explore has written; without a SCRIPT, the one of then",
    )
