"""The base classes of torch's own distributed tests: the processes that they start are PEs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import emu

pytest.importorskip("torch.distributed")
pytest.importorskip("expecttest", reason="torch.testing needs it")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="they find each other by /proc"),
]

TESTS = '''
import os
import unittest

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from torch.testing._internal.common_distributed import MultiProcContinuousTest, MultiProcessTestCase, skip_if_lt_x_gpu


class TestNew(MultiProcessTestCase):
    """Its processes are new for each test."""

    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def begin(self):
        torch.cuda.set_device(self.rank)
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("nccl", store=store, rank=self.rank, world_size=self.world_size)

    @skip_if_lt_x_gpu(2)
    def test_again(self):
        for _ in range(2):
            self.begin()
            x = torch.full((2,), self.rank + 1.0, device="cuda")
            dist.all_reduce(x)
            self.assertEqual(x, torch.full((2,), 3.0, device="cuda"))
            dist.destroy_process_group()

    @skip_if_lt_x_gpu(3)
    def test_skipped(self):
        raise AssertionError

    def test_killed(self):
        self.begin()
        if self.rank == 1:
            os._exit(0)
        with self.assertRaisesRegex(Exception, "PE 1 .process .* has ended before it had finished"):
            dist.barrier()

    def test_fails(self):
        self.begin()
        if self.rank == 1:
            raise ValueError("bad input")
        dist.barrier()


class TestKept(MultiProcContinuousTest):
    """Its processes carry out all of its tests."""

    world_size = 2

    @classmethod
    def backend_str(cls):
        return "nccl"

    def test_symmetric_memory(self):
        torch.cuda.set_device(self.rank)
        mine = symm_mem.empty(4, device="cuda").fill_(self.rank)
        handle = symm_mem.rendezvous(mine, dist.group.WORLD)
        handle.barrier()
        there = handle.get_buffer(1 - self.rank, (4,), torch.float32)
        self.assertEqual(there.tolist(), [1.0 - self.rank] * 4)
        handle.barrier()

    def test_total(self):
        x = torch.full((2,), self.rank + 1.0, device=f"cuda:{self.rank}")
        dist.all_reduce(x)
        self.assertEqual(x.tolist(), [3.0, 3.0])
'''


def run_forked(path: str) -> None:
    """Run the tests in this PE's process, in which their processes are forked: that is fast."""
    import unittest

    import torch

    import emu.accelerator

    emu.accelerator.install()
    os.environ["EMU_DEVICES"] = "2"
    torch.multiprocessing.set_start_method("fork", force=True)
    torch.multiprocessing.get_context = lambda method=None: torch.multiprocessing
    sys.path.insert(0, path)
    import test_both

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromModule(test_both).run(result)
    assert result.testsRun == 6
    assert len(result.skipped) == 1
    assert [case._testMethodName for case, _ in result.failures + result.errors] == ["test_fails"]


def test_forked_processes_of_test_cases_are_pes(tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text(TESTS)
    loaded = ["torch", "torch.testing._internal.common_distributed"]
    emu.launch(run_forked, 1, args=(str(tmp_path),), preload=loaded)


def test_pytest_runs_them(tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text(TESTS)
    words = ["-p", "no:cacheprovider", "--emu", "--emu-devices", "2", "test_both.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-k", "again or symmetric"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "2 passed, 4 deselected" in done.stdout, done.stdout
