"""Errors that belong to running a kernel, under the names that programs catch."""

from __future__ import annotations

from emu.triton.errors import (
    BadAccess,
    GridRace,
    GridRaceError,
    OutOfBoundsError,
    TritonError,
    UninitialisedError,
    UninitialisedRead,
)
from emu.triton.interpreter.errors import InterpreterError

__all__ = [
    "AutotunerError",
    "BadAccess",
    "GridRace",
    "GridRaceError",
    "InterpreterError",
    "OutOfBoundsError",
    "OutOfResources",
    "PTXASError",
    "TritonError",
    "UninitialisedError",
    "UninitialisedRead",
]


class OutOfResources(TritonError):
    """A kernel needs more of something than there is.

    Args:
        required: Amount that it needs.
        limit: Amount that there is.
        name: Name of the resource.
    """

    def __init__(self, required: int, limit: int, name: str) -> None:
        super().__init__(required, limit, name)
        self.required = required
        self.limit = limit
        self.name = name

    def __str__(self) -> str:
        return (
            f"out of resource: {self.name}. Required: {self.required}. Limit: {self.limit}. "
            "Smaller blocks may help."
        )


class PTXASError(TritonError):
    """Never raised here, as no vendor's assembler runs; programs import the name."""


class AutotunerError(TritonError):
    """No configuration is left to choose from.

    Args:
        error_message: Description of the failure.
    """

    def __init__(self, error_message: str | None = None) -> None:
        super().__init__(f"Autotuner error: {error_message or ''}")
        self.error_message = error_message
