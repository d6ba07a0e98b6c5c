"""Plugin of pytest that writes what each test costs: ``pytest -p time_recorder --times FILE``.

A line has a test's id, its seconds of processor time (of this process and of those that it has started and waited for, so
what other programs do beside it matters little), and its seconds by the clock. From these ``tests/support/long_tests.py`` chooses what
``make test`` runs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file."""
    parser.addoption("--times", type=Path, metavar="FILE", help="append what each test costs here")


def processor_time() -> float:
    """Return the seconds of processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the times before a test's fixtures are made and after they are gone."""
    file = item.config.getoption("--times")
    clock, processor = time.perf_counter(), processor_time()
    try:
        return (yield)
    finally:
        if file is not None:
            spent = processor_time() - processor, time.perf_counter() - clock
            line = "{}\t{:.3f}\t{:.3f}\n".format(item.nodeid, *spent)
            # One short write to a file that is only appended to: lines of several workers do not mix.
            descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(descriptor, line.encode())
            os.close(descriptor)
