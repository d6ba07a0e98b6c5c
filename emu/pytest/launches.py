"""How many kernels each test has launched: a test that launches none proves nothing of them."""

from __future__ import annotations

from typing import Any

import pytest

from emu.kernels.core.launch_count import Launches

_BEFORE = pytest.StashKey[int]()


def count() -> None:
    """Count launches from now on."""
    Launches.are_counted = True


def note(item: pytest.Item, report: Any) -> None:
    """Note in the report of a test's call how many kernels it has launched, its fixtures included.

    Under pytest-xdist the report is what reaches the process that prints the summary.
    """
    if report.when == "setup":
        item.stash[_BEFORE] = Launches.count
    elif report.when == "call":
        report.emu_launches = Launches.count - item.stash.get(_BEFORE, Launches.count)


def summarize(terminalreporter: Any) -> None:
    """Print a line."""
    counts = [
        launched
        for reports in terminalreporter.stats.values()
        for report in reports
        if (launched := getattr(report, "emu_launches", None)) is not None
    ]
    with_launches = [launched for launched in counts if launched]
    terminalreporter.write_line(
        f"emu: {_number(len(with_launches), 'test')} launched {_number(sum(counts), 'Triton kernel')}, "
        f"{_number(len(counts) - len(with_launches), 'test')} launched none"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"
