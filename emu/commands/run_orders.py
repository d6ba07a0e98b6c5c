"""``emu run --explore`` and ``--replay``: a program in many orders, or in one again."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from emu.commands.option_types import ALL_ORDERS

_OWN = ("--explore", "--seed", "--strategy", "--replay")
"""Options that say how the orders are chosen; a replay has no use for them."""
_EVERY_S = 5.0


def recorded_words(path: str) -> list[str]:
    """Return the words behind ``emu run`` with which the order in a file is repeated.

    Raises:
        ArgumentError: The file has none.
    """
    from emu.comm.errors import ArgumentError
    from emu.schedule import Replay

    command = Replay.load(path).command
    if not command:
        raise ArgumentError(
            f"replay must be a file with a command, but {path!r} has none: name the script"
        )
    return ["--replay", path, *command]


def launcher(options: argparse.Namespace, words: Sequence[str]) -> Callable[..., None] | None:
    """Return what starts the PEs of a run instead of one launch: many launches, or one in a known order.

    Args:
        options: Those of ``emu run``.
        words: The words behind ``emu run``.

    Returns:
        What is called as :func:`emu.launch`, and raises what a failing launch does; None: neither was asked for.

    Raises:
        ArgumentError: The options exclude each other.
    """
    from emu.comm.errors import ArgumentError

    if options.explore is None:
        for name in ("seed", "strategy"):
            if getattr(options, name) is not None:
                raise ArgumentError(f"{name} must only be given with --explore")
        return None if options.replay is None else lambda *a, **k: _replay(options, *a, **k)
    if options.trace:
        raise ArgumentError(
            "trace must not be given with --explore, which runs the program many times: give it with "
            "--replay FILE, to see the order that failed"
        )
    for name in ("count", "predict"):
        if getattr(options, name):
            raise ArgumentError(
                f"{name} must not be given with --explore, which runs the program many times: give it with --replay FILE"
            )
    if options.replay is not None:
        raise ArgumentError("replay must not be given with explore")
    if options.explore == ALL_ORDERS and options.strategy is not None:
        raise ArgumentError(
            f"strategy must not be given with --explore all, but got {options.strategy!r}"
        )
    return lambda *a, **k: _explore(options, _command(options, words), *a, **k)


def _command(options: argparse.Namespace, words: Sequence[str]) -> tuple[str, ...]:
    """Return the words without those that chose the orders, with the script's whole path."""
    behind = options.module or [options.script, *options.arguments]
    head = list(words[: len(words) - len(behind)])
    kept: list[str] = []
    while head:
        word = head.pop(0)
        if word in _OWN:
            head.pop(0)
        elif word.partition("=")[0] not in _OWN:
            kept.append(word)
    if options.script not in (None, "-"):
        behind = [str(Path(behind[0]).resolve()), *behind[1:]]
    return (*kept, *behind)


def _explore(
    options: argparse.Namespace,
    command: tuple[str, ...],
    fn: Callable[..., Any],
    n_pes: int,
    *,
    args: Sequence[Any],
    **fields: Any,
) -> None:
    from dataclasses import replace

    from emu.comm.check_options import STRONG
    from emu.schedule.exploring import ALL, MIX, explore_program
    from emu.schedule.running import Outcome, Program

    told = time.monotonic()

    def watch(number: int, outcome: Outcome) -> None:
        nonlocal told
        if time.monotonic() - told > _EVERY_S:
            told = time.monotonic()
            print(f"emu: {number} orders", file=sys.stderr)  # noqa: T201 - progress

    everything = options.explore == ALL_ORDERS
    seed = options.seed if options.seed is not None else time.time_ns() % 100_000
    found = explore_program(
        Program(fn, n_pes, args, None, None, {**fields, "stdin": "none", "prefix_output": True}),
        runs=_MOST if everything else options.explore,
        seed=seed,
        strategy=ALL if everything else options.strategy or MIX,
        late=fields["checks"].memory_model != STRONG,
        watch=watch,
    )
    if found.failure is None:
        print(f"{found}" if everything else f"{found} Seed {seed}.")  # noqa: T201 - the result
        return
    failure = found.failure
    path = Path(f"emu-replay-{seed}-{failure.run}.json")
    with contextlib.suppress(OSError):  # the folder may be read-only; the table is printed anyway
        replace(failure.replay, command=command).save(path)
    sys.stdout.write(failure.outcome.output)
    print(failure)  # noqa: T201 - the result
    if path.exists():
        print(f"The order is in {path}; emu run --replay {path} repeats it.")  # noqa: T201
    assert failure.outcome.error is not None
    raise failure.outcome.error


_MOST = 20_000


def _replay(
    options: argparse.Namespace,
    fn: Callable[..., Any],
    n_pes: int,
    *,
    args: Sequence[Any],
    **fields: Any,
) -> None:
    from emu.comm.errors import ArgumentError
    from emu.schedule import Replay
    from emu.schedule.exploring import replay_program
    from emu.schedule.running import Program
    from emu.schedule.table import interleaving

    order = Replay.load(options.replay)
    if order.n_pes != n_pes:
        raise ArgumentError(
            f"-n must be {order.n_pes}, as it was when the order was found, but got {n_pes}"
        )
    program = Program(fn, n_pes, args, None, None, {**fields, "stdin": "none"})
    outcome, difference = replay_program(order, program)
    sys.stdout.write(outcome.output)
    print(interleaving(outcome.trace))  # noqa: T201 - the result
    if difference is None:
        print(f"The order was repeated exactly: {len(order.steps)} operations.")  # noqa: T201
    else:
        print(f"The order could not be repeated: {difference}.")  # noqa: T201
    if outcome.error is not None:
        raise outcome.error
