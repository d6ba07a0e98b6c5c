"""``Launch``: start PEs, watch them, stop them, and collect their results.

PEs are forked from a fork server (:mod:`multiprocessing`'s) which has loaded every kernel once, so
that the second launch of a process takes tens of milliseconds. The launcher itself is one loop over
file descriptors: results, output, and the ends of processes. It loads neither Numba nor kernels.

How a world ends. Each PE sends one message, its result or its exception. When the first PE raises
or dies, or nothing moves any more, the launcher writes the reason into the segment: waiting PEs see it
within a slice, PEs that compute get SIGTERM, whose handler raises where they are, and what has not ended
after 0.7 s is killed. When the launcher is killed, the fork server ends, and its PEs with it.
"""

from __future__ import annotations

from emu.comm.process.supported import check_platform

check_platform()  # before the imports below: Windows does not have all of them

import contextlib
import math
import multiprocessing
import os
import pickle
import selectors
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import connection, reduction
from typing import Any, TypeVar

from emu.comm.check_options import Checks
from emu.comm.deadlock.report import Deadlock
from emu.comm.errors import (
    ArgumentError,
    CommError,
    DeadlockError,
    ForkServerError,
    PEDiedError,
    StoppedError,
)
from emu.comm.fault_options import ENOSPC, KILL, Faults
from emu.comm.layout import B_STATE, DEAD, FINISHED, LEAVING, NOT_STARTED
from emu.comm.memory import zones
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import DEADLOCK, INTERRUPTED, PE_DIED, PEER_FAILED, publish_stop
from emu.comm.process import serving
from emu.comm.process.crash import crash_stack
from emu.comm.process.death import how_it_died
from emu.comm.process.descriptors import allow_descriptors
from emu.comm.process.fork_server import ForkServer
from emu.comm.process.input import Input
from emu.comm.process.launch_arguments import check_named, check_pe_count, check_positional
from emu.comm.process.launch_options import LaunchFields, LaunchOptions
from emu.comm.process.launch_segment import make_segment
from emu.comm.process.outcome import read_error, summary_of, text_of
from emu.comm.process.output import Output
from emu.comm.process.payload import Call, RemoteCall, pack
from emu.comm.process.pe import Start
from emu.comm.process.recorded import Recorded
from emu.comm.watchdog import compiling
from emu.comm.watchdog.detection import CONFIRM_S, Detector, find_deadlock
from emu.comm.watchdog.monitor import describe_all
from emu.comm.watchdog.progress import Progress
from emu.comm.world import steering
from emu.comm.world.listening import Collector, Findings, load_room
from emu.kernels.core import cache_folder, environment
from emu.kernels.core.environment import usable_cores

L = TypeVar("L", bound="Launch")

_COMPILING_GRACE_S = 20.0
"""For PEs inside a compiler, which a stop cannot interrupt at any point; Ctrl-C does not wait for them."""
_TICK_S = 0.2
_SHORTEST_TICK_S = 0.005


def carry_out(world: Launch, call: Call, options: LaunchOptions) -> list[Any]:
    """Start the PEs of a world, watch them until all have ended, and return their results.

    Raises:
        ExceptionGroup, KeyboardInterrupt: As of ``emu.launch``.
    """
    try:
        with serving.launching():
            world.start(call, options)
            world.watch()
        world.read_findings(options.checks)
    except BaseException:
        world.stop(INTERRUPTED, "the launcher was interrupted")
        world.finish_stopping()
        raise
    finally:
        if options.schedule is not None:
            world.keep_trace()
        world.close()
    return world.results()


def prepare(
    kind: type[L],
    fn: Callable[..., Any],
    n_pes: int,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    options: LaunchOptions | None,
    fields: Mapping[str, Any],
) -> tuple[L, RemoteCall, LaunchOptions]:
    """Check the arguments of a launch; return the world to be started, its call and its settings.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was started.
    """
    chosen = choose(options, fields)
    if not callable(fn):
        raise ArgumentError(f"fn must be callable, but got {fn!r}")
    n_pes = check_pe_count(n_pes)
    stdin = chosen.check_stdin(n_pes)
    call = pack(fn, check_positional(args), check_named(kwargs))
    check_where()
    cache_folder.check()
    for name in ("schedule", "faults"):
        given_value = getattr(chosen, name)
        if not kind.can_be_scheduled and given_value is not None:
            raise ArgumentError(
                f"{name} must be None for PEs that stay, but got {given_value!r}: what they do is not known before"
            )
    segment, chosen = make_segment(n_pes, chosen, can_have_faults=kind.can_be_scheduled)
    world = kind(segment, chosen.timeout, chosen.prefix_output, Input(stdin))
    try:
        world.recorded.begin(segment, chosen.traces)
    except BaseException:  # a trace that cannot be written: nothing was started
        world.close()
        raise
    return world, call, chosen


def choose(options: LaunchOptions | None, fields: Mapping[str, Any]) -> LaunchOptions:
    """Return the settings of a launch: those given one by one take precedence.

    Raises:
        ArgumentError: A setting breaks a rule.
        TypeError: There is no such setting.
    """
    if options is not None and not isinstance(options, LaunchOptions):
        raise ArgumentError(f"options must be an emu.LaunchOptions or None, but got {options!r}")
    given: dict[str, Any] = {**fields}
    unknown = given.keys() - LaunchFields.__annotations__.keys()
    if unknown:
        raise TypeError(f"launch() got an unexpected keyword argument {min(unknown)!r}")
    return replace(options if options is not None else LaunchOptions(), **given)


def check_where() -> None:
    """Check that this process is none that is only importing a script, to become a PE.

    Raises:
        CommError: It is.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise CommError(
            'emu.launch must be called under `if __name__ == "__main__":`, but it was reached while '
            "a new PE was importing the script"
        )


class Launch:
    """The processes of one world, with their results, errors and ends so far.

    Attributes:
        grace_s: Seconds that PEs have to end after a stop, before they are killed.
        findings: What checks have found in them.
        trace: What they have done, if they took turns.
        recorded: The files of their events.
        can_be_scheduled: Whether they may take turns.
    """

    grace_s = 0.7
    can_be_scheduled = True

    def __init__(self, segment: Segment, timeout: float, prefix: bool, given: Input) -> None:
        self._segment = segment
        self._n_pes = segment.layout.n_pes
        self._timeout = timeout
        self._here = range(self._n_pes)  # those that this launcher starts
        self._processes: dict[int, Any] = {}
        self._connections: dict[int, connection.Connection | None] = {}
        self._values: dict[int, Any] = {}
        self._errors: dict[int, Exception] = {}
        self._deaths: dict[int, PEDiedError] = {}
        self._server: ForkServer | None = None
        self._lost: ForkServerError | None = None
        self._first_to_fail: int | None = None
        self._faults: Faults | None = None
        self._reason = 0
        self._report = ""
        self._deadlock: Deadlock | None = None
        self._kill_at = self._kill_compiling_at = math.inf
        self._killed: set[int] = set()
        self._ended: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self.findings: Findings | None = None
        self._collector: Collector | None = None
        self.trace: Any = None
        self.recorded = Recorded()
        self._output = Output(self._selector, prefix)
        self._input = given

    # --- start -----------------------------------------------------------------------------

    def start(self, call: Call, options: LaunchOptions) -> None:
        """Start every PE."""
        allow_descriptors(self._n_pes)
        server = self._server = self._started_server(options.modules)
        self._faults = options.faults
        cores, variables = usable_cores(), self._variables()
        for pe in self._here:
            receive, send = server.pipe()
            out_read, out_write = os.pipe()
            err_read, err_write = os.pipe()
            channel = self._open_channel(server, pe)
            make = partial(
                self._start_of,
                pe,
                send,
                out_write,
                err_write,
                channel=channel,
                cores=cores,
                call=call,
                poison=options.poison,
                checks=options.checks,
                schedule=options.schedule,
                faults=options.faults,
                is_recorded=bool(options.traces),
            )
            try:
                with self._input.of(pe) as given:
                    process = server.start(pe, partial(make, given, environment=variables))
            finally:
                send.close()
                if channel is not None:
                    channel.close()
                os.close(out_write)
                os.close(err_write)
                self._output.add(pe, out_read, sys.stdout)
                self._output.add(pe, err_read, sys.stderr)
            self._processes[pe] = process
            self._connections[pe] = receive
            self._selector.register(receive, selectors.EVENT_READ, ("result", pe))
            self._selector.register(process.sentinel, selectors.EVENT_READ, ("end", pe))
        self._input.begin()

    def _variables(self) -> dict[str, str]:
        """Return the environment of the PEs."""
        return environment.of_pes()

    def _started_server(self, preload: Sequence[str]) -> ForkServer:
        """Return the server that PEs are forked from."""
        return ForkServer(preload)

    def _open_channel(self, server: ForkServer, pe: int) -> Any:
        """Return the PE's end of a channel for orders; None where a PE makes one call."""
        return None

    def _start_of(
        self, pe: int, results: Any, out: int, err: int, given: int | None, **rest: Any
    ) -> Start:
        """Return the start message of PE ``pe``; call it while its process is being started."""
        return Start(
            segment=self._segment,
            pe=pe,
            results=results,
            stdin=None if given is None else reduction.DupFd(given),
            stdout=reduction.DupFd(out),
            stderr=reduction.DupFd(err),
            **rest,
        )

    # --- watch -----------------------------------------------------------------------------

    def watch(self) -> None:
        """Serve the PEs until each has ended."""
        self.watch_until(lambda: False)
        self._output.drain()

    def watch_until(self, is_done: Callable[[], bool]) -> None:
        """Serve the PEs until something is done, or each has ended."""
        compiled = compiling.Watch(self._segment)
        processes = self._processes
        pids = [processes[pe].pid if pe in processes else 0 for pe in range(self._n_pes)]
        progress = Progress(self._segment, pids, self._timeout)
        detector = Detector(self._segment, pids, self._timeout)
        tick = max(_SHORTEST_TICK_S, min(_TICK_S, self._timeout / 8))
        next_check = time.monotonic() + tick
        while len(self._ended) < len(self._here) and not is_done():
            at = min(next_check, self._kill_at, self.recorded.at)
            self._serve(max(0.0, at - time.monotonic()))
            now = self.recorded.serve()
            if now >= self._kill_at:
                self._kill_rest()
            if now >= next_check:
                compiled.observe()
                if not self._reason:
                    self._look_for_deadlock(progress, detector)
                next_check = now + (min(tick, CONFIRM_S) if detector.suspects else tick)
        if compiled.anything_compiled():
            self._note_compiled()

    def _note_compiled(self) -> None:
        """Note that what PEs are forked from lacks kernels that PEs have compiled."""
        serving.note_compiled()

    def _serve(self, wait: float) -> None:
        for key, _ in self._selector.select(wait):
            kind, pe = key.data[:2]
            if kind == "result":
                self._receive(pe)
            elif kind == "reply":
                self._receive_reply(pe, is_there=True)
            elif kind == "end":
                self._receive_reply(pe)  # the messages may be there still
                self._receive(pe)
                self._end(pe)
            elif kind == "output":
                self._output.read(key)
            else:
                self._serve_other(kind)

    def _serve_other(self, kind: str) -> None:
        """Serve what else a launch has registered."""

    def _receive_reply(self, pe: int, *, is_there: bool = False) -> None:
        """Receive what a PE has sent through its channel, if it has one.

        Args:
            pe: The PE.
            is_there: Whether a message, or the channel's end, is known to be there: then nobody needs to ask,
                which takes longer than to receive. Default: False.
        """

    def _receive(self, pe: int) -> None:
        source = self._connections[pe]
        if source is None:
            return
        try:
            if not source.poll():
                return
            message = pickle.loads(source.recv_bytes())
        except (EOFError, OSError):
            message = None
        except Exception as error:  # noqa: BLE001 - unpickling runs the user's code
            text = f"PE {pe}'s result cannot be read: {type(error).__name__}: {text_of(error)}"
            message = ("error", pickle.dumps(CommError(text)), "", "CommError", text)
        self._selector.unregister(source)
        source.close()
        self._connections[pe] = None
        if message is None:
            return
        if message[0] == "ok":
            self._values[pe] = message[1]
        else:
            self._fail(pe, read_error(pe, message))

    def _fail(self, pe: int, error: Exception) -> None:
        self._errors[pe] = error
        if not self._reason:
            self._first_to_fail = pe
        summary = summary_of(error)
        others = self._describe_others(pe)
        self.stop(
            PEER_FAILED,
            f"PE {pe} raised {summary}; this PE was stopped. When that happened:\n{others}",
        )

    def _describe_others(self, pe: int) -> str:
        """Describe what all PEs but one do."""
        return describe_all(self._segment, frozenset({pe}))

    def _end(self, pe: int) -> None:
        """Record that a process has ended, and whether it had sent its message."""
        process = self._processes[pe]
        self._selector.unregister(process.sentinel)
        self._ended.add(pe)
        process.join()
        if pe in self._values or pe in self._errors:
            return
        lost = self._server.how_it_ended(process.exitcode) if self._server is not None else None
        if lost is not None:
            self._lose_server(lost)
            return
        had_begun = self._segment.block(pe)[B_STATE] != NOT_STARTED
        self._segment.block(pe)[B_STATE] = DEAD
        ended_by_us = process.exitcode is None or process.exitcode in range(256)
        if pe in self._killed or (
            self._reason and (ended_by_us or process.exitcode == -signal.SIGTERM)
        ):
            return  # stopped before it could report anything
        injected = [] if self._faults is None else self._faults.of(pe, KILL, ENOSPC)
        how = how_it_died(process.exitcode, self._segment.free_bytes(), injected)
        if process.exitcode == 1 and not had_begun:
            how += (
                ": it could not load the script again, and has printed why; a script must call "
                'emu.launch under `if __name__ == "__main__":`'
            )
        stack = crash_stack(self._segment, pe)
        where = f"; it was in (innermost call first)\n{stack}" if stack else "."
        others = self._describe_others(pe)
        text = f"PE {pe} (process {process.pid}) {how}{where}"
        if others:  # a world of one PE has none
            text += ("\n" if stack else " ") + f"When that happened:\n{others}"
        error = PEDiedError(text, process.exitcode)
        error.pe = pe
        self._deaths[pe] = error
        self.stop(PE_DIED, text)

    def _lose_server(self, how: str) -> None:
        """Stop the PEs of a fork server that has died: nothing would report how they end."""
        if self._lost is None and not self._reason:
            others = describe_all(self._segment)
            self._lost = ForkServerError(
                f"{how}; its PEs were stopped. When that happened:\n{others}"
            )
            self.stop(INTERRUPTED, str(self._lost))

    # --- stop ------------------------------------------------------------------------------

    def _look_for_deadlock(self, progress: Progress, detector: Detector) -> None:
        """Stop the world if nobody can release some of its PEs, or nothing has moved for the time-out."""
        found = find_deadlock(detector, progress, self._ended)
        if found is not None:
            self._deadlock, self._report = found, str(found)
            self.stop(DEADLOCK, self._report)

    def stop(self, reason: int, text: str) -> None:
        """Tell every PE to stop; the first reason counts."""
        if self._reason:
            return
        self._reason = reason
        self.recorded.note_stop(text)
        publish_stop(self._segment, reason, text)
        for pe, process in self._processes.items():
            state = self._segment.block(pe)[B_STATE]
            if pe not in self._ended and state not in (FINISHED, LEAVING):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGTERM)
        self._kill_at = time.monotonic() + self.grace_s
        self._kill_compiling_at = self._kill_at
        if reason != INTERRUPTED:
            self._kill_compiling_at += _COMPILING_GRACE_S

    def _kill_rest(self) -> None:
        left = [pe for pe in self._processes if pe not in self._ended]
        if time.monotonic() < self._kill_compiling_at and any(
            compiling.is_compiling(self._segment, pe) for pe in left
        ):
            self._kill_at = time.monotonic() + self.grace_s  # again, from when it has ended
            return
        self._kill_at = math.inf
        for pe, process in self._processes.items():
            if pe not in self._ended:
                self._killed.add(pe)
                process.kill()

    def finish_stopping(self) -> None:
        """Wait for the PEs' end after :meth:`stop`, at most for the grace period."""
        while len(self._ended) < len(self._processes) and time.monotonic() < self._kill_at:
            self._serve(0.05)
        self._kill_compiling_at = 0.0
        self._kill_rest()
        for process in self._processes.values():
            process.join()

    def close(self) -> None:
        """Close every descriptor."""
        self._input.close()
        self._output.close()
        for source in self._connections.values():
            if source is not None:
                source.close()
        self._selector.close()
        zones.report_all(self._segment)
        self.recorded.finish()
        self._segment.close()
        if self._server is not None:
            self._server.close()
        for process in self._processes.values():
            if process.exitcode is not None:
                process.close()

    # --- results ---------------------------------------------------------------------------

    def read_findings(self, checks: Checks | None) -> None:
        """Read what checks have newly found in the PEs, for :meth:`results`; leaks when all have ended."""
        if checks is not None and checks.watches_pes:
            if self._collector is None:
                self._collector = load_room().make_collector(self._segment)
            has_ended = len(self._ended) == self._n_pes
            self.findings = self._collector.read_new(leaks=checks.leak and has_ended)
            self.recorded.report(self.findings)

    def keep_trace(self) -> None:
        """Read what PEs that took turns have done."""
        self.trace = steering.load_room().read_trace(self._segment)

    def results(self) -> list[Any]:
        """Return the results, or raise what went wrong."""
        if not self._reason:
            values = [self._values[pe] for pe in self._here]
            if self.findings is not None:
                self.findings.results = values
                raise self.findings
            return values
        if self._lost is not None:
            raise ExceptionGroup("the fork server died", [self._lost])
        if self._reason == DEADLOCK:
            raise ExceptionGroup(self._report, self._deadlocked())
        roots: list[Exception] = [
            error
            for pe, error in sorted({**self._deaths, **self._errors}.items())
            # A PE may raise a StoppedError of its own.
            if not isinstance(error, StoppedError)
            or pe in self._deaths
            or pe == self._first_to_fail
        ]
        names = ", ".join(str(getattr(e, "pe", "?")) for e in roots)
        found = [] if self.findings is None else [self.findings]
        for error in roots[:1]:
            if self._killed:
                error.add_note(f"PEs {sorted(self._killed)} did not stop by themselves: killed")
        head = f"{len(roots)} of {self._n_pes} PEs failed (PE {names})"
        raise ExceptionGroup(head, [*roots, *found])

    def _deadlocked(self) -> list[Exception]:
        found: list[Exception] = []
        for pe in self._here:
            error = self._errors.get(pe)
            if error is None and pe not in self._killed:
                continue
            if error is not None and not isinstance(error, DeadlockError):
                found.append(error)
                continue
            short = DeadlockError(
                f"PE {pe} was stopped in a wait"
                if error is not None
                else f"PE {pe} did not stop and was killed"
            )
            short.pe, short.deadlock = pe, self._deadlock
            for note in getattr(error, "__notes__", []):
                short.add_note(note.replace(self._report, "(the report above)"))
            found.append(short)
        if self.findings is not None:
            found.append(self.findings)
        return found or [DeadlockError("no PE answered")]
