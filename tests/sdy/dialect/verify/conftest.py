"""The fixture of tests of verification."""

from __future__ import annotations

from collections.abc import Callable

import mlir_complaints
import pytest


@pytest.fixture
def complaints() -> Callable[[str], list[mlir_complaints.Complaint]]:
    """Return the function that gives lines and messages of the errors in a text."""
    return mlir_complaints.complaints
