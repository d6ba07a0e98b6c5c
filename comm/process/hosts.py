"""``launch_over_mpi``: a launch over several hosts, each of which has a launcher; ``launch_over_hosts``: the part of one.

Every launcher is a process of MPI. It starts and watches the PEs of its host as on one host, and has an agent
(:mod:`emu.comm.hosts.agent`) beside it, through which the launchers tell each other of what ends a World: a PE that has failed or
died, a host that is lost, or that nothing moves anywhere. The first that knows of it says why, the others stop their
PEs for the same reason.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from emu.comm.check_options import Checks
from emu.comm.errors import ArgumentError, HostsError, PEDiedError, PeerFailedError
from emu.comm.fault_options import Faults
from emu.comm.hosts.agent import FOR_LAUNCHERS, Agent
from emu.comm.hosts.peers import Event
from emu.comm.hosts.places import Places
from emu.comm.hosts.warming import warm
from emu.comm.hosts.words import LANES, PORT_BYTES
from emu.comm.layout import Layout
from emu.comm.memory.segment import Segment
from emu.comm.memory.stop import DEADLOCK, INTERRUPTED, PE_DIED
from emu.comm.process import mpi as bootstrap
from emu.comm.process.host_traces import clock_offsets, collect, part_of
from emu.comm.process.input import NONE, Input
from emu.comm.process.joint_looks import JointLooks
from emu.comm.process.launch import Launch, carry_out, check_where
from emu.comm.process.launch_arguments import check_named, check_pe_count, check_positional
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.payload import Call, pack
from emu.comm.process.pe import Start
from emu.comm.server.news import News, load_kernels
from emu.comm.watchdog.detection import Detector
from emu.comm.watchdog.monitor import describe_all
from emu.comm.watchdog.progress import Progress
from emu.comm.world import recording
from emu.kernels.core import cache_folder, environment

T = TypeVar("T")

_BEAT_S = 1.0
_END_S = 3.0
"""Seconds for the last messages to leave."""
_OTHERS_S, _STUCK_END_S = 30.0, 1.5
"""Seconds for the other hosts to end after a stop: PEs that compile alone have 20. Who ended before them would have MPI's launcher
kill them, and nothing would say what they know. The same for an agent that is stuck: it will not hear of their end."""


def launch_over_mpi(
    fn: Callable[..., T],
    n_pes: int,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    options: LaunchOptions,
) -> list[T]:
    """Run ``fn(*args, **kwargs)`` on ``n_pes`` PEs, as many on each host; each process of an MPI program calls it.

    Returns:
        The results of all PEs, in PE order, on each host.

    Raises:
        ArgumentError, HostsError, ExceptionGroup, KeyboardInterrupt: As of :func:`launch_over_hosts`; or hosts cannot
            have as many PEs each.
    """
    if not callable(fn):
        raise ArgumentError(f"fn must be callable, but got {fn!r}")
    n_pes = check_pe_count(n_pes)
    check_where()
    _check_options(options)
    mpi = bootstrap.initialise()
    n_hosts = int(mpi.COMM_WORLD.Get_size())
    if n_pes % n_hosts:
        raise ArgumentError(
            f"n_pes must be a multiple of the number of hosts, {n_hosts}, with transport='mpi', but got {n_pes}"
        )
    found = launch_over_hosts(
        fn,
        n_pes // n_hosts,
        args=args,
        kwargs=kwargs,
        options=options,
        setting={"n_pes": n_pes},
    )
    return [value for host in bootstrap.exchange(mpi, found) for value in host]


def launch_over_hosts(
    fn: Callable[..., T],
    n_here: int,
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    options: LaunchOptions | None = None,
    setting: Mapping[str, object] | None = None,
) -> list[T]:
    """Run ``fn(*args, **kwargs)`` on PEs of all hosts; each process of an MPI program calls it.

    Args:
        fn: A function that a new process can import.
        n_here: PEs of this host.
        args: Positional arguments.
        kwargs: Keyword arguments. Default: none.
        options: Settings of the launch. Default: those of ``LaunchOptions()``.
        setting: What else hosts must have in common, by the names that messages use. Default: nothing.

    Returns:
        The results of this host's PEs, in PE order.

    Raises:
        ArgumentError, HostsError: An argument breaks a rule, hosts differ, or MPI is missing; nothing was started.
        ExceptionGroup: A PE failed or died, here or elsewhere, a host was lost, or nothing moved on any.
        KeyboardInterrupt: Ctrl-C, or SIGTERM.
    """
    chosen = options if options is not None else LaunchOptions()
    n_here = check_pe_count(n_here)
    chosen = _check_options(chosen)
    call = pack(fn, check_positional(args), check_named(kwargs))
    check_where()
    cache_folder.check()
    mpi = bootstrap.initialise()
    common = {
        "timeout": chosen.timeout,
        "heap_size": chosen.heap_size,
        "poison": chosen.poison,
        "trace": [Path(name).name for name in chosen.traces],  # a host may have a folder of its own
        **(setting or {}),
    }
    places = bootstrap.agree(mpi, n_here, common)
    check_pe_count(places.n_pes)
    if places.n_hosts == 1:
        raise HostsError(
            "a World over several hosts must be started by mpiexec (or srun) on at least 2, but there is only this one: "
            "mpiexec -n HOSTS emu run --pes-per-node N script.py"
        )
    return _run(mpi, places, call, chosen)


def _run(mpi: Any, places: Places, call: Call, options: LaunchOptions) -> list[Any]:
    """Start the PEs of this host and its agent, with all other hosts; return the PEs' results."""
    offsets = clock_offsets(mpi) if options.traces else []
    layout = _layout(places, options)
    warm()
    load_kernels()
    segment = Segment.create(layout)
    beat_s = max(0.05, min(_BEAT_S, options.timeout / 8))
    communicator = mpi.COMM_WORLD.Dup()
    agent = Agent(
        *(segment, places, mpi, communicator), poison=options.poison, beat_s=beat_s, news=News
    )
    world = _HostLaunch(segment, options, places, agent)
    # Agents wait for each other's signs of life from now on.
    world.begin_with_others(communicator, part_of(options.traces, places.here))
    agent.start()
    with _term_as_interrupt():
        try:
            return carry_out(world, call, options)
        finally:
            all_are_there = world.end_agent()
            bootstrap.finalise_at_exit(mpi, communicator, all_are_there=all_are_there)
            if all_are_there and options.traces:
                collect(mpi, options.traces, offsets, max(places.counts))


def _layout(places: Places, options: LaunchOptions) -> Layout:
    """Return the layout of a host's segment."""
    ports = LANES * len(places.local) * PORT_BYTES
    layout = Layout(n_pes=places.n_pes, heap_bytes=options.heap_size, port_bytes=ports)
    if not options.traces:
        return layout
    needed = recording.load_room().area_bytes(layout, options.traces)
    return replace(layout, trace_bytes=needed)


def _check_options(options: LaunchOptions) -> LaunchOptions:
    """Return the settings with what the environment adds to them, after refusing what there is not yet."""
    checks = options.checks if options.checks is not None else Checks.from_environment()
    faults = options.faults if options.faults is not None else Faults.from_environment()
    has_faults = faults is not None and bool(faults.each)
    bootstrap.check_supported(
        {
            "checks": ("", checks.names, checks.watches_pes),
            "schedule": (None, options.schedule, options.schedule is not None),
            "faults": (None, faults, has_faults),
            "link": (None, options.link, options.link is not None),
            "stdin": (NONE, options.stdin, options.stdin != NONE),
        }
    )
    if options.traces:  # whether what writes them is there
        recording.load_room().area_bytes(Layout(n_pes=1, heap_bytes=1), options.traces)
    return replace(options, checks=checks, faults=None)


@contextlib.contextmanager
def _term_as_interrupt() -> Iterator[None]:
    """Take SIGTERM, with which Slurm and MPI end jobs, as a Ctrl-C: PEs are stopped, and other hosts told."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _HostLaunch(Launch):
    """The PEs of one host of a World over several."""

    can_be_scheduled = False

    def __init__(
        self, segment: Segment, options: LaunchOptions, places: Places, agent: Agent
    ) -> None:
        super().__init__(segment, options.timeout, options.prefix_output, Input(NONE))
        self._places = places
        self._agent = agent
        self._here = places.local
        self._elsewhere = frozenset(places.distant)
        self._from: int | None = None  # the host that has asked for the stop
        self._why = ""
        self._told_quiet = False
        self._joint = JointLooks(
            segment, places, agent, options.timeout, lambda: self._describe_others(-1)
        )
        self._selector.register(agent.wake, selectors.EVENT_READ, ("agent", 0))

    # --- start -----------------------------------------------------------------------------

    def begin_with_others(self, communicator: Any, files: Sequence[str]) -> None:
        """Make the files of this host's events; return when all hosts have come here.

        Raises:
            TraceError: This host cannot make them.
            HostsError: Another one cannot.
        """
        failed: Exception | None = None
        try:
            self.recorded.begin(self._segment, files)
        except Exception as error:  # noqa: BLE001 - whatever it is, others must not wait
            failed = error
        texts = communicator.allgather(None if failed is None else str(failed))
        for host, text in enumerate(texts):
            if text is not None:
                self.close()
                raise failed or HostsError(f"{self._places.describe(host)} cannot record: {text}")

    def _variables(self) -> dict[str, str]:
        return bootstrap.without_launcher(environment.of_pes())

    def _start_of(
        self, pe: int, results: Any, out: int, err: int, given: int | None, **rest: Any
    ) -> Start:
        return super()._start_of(pe, results, out, err, given, places=self._places, **rest)

    # --- watch -----------------------------------------------------------------------------

    def watch(self) -> None:
        """Serve the PEs until each has ended, here and on all other hosts."""
        super().watch()
        self._agent.order("done")
        while not self._agent.all_are_done and not self._reason:
            self._serve(0.02)
            self._look_for_ended_hosts()
            self._joint.look()  # PEs elsewhere may wait for those that have ended here
        self._await_others()

    def _await_others(self) -> None:
        """Wait until the PEs of all hosts that are not lost have ended, after a stop, but not for ever."""
        now = stopped_at = time.monotonic()
        while not self._agent.all_are_done and now - stopped_at < _OTHERS_S:
            if self._agent.is_stuck and now - stopped_at > _STUCK_END_S:
                return
            self._serve(0.02)
            self._look_for_ended_hosts()
            now = time.monotonic()

    def _serve_other(self, kind: str) -> None:

        os.read(self._agent.wake, 4096)
        while self._agent.events:
            self._hear(self._agent.events.popleft())

    def _hear(self, event: Event) -> None:
        """Take what the agent tells: all of it is a reason to stop."""
        name = self._places.describe(event.host)
        if event.kind == "stop":
            if not self._reason:
                self._from = event.host
            self.stop(event.reason, event.text)
        elif event.kind == "lost":
            self._lose(f"{name} is lost: {event.text}")
        elif event.kind == "broken":
            self._lose(f"the agent of {name} has failed:\n{event.text}")
        elif event.kind in FOR_LAUNCHERS:
            self._hear_launcher(event)
        elif not self._reason:  # behind a stop everything changes
            self._report = f"deadlock: nothing has moved on any host for {self._timeout:.3g} s, and PEs wait:\n{event.text}"
            self.stop(DEADLOCK, self._report)

    def _hear_launcher(self, event: Event) -> None:
        """Take what a launcher says to find deadlocks."""
        if self._reason:
            return
        if event.kind == "waits":
            self._joint.note_waits()
        elif event.kind == "look":
            pids = [
                self._processes[pe].pid if pe in self._processes else 0 for pe in range(self._n_pes)
            ]
            self._joint.answer(event.message, pids, self._ended)
        else:
            found = self._joint.take(event.host, event.message)
            if found is not None:
                self._deadlock, self._report = found, str(found)
                self.stop(DEADLOCK, self._report)

    def _lose(self, text: str) -> None:
        if not self._reason:
            self._from = self._places.here
            others = self._describe_others(-1)
            self.stop(PE_DIED, f"{text}. When that was found:\n{others}")

    def _look_for_ended_hosts(self) -> None:
        event = self._agent.find_ended()
        if event is not None and not self._reason:
            self._hear(event)

    def _describe_others(self, pe: int) -> str:
        """Return what PEs of this host wait for."""
        return f"on {self._name}:\n{describe_all(self._segment, self._elsewhere | {pe})}"

    def _look_for_deadlock(self, progress: Progress, detector: Detector) -> None:
        """Stop the world if nobody can release PEs of this host; tell other hosts whether anything moves here."""
        self._look_for_ended_hosts()
        found = detector.look(self._ended)
        if found is not None:
            self._deadlock, self._report = found, str(found)
            self.stop(DEADLOCK, self._report)
            return
        self._joint.look()
        is_quiet = progress.stalled()
        if is_quiet != self._told_quiet:
            self._told_quiet = is_quiet
            self._agent.order("quiet", text=self._describe_others(-1) if is_quiet else "")

    def stop(self, reason: int, text: str) -> None:
        """Tell every PE to stop, and all other hosts, unless one of them has said so; the first reason counts."""
        if self._reason:
            return
        self._why = text
        if self._from is None or self._from == self._places.here:
            self._from = self._places.here
            said = text if reason != INTERRUPTED else f"{text} on {self._name}"
            self._agent.order("stop", reason=reason, text=said)
        super().stop(reason, text)

    @property
    def _name(self) -> str:
        return self._places.describe(self._places.here)

    def finish_stopping(self) -> None:
        """Wait for the PEs' end, and give the agent the time to tell other hosts why."""
        super().finish_stopping()
        self._agent.order("done")
        self._await_others()

    def end_agent(self) -> bool:
        """End the agent; return whether all hosts have come to their end, so that MPI can be finalised."""
        all_are_there = not self._agent.lost and self._agent.all_are_done
        return self._agent.end(_END_S) and all_are_there

    # --- results ---------------------------------------------------------------------------

    def results(self) -> list[Any]:
        """Return the results of the PEs here, or raise what went wrong, here or elsewhere."""
        if not self._reason:
            return super().results()
        if self._from != self._places.here:
            host = self._places.describe(self._from or 0)
            first = self._why.split("\n", 1)[0]
            raise ExceptionGroup(
                f"stopped by {host}", [PeerFailedError(f"stopped by {host}: {first}")]
            )
        if self._reason == PE_DIED and not self._deaths:
            raise ExceptionGroup("a host is lost", [PEDiedError(self._why)])
        return super().results()
