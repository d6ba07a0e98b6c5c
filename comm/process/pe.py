"""A PE's process from its first line to its last."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any

from emu.comm import pe_environment
from emu.comm.check_options import Checks
from emu.comm.errors import StoppedError
from emu.comm.fault_options import Faults
from emu.comm.hosts.places import Places
from emu.comm.layout import B_STATE, FINISHED, LEAVING
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import check_stopped
from emu.comm.process import parent_death, returning
from emu.comm.process.crash import report_crashes
from emu.comm.process.input import open_input
from emu.comm.process.outcome import failure_message, result_message
from emu.comm.process.payload import Call
from emu.comm.schedule_options import Schedule
from emu.comm.watchdog.progress import QUERY_SIGNAL
from emu.kernels.core import environment
from emu.kernels.core.environment import THREAD_VARIABLES

_REPORT_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Start:
    """The start message of a new PE."""

    segment: Segment
    pe: int
    cores: int
    call: Call
    results: Any
    channel: Any
    """Connection through which orders come, the first argument of the call; None: there is none."""
    stdin: Any
    stdout: Any
    stderr: Any
    environment: dict[str, str]
    poison: bool
    checks: Checks
    schedule: Schedule | None
    faults: Faults | None
    is_recorded: bool
    places: Places | None = None
    """Where the PEs of a World over several hosts are; None: all are on this one."""


def main(start: Start) -> None:
    """Run the call as PE ``start.pe`` and send its outcome."""
    # A stop may come at any time from here on; it is unblocked where its exception is caught.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    _prepare_process(start)
    take_stops = signal.getsignal(signal.SIGTERM)
    own: BaseException | None = None
    try:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            message = result_message(start.pe, _run(start))
        except BaseException as error:
            own = error  # a stop may still come before it is reported
            raise
        _block_stop()
    except BaseException as error:  # noqa: BLE001 - the launcher must hear of anything
        _block_stop()
        message = failure_message(start.pe, own or error)
    left = _left_over_threads()
    start.segment.block(start.pe)[B_STATE] = LEAVING if left else FINISHED
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError):  # the launcher is gone
        start.results.send_bytes(message)
    start.results.close()
    if left:
        signal.signal(signal.SIGTERM, take_stops)  # the wait for its threads may be stopped
        _report_threads(start)


def _left_over_threads() -> list[threading.Thread]:
    """Return the threads for which Python waits before a process ends."""
    main_thread = threading.main_thread()
    return [t for t in threading.enumerate() if not t.daemon and t is not main_thread]


def _report_threads(start: Start) -> None:
    """Publish, until this process ends, which threads Python waits for before it can."""

    def report() -> None:
        from emu.comm.watchdog.polling import describe_threads

        before = None
        while True:
            left = _left_over_threads()
            # A description reads source files: done again and again, it would count as a computation.
            frames = sys._current_frames()
            places = [(frames.get(t.ident or 0), t) for t in left]
            now = [(f and (f.f_code, f.f_lasti), t.name) for f, t in places]
            if now != before:
                text = describe_threads(left)
                start.segment.write_place(start.pe, f"thread{'s' * (len(left) > 1)} {text}")
                before = now
            del frames, places  # they keep what the threads' functions hold
            time.sleep(_REPORT_S)

    threading.Thread(target=report, daemon=True, name="emu-threads-left").start()


def _answer_queries(start: Start) -> None:
    """Make this PE answer the launcher's signal: whether it waits in a loop of its own."""
    if QUERY_SIGNAL is None:
        return
    from emu.comm.watchdog.polling import (
        LoopObserver,  # loaded by the fork server: no import in a handler
    )

    observer = LoopObserver(start.segment, start.pe)
    signal.signal(QUERY_SIGNAL, lambda number, frame: observer.answer(frame))
    signal.siginterrupt(QUERY_SIGNAL, False)


def _block_stop() -> None:
    """Ignore stops from now on; one that was on its way is raised here, too late, and dropped.

    To block the signal would not do: that holds for one thread, and another (the program's, or one of ours)
    would take the signal, whose handler then runs in the main thread all the same.
    """
    while True:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            return
        except StoppedError:
            pass


def _blocks_stops(frame: FrameType | None) -> bool:
    """Return whether the PE is in :func:`_block_stop`, maybe at its first instruction, where it can catch nothing yet."""
    while frame is not None:
        if frame.f_code is _block_stop.__code__:
            return True
        frame = frame.f_back
    return False


def _run(start: Start) -> object:
    from emu.comm.memory.heap import register
    from emu.comm.process.orders import Orders
    from emu.comm.watchdog.compiling import report_to
    from emu.comm.world.current import set_world
    from emu.comm.world.making import make_world

    n_here = 0 if start.places is None else len(start.places.local)
    me = register(start.segment, start.pe, start.cores, n_here)
    report_to(start.segment, start.pe)
    world = make_world(
        start.segment,
        me,
        start.pe,
        poison=start.poison,
        checks=start.checks,
        schedule=start.schedule,
        faults=start.faults,
        is_recorded=start.is_recorded,
        places=start.places,
    )
    set_world(world)
    function, args, kwargs = start.call.load()
    if start.channel is not None:
        args = (Orders(start.channel, start.segment.block(start.pe)), *args)
    value, place = returning.call(function, args, kwargs)
    if not _left_over_threads():
        start.segment.write_place(start.pe, place)
    world.finish()
    return value


def _prepare_process(start: Start) -> None:
    # The fork server set the thread counts before it loaded NumPy; children of this PE get them too.
    os.environ.clear()
    os.environ.update(start.environment)
    if start.checks.of_kernels:  # of the launch, whatever the environment says
        environment.pass_on({"EMU_CHECK": start.checks.of_kernels})
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    pe_environment.read_again()
    open_input(start.stdin, start.segment, start.pe)
    for source, target in ((start.stdout, 1), (start.stderr, 2)):
        fd = source.detach()
        os.dup2(fd, target)
        os.close(fd)
    sys.stdout = _text_stream(1)
    sys.stderr = _text_stream(2)

    def on_terminate(number: int, frame: FrameType | None) -> None:
        if _blocks_stops(frame):
            return
        if _loads_code():
            _terminate_later()
            return
        check_stopped(start.segment)  # raises, at the line where this PE is
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, on_terminate)
    _repeat_lost_stops()
    _answer_queries(start)
    report_crashes(start.segment, start.pe)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the launcher, which stops all
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked since the server's start
    parent_death.die_with_the_launcher()


def _loads_code() -> bool:
    """Return whether code is being compiled or loaded, where an exception would break LLVM."""
    locks = sys.modules.get("numba.core.compiler_lock")
    return locks is not None and bool(locks.global_compiler_lock.is_locked())


def _terminate_later() -> None:
    again = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGTERM))
    again.daemon = True
    again.start()


def _repeat_lost_stops() -> None:
    """Repeat a stop that was raised where Python cannot propagate it, instead of printing it.

    The handler may run while a finaliser or a callback does (of a weak reference, of the import system).
    Python would report the exception there as ignored and go on; the program would then not end.
    """
    report = sys.unraisablehook

    def on_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, StoppedError):
            report(unraisable)
        elif not sys.is_finalizing():
            with contextlib.suppress(RuntimeError):  # no threads any more: the process is ending
                _terminate_later()

    sys.unraisablehook = on_unraisable


def _text_stream(fd: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(io.FileIO(fd, "wb", closefd=False))
    return io.TextIOWrapper(raw, "utf-8", "replace", line_buffering=True)
