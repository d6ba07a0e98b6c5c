"""Plugin of pytest beside other people's tests: chooses those of this process, and records how each one ended."""

from __future__ import annotations

import json
import os
import unittest
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emu.kernels.core.launch_count import Launches

_RECORD = Path(os.environ["CONFORMANCE_RECORD"])

absent: list[str] = []
"""Beginnings of errors, and texts in reasons of skipped tests, by which a test has no meaning without a GPU."""

is_kept = True
"""Whether all outcomes are noted. Of several PEs that run the same tests, the others note only what is no success."""

wrong: list[str] = []
"""Texts in errors of tests whose result was not the expected one."""


def pytest_configure() -> None:
    """Count launches from the first kernel on."""
    Launches.are_counted = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of this process that have not run yet."""
    part, jobs, sample = (int(n) for n in os.environ["CONFORMANCE_PART"].split("/"))
    functions = int(os.environ["CONFORMANCE_FUNCTIONS"])
    done = set(Path(os.environ["CONFORMANCE_DONE"]).read_text(encoding="utf-8").splitlines())
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    met: set[str] = set()
    for item in items:
        function = _function(item)
        number = zlib.crc32(item.nodeid.encode())
        is_first = function not in met  # of each function at least one
        met.add(function)
        is_chosen = (is_first or number // 64 % sample == 0) and number % jobs == part
        is_chosen &= zlib.crc32(function.encode()) // 64 % functions == 0
        (chosen if is_chosen and item.nodeid not in done else others).append(item)
    config.hook.pytest_deselected(items=others)
    items[:] = chosen


def _function(item: pytest.Item) -> str:
    """Return what a test is one of many of: its function, or the class of unittest that has it as a method."""
    owner = getattr(item, "cls", None)
    if owner is not None and issubclass(owner, unittest.TestCase):
        return item.nodeid.rpartition("::")[0]
    return item.nodeid.partition("[")[0]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note that a file could not be read: a failure, not a file without tests."""
    if report.failed:
        lines = [line.strip() for line in report.longreprtext.splitlines() if line.strip()]
        why = lines[-1].removeprefix("E").strip()[:300] if lines else "no message"
        test = f"{report.nodeid}::(collection)"
        _note(test=test)
        _note(test=test, outcome="failed", seconds=0.0, why=why)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note which test begins."""
    _note(test=item.nodeid)
    Launches.count = 0
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note how a test ended."""
    report: Any = yield
    if call.excinfo is not None and call.excinfo.typename == "DeadlockError":
        # The PE is stopped: every later launch would fail, too. The run begins anew behind this test.
        _note(test=item.nodeid, outcome="hang", seconds=call.duration, why=_line(call.excinfo))
        os._exit(3)
    if (report.when == "call" or report.outcome != "passed") and report.when != "teardown":
        why = "" if call.excinfo is None else _line(call.excinfo)
        outcome = _outcome(report, call, why)
        seconds, launches = round(call.duration, 3), Launches.count
        _note(test=item.nodeid, outcome=outcome, seconds=seconds, why=why, launches=launches)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Say that no test has ended the process."""
    del session
    print("\nCONFORMANCE ENDED", flush=True)


def _outcome(report: pytest.TestReport, call: pytest.CallInfo[None], why: str) -> str:
    if any(why.startswith(text) or (report.skipped and text in why) for text in absent):
        return "absent"
    if call.excinfo is not None and _is_wrong(call.excinfo):
        return "wrong"
    if why == "Failed: Unexpected success":  # others expect unittest's test to fail
        return "passed"
    return report.outcome


def _is_wrong(error: pytest.ExceptionInfo[BaseException]) -> bool:
    text = str(error.value)
    return error.typename == "WrongResult" or any(part in text for part in wrong)


def _line(error: pytest.ExceptionInfo[BaseException]) -> str:
    lines = [line.strip() for line in str(error.value).splitlines() if line.strip()]
    text = next((line for line in reversed(lines) if not set(line) <= set("^~ |")), "")
    return f"{error.type.__name__}: {text}"[:300]


def _note(**entry: object) -> None:
    if not is_kept and entry.get("outcome", "passed") in ("passed", "skipped", "absent"):
        return
    with _RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
