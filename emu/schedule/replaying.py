"""``Replay``: a failing order in a file, and whether a run repeats it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emu.comm.errors import ArgumentError
from emu.comm.schedule_options import Schedule
from emu.kernels.core.messages import shown
from emu.schedule.running import Outcome
from emu.schedule.trace import Trace

_FORMAT, _VERSION = "emu-replay", 1


@dataclass(frozen=True)
class Replay:
    """An order in which a program failed.

    Attributes:
        n_pes: Number of PEs.
        schedule: The order.
        steps: What the PEs did: actor, operation, file and line of each step.
        failure: How the run ended.
        command: Arguments of ``emu run`` with which it is repeated; empty: it was no command.
    """

    n_pes: int
    schedule: Schedule
    steps: tuple[tuple[int, str, str, int], ...]
    failure: str
    command: tuple[str, ...] = ()

    @classmethod
    def of(cls, outcome: Outcome) -> Replay:
        """Return the replay of a run."""
        trace = outcome.trace
        steps = tuple(step.signature for step in trace.steps)
        return cls(trace.n_pes, outcome.repeating, steps, outcome.summary)

    def save(self, path: str | Path) -> None:
        """Write it to a file, as JSON."""
        data = {
            "format": _FORMAT,
            "version": _VERSION,
            "n_pes": self.n_pes,
            "command": list(self.command),
            "failure": self.failure,
            "schedule": self.schedule.as_data(),
            "steps": [list(step) for step in self.steps],
        }
        Path(path).write_text(json.dumps(data, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Replay:
        """Read it from a file.

        Raises:
            ArgumentError: The file cannot be read, or is none of a replay.
        """
        try:
            data = json.loads(Path(path).read_text())
            if data["format"] != _FORMAT or data["version"] != _VERSION:
                raise ValueError(f"its format is {data['format']!r}, version {data['version']!r}")
            return cls._of_data(data)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ArgumentError(
                f"replay must be a file that a failing order was written to, but got {shown(str(path))}: {error}"
            ) from None

    @classmethod
    def _of_data(cls, data: dict[str, Any]) -> Replay:
        steps = tuple((int(a), str(o), str(f), int(line)) for a, o, f, line in data["steps"])
        command = tuple(str(part) for part in data["command"])
        schedule = Schedule.from_data(data["schedule"])
        return cls(int(data["n_pes"]), schedule, steps, str(data["failure"]), command)

    def difference(self, trace: Trace) -> str | None:
        """Return where a run left the order, in words; None: it repeated it."""
        for number, (wanted, step) in enumerate(zip(self.steps, trace.steps, strict=False), 1):
            if wanted != step.signature:
                return (
                    f"operation {number} was {_words(wanted, self.n_pes)} and is now "
                    f"{_words(step.signature, self.n_pes)}"
                )
        if len(self.steps) != len(trace.steps):
            return f"there were {len(self.steps)} operations and are now {len(trace.steps)}"
        return None


def _words(step: tuple[int, str, str, int], n_pes: int) -> str:
    actor, operation, file, line = step
    where = f" at {Path(file).name}:{line}" if line else ""
    return f"{operation} of PE {actor % n_pes}{where}"
