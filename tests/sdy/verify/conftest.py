"""What the tests of verification share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import FileLoc, MlirError

Complaint = tuple[int, str]
"""A line of the text and a message about it."""


def _complaints(text: str) -> list[Complaint]:
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


@pytest.fixture
def complaints() -> Callable[[str], list[Complaint]]:
    """Gives lines and messages, those of notes included, that a text draws."""
    return _complaints
