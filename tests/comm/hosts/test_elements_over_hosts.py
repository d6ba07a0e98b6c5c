"""Kernels that load, store and change elements of PEs on other hosts find what they find on one host."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import element_programs
import pytest
from campaigns import TIMES
from mpi_runs import MPIEXEC, mpiexec

import emu

pytest.importorskip("mpi4py")
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.timeout(600),  # with an empty cache launchers and PEs compile
]
SAME = [program.__name__ for program in element_programs.SAME]
DRAWN = 20
"""Random programs that are always run."""


def run(
    hosts: int, pes: int, *names: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    words = (element_programs.__file__, str(pes), *names)
    return mpiexec(*words, folder=folder, n=hosts, timeout=580)


def found_on_both(
    hosts: int, pes: int, folder: Path, names: list[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return what each PE has found in each program over hosts, and on one."""
    ended = run(hosts, pes, *names, folder=folder)
    assert ended.returncode == 0, ended.stdout
    first, *others = (json.loads(path.read_text()) for path in folder.iterdir())
    assert len(others) == hosts - 1
    assert all(other == first for other in others)  # each host gets the results of all
    one = emu.launch(element_programs.run_all, pes, args=(names,))
    return first, json.loads(json.dumps(one))


@pytest.fixture(scope="module", params=[(2, 4), (3, 3)], ids=["2x2", "3x1"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What all programs have found over hosts, and on one."""
    hosts, pes = request.param
    names = [*SAME, "refused", f"draws:{hosts}00:{hosts}{DRAWN}"]
    return found_on_both(hosts, pes, tmp_path_factory.mktemp("elements"), names)


@pytest.mark.parametrize("name", SAME)
def test_elements_of_other_hosts_are_those_of_one(
    name: str, both: tuple[list[dict[str, Any]], list[dict[str, Any]]]
) -> None:
    there, here = both
    assert [pe[name] for pe in there] == [pe[name] for pe in here]


def test_random_kernels_find_the_same_bits(
    both: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    there, here = both
    (name,) = (name for name in here[0] if name.startswith("draws"))
    for number in range(DRAWN):
        assert [pe[name][number] for pe in there] == [pe[name][number] for pe in here], number


def test_errors_name_the_line_and_change_nothing(
    both: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    there, _ = both
    for pe in there:
        *errors, data = pe["errors"]
        assert data == [0] * 64
        heads = [lines[0] for lines in errors]
        assert all("element_programs.py:" in head for head in heads), heads
        assert [head.partition(" (kernel ")[0] for head in heads] == [
            "ProgramAssertionError: pe must be the number of a PE, at least 0 and below n_pes",
            "ProgramAssertionError: pe must be the number of a PE, at least 0 and below n_pes",
            *3 * ["ProgramAssertionError: pointer must lie in this PE's symmetric heap"],
            "ProgramAssertionError: pe must be the number of a PE, at least 0 and below n_pes",
            "ProgramAssertionError: pointer must lie in this PE's symmetric heap",
        ]


def test_a_pointer_to_another_host_is_refused(
    both: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    there, here = both
    assert all(pe["refused"] == list(range(len(here))) for pe in here)
    per_host = 2 if len(there) == 4 else 1
    for me, pe in enumerate(there):
        for other, seen in enumerate(pe["refused"]):
            if other // per_host == me // per_host:
                assert seen == other
            else:
                assert "as loads, stores and atomics by a pointer cannot reach another" in seen
                assert "element_programs.py:" in seen


def test_a_wait_of_kernels_in_vain_is_told_with_its_line() -> None:
    ended = run(2, 2, "deadlocks")
    assert ended.returncode != 0
    assert "PE 0 waits in kernel waits_for_each_other (" in ended.stdout, ended.stdout
    assert "PE 1 waits in kernel waits_for_each_other (" in ended.stdout, ended.stdout
    assert "element_programs.py:" in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("hosts", "pes"), [(2, 4), (3, 3)])
def test_hundreds_of_random_kernels_find_the_same_bits(
    hosts: int, pes: int, tmp_path: Path
) -> None:
    first = 100_000 * hosts
    name = f"draws:{first}:{first + 200 * TIMES}"
    there, here = found_on_both(hosts, pes, tmp_path, [name])
    for number in range(200 * TIMES):
        assert [pe[name][number] for pe in there] == [pe[name][number] for pe in here], number
