"""Errors of execution."""

from __future__ import annotations


class ExecutionError(ValueError):
    """A module cannot be run, or an input does not fit; nothing was started."""


class MismatchError(ArithmeticError):
    """A partitioned program computed something else than the whole one.

    Attributes:
        findings: One per result or operation that differs, in program order.
    """

    def __init__(self, message: str, findings: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings
