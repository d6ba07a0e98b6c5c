"""What pytest loads beside Triton's tests: emu's triton first, and stand-ins for what is not there."""

from __future__ import annotations

import absent
import pytest
import record
import triton  # noqa: F401  # before the checkout's folder is on the path, which may hold its own


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks of the suite, and make what it imports importable."""
    absent.install()
    # A skipped test that uses an absent module, and texts of a GPU's compiler.
    record.absent += [absent.ABSENT, """KeyError: "asm has no '"""]
    for mark in ("interpreter", "enable_warmup", "forked"):
        config.addinivalue_line("markers", f"{mark}: a mark of Triton's suite")
