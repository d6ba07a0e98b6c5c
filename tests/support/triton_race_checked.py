"""Plugin of pytest that checks every launch of Triton kernels for races among programs: ``pytest -p triton_race_checked``.

Tests run as without it: what is found is collected, and printed at the end with how many launches, and kernels, were
proved to have no race. Launches that ask for a check themselves keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from emu.triton import knobs
from emu.triton.errors import GridRaceError
from emu.triton.runtime import grid_race

LAUNCHES = {True: 0, False: 0}
KERNELS: dict[str, dict[bool, int]] = {}
FOUND: dict[str, str] = {}
_test = "?"


def _listen(kernel: str, is_proved: bool) -> None:
    LAUNCHES[is_proved] += 1
    file = _test.partition("::")[0]
    KERNELS.setdefault(f"{file}:{kernel}", {True: 0, False: 0})[is_proved] += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Check what the test launches."""
    global _test
    _test = item.nodeid
    grid_race.listener = _listen
    with knobs.runtime.scope():
        if knobs.runtime.check is None:
            knobs.runtime.check = "race"
        yield


_launch = grid_race.GridRaceChecker.launch


def _collecting(self: Any, *call: Any) -> None:
    try:
        _launch(self, *call)
    except GridRaceError as error:
        for race in error.races:
            if not race.is_benign:
                FOUND.setdefault(
                    f"{race.file}:{race.line} {race.other_line} {race.kind}",
                    f"{_test}\n{race.text}",
                )


def pytest_configure() -> None:
    """Collect errors from now on."""
    grid_race.GridRaceChecker.launch = _collecting  # type: ignore[method-assign]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was found."""
    write = terminalreporter.write_line
    always = [k for k, n in KERNELS.items() if not n[False]]
    write(f"races: launches {LAUNCHES[True]} proved, {LAUNCHES[False]} observed")
    write(f"races: kernels {len(always)} always proved, of {len(KERNELS)}")
    for kernel, counts in KERNELS.items():
        if counts[False]:
            write(f"races: not always proved: {kernel} {counts}")
    for text in FOUND.values():
        write(f"RACE {text}\n")
