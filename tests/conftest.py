"""What tests of several rooms share."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import signal
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from long_tests import LONG_TESTS, read_long_tests

from emu.comm.layout import Layout
from emu.comm.link_model import Link
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.process import serving
from emu.comm.world.making import make_world
from emu.comm.world.world import World
from emu.kernels.core.environment import usable_cores

collect_ignore = ["conformance"]
"""Suites of other projects, and what compares their kernels: they need a checkout (see docs/testing.md)."""

QUICK = "not slow"
"""The expression of marks of `make test`."""

GRACE_S = 60
"""How long after its time limit a test that did not end may still go on, before its process is ended."""

STDERR = pytest.StashKey[int]()
"""The descriptor of stderr as it was before output was captured."""

# Before any test file is imported, whose settings begin with these: a machine that has other work is no fault of a test.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

FEWEST_EXAMPLES = 10
"""Of a test that makes its examples itself; the quick run makes a quarter of them, but not fewer than these."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which `.ci/run` deals out the thorough tests among commits."""
    parser.addoption(
        "--part",
        type=as_part,
        metavar="K/N",
        help="run one in N test functions, the K-th part of them",
    )


def as_part(text: str) -> tuple[int, int]:
    """Return the two numbers of ``K/N``."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"--part must be K/N with 1 <= K <= N, but got {text!r}")
    return int(number), int(count)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process for what tests start.

    Ctrl-C shall reach it: background jobs of a shell ignore it, and so do children. And PEs import the test's
    file: what all test files import is loaded once, in the process that PEs are forked from.
    """
    config.addinivalue_line(
        "markers", "random: makes examples itself, in `make test` a quarter of them"
    )
    config.stash[STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)
    serving.MODULES.extend(("pytest", "hypothesis"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """End the process of a test that is stuck in compiled code, with the stacks of its threads.

    The time limit of pytest-timeout is a signal, whose handler runs in Python only: a compiled loop that never ends
    would hang the whole run, and nobody would learn in which test. This one needs no Python; pytest-xdist then says which
    test its worker died in, and goes on with another worker.
    """
    seconds = time_limit(item) + GRACE_S
    stderr = item.config.stash[STDERR]
    faulthandler.dump_traceback_later(seconds, file=stderr, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def time_limit(item: pytest.Item) -> float:
    """Return the seconds that a test may take: its mark's, the command line's, or the project's."""
    mark = item.get_closest_marker("timeout")
    if mark and (mark.args or "timeout" in mark.kwargs):
        return float(mark.args[0] if mark.args else mark.kwargs["timeout"])
    return float(item.config.getoption("timeout") or item.config.getini("timeout"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, nor look there later: what they make then stays.

    And look less often from then on: what compiles makes many objects that stay for long, and at Python's own pace a
    tenth of the processor time of the tests went into looking. Not less often than this: from 10,000 new objects on
    ``emu.mlir.gc_pause`` counts what is frozen here, which are millions.

    And keep the bytecode of what is collected, even where the environment forbids it: rewriting the assertions of all tests
    takes a worker 10 seconds of each run. Not later: a test may write a module twice within a second, which Python does not see.
    """
    gc.disable()
    forbidden, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = forbidden
        gc.freeze()
        gc.enable()
        gc.set_threshold(5_000, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that make examples themselves, and let them make fewer in the quick run."""
    functions = {}
    for item in items:
        test = getattr(item, "obj", None)
        if is_hypothesis_test(test):
            item.add_marker("random")
            functions[test.__module__, test.__qualname__] = getattr(test, "__func__", test)
    mark_long_tests(items, read_long_tests(LONG_TESTS.read_text("utf-8")))
    leave_to_other_parts(config, items)
    spread_long_tests(config, items)
    if config.option.markexpr != QUICK:
        return
    for function in functions.values():
        # Hypothesis has no public way to change what a decorator has set; its own plugin reads this, too.
        chosen = getattr(function, "_hypothesis_internal_use_settings", None)
        if chosen is not None:
            fewer = min(chosen.max_examples, max(FEWEST_EXAMPLES, chosen.max_examples // 4))
            function._hypothesis_internal_use_settings = settings(chosen, max_examples=fewer)


def mark_long_tests(items: list[pytest.Item], kept: dict[str, int]) -> None:
    """Mark the cases of long tests as slow, but for as many as are kept of each, which are spread evenly among them."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        function = item.nodeid.partition("[")[0]
        if function in kept:
            cases.setdefault(function, []).append(item)
    for function, found in cases.items():
        count = min(kept[function], len(found))
        stay = {found[(2 * k + 1) * len(found) // (2 * count)].nodeid for k in range(count)}
        for item in found:
            if item.nodeid not in stay:
                item.add_marker("slow")


def leave_to_other_parts(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of other parts than that of ``--part``; those of one function are in one part, but for examples."""
    if config.option.part is None:
        return
    number, count = config.option.part
    chosen, others = [], []
    for item in items:
        function, _, parameter = item.nodeid.partition("[")
        # Tests of one function may share what they prepare; examples are programs of their own, and long ones.
        unit = item.nodeid if parameter.startswith("examples/") else function
        is_chosen = zlib.crc32(unit.encode()) % count == number - 1
        (chosen if is_chosen else others).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


def spread_long_tests(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests that have been given more time at the beginnings of the workers' shares.

    With ``--dist worksteal`` each worker begins with one of as many equal parts of the list. One of the tests that
    take minutes would else be the last, while all other workers have nothing left to do.
    """
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    if count == 1:
        return
    usual = float(config.getini("timeout"))
    long: dict[
        Path, list[pytest.Item]
    ] = {}  # by file, since the tests of one share what they prepare
    others = []
    for item in items:
        mark = item.get_closest_marker("timeout")
        if mark and mark.args and mark.args[0] > usual:
            long.setdefault(item.path, []).append(item)
        else:
            others.append(item)
    items[:] = []
    for worker in range(count):
        items += [item for file in [*long.values()][worker::count] for item in file]
        left = len(others) // (count - worker)
        items += others[:left]
        del others[:left]


def pytest_xdist_auto_num_workers() -> int:
    """Start two workers more than there are cores: tests wait for processes and time-outs.

    With ``--dist worksteal`` each begins in rooms of its own: while those of one wait, those of another compute.
    """
    return usable_cores() + 2


@pytest.fixture
def worlds() -> Iterator[Callable[..., list[World]]]:
    """Make the worlds of n PEs in this one process: fast, for all that doesn't wait for another."""
    segments = []

    def make(
        n_pes: int,
        *,
        heap_bytes: int = 1 << 30,
        poison: bool = False,
        link: Link | None = None,
    ) -> list[World]:
        segment = Segment.create(Layout(n_pes=n_pes, heap_bytes=heap_bytes), link=link)
        segments.append(segment)
        blocks = [register(segment, pe, 1) for pe in range(n_pes)]
        return [make_world(segment, me, pe, poison=poison) for pe, me in enumerate(blocks)]

    yield make
    for segment in segments:
        segment.close()
