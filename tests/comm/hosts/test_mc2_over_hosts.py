"""Hccl and the operators of MC2 over hosts, beside one host: the same bits, the same errors, the same reports.

Most programs are those of tests/mc2, which compare with NumPy or with collectives themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import host_mc2_programs
import pytest

import emu
from emu.commands.run_hosts import find_mpiexec

pytest.importorskip("mpi4py")
MPIEXEC = find_mpiexec()
pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec"),
    pytest.mark.timeout(900),  # with an empty cache
]

Found = dict[str, tuple[list[Any], list[str]]]
"""What all PEs returned, in their order, and what the launchers reported."""

TASKS = [
    "tasks:[0, 40]",
    "tasks_of_groups:[0, 10]",
    "turns_of_all_ranks",
    "stored_before_a_turn",
    "stored_before_a_turn_here",
    "test_hccl.in_place",
    "test_hccl.groups",
    'test_hccl.mismatched:["counts"]',
    'test_kernel_launch.computes_first:["input"]',
]
DENSE = ['test_dense.run_in_groups:["real"]']
EXPERTS = ["test_moe.check_layer:[[0, 1, 2, 3]]", "test_grouped_matmul.check_cases:[[0, 1, 2]]"]
QUICK = [*TASKS, *DENSE, *EXPERTS]
THOROUGH = [
    "test_hccl.random_kernels:[4, 25]",
    "test_hccl.large_turns",
    'test_kernel_launch.host_gathers:["v1", {"waitPolicy": 1}, 3]',
    'test_kernel_launch.host_gathers:["128", {"rspPolicy": 2}, 0]',
    'test_kernel_launch.computes_first:["window"]',
    "test_kernel_launch.reduces_in_place",
    "test_kernel_launch.responses_come_at_the_end",
    'test_all_gather_matmul.run_all_gather_matmul:["real"]',
    'test_all_to_all.run_all_to_all_matmul:["real"]',
    'test_all_to_all.run_matmul_all_to_all:["real"]',
    'test_matmul_reduce.run_matmul_reduce_scatter:["real"]',
    'test_matmul_reduce.run_matmul_all_reduce:["real"]',
    'test_matmul_reduce.run_antiquant:["real"]',
    "test_moe.check_dispatch:[[0, 1, 2, 3, 4, 5, 6, 7]]",
    "test_moe.check_round_trip:[[0, 1, 2, 3, 4, 5, 6, 7]]",
    "test_moe.check_large",
    'test_mismatched_operators.run_programs:["dense", 14, 10]',
    'test_mismatched_operators.run_programs:["tasks", 14, 10]',
    'test_mismatched_operators.run_programs:["experts", 14, 10]',
]
ON_TWO = [
    'test_dense.run_special_values:["real"]',
    "test_hccl.really_at_the_same_time",
    'test_server_ends.one_rank_raises_in_the_midst:["matmul_all_reduce"]',
    "test_server_ends.leaves_early",
]
"""Programs of two PEs."""
REPORTS = {
    "test_hccl.one_rank_never_commits": [
        "nobody can release PEs 0 and 1 any more",
        "PE 0 waits in Hccl.Wait(0) of AllGather, turn 0 of 1, for ranks [1] to release turn 0",
        "PE 1 waits in barrier of group 'world': 1 of 2 have arrived, missing PEs [0]",
    ],
    "test_hccl.dies_in_the_middle": ["PE 1 raised RuntimeError: rank 1 has had enough"],
    "test_hccl.is_killed_in_the_middle": ["was killed by SIGKILL"],
}
"""What is reported of a program of two PEs that ends badly."""


def over_hosts(folder: Path, hosts: int, pes: int, *names: str) -> Found:
    """Run programs, each in a World of its own, on some hosts with as many PEs each."""
    assert MPIEXEC is not None
    root = str(Path(emu.__file__).parents[1])
    words = [sys.executable, host_mc2_programs.__file__, str(pes), *names]
    run = subprocess.run(
        [MPIEXEC, "-n", str(hosts), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": root, "HOST_PROGRAMS_FOLDER": str(folder)},
        timeout=850,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    found: Found = {}
    for number, name in enumerate(names):
        halves = [json.loads(p.read_text()) for p in folder.glob(f"RESULTS {number}-*")]
        told = [json.loads(p.read_text()) for p in folder.glob(f"REPORT {number}-*")]
        assert len(halves) + len(told) == hosts, run.stdout
        results = [value for _, host in sorted(halves) for value in host]
        found[name] = results, [line for lines in told for line in lines]
    return found


def compare(folder: Path, hosts: int, pes: int, names: list[str]) -> None:
    """Check that programs return the same on one host and over several."""
    for name, (results, told) in over_hosts(folder, hosts, pes, *names).items():
        assert not told, "\n".join([name, *told])
        assert results == emu.launch(host_mc2_programs.run, hosts * pes, args=(name,)), name


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return over_hosts(tmp_path_factory.mktemp("mc2"), 2, 2, *QUICK)


@pytest.mark.parametrize("name", QUICK)
def test_a_program_of_mc2_does_the_same_over_hosts(name: str, quick: Found) -> None:
    results, told = quick[name]
    assert not told, "\n".join(told)
    assert results == emu.launch(host_mc2_programs.run, 4, args=(name,))


@pytest.mark.slow
def test_more_programs_of_mc2_do_the_same_over_hosts(tmp_path: Path) -> None:
    compare(tmp_path, 2, 2, THOROUGH)


@pytest.mark.slow
def test_programs_of_two_pes_do_the_same_over_hosts(tmp_path: Path) -> None:
    compare(tmp_path, 2, 1, ON_TWO)


@pytest.mark.slow
@pytest.mark.parametrize(("hosts", "pes"), [(2, 2), (3, 2), (4, 1)])
def test_random_tasks_find_the_same_bits_over_hosts(hosts: int, pes: int, tmp_path: Path) -> None:
    first = 10_000 * hosts + 1000 * pes
    compare(tmp_path, hosts, pes, [f"tasks:[{first}, {first + 100}]"])


@pytest.mark.slow
def test_what_ends_badly_is_reported_by_all_hosts(tmp_path: Path) -> None:
    found = over_hosts(tmp_path, 2, 1, *REPORTS)
    for name, words in REPORTS.items():
        text = "\n".join(found[name][1])
        for word in words:
            assert word in text, text
