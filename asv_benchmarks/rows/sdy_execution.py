"""sdy: partitioned programs that run on PEs, beside JAX on as many virtual CPU devices."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rows.jax_python import jax_python
from rows.measure import Bench, Goal, Outcome, Settings, typical
from rows.team import PEERS, TeamError, environment

HERE = Path(__file__).resolve().parent
COLLECTIVES = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute")


@dataclass(frozen=True)
class Step:
    """Seconds of a step: by the clock, and of all processors."""

    clock: float
    processor: float


class Runner:
    """A process that compiles a program and runs its steps when asked.

    Attributes:
        told: What it said after the first step: seconds of "compile" and "first", and the "value".
    """

    def __init__(self, command: list[str], **settings: str) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment(), **settings},
        )
        self.told = json.loads(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        answer = self._process.stdout.readline()
        if not answer:
            said = self._process.stderr.read().strip().splitlines()
            raise TeamError((said or ["no message"])[-1])
        return answer

    def steps(self, count: int) -> Step:
        """Run steps; return what one took."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        clock, processor = json.loads(self._answer())
        return Step(clock / count, processor / count)

    def compiling(self, step: Step) -> float:
        """Return the seconds of compilation, with what of it the first step did."""
        return float(self.told["compile"] + max(0.0, self.told["first"] - step.clock))

    def close(self) -> None:
        """End the process."""
        try:
            self._process.communicate(timeout=20)  # it closes its input, which ends the process
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


@contextlib.contextmanager
def _running(command: list[str], **settings: str) -> Iterator[Runner]:
    runner = Runner(command, **settings)
    try:
        yield runner
    finally:
        runner.close()


@contextlib.contextmanager
def _jax(program: str, devices: int, folder: str, quick: bool) -> Iterator[Runner]:
    python = jax_python()
    if python is None:
        raise TeamError("JAX is not installed")
    command = [python, str(PEERS / "jax_run.py"), program, str(devices), folder]
    with _running([*command, "small"] if quick else command) as runner:
        yield runner


def _emu(
    folder: str, state: int, devices: int = 8, **settings: str
) -> contextlib.AbstractContextManager[Runner]:
    command = [sys.executable, str(HERE / "sdy_steps.py"), folder, str(state), str(devices)]
    return _running(command, **settings)


def _check_values(ours: Runner, theirs: Runner) -> None:
    a, b = ours.told["value"], theirs.told["value"]
    if not abs(a - b) <= 1e-3 * abs(b):
        raise TeamError(f"the first step gives {a}, but JAX {b}")


def _steps(settings: Settings, program: str, devices: int) -> Outcome:
    """Compare steps, in turn."""
    with (
        tempfile.TemporaryDirectory(prefix="emu-bench-") as folder,
        _jax(program, devices, folder, settings.quick) as theirs,
        _emu(folder, theirs.told["state"], devices) as ours,
    ):
        _check_values(ours, theirs)
        samples: dict[Runner, list[Step]] = {ours: [], theirs: []}
        counts = {each: _count(each, settings) for each in samples}
        deadline = time.monotonic() + 2 * settings.budget_s
        for turn in range(settings.rounds):
            for each in (ours, theirs) if turn % 2 else (theirs, ours):
                samples[each].append(each.steps(counts[each]))
            if turn >= 2 and time.monotonic() > deadline:
                break
    clock = [typical([step.clock for step in samples[each]]) for each in (ours, theirs)]
    processor = [typical([step.processor for step in samples[each]]) for each in (ours, theirs)]
    note = f"processor time {processor[0]:.3g} s a step, JAX {processor[1]:.3g} s"
    return Outcome(clock[0], clock[1], note)


def _count(runner: Runner, settings: Settings) -> int:
    """Return how many steps make a round; warms up."""
    runner.steps(1)
    once = runner.steps(1).clock
    return max(1, min(1000, int(10 * settings.round_s / max(once, 1e-6))))


def _compilation(settings: Settings, warm: bool) -> Outcome:
    """Compare the compilation of the transformer's step: partition, plan and kernels."""
    found: list[list[float]] = [[], []]
    with tempfile.TemporaryDirectory(prefix="emu-bench-") as root:
        folder, kernels = Path(root, "folder"), Path(root, "kernels")
        folder.mkdir()
        # emu's own kernels are compiled once on a machine, whatever the programs, as XLA's are in its wheel.
        warm_up = [sys.executable, "-m", "emu", "doctor", "--warm"]
        settings_of_cache = {**environment(), "EMU_CACHE_DIR": str(kernels)}
        subprocess.run(warm_up, env=settings_of_cache, capture_output=True, check=True)
        for turn in range(1 if settings.quick else 3):
            with _jax("transformer", 8, str(folder), settings.quick) as theirs:
                state = theirs.told["state"]
                found[1].append(theirs.compiling(theirs.steps(1)))
            cache = shutil.copytree(kernels, Path(root, f"cache{turn}"))
            for _ in range(2 if warm else 1):
                with _emu(str(folder), state, EMU_CACHE_DIR=str(cache)) as ours:
                    seconds = ours.compiling(ours.steps(1))
            found[0].append(seconds)
    return Outcome(typical(found[0]), typical(found[1]))


def _row(name: str, program: str, devices: int, ratio: float) -> Bench:
    return Bench(
        f"sdy run/{name}, {devices} PE{'s' * (devices > 1)}",
        f"JAX, {devices} device{'s' * (devices > 1)}",
        "ms",
        Goal(ratio=ratio),
        partial(_steps, program=program, devices=devices),
    )


ROWS = [
    _row("step of a transformer", "transformer", 8, 1.0),
    _row("step of a transformer", "transformer", 1, 0.9),
    _row("step of an MLP of 4096", "mlp", 8, 1.0),
    *(_row(f"{name} of 16 MiB", name, 8, 1.5) for name in COLLECTIVES),
    Bench(
        "sdy run/compile a transformer, empty cache",
        "JAX, 8 devices",
        "s",
        Goal(ratio=0.5),
        partial(_compilation, warm=False),
    ),
    Bench(
        "sdy run/compile a transformer, full cache",
        "JAX, 8 devices",
        "s",
        Goal(ratio=1 / 0.3),
        partial(_compilation, warm=True),
    ),
]
