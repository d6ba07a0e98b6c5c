"""Errors of a text with their lines, for tests of verifiers."""

from __future__ import annotations

from emu.mlir import parse
from emu.mlir.diagnostics import FileLoc, MlirError

Complaint = tuple[int, str]
"""A line of the text and a message about it."""


def complaints(text: str) -> list[Complaint]:
    """Return lines and messages, those of notes included, of the errors in a text."""
    try:
        parse(text)
    except MlirError as error:
        found: list[Complaint] = []
        for diagnostic in error.diagnostics:
            for each in (diagnostic, *diagnostic.notes):
                assert isinstance(each.location, FileLoc)
                found.append((each.location.line, each.message))
        return found
    return []
