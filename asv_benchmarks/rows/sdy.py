"""sdy: MLIR text and Shardy's propagation, beside Shardy itself as it is in jaxlib."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from rows.jax_python import VARIABLE, jax_python
from rows.measure import Bench, Clock, Goal, Outcome, Settings, duel, typical
from rows.sdy_programs import mlp, transformer
from rows.team import PEERS, TeamError, environment

STEP, STEP_WITH_LOCATIONS = "train step", "train step with locations"


def _lowered(layers: int, *options: str) -> str:
    """Return a training step of a transformer as JAX lowers it.

    Raises:
        TeamError: JAX is not installed, or fails.
    """
    python = jax_python()
    if python is None:
        raise TeamError("JAX is not installed")
    command = [python, str(PEERS / "sdy_lower.py"), str(layers), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if done.returncode:
        raise TeamError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return done.stdout


PROGRAMS: dict[str, Callable[[int], str]] = {
    "mlp": mlp,
    "transformer": transformer,
    # Of as many layers, not operations.
    STEP: _lowered,
    STEP_WITH_LOCATIONS: lambda layers: _lowered(layers, "locations"),
}
PIPELINE = "sdy-propagation-pipeline"
RULES = "func.func(sdy-populate-op-sharding-rules)"
PRIORITIES = "sdy-user-priority-propagate"
_QUICK = 140  # operations in a smoke run
_LONG = 5000  # from here on a call is a round


@lru_cache(maxsize=4)
def text_of(program: str, ops: int) -> str:
    return PROGRAMS[program](ops)


def count(module: Any) -> int:
    return sum(1 for _ in module.walk())


def task(name: str, passes: str, text: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """Return what comes before each call and is not counted, and the call."""
    import emu.sdy
    from emu.mlir import to_text

    if name == "run":
        return lambda: emu.sdy.parse(text), lambda module: emu.sdy.run_passes(module, passes)
    module = emu.sdy.parse(text)
    given = {"unpickle": lambda: pickled}
    pickled = pickle.dumps(module) if name == "unpickle" else b""
    calls: dict[str, Callable[[Any], object]] = {
        "parse": lambda _: emu.sdy.parse(text),
        "print": lambda _: str(module),
        "round trip": lambda _: str(emu.sdy.parse(text)),
        "round trip with locations": lambda _: to_text(emu.sdy.parse(text), locations=True),
        "pickle": lambda _: pickle.dumps(module),
        "unpickle": pickle.loads,
        "explain": lambda _: emu.sdy.explain(module),
        "plain": lambda _: emu.sdy.run_passes(module.clone(), PIPELINE, verify_each=False),
    }
    return given.get(name, lambda: None), calls[name]


def clock_of(name: str, passes: str, text: str) -> Clock:
    prepare, call = task(name, passes, text)

    def seconds(calls: int) -> float:
        spent = 0.0
        for _ in range(calls):
            given = prepare()
            start = time.process_time()
            result = call(given)
            spent += time.process_time() - start
            del result, given
        return spent

    return seconds


# ---- Shardy in C++


@contextlib.contextmanager
def _shardy(python: str, text: str) -> Iterator[Callable[[str, str, int], float]]:
    """Start jaxlib in a process of its own; gives what asks it.

    Raises:
        TeamError: It does not run.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".mlir", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            process = subprocess.Popen(
                [python, str(PEERS / "sdy_jaxlib.py"), file.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise TeamError(f"{VARIABLE}: {error}") from None

        def ask(*request: object) -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except BrokenPipeError:
                answer = ""
            if not answer:
                said = process.stderr.read().strip().splitlines()
                raise TeamError(f"jaxlib: {(said or ['no message'])[-1]}")
            return float(answer)

        try:
            yield ask
        finally:
            process.kill()
            process.communicate()


# ---- rows


def _in_turn(settings: Settings, ours: Clock, theirs: Clock | None, note: str, ops: int) -> Outcome:
    if ops < _LONG or settings.quick:
        return duel(settings, ours, theirs, note)
    samples: list[list[float]] = [[], []]
    deadline = time.monotonic() + settings.budget_s
    while not samples[0] or (len(samples[0]) < 5 and time.monotonic() < deadline):
        samples[0].append(ours(1))
        if theirs is not None:
            samples[1].append(theirs(1))
    found = [typical(each) if each else None for each in samples]
    return Outcome(found[0], found[1], note)


def _measure(settings: Settings, name: str, passes: str, text: str, ops: int) -> Outcome:
    """Return a task of the same name on both sides."""
    ours, python = clock_of(name, passes, text), jax_python()
    if python is None:
        note = f"jaxlib is not installed, and {VARIABLE} names no interpreter"
        return _in_turn(settings, ours, None, note, ops)
    try:
        with _shardy(python, text) as ask:
            theirs = partial(ask, name, passes)
            theirs(1)
            return _in_turn(settings, ours, theirs, "", ops)
    except TeamError as error:
        return _in_turn(settings, ours, None, str(error), ops)


def _beside_shardy(
    settings: Settings,
    name: str,
    passes: str = "",
    program: str = "mlp",
    ops: int = 1400,
    per_op: bool = True,
) -> Outcome:
    import emu.sdy

    is_lowered = PROGRAMS[program] not in (mlp, transformer)
    text = text_of(program, (1 if is_lowered else _QUICK) if settings.quick else ops)
    found = _measure(settings, name, passes, text, ops)
    each = count(emu.sdy.parse(text)) if per_op else 1
    ours, theirs = (t and t / each for t in (found.ours, found.theirs))
    return Outcome(ours, theirs, found.note)


def _ours(settings: Settings, name: str, other: str | None = None) -> Outcome:
    """Tasks that Shardy has not."""
    text = text_of("mlp", _QUICK if settings.quick else 1400)
    theirs = None if other is None else clock_of(other, "", text)
    return duel(settings, clock_of(name, "", text), theirs)


def _rows(name: str, passes: str, goal: Goal, *sizes: int, called: str = "") -> list[Bench]:
    return [
        Bench(
            f"sdy/{called or name}, {ops} operations",
            "Shardy in C++",
            "us",
            goal,
            partial(_beside_shardy, name=name, passes=passes, ops=ops),
        )
        for ops in sizes
    ]


def _whole(program: str, goal: Goal, *sizes: int) -> list[Bench]:
    return [
        Bench(
            f"sdy/propagation pipeline, {program}, {ops} operations",
            "Shardy in C++",
            "s",
            goal,
            partial(
                _beside_shardy,
                name="run",
                passes=PIPELINE,
                program=program,
                ops=ops,
                per_op=False,
            ),
        )
        for ops in sizes
    ]


def _lowered_rows(layers: int) -> list[Bench]:
    """Text and pipeline of a program as JAX writes it."""

    def row(case: str, unit: str, name: str, program: str = STEP, passes: str = "") -> Bench:
        run = partial(
            _beside_shardy,
            name=name,
            passes=passes,
            program=program,
            ops=layers,
            per_op=unit == "us",
        )
        called = f"sdy/{case}, train step of {layers} layers"
        return Bench(called, "Shardy in C++", unit, Goal(ratio=0.35), run)

    return [
        row("parse, verify and print", "us", "round trip"),
        row(
            "parse, verify and print with locations",
            "us",
            "round trip with locations",
            STEP_WITH_LOCATIONS,
        ),
        row("propagation pipeline", "s", "run", STEP_WITH_LOCATIONS, PIPELINE),
    ]


def _startup(settings: Settings, arguments: list[str]) -> Outcome:
    """Run a fresh process each time, with bytecode on disk as where emu is installed."""
    found = []
    with tempfile.TemporaryDirectory(prefix="emu-bench-") as folder:
        file = Path(folder, "small.mlir")
        file.write_text(text_of("mlp", 20), encoding="utf-8")
        command = [sys.executable, "-m", "emu", "sdy", "opt", *(arguments or [str(file)])]
        env = {**environment(), "PYTHONPYCACHEPREFIX": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(1 + (2 if settings.quick else 9)):
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
            found.append(time.perf_counter() - start)
            if done.returncode:
                raise TeamError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return Outcome(typical(found[1:]))


ROWS = [
    *_rows("parse", "", Goal(), 1400, called="parse and verify"),
    *_rows("print", "", Goal(), 1400),
    *_rows(
        "round trip", "", Goal(at_most=150), 1400, 14_000, 100_000, called="parse, verify and print"
    ),
    *_rows("run", RULES, Goal(), 1400, called="populate rules"),
    *_rows("run", PRIORITIES, Goal(), 1400, 14_000, called="user-priority-propagate"),
    *_whole("mlp", Goal(at_most=2.0), 1400),
    *_whole("mlp", Goal(at_most=20.0), 14_000),
    *_whole("transformer", Goal(at_most=2.0), 1400),
    *_whole("transformer", Goal(at_most=20.0), 14_000),
    *_lowered_rows(4),
    *_lowered_rows(12),
    Bench("sdy/pickle, 1400 operations", "-", "ms", Goal(), partial(_ours, name="pickle")),
    Bench("sdy/unpickle, 1400 operations", "-", "ms", Goal(), partial(_ours, name="unpickle")),
    Bench(
        "sdy/explain, 1400 operations",
        "the pipeline alone",
        "s",
        Goal(),
        partial(_ours, name="explain", other="plain"),
    ),
    Bench(
        "sdy/emu sdy opt --help",
        "-",
        "s",
        Goal(at_most=0.15),
        partial(_startup, arguments=["--help"]),
    ),
    Bench(
        "sdy/emu sdy opt, a small file",
        "-",
        "s",
        Goal(at_most=0.3),
        partial(_startup, arguments=[]),
    ),
]
