"""What tests of several rooms share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from emu.comm.layout import Layout
from emu.comm.link_model import Link
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.process import serving
from emu.comm.world.linked import make_world
from emu.comm.world.world import World
from emu.kernels.core.environment import usable_cores


def pytest_configure() -> None:
    """Prepare this process for what tests start.

    Ctrl-C shall reach it: background jobs of a shell ignore it, and so do children. And PEs import the test's
    file: what all test files import is loaded once, in the process that PEs are forked from.
    """
    serving.MODULES.extend(("pytest", "hypothesis"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """Start one worker more than there are cores: a quarter of the time tests wait for time-outs."""
    return usable_cores() + 1


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
