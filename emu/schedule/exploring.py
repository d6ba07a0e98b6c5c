"""``explore``: a program in many orders, until one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Unpack

from emu.comm.errors import ArgumentError
from emu.comm.process.launch_options import LaunchFields, LaunchOptions
from emu.comm.schedule_options import DELAY, FIRST, PCT, RANDOM, STARVE, Schedule
from emu.kernels.core.messages import shown
from emu.schedule.exhaustive import every_order
from emu.schedule.replaying import Replay
from emu.schedule.running import Outcome, Program
from emu.schedule.shrinking import shrink
from emu.schedule.strategies import mix
from emu.schedule.table import interleaving

MIX, ALL = "mix", "all"
STRATEGIES = (MIX, ALL, PCT, RANDOM, DELAY, STARVE)

_MIXED = ((PCT, 2), (DELAY, 1), (RANDOM, 1), (PCT, 3), (STARVE, 1))
_MOST_RUNS = 1 << 20
_SHRINKING = 80
"""Further runs for a shorter order."""


@dataclass(frozen=True)
class Failure:
    """An order in which a program fails.

    Attributes:
        run: Number of the run that found it, from 1.
        replay: The shortest order that fails alike.
        outcome: The run in that order.
        switches: Switches in the order that was found first, and in this one.
        nondeterminism: What kept a run from repeating an order; None: they repeat it.
    """

    run: int
    replay: Replay
    outcome: Outcome
    switches: tuple[int, int]
    nondeterminism: str | None

    def __str__(self) -> str:
        before, now = self.switches
        switches = f"{now} switch{'es' * (now != 1)}"
        lines = [
            f"order {self.run} fails: {self.outcome.summary}",
            f"The shortest order that fails alike has {switches} between PEs ({before} when it was found):",
            interleaving(self.outcome.trace),
        ]
        if self.nondeterminism is not None:
            lines.append(f"The order could not be repeated exactly: {self.nondeterminism}.")
        return "\n".join(lines)


@dataclass(frozen=True)
class Exploration:
    """What was found in many orders.

    Attributes:
        runs: How many times the program was run, without the runs that shortened an order.
        orders: In how many different orders.
        is_complete: Whether these were all orders, but for those that only exchange operations that do not touch
            each other.
        seconds: How long it took.
        failure: The first order that fails; None: there was none.
    """

    runs: int
    orders: int
    is_complete: bool
    seconds: float
    failure: Failure | None

    def __str__(self) -> str:
        if self.failure is not None:
            return str(self.failure)
        which = "all orders" if self.is_complete else f"{self.orders} different orders"
        return f"No failure in {self.runs} runs, {which}, {self.seconds:.1f} s."


def explore(
    fn: Callable[..., Any],
    n_pes: int,
    *,
    runs: int = 200,
    seed: int = 0,
    strategy: str = MIX,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    options: LaunchOptions | None = None,
    **fields: Unpack[LaunchFields],
) -> Exploration:
    """Run a program again and again, each time in another order of its PEs' operations, until one fails.

    An order fails if the launch raises: a PE raised, waits for ever, or a check found something. It is then
    made as short as it can be, and can be repeated by :func:`replay`.

    Args:
        fn: As of :func:`emu.launch`.
        n_pes: Number of PEs.
        runs: At most how many times it is run, 1 to 2**20.
        seed: Seed of the orders; the same seed gives the same orders.
        strategy: ``"pct"``, ``"random"``, ``"delay"``, ``"starve"`` as of :class:`emu.Schedule`; ``"mix"``: each of them in turn;
            ``"all"``: every order, for programs of few operations.
        args: As of :func:`emu.launch`.
        kwargs: As of :func:`emu.launch`.
        options: Settings of the launches.
        **fields: Fields of :class:`emu.LaunchOptions`, which take precedence; ``schedule`` gives ``late``, and nothing else.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was started.
    """
    if type(runs) is not int or not 1 <= runs <= _MOST_RUNS:
        raise ArgumentError(f"runs must be an integer in [1, {_MOST_RUNS}], but got {shown(runs)}")
    if strategy not in STRATEGIES:
        raise ArgumentError(
            f"strategy must be one of {', '.join(STRATEGIES)}, but got {shown(strategy)}"
        )
    base = fields.get("schedule") or (options.schedule if options else None) or Schedule()
    given = {name: value for name, value in fields.items() if name != "schedule"}
    Schedule(seed=seed)
    program = Program(fn, n_pes, args, kwargs, options, given)
    return explore_program(program, runs=runs, seed=seed, strategy=strategy, late=base.late)


def explore_program(
    program: Program,
    *,
    runs: int,
    seed: int,
    strategy: str,
    late: bool,
    watch: Callable[[int, Outcome], None] = lambda number, outcome: None,
) -> Exploration:
    """Explore a launch; ``watch`` is told of each run."""
    began = time.monotonic()
    seen: set[tuple[int, ...]] = set()
    number = 0
    failure = None
    outcomes = (
        every_order(program.run, program.n_pes, late=late)
        if strategy == ALL
        else _drawn(program, seed, strategy, late)
    )
    ended = True
    for outcome in islice(outcomes, runs + 1):
        if number == runs:
            ended = False
            break
        number += 1
        seen.add(outcome.trace.actors)
        watch(number, outcome)
        if outcome.error is not None:
            failure = _failure(program, number, outcome)
            break
    return Exploration(
        runs=number,
        orders=len(seen),
        is_complete=strategy == ALL and ended and failure is None,
        seconds=time.monotonic() - began,
        failure=failure,
    )


def _drawn(program: Program, seed: int, strategy: str, late: bool) -> Iterator[Outcome]:
    """Yield runs in orders that are drawn; the first is the order in which each PE goes on as long as it can."""
    outcome = program.run(Schedule(strategy=FIRST, late=late))
    yield outcome
    length, number = max(1, len(outcome.trace.steps)), 0
    while True:
        name, depth = (
            _MIXED[number % len(_MIXED)] if strategy == MIX else (strategy, 2 + number % 2)
        )
        yield program.run(
            Schedule(
                strategy=name,
                depth=depth,
                length=length,
                seed=mix(seed, number) >> 1,
                late=late,
            )
        )
        number += 1


def _failure(program: Program, number: int, found: Outcome) -> Failure:
    """Return the shortest order that fails like a run, after the run was repeated."""
    again = program.run(found.repeating)
    differs = Replay.of(found).difference(again.trace)
    if again.signature != found.signature:
        differs = differs or f"it ended otherwise: {again.summary}"
        best = found
    else:
        best = shrink(program.run, again, limit=_SHRINKING)
    counts = (len(found.trace.switches), len(best.trace.switches))
    return Failure(number, Replay.of(best), best, counts, differs)


def replay(
    order: Replay,
    fn: Callable[..., Any],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    options: LaunchOptions | None = None,
    **fields: Unpack[LaunchFields],
) -> tuple[Outcome, str | None]:
    """Run a program in the order in which it failed.

    Args:
        order: The order: ``failure.replay``, or ``emu.schedule.Replay.load(path)``.
        fn: As of :func:`emu.launch`.
        args: As of :func:`emu.launch`.
        kwargs: As of :func:`emu.launch`.
        options: Settings of the launch.
        **fields: Fields of :class:`emu.LaunchOptions`.

    Returns:
        How the run ended, and what kept it from repeating the order; None: it did repeat it.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was started.
    """
    if not isinstance(order, Replay):
        raise ArgumentError(f"order must be an emu.schedule.Replay, but got {shown(order)}")
    given = {name: value for name, value in fields.items() if name != "schedule"}
    return replay_program(order, Program(fn, order.n_pes, args, kwargs, options, given))


def replay_program(order: Replay, program: Program) -> tuple[Outcome, str | None]:
    """Run a launch in an order; return as :func:`replay` does."""
    outcome = program.run(order.schedule)
    return outcome, order.difference(outcome.trace)
