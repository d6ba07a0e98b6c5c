"""Worlds whose PEs are forks of this very process, as it is now.

A launch starts PEs from a fork server, which is warm and has none of the program's own state. What a function needs
must then be imported or pickled. A fork of this process has all of it: closures, objects that nothing can pickle,
modules that were patched. The price is what a fork costs a process with threads: those of this process do not run in the
PEs, and a lock that one of them holds just now stays held there. So launches of programs use the server, and tests, whose
fixtures are such state, use this.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from emu.comm.process.fork_server import LOST, ForkServer
from emu.comm.process.input import Input
from emu.comm.process.launch import Launch, carry_out
from emu.comm.process.launch_arguments import check_pe_count
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.launch_segment import make_segment
from emu.comm.process.pe import Start, main
from emu.kernels.core import cache_folder

T = TypeVar("T")


def launch_forked(fn: Callable[[], T], n_pes: int, options: LaunchOptions | None = None) -> list[T]:
    """Run ``fn()`` in ``n_pes`` forks of this process and return their results in PE order.

    Args:
        fn: Any function.
        n_pes: Number of PEs, 1 to 1024.
        options: Settings of the launch; ``preload`` has no meaning here. Default: those of ``LaunchOptions()``.

    Returns:
        The results, in PE order; they are pickled.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was started.
        ExceptionGroup, CheckError, KeyboardInterrupt, CacheFolderError: As of ``emu.launch``. What interrupts the launch, as a
            time limit does, has notes of where the PEs were.
    """
    n_pes = check_pe_count(n_pes)
    load_machine()
    chosen = options if options is not None else LaunchOptions()
    given = chosen.check_stdin(n_pes)
    cache_folder.check()
    segment, chosen = make_segment(n_pes, chosen)
    world = _Forked(segment, chosen.timeout, chosen.prefix_output, Input(given))
    world.recorded.begin(segment, chosen.traces)
    try:
        return carry_out(world, _Call(fn), chosen)
    except ExceptionGroup:
        raise
    except BaseException as error:
        for note in world.notes_of_stopped():
            error.add_note(note)
        raise


def load_machine() -> None:
    """Load in this process what each PE needs, once, as a fork server does; a launch does it otherwise."""
    if _Loaded.is_current:
        return
    before = dict(os.environ)  # loaded as a program, it chooses how many threads libraries have
    try:
        importlib.import_module("emu.comm.process.preload").load()
    finally:
        os.environ.clear()
        os.environ.update(before)
    _Loaded.is_current = True


class _Loaded:
    """Whether this process has loaded the kernels that are in the cache of compiled code."""

    is_current = False


@dataclass(frozen=True)
class _Call:
    """A call that needs not be pickled."""

    fn: Callable[[], object]

    def load(self) -> tuple[Callable[..., object], tuple[object, ...], dict[str, object]]:
        """Return (function, args, kwargs)."""
        return self.fn, (), {}


@dataclass(frozen=True)
class _Inherited:
    """A descriptor that a fork has anyway, in the place of one that is sent."""

    fd: int

    def detach(self) -> int:
        """Return a descriptor of the PE's own."""
        return os.dup(self.fd)


class _Forked(Launch):
    """The processes of one world of forks.

    Attributes:
        grace_s: More than of a launch: pytest takes its time to say where each PE waits.
    """

    grace_s = 5.0

    def _started_server(self, preload: Sequence[str]) -> ForkServer:
        return _ThisProcess()

    def notes_of_stopped(self) -> list[str]:
        """Return what the PEs that were stopped have noted of where they were, in PE order."""
        return [
            f"PE {pe} was stopped; {note}"
            for pe, error in sorted(self._errors.items())
            for note in getattr(error, "__notes__", ())[:1]
        ]

    def _note_compiled(self) -> None:
        _Loaded.is_current = False

    def _start_of(
        self, pe: int, results: Any, out: int, err: int, given: int | None, **rest: Any
    ) -> Start:
        return Start(
            segment=self._segment,
            pe=pe,
            results=results,
            stdin=None if given is None else _Inherited(given),
            stdout=_Inherited(out),
            stderr=_Inherited(err),
            **rest,
        )


class _ThisProcess(ForkServer):
    """This process in the place of a fork server."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("fork")
        self.pid = None

    def start(self, pe: int, make: Callable[[], Start]) -> Any:
        """Start one PE."""
        process = self._context.Process(target=_begin, args=(make,), name=f"emu-pe-{pe}")
        # What waits in a buffer would be written by each copy of it.
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None and not stream.closed:
                stream.flush()
        # As in the fork server: a stop or a Ctrl-C waits until the PE can take it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        try:
            with warnings.catch_warnings():
                # Python and JAX warn of forks of processes with threads; what that means is said above.
                warnings.simplefilter("ignore")
                process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return process

    def how_it_ended(self, exitcode: int | None = LOST) -> str | None:
        """Return None: this process runs."""
        return None


def _begin(make: Callable[[], Start]) -> None:
    """Be a PE, in a fork."""
    gc.freeze()  # a collection would touch, and so copy, every page
    _limit_threads()
    _forget_timers()
    main(make())


def _forget_timers() -> None:
    """Remove handlers of timers, which a fork does not inherit: a PE with one might end a wait by itself."""
    for number in (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


def _limit_threads() -> None:
    """Let the libraries that are loaded compute with one thread: their pools did not survive the fork."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(1)
    control = sys.modules.get("threadpoolctl")
    if control is not None:
        control.threadpool_limits(1)
