"""Kernels that call the device functions of ``torch.distributed._symmetric_memory``, as a script for GPUs has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed")

PROGRAM = Path(__file__).parents[3] / "support" / "torch_device_functions.py"


@pytest.mark.parametrize("n_pes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_script_for_gpus_runs(n_pes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "emu", "run", "-n", str(n_pes), PROGRAM],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}] rank {r} of {n_pes}" for r in range(n_pes)]


REFUSED = """
from torch.distributed._symmetric_memory import _nvshmem_triton, _rocshmem_triton
for requires in (_nvshmem_triton.requires_nvshmem, _rocshmem_triton.requires_rocshmem):
    try:
        requires(lambda x: x)
    except TypeError as error:
        print(error)
"""


def test_what_is_no_kernel_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "refused.py"
    program.write_text(REFUSED)
    command = [sys.executable, "-m", "emu", "run", "-n", "1", program]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=200)
    assert done.stdout.count("Expected a JITFunction, but got <class 'function'>") == 2
