"""Launches of kernels that are counted: the kernel as it is, and what counts beside it or in its place."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from emu.tile.counting.state import Counting
from emu.triton.runtime import backends, cache
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.backends import Executable, Launch
from emu.triton.runtime.bounds import Argument, value_of
from emu.triton.runtime.build import Build, Request
from emu.triton.runtime.storages import find_storage

if TYPE_CHECKING:
    from emu.tile.counting.counts import Counts
    from emu.tile.counting.plan import Plan

MOST_KNOWN = 4096
"""Launches of a kernel whose counts are kept."""


class CountedLauncher:
    """Launcher of a kernel whose launches are counted, while somebody wants to know.

    Args:
        build: The kernel itself.
        arguments: Arguments of the executable, in order.
        threads: How many threads a launch may use.
    """

    def __init__(self, build: Build, arguments: Sequence[Argument], threads: int) -> None:
        self._request = dataclasses.replace(build.request, check=None)
        self._arguments = arguments
        self._threads = threads
        self._known: dict[tuple[object, ...], Counts] = {}

    @functools.cached_property
    def _counting(self) -> tuple[Plan, Launch]:
        plan, executable = _build_counting(self._request)
        return plan, executable.bind(self._threads)

    def launch(
        self,
        launch: Launch,
        call: tuple[int, int, int, Sequence[Packed]],
        given: Mapping[str, object] | None,
    ) -> None:
        """Run the kernel, and count what it does.

        Args:
            launch: Runs the executable.
            call: Extents of the grid and the packed values.
            given: Arguments by the names of the parameters; None: their memory is not known.
        """
        if Counting.sink is None:
            launch(*call)
            return
        from emu.tile.counting.counted import launch_counted, repeat_key
        from emu.tile.counting.tally import Kernel

        plan, counting = self._counting
        fn = self._request.fn
        names = [name for name, *_ in self._arguments]
        kernel = Kernel(fn.__name__, fn.file_name, fn.def_file_line_number, names)
        tensors = [value_of(given, argument) for argument in self._arguments]
        storages = [None if t is None else find_storage(t) for t in tensors]
        spans = [None if s is None else (s.start, s.end) for s in storages]
        key = repeat_key(plan, call, spans) if MOST_KNOWN else None
        counts = None if key is None else self._known.get(key)
        if counts is None:
            counts = launch_counted(kernel, plan, (launch, counting), call, spans)
            if key is not None and len(self._known) < MOST_KNOWN:
                self._known[key] = counts
        else:
            launch(*call)
        Counting.last.counts = counts
        Counting.sink(counts)


def _build_counting(request: Request) -> tuple[Plan, Executable]:
    """Return what counts a kernel, from the cache of kernels if it is there."""
    from emu.tile.counting.instrument import instrument
    from emu.tile.counting.plan import Plan

    backend = backends.find(request.backend)
    digest = request.digest() if backend.is_stored else None
    key = None if digest is None else f"{digest}-count"
    entry = None if key is None else cache.load(key)
    if entry is not None:
        facts, code = entry
        return Plan.from_json(facts["plan"]), backend.from_bytes(code)
    module, plan = instrument(request.module())
    executable = backend.compile(module, request.contract)
    if key is not None:
        cache.save(key, {"plan": plan.to_json()}, backend.to_bytes(executable))
    return plan, executable


Run = Callable[[Launch, tuple[int, int, int, Sequence[Packed]], Mapping[str, object] | None], None]


def counted_launch(build: Build, arguments: Sequence[Argument], threads: int) -> Run:
    """Return what launches a kernel and counts what it does."""
    return CountedLauncher(build, arguments, threads).launch
