"""Errors of refinement."""

from __future__ import annotations

from emu.mlir.diagnostics import Location


class CannotRefine(Exception):
    """Raised if shapes do not fit a program, or do not follow from those of its arguments.

    Attributes:
        location: Place in the program; None for its arguments.
    """

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.location = location
