"""``emu run`` from its parsed command line: what is run, how, and what is printed behind it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from emu.commands.run import (
    RunOptions,
    can_use_world,
    device_count,
    run_module,
    run_script,
    run_text,
)
from emu.commands.run_arguments import cores


def run_command(options: argparse.Namespace, note: Callable[[str], None]) -> None:
    """Run what the command line says.

    Args:
        options: The parsed command line.
        note: Tells the user something.

    Raises:
        ArgumentError: An option breaks a rule; nothing was started.
        ExceptionGroup: PEs have failed.
        CheckError: Checks have found something.
        TraceError: A file of a trace cannot be written, or a device is not known.
    """
    from emu.commands.run_hosts import check_hosts, start_on_hosts
    from emu.commands.run_outputs import check_outputs

    given, options = options, _without_torchrun(options)
    _start_on_nodes(given, options, note)
    if options.pes_per_node is not None and options.hosts is None:
        from emu.comm.process.mpi import failing_together

        with failing_together():
            check_hosts(options)
            _run(options, note)
        return
    check_hosts(options)
    if options.hosts is not None:
        start_on_hosts(options)
    check_outputs(options)  # over hosts only the first one writes
    _run(options, note)


def _start_on_nodes(
    given: argparse.Namespace, options: argparse.Namespace, note: Callable[[str], None]
) -> None:
    """Have the command run on several nodes, and exit as it does, if torchrun's words or environment name them and no MPI has started this.

    Args:
        given: The options of the command line.
        options: What is to be run, torchrun's script perhaps.
        note: Tells the user something.
    """
    from emu.comm.process.mpi import started_processes
    from emu.commands.run_hosts import check_hosts
    from emu.commands.torchrun import PATIENCE_S, words_of
    from emu.commands.torchrun_nodes import nodes_of_environment, start_on_nodes

    nodes, words = getattr(options, "nodes", None), options.words
    if nodes is not None:
        words = words_of(given, options)
    elif options.pes_per_node is not None and options.hosts is None and started_processes() == 1:
        nodes = nodes_of_environment(PATIENCE_S)
    if nodes is not None:
        check_hosts(options)
        raise SystemExit(start_on_nodes(nodes, words, note))


def _run(options: argparse.Namespace, note: Callable[[str], None]) -> None:
    """Run what the command line says, as one of several hosts or as the only one."""
    from emu.commands.run_counts import printed

    spans = options.pes_per_node is not None
    predicted = _predicted(options.predict, over_hosts=spans)
    with printed(options.count, over_hosts=spans) as counts, predicted as folder:
        how = _how(options, note)
        if counts is not None:
            how = replace(how, count=counts)
        if folder is not None:
            how = replace(how, count=how.count or folder, trace=(*how.trace, _trace_in(folder)))
        if options.module:
            run_module(options.module[0], options.module[1:], how)
        elif options.script == "-":
            run_text(sys.stdin.read(), options.arguments, replace(how, stdin="none"))
        else:
            run_script(options.script, options.arguments, how)


def _trace_in(folder: str) -> str:
    return str(Path(folder) / "run.emutrace")


@contextlib.contextmanager
def _predicted(device: str | None, *, over_hosts: bool) -> Iterator[str | None]:
    """Give a folder for a trace and counts, and print what the run would have taken on a device when it has ended well; of several hosts the first does."""
    if device is None:
        yield None
        return
    from emu.comm.process.mpi import launched_rank
    from emu.commands.predict import predict_file
    from emu.trace.prediction.devices.files import load_device

    load_device(device)  # an unknown one is told before anything runs
    with tempfile.TemporaryDirectory(prefix="emu-predict-") as folder:
        yield folder
        if not over_hosts or launched_rank() == 0:
            sys.stdout.flush()
            predict_file(Path(_trace_in(folder)), device)


def _how(options: argparse.Namespace, note: Callable[[str], None]) -> RunOptions:
    """Return how PEs are run."""
    from emu.commands import progress
    from emu.commands.run_hosts import over_hosts
    from emu.commands.run_orders import launcher

    n_pes, devices = _pes_and_devices(options, note)
    return RunOptions(
        n_pes=n_pes,
        timeout=options.timeout,
        prefix_output=options.prefix,
        link=options.link,
        devices=devices,
        ranks_per_node=options.ranks_per_node,
        device_model=options.device_model,
        stdin=options.stdin,
        interpret=options.interpret,
        program=options.program,
        check=options.check,
        memory_model=options.memory_model,
        autotune=options.autotune,
        poison=options.poison,
        fault=tuple(options.fault),
        trace=tuple(options.trace),
        launcher=over_hosts
        if options.pes_per_node
        else launcher(options, options.words) or progress.launcher(options.progress),
    )


def _without_torchrun(options: argparse.Namespace) -> argparse.Namespace:
    """Return what to run where that is torchrun: its script, on as many PEs as it has processes.

    Raises:
        ArgumentError: Its command line asks for what one launch cannot do.
        ModuleNotFoundError: torch is not installed.
    """
    from emu.commands.torchrun import as_run, is_torchrun

    if not is_torchrun(options):
        return options
    return as_run(options, device_count(options.devices, cores()), cores())


def _pes_and_devices(
    options: argparse.Namespace, note: Callable[[str], None]
) -> tuple[int, int | None]:
    """Return the numbers of PEs and of devices: one PE for a script that cannot use more.

    Raises:
        ArgumentError: The number of devices breaks a rule.
    """
    if options.pes_per_node is not None:
        from emu.comm.process.mpi import launched_rank
        from emu.commands.run_hosts import bound
        from emu.kernels.core.environment import usable_cores

        told = bound(options.pes_per_node, usable_cores(), cores())
        if told and launched_rank() == 0:
            note(told)
        return options.pes_per_node, options.devices
    if options.n_pes is not None:
        return options.n_pes, options.devices
    if options.module or options.script == "-" or can_use_world(options.script):
        return cores(), options.devices
    # As many devices as it would have had on several PEs: a single process may use them all.
    devices = device_count(options.devices, cores())
    note(f"{options.script} uses no World, so it runs on one PE; -n N runs it on N")
    return 1, devices
