"""Kernels in ``--check race``: launches of which races among programs are found, or disproved.

Most launches are proved to have none from their arguments alone (``grid_proof``); they run as they do without the
check. Of the others a second build of the kernel runs on one thread, which tells of each access (``grid_observer``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from emu.comm.world.listened_heaps import find_heaps
from emu.tile import observing
from emu.tile.cpu.run.thread import thread_state
from emu.tile.ir import Module
from emu.tile.passes.observe_accesses import Observed
from emu.triton.errors import GridRaceError
from emu.triton.runtime import arguments as kinds
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.backends import Launch
from emu.triton.runtime.bounds import Argument, value_of
from emu.triton.runtime.grid_observer import GridObserver
from emu.triton.runtime.grid_proof import NOWHERE, Extents, GridProver
from emu.triton.runtime.grid_reports import GridReports
from emu.triton.runtime.heap_accesses import HeapAccesses, HeapObserver, HeapPlan
from emu.triton.runtime.storages import find_extents

Run = Callable[[Launch, tuple[int, int, int, Sequence[Packed]], Mapping[str, object] | None], None]
"""Runs an executable with a grid and values, given the arguments by name."""


@dataclass(frozen=True)
class ObservedBuild:
    """A kernel that tells of its accesses.

    Attributes:
        launch: Runs it on one thread; takes the number of an observer behind its other arguments.
        run: Runs it with other checks.
        sites: Its sites by number.
    """

    launch: Launch
    run: Run
    sites: tuple[Observed, ...]


class Counts(Protocol):
    """Function that is told of each launch that is checked."""

    def __call__(self, kernel: str, is_proved: bool) -> None:
        """Take note of a launch: whether it is proved to have no race, or was observed."""


listener: Counts | None = None
"""Told of each launch, where one is set: so tests count what is proved."""


class GridRaceChecker:
    """Launcher of a kernel that is checked for races among the programs of a grid.

    Args:
        kernel: Its name.
        arguments: Arguments of the executable, in order.
        run: Runs it, with other checks, where there is nothing to observe.
        translate: Returns the module of the kernel.
        observe: Returns the build that tells of its accesses.
        with_benign: Whether stores of the same bits by several programs are errors, too.
    """

    def __init__(
        self,
        kernel: str,
        arguments: Sequence[Argument],
        run: Run,
        translate: Callable[[], Module],
        observe: Callable[[], ObservedBuild],
        with_benign: bool,
    ) -> None:
        self._kernel = kernel
        self._arguments = arguments
        self._run = run
        self._observe = observe
        self._observed: ObservedBuild | None = None
        self._with_benign = with_benign
        self._prover = GridProver(translate)
        self._heap_accesses = HeapAccesses(kernel, self._prover)

    def launch(
        self,
        launch: Launch,
        call: tuple[int, int, int, Sequence[Packed]],
        given: Mapping[str, object] | None,
    ) -> None:
        """Run the kernel.

        Args:
            launch: Runs the executable.
            call: Extents of the grid and the packed values.
            given: Arguments by the names of the parameters; None: their memory is not known.

        Raises:
            GridRaceError: Programs of the grid race.
        """
        *grid, values = call
        tensors = [value_of(given, argument) for argument in self._arguments]
        extents = [NOWHERE if t is None else _extents(t) for t in tensors]
        shape = grid[0], grid[1], grid[2]
        is_proved = self._prover.is_free(shape, values, extents)
        if listener is not None:
            listener(self._kernel, is_proved)
        heaps = find_heaps()
        plan = None if heaps is None else self._heap_accesses.plan(heaps, shape, values)
        if is_proved and (plan is None or plan.is_known):
            self._run(launch, call, given)
        else:
            self._watch(shape, values, given, None if is_proved else extents, plan)
        if plan is not None:
            plan.tell()

    def _watch(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Packed],
        given: Mapping[str, object] | None,
        extents: Sequence[Extents] | None,
        plan: HeapPlan | None,
    ) -> None:
        """Run the build that tells of its accesses, and raise what was found.

        Args:
            grid: Extents of the grid.
            values: The arguments of the executable.
            given: Arguments by the names of the parameters.
            extents: Memory of each argument; None: programs of the grid are proved to be apart.
            plan: What must be told of symmetric memory.
        """
        build = self._observed
        if build is None:
            build = self._observed = self._observe()
        heap_observer = None if plan is None else plan.observer(build.sites)
        if extents is None:
            if heap_observer is not None:
                self._run_observed(build, (*grid, values), given, heap_observer)
            return
        shared = self._prover.shared(values, extents)
        watched = [s.access.argument is None or shared[s.access.argument] for s in build.sites]
        observer = GridObserver(build.sites, grid, watched, _granule(build.sites, watched, values))
        both = observer if heap_observer is None else _Both(observer, heap_observer)
        self._run_observed(build, (*grid, values), given, both)
        reports = GridReports(self._kernel, grid, self._arguments, values, build.sites, extents)
        races = reports.describe(observer.pairs())
        if any(not r.is_benign or self._with_benign for r in races):
            raise GridRaceError(tuple(races))

    @staticmethod
    def _run_observed(
        build: ObservedBuild,
        call: tuple[int, int, int, Sequence[Packed]],
        given: Mapping[str, object] | None,
        observer: _Observer,
    ) -> None:
        """Run the build that tells of its accesses, and raise what its observer has raised."""
        with observing.observing(observer) as number:

            def inner(x: int, y: int, z: int, packed: Sequence[Packed]) -> None:
                build.launch(x, y, z, (*packed, number))

            build.run(inner, call, given)
        if observer.error is not None:
            thread_state.error = None
            raise observer.error


class _Observer(Protocol):
    """Observer of a launch."""

    @property
    def error(self) -> BaseException | None:
        """What it has raised."""

    def __call__(self, site: int, record: int, /) -> None:
        """Note what a site has done."""


class _Both:
    """An observer of the grid, and one of symmetric memory."""

    def __init__(self, grid: GridObserver, heap: HeapObserver) -> None:
        self._grid = grid
        self._heap = heap

    @property
    def error(self) -> BaseException | None:
        """What one of them has raised."""
        return self._grid.error or self._heap.error

    def __call__(self, site: int, record: int) -> None:
        """Note what a site has done."""
        self._grid(site, record)
        self._heap(site, record)


def _extents(tensor: Any) -> Extents:
    if kinds.tensors and kinds.has_torch_modes():
        with kinds.guard():
            return find_extents(tensor)
    return find_extents(tensor)


def _granule(sites: Sequence[Observed], watched: Sequence[bool], values: Sequence[Packed]) -> int:
    """Return the bytes of the smallest element that is watched; 1 where a pointer is not a multiple of its element."""
    least = 8
    for site, is_watched in zip(sites, watched, strict=True):
        access = site.access
        if not is_watched or not access.size:
            continue
        least = min(least, access.size)
        if access.argument is not None:
            address: Any = values[access.argument]
            if int(address) % access.size:
                return 1
    return least
