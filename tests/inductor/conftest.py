"""What tests of compiled functions share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from emu.kernels.core.launch_count import Launches


@pytest.fixture(scope="module")
def inductor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """torch, whose Inductor writes Triton for the CPU; what it compiles is kept in a folder of this run."""
    import torch

    import emu.inductor

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.getbasetemp().parent / "inductor"
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        Launches.are_counted = True
        emu.inductor.install()
        yield torch
        torch._dynamo.reset()
        emu.inductor.uninstall()
        Launches.are_counted = False


@pytest.fixture(scope="module")
def devices(inductor: Any) -> Iterator[Any]:
    """torch with emulated devices beside it."""
    import emu.accelerator
    from emu.accelerator import device_tags

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EMU_DEVICES", "2")
        device_tags.device_count.cache_clear()
        emu.accelerator.install()
        yield inductor
        inductor._dynamo.reset()
        emu.accelerator.uninstall()
    device_tags.device_count.cache_clear()


@pytest.fixture
def count_launches() -> Callable[[], int]:
    """A function that returns how many kernels were launched since it was called last."""

    def count() -> int:
        found, Launches.count = Launches.count, 0
        return found

    count()
    return count


@pytest.fixture
def run_alone(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs a program in a process of its own, without what others have compiled."""

    def run(
        text: str, *command: str, workers: int = 1, timeout: int = 110
    ) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text))
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(workers),
        }
        return subprocess.run(
            [sys.executable, *command, str(program)],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
