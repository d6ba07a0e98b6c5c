"""Explored orders of programs of front ends: PyPTO's graphs, ``Hccl``'s tasks, Triton's grids."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from schedule_programs import stores_and_signals, sums_of_a_server, takes_the_last

import emu
from emu.comm.schedule_options import Schedule
from emu.schedule import explore
from emu.schedule.running import Program


def test_a_missing_pred_shows_in_some_order() -> None:
    found = explore(stores_and_signals, 2, args=(False,), runs=40, seed=1)
    assert found.failure is not None
    assert "AssertionError" in found.failure.outcome.summary
    assert found.failure.nondeterminism is None
    assert "shmem_signal (op" in str(found.failure)


def test_a_graph_with_its_preds_is_right_in_all_of_them() -> None:
    found = explore(stores_and_signals, 2, args=(True,), runs=12, seed=1)
    assert found.failure is None, str(found)


def test_tasks_of_a_server_are_operations() -> None:
    expected = Program(sums_of_a_server, 3).run(Schedule())
    assert expected.error is None, expected.summary
    assert not expected.trace.freed
    assert not any(step.is_stalled for step in expected.trace.steps)
    assert any("post a task" in step.operation for step in expected.trace.steps)
    drawn = Program(sums_of_a_server, 3).run(Schedule(strategy="random", seed=3))
    assert drawn.results is not None
    assert expected.results is not None
    np.testing.assert_array_equal(drawn.results, expected.results)


def test_programs_of_a_grid_run_in_other_orders() -> None:
    found = explore(takes_the_last, 1, runs=10, seed=2)
    assert found.failure is not None
    assert "AssertionError" in found.failure.outcome.summary


def test_where_emu_lies_says_nothing(tmp_path: Path) -> None:
    # The rooms that an operation goes through are named check, schedule and fault: so may be a folder of the user's.
    above = tmp_path / "check" / "fault"
    above.mkdir(parents=True)
    (above / "emu").symlink_to(Path(emu.__file__).parent)
    code = (
        "import emu; from emu.schedule import explore; from schedule_programs import stores_and_signals; "
        "found = explore(stores_and_signals, 2, args=(True,), runs=12, seed=1); "
        "print(emu.__file__, found.failure)"
    )
    environment = dict(os.environ, PYTHONPATH=f"{above}:{Path(__file__).parents[1] / 'support'}")
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=above,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert done.stdout == f"{above / 'emu' / '__init__.py'} None\n"
