"""Plugin of pytest that runs tests under all checks: ``pytest -p check_sweep``, as ``make check-sweep`` does.

What is launched is checked for races between PEs and inside grids, bounds, unwritten memory and the order of streams: a
test that raises no error of its own fails at an alarm. Tests with alarms that are true, and tests of what checks change, are in
``tests/check/known_alarms.toml`` with a reason. They must fail: an entry that is no longer needed is an error. Tests of the
checks themselves, which choose their own, are left out.

``leak`` is left out: tests leave symmetric arrays to the end of their world.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

CHECKS = "race,bounds,uninit,streams"
os.environ.setdefault("EMU_CHECK", CHECKS)  # before emu.triton is imported, which reads it then

KNOWN = Path(__file__).resolve().parents[1] / "check" / "known_alarms.toml"
KINDS = ("true", "unchecked", "left out")
EXAMPLES = "test_documents.py::test_the_example_runs_as_it_says"


@dataclass(frozen=True)
class Known:
    """Tests that fail under all checks.

    Attributes:
        tests: Beginnings of their ids: a folder, a file, a function, or one of its parameters.
        kind: ``"true"`` if the alarm is right; ``"unchecked"`` if the test is about what checks change; ``"left out"`` if
            it is not run at all.
        reason: Why that is so.
        is_always: Whether they fail each time, or depend on what was first.
    """

    tests: tuple[str, ...]
    kind: str
    reason: str
    is_always: bool

    def covers(self, test: str) -> bool:
        """Return whether a test is one of them."""
        return any(
            test == begin or test.startswith((f"{begin}::", f"{begin}[", f"{begin}/"))
            for begin in self.tests
        )


def read_known(path: Path = KNOWN) -> list[Known]:
    """Return the entries of a list of known alarms.

    Raises:
        ValueError: An entry lacks something, or has something unknown.
    """
    entries = tomllib.loads(path.read_text()).get("alarm", [])
    return [_entry(entry, f"{path.name}: alarm {n}") for n, entry in enumerate(entries, 1)]


def _entry(entry: dict[str, Any], where: str) -> Known:
    odd = set(entry) ^ {"tests", "kind", "reason", "always"}
    if odd - {"always"}:
        raise ValueError(f"{where} must have tests, kind and reason, but {sorted(odd)} differ")
    tests, kind, reason = entry["tests"], entry["kind"], entry["reason"]
    if not tests or not all(isinstance(t, str) and t.startswith("tests/") for t in tests):
        raise ValueError(f"{where}: tests must be ids that begin with tests/, but got {tests!r}")
    if kind not in KINDS:
        raise ValueError(f"{where}: kind must be one of {KINDS}, but got {kind!r}")
    if not isinstance(reason, str) or len(reason.split()) < 4:
        raise ValueError(f"{where}: reason must be a sentence, but got {reason!r}")
    return Known(tuple(tests), kind, reason, bool(entry.get("always", True)))


def mark_known(items: Sequence[pytest.Item], known: Sequence[Known]) -> list[pytest.Item]:
    """Expect the tests that are known to fail to do so; return those that are left out."""
    left_out = []
    for item in items:
        for entry in known:
            if not entry.covers(item.nodeid):
                continue
            if entry.kind == "left out":
                left_out.append(item)
                break
            expected = pytest.mark.xfail(reason=entry.reason, strict=entry.is_always)
            item.add_marker(expected, append=False)
    return left_out


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is known, and run every example, also those that are thorough tests otherwise."""
    left_out = mark_known(items, read_known())
    config.hook.pytest_deselected(items=left_out)
    names = {item.nodeid for item in left_out}
    items[:] = [item for item in items if item.nodeid not in names]
    for item in items:
        if EXAMPLES in item.nodeid:
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "slow"]


def pytest_report_header() -> str:
    """Say what is checked."""
    return f"checks: {os.environ['EMU_CHECK']}"
