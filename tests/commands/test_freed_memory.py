"""Freed memory is used again: in a process of its own, because its allocator is changed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc is needed")

PROGRAM = """
import os, resource
from emu.commands.freed_memory import keep_freed_memory

print(keep_freed_memory(1), os.environ.get("THP_MEM_ALLOC_ENABLE"))
if KEEPS:
    import torch

    def faults(count):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(count):
            torch.empty(1 << 24, dtype=torch.int32).fill_(1)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults(4)
    print(faults(8))
"""


def lines(keeps: bool, **variables: str) -> list[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    code = PROGRAM.replace("KEEPS", str(keeps))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.splitlines()


def test_large_tensors_get_the_memory_of_freed_ones() -> None:
    pytest.importorskip("torch")
    kept, faults = lines(True)
    assert kept == "True 1"
    assert int(faults) < 8 * 4096  # each has 16,384 pages of 4 KiB


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_the_programs_own_settings_are_left_alone(name: str) -> None:
    value = "2" if name.startswith("MALLOC") else "glibc.malloc.arena_max=2"
    assert lines(False, **{name: value}) == ["False None"]


def test_large_pages_are_as_the_environment_says() -> None:
    assert lines(False, THP_MEM_ALLOC_ENABLE="0") == ["True 0"]
