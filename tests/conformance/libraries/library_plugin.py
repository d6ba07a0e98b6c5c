"""What pytest loads beside a library's tests: which of them have no meaning here, and the marks of their plugins."""

from __future__ import annotations

import os

import pytest
import record
from libraries import LIBRARIES


def pytest_configure(config: pytest.Config) -> None:
    """Tell the record what is absent, and declare marks of plugins that are not installed."""
    library = LIBRARIES[os.environ["CONFORMANCE_LIBRARY"]]
    record.absent += library.absent
    for mark in library.marks:
        config.addinivalue_line("markers", f"{mark}: a mark of the library's suite")
