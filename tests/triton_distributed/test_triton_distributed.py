"""What programs get that import Triton-distributed: a stand-in for its modules that reach for a compiler or for CUDA."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

PACKAGE = {
    "__init__.py": "from triton_dist import language\nfrom triton_dist.jit import jit\nfrom triton_dist.tools import compile_aot",
    "tools/__init__.py": "",
    "tools/compile_aot.py": "from triton.tools.link import HeaderParser",
    "utils.py": """
import shutil
def is_cuda(): return bool(shutil.which("nvidia-smi"))
def is_hip(): return bool(shutil.which("rocm-smi"))
assert is_cuda()
from cuda.core import Device
from cuda.bindings import driver as cuda, runtime as cudart
import nvshmem.core
from triton_dist.nv_utils import has_fullmesh_nvlink, get_max_gpu_clock_rate_in_khz
def start(group):
    nvshmem.core.init(device=Device(group.rank()), rank=group.rank(), nranks=group.size(), initializer_method="uid",
                      uid=ids(group))
def ids(group):
    import torch.distributed as dist
    box = [nvshmem.core.get_unique_id(empty=group.rank() != 0)]
    dist.broadcast_object_list(box, src=0)
    return box[0]
""",
    "nv_utils.py": """
def has_fullmesh_nvlink(): raise AssertionError
def get_max_gpu_clock_rate_in_khz(device=0): raise AssertionError
def other(): return "theirs"
""",
    "jit.py": """
def get_shmem_extern_lib(): raise AssertionError
def jit(fn=None, **options): raise AssertionError
""",
    "language/__init__.py": """
from .distributed_ops import wait, consume_token, rank, num_ranks, symm_at, notify
from .simt_ops import simt_exec_region
from .core import extern_call
""",
    "language/core.py": "def extern_call(*a, **k): raise AssertionError\nextern_elementwise = extern_call",
    "language/distributed_ops.py": """
from triton._C.libtriton.distributed import ir
def wait(*a, _semantic=None): return ir.SIGNAL_OP.SET
consume_token = rank = num_ranks = symm_at = notify = wait
""",
    "language/simt_ops.py": """
from triton._C.libtriton import ir
class simt_exec_region:
    def __init__(self, builder: ir.builder): pass
""",
    "language/extra/__init__.py": "",
    "language/extra/language_extra.py": """
from triton_dist.utils import is_cuda, is_hip
assert is_cuda() and not is_hip()
def tid(axis): raise AssertionError
ld = st = __syncthreads = tid
""",
    "language/extra/libshmem_device.py": """
from triton.language import core
import triton.language as tl
from triton_dist.language.core import extern_call
@core.extern
def putmem_signal_block(dst, src, size, word, value, op, pe, _semantic=None):
    tl.static_assert(word.dtype == tl.pointer_type(tl.uint64), "not looked at", _semantic=_semantic)
    void, word_type = tl.pointer_type(tl.void), tl.pointer_type(tl.uint64)
    args = [tl.cast(dst, void, _semantic=_semantic), tl.cast(src, void, _semantic=_semantic),
            tl.cast(size, tl.uint64, _semantic=_semantic), tl.cast(word, word_type, _semantic=_semantic),
            tl.cast(value, tl.uint64, _semantic=_semantic), tl.cast(op, tl.int32, _semantic=_semantic),
            tl.cast(pe, tl.int32, _semantic=_semantic)]
    types = (void, void, tl.uint64, word_type, tl.uint64, tl.int32, tl.int32)
    table = {types: ("nvshmemx_putmem_signal_block", ())}
    return extern_call("libnvshmem_device", "", args, table, is_pure=False, _semantic=_semantic)
""",
    "kernels/nvidia/__init__.py": "",
    "kernels/__init__.py": "",
    "kernels/nvidia/common_ops.py": """
import triton
import triton.language as tl
import triton_dist
@tl.constexpr_function
def double(n): return 2 * n
@triton.jit
def barrier_on_this_grid(ptr, use_cooperative): undefined_name()
""",
}

SCRIPT = """
import os, shutil
import torch
import torch.distributed as dist
import triton, triton.language as tl
import triton_dist
import triton_dist.language as dl
from triton_dist.kernels.nvidia.common_ops import barrier_on_this_grid
from triton_dist.language.extra import libshmem_device
from triton_dist.language.extra.language_extra import __syncthreads, ld, st, tid
from triton_dist import nv_utils, utils

assert shutil.which("nvidia-smi") is None or os.path.isabs(shutil.which("nvidia-smi"))
try:
    import cuda.bindings
except ImportError:
    pass
dist.init_process_group("cpu:gloo,cuda:nccl")
group = dist.group.WORLD
me, n = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(me)
utils.start(group)
assert utils.has_fullmesh_nvlink() and utils.get_max_gpu_clock_rate_in_khz() > 0 and nv_utils.other() == "theirs"
core = utils.nvshmem.core
data, flags = core.tensor((n, 4), dtype=torch.float32), core.tensor((2 * n,), dtype=torch.int64)
words = core.tensor((n,), dtype=torch.int32)
data.fill_(-1); flags.zero_(); words.zero_(); data[me] = me + 1
core.barrier(core.Teams.TEAM_WORLD, stream=None)


@triton_dist.jit(do_not_specialize=["size"])
def gather(data, flags, words, count, out, size):
    me, n = dl.rank(), dl.num_ranks()
    program = tl.program_id(0)
    if program < n:
        if program != me:
            row = data + me * 4
            libshmem_device.putmem_signal_block(row, row, size, flags + me, 7, 9, program)
    barrier_on_this_grid(count, True)
    if program == 0:
        thread = tid(0)
        if thread < n and thread != me:
            while ld(flags + thread, "sys", "acquire") != 7:
                pass
        __syncthreads()
        with dl.simt_exec_region() as (index, threads):
            if index < n:
                st(dl.symm_at(words + me, index), index + 1, "sys", "release")
        dl.notify(flags + n, (me + 1) % n, signal=5, comm_scope="intra_node")
        token = dl.wait(flags + n, 1, "sys", "acquire", waitValue=5)
        at = dl.consume_token(data, token)
        tl.store(out + tl.arange(0, 4), tl.load(at + ((me + 1) % n) * 4 + tl.arange(0, 4)))


out = torch.zeros(4, device="cuda")
count = torch.zeros(1, dtype=torch.int32, device="cuda")
gather[(n + 1,)](data, flags, words, count, out, 16)
core.barrier(core.Teams.TEAM_WORLD, stream=None)
right = (me + 1) % n
assert out.tolist() == [right + 1.0] * 4, out
assert data.tolist() == [[pe + 1.0] * 4 for pe in range(n)], data
assert words.tolist() == [me + 1] * n, words
for x in (data, flags, words):
    core.free_tensor(x)
core.finalize()
print("right")
"""


def run(*arguments: object, path: Path) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-P", "-m", "emu", "run", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.parametrize("n_pes", [1, 3])
def test_its_language_and_its_host_layer_run(n_pes: int, tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        file = tmp_path / "triton_dist" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = run("-n", n_pes, "--timeout", 30, script, path=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == n_pes


def test_nothing_is_changed_for_programs_that_do_not_import_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import shutil, sys, torch\n"
        "assert shutil.which.__module__ == 'shutil'\n"
        "assert not [m for m in sys.modules if m.partition('.')[0] in ('cuda', 'triton_dist', 'nvshmem')]\n"
        "assert 'emu.accelerator.cuda_python.driver' not in sys.modules\n"
    )
    done = run(script, path=tmp_path)
    assert done.returncode == 0, done.stderr
