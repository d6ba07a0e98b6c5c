"""What programs get that import iris: a stand-in for its two modules, and iris itself where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def is_iris_there() -> bool:
    """Return whether ROCm's iris can be imported; another package has its name."""
    spec = find_spec("iris")
    folders = spec.submodule_search_locations if spec is not None else None
    return any(Path(folder, "mem", "triton").is_dir() for folder in folders or ())


pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

HIP = """
import ctypes
library = ctypes.cdll.LoadLibrary("libamdhip64.so")
count = ctypes.c_int()
assert library.hipGetDeviceCount(ctypes.byref(count)) == 0
"""

ALLOCATOR = """
class Base:
    def __init__(self, heap_size, device_id, cur_rank, num_ranks):
        self.heap_size, self.heap_offset = heap_size, 0
        self.cur_rank = cur_rank

class TorchAllocator(Base):
    def __init__(self, *arguments):
        raise AssertionError("private memory")
"""

SCRIPT = """
import ctypes, os
import torch
from {package}{hip} import count
from {package}{allocator} import TorchAllocator

try:
    ctypes.cdll.LoadLibrary("libamdhip64.so")
except OSError:
    pass
else:
    raise AssertionError("HIP's library is there for everybody")
rank = int(os.environ["RANK"])
heap = TorchAllocator(4096, rank, rank, 2)
heap.establish_peer_access(None)
print(count.value, len(heap.heap_bases_array), heap.memory_pool.device)
"""


def run(*arguments: object, paths: tuple[Path, ...] = ()) -> subprocess.CompletedProcess[str]:
    path = [str(ROOT), *map(str, paths), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-P", "-m", "emu", "run", "--no-prefix", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    ("hip", "allocator"),
    [
        ("host.platform.hip", "host.memory.allocators.torch_allocator"),
        ("hip", "allocators.torch_allocator"),
    ],
    ids=["since April 2026", "before"],
)
def test_hip_and_the_heap_are_emulated_for_iris_alone(
    hip: str, allocator: str, tmp_path: Path
) -> None:
    for name, text in ((hip, HIP), (allocator, ALLOCATOR)):
        file = tmp_path / "iris" / f"{name.replace('.', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(package="iris.", hip=hip, allocator=allocator))
    done = run("-n", 2, script, paths=(tmp_path,))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["2 2 cuda:0", "2 2 cuda:1"]


RING = """
import torch, triton, triton.language as tl, torch.distributed as dist
import iris

dist.init_process_group("nccl")
ctx = iris.iris(1 << 20)
me, n = ctx.get_rank(), ctx.get_num_ranks()
x, flag = ctx.zeros(64, dtype=torch.float32), ctx.zeros(1, dtype=torch.int32)

@triton.jit
def ring(x, flag, bases, me: tl.constexpr, to: tl.constexpr):
    at = tl.arange(0, 64)
    iris.store(x + at, at.to(tl.float32) + me, me, to, bases)
    iris.atomic_add(flag, 1, me, to, bases, sem="release", scope="sys")
    while iris.atomic_cas(flag, 1, 0, me, me, bases, sem="acquire", scope="sys") != 1:
        pass

ctx.barrier()
ring[(1,)](x, flag, ctx.get_heap_bases(), me, (me + 1) % n)
ctx.barrier()
assert x.tolist() == [i + (me - 1) % n for i in range(64)]
print("done")
"""


@pytest.mark.skipif(not is_iris_there(), reason="ROCm's iris is not installed")
def test_a_program_for_iris_runs(tmp_path: Path) -> None:
    script = tmp_path / "ring.py"
    script.write_text(RING)
    done = run("-n", 4, script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split().count("done") == 4
