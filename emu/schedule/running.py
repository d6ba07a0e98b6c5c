"""Runs of a program, each in an order that is asked for."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emu.check.reports import CheckError
from emu.comm.errors import StoppedError
from emu.comm.process.launch import Launch, carry_out, prepare
from emu.comm.process.launch_options import LaunchOptions
from emu.comm.process.outcome import summary_of
from emu.comm.schedule_options import FIRST, Schedule
from emu.schedule.trace import Trace


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        schedule: The order that was asked for.
        trace: What the PEs did.
        error: What the launch raised; None: it ended well.
        results: What the PEs returned; None: it did not end well.
        output: What the PEs printed.
    """

    schedule: Schedule
    trace: Trace
    error: Exception | None
    results: list[Any] | None
    output: str

    @property
    def repeating(self) -> Schedule:
        """The schedule that repeats the run: where its order departs from that of ``"first"``."""
        return replace(self.schedule, strategy=FIRST, switches=self.trace.switches, prefix=())

    @property
    def signature(self) -> tuple[str, ...]:
        """Kinds of the errors: runs with the same ones fail alike. Empty: it ended well."""
        if self.error is None:
            return ()
        return tuple(sorted({_kind(error) for error in _leaves(self.error)}))

    @property
    def summary(self) -> str:
        """The errors in a line or two."""
        if self.error is None:
            return "ended well"
        leaves = [e for e in _leaves(self.error) if not isinstance(e, StoppedError)]
        found = leaves or _leaves(self.error)
        first = found[0]
        where = f"PE {pe}: " if (pe := getattr(first, "pe", None)) is not None else ""
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{where}{summary_of(first)}{more}"


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _leaves(part)]
    return [error]


def _kind(error: BaseException) -> str:
    if isinstance(error, CheckError):
        return f"CheckError {sorted(str(report.pair) for report in error.reports)}"
    return type(error).__name__


@dataclass(frozen=True)
class Program:
    """A launch that can be repeated.

    Attributes:
        fn: What each PE calls.
        n_pes: Number of PEs.
        args: Positional arguments.
        kwargs: Keyword arguments.
        options: Settings of the launch; the schedule is replaced.
        fields: Further settings.
    """

    fn: Callable[..., Any]
    n_pes: int
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    options: LaunchOptions | None = None
    fields: Mapping[str, Any] | None = None

    def run(self, schedule: Schedule) -> Outcome:
        """Run it once in an order.

        Raises:
            ArgumentError: An argument breaks a rule; nothing was started.
        """
        given = self.fields or {}
        # What each PE would else load anew, in each run.
        preload = (*(given.get("preload") or ()), "emu.schedule.preload")
        fields = {**given, "schedule": schedule, "preload": preload}
        world, call, chosen = prepare(
            Launch, self.fn, self.n_pes, self.args, self.kwargs, self.options, fields
        )
        printed = io.StringIO()
        error: Exception | None = None
        results: list[Any] | None = None
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                results = carry_out(world, call, chosen)
            except Exception as found:  # noqa: BLE001 - whatever the PEs raised is the outcome
                error = found
        if world.trace is None:  # it could not start
            assert error is not None
            raise error
        return Outcome(schedule, world.trace, error, results, printed.getvalue())
