"""Symmetric memory in a process that is no PE and in no group: before it joins one, or never."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch.distributed")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a process joins a World by /proc")

PROGRAM = """
import os, sys
import emu, emu.accelerator
emu.accelerator.install()
import torch, torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from emu.comm.errors import CommError

kind = symm_mem._SymmetricMemory
words = kind.empty_strided_p2p((6,), (1,), torch.uint32, torch.device("cuda:0"), group_name="0").fill_(0)
assert symm_mem.is_symm_mem_tensor(words)
torch.ops.symm_mem.memset32_(words, offset=1, val=4294967295, count=2)
torch.ops.symm_mem.stream_write_value32_(words, offset=5, val=7)
assert words.tolist() == [0, 4294967295, 4294967295, 0, 0, 7]
try:
    emu.world()
except CommError:
    pass  # it has become no PE for this
else:
    raise AssertionError
child = os.fork()
if child == 0:  # other memory, not its parent's under the same name
    ours = kind.empty_strided_p2p((6,), (1,), torch.uint32, torch.device("cuda:0"))
    theirs = symm_mem.empty(6, dtype=torch.uint32, device="cuda").fill_(1)
    os._exit(0 if ours.tolist() == [0] * 6 else 1)
assert os.waitpid(child, 0)[1] == 0
more = symm_mem.empty(6, dtype=torch.uint32, device="cuda")
assert more.tolist() == [0] * 6 and more.data_ptr() != words.data_ptr()
for turn in range(2):
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    assert emu.world().n_pes == 1
    mine = symm_mem.empty(4, device="cuda").fill_(turn + 1)
    handle = symm_mem.rendezvous(mine, dist.group.WORLD)
    assert handle.get_buffer(0, (4,), torch.float32).tolist() == [turn + 1.0] * 4
    try:
        symm_mem.rendezvous(words, dist.group.WORLD)
    except RuntimeError as error:
        assert "tensor must be in symmetric memory of the World of the group" in str(error), error
    else:
        raise AssertionError
    dist.destroy_process_group()
    torch.ops.symm_mem.memset32_(words, 0, 5 + turn, 1)
    assert words.tolist() == [5 + turn, 4294967295, 4294967295, 0, 0, 7]
print("done")
"""


def test_memory_of_a_process_that_is_no_pe_stays_when_it_becomes_one(tmp_path: Path) -> None:
    script = tmp_path / "alone.py"
    script.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
