"""Errors of kernels that run as Python."""

from __future__ import annotations

from emu.triton.errors import OutOfBoundsError, TritonError


class InterpreterError(TritonError):
    """Failure of a kernel that ran as Python; its cause is the error that the kernel met.

    Args:
        error_message: Description of the failure.
    """

    def __init__(self, error_message: str | None = None) -> None:
        super().__init__(error_message or "")
        self.error_message = error_message


class InterpretedAssertionError(InterpreterError, AssertionError, RuntimeError):
    """Failed assertion of an interpreted kernel; as that of a compiled one an AssertionError, and a RuntimeError."""


class InterpretedAccessError(InterpreterError, OutOfBoundsError):
    """Access of an interpreted kernel to memory that is not its tensor's."""

    def __init__(self, error_message: str) -> None:
        Exception.__init__(self, error_message)
        self.error_message = error_message
        self.accesses, self.count = (), 1

    def __str__(self) -> str:
        return Exception.__str__(self)  # the grid puts the kernel and the program in front


class LanesNeeded(Exception):
    """Raised when a combine function branches on a value: it must be called for each element alone."""
