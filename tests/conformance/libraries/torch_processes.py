"""Lets torch's classes of tests that start a process for each rank run each test on PEs that are forks of pytest's process.

``MultiProcContinuousTest`` starts its processes once for a class, and skips the rest of the class behind a failure;
``MultiProcessTestCase`` starts them for each test. Either imports torch in every process, which takes longer than most
tests. Here all is imported once, and a test that fails fails alone.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, update_wrapper
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed, common_utils

from emu.comm.errors import StoppedError
from emu.comm.process.forked import launch_forked, load_machine
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.world.current import world
from emu.commands.run import torchrun_environment
from emu.kernels.core.launch_count import Launches


def install(n_ranks: int) -> None:
    """Replace what starts the processes.

    Args:
        n_ranks: Number of ranks, and so of PEs.
    """
    load_machine()
    torch.empty(
        0, device="cuda"
    )  # else the first test would be told that it has left a mode behind
    repro: Any = common_utils
    repro.PRINT_REPRO_ON_FAILURE = False  # a record keeps an error's last line
    continuous: Any = common_distributed.MultiProcContinuousTest
    continuous.setUp = common_utils.TestCase.setUp  # tearDown asks for what it notes
    continuous.world_size = n_ranks
    continuous._worker_run_main_wait = lambda test, body: _on_pes(test, body, n_ranks, True)
    single: Any = common_distributed.MultiProcessTestCase
    single.setUp = _set_up
    single.tearDown = unittest.TestCase.tearDown
    single._spawn_processes = single._fork_processes = lambda test: None
    single.join_or_run = lambda test, body: _on_pes(test, body, n_ranks, False)


def _on_pes(
    test: Any, body: Callable[[], None], n_ranks: int, in_group: bool
) -> Callable[[], None]:
    """Return the method that runs a body on PEs; that it is to be skipped is an attribute of the body."""
    return update_wrapper(partial(_run, test, body, n_ranks, in_group), body)


def _set_up(test: Any) -> None:
    """Give a test what it finds in each of its processes: the file in which they meet."""
    common_utils.TestCase.setUp(test)
    test.special_return_code_checks = {}
    test.skip_return_code_checks = []
    test.file_name = str(Path(os.environ["CONFORMANCE_RECORD"]).with_name(test.id()))


def _run(test: Any, body: Callable[[], None], n_ranks: int, in_group: bool) -> None:
    """Run the body of a test on PEs; what one of them raises is raised here.

    Args:
        test: The test.
        body: Its method.
        n_ranks: Number of PEs.
        in_group: Whether the process group is there when the body begins.
    """
    on_pe = partial(_run_on_pe, test, body, torchrun_environment(n_ranks, n_ranks), in_group)
    try:
        ended = launch_forked(on_pe, n_ranks, LaunchOptions(timeout=60, prefix_output=True))
    except ExceptionGroup as group:
        own = [e for e in group.exceptions if not isinstance(e, StoppedError)]
        first = (own or list(group.exceptions))[0]
        raise AssertionError(f"{type(first).__name__}: {first}") from group
    Launches.count += sum(count for count, _ in ended)
    reasons = [reason for _, reason in ended if reason]
    if reasons:
        raise unittest.SkipTest(reasons[0])


def _run_on_pe(
    test: Any, body: Callable[[], None], variables: dict[str, str], in_group: bool
) -> tuple[int, str]:
    """Run a body on this PE; return how many kernels it has launched, and why it was skipped."""
    before, rank = Launches.count, world().my_pe
    os.environ.update(variables | dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank)))
    test.rank = type(test).rank = rank
    common_utils.set_rng_seed()
    if in_group:
        dist.init_process_group("nccl")
    try:
        with _exits():
            body()
    except unittest.SkipTest as skip:
        return 0, str(skip)
    if dist.is_initialized():
        dist.destroy_process_group()
    return Launches.count - before, ""


class _ExitedError(BaseException):
    """The test has ended its process with code 0."""


@contextmanager
def _exits() -> Iterator[None]:
    """Take a test's end of its process for the end of the test: of torch's codes some say that it is skipped."""
    skips = {entry.exit_code: entry.message for entry in common_distributed.TEST_SKIPS.values()}
    leave, here = os._exit, os.getpid()

    def end(code: int) -> NoReturn:
        if code or os.getpid() != here:  # what a test has forked ends as it will
            leave(code)
        raise _ExitedError

    os._exit = end
    try:
        yield
    except _ExitedError:
        pass
    except SystemExit as error:
        message = skips.get(error.code) if isinstance(error.code, int) else None
        if message is None:
            raise
        raise unittest.SkipTest(message) from None
    finally:
        os._exit = leave
