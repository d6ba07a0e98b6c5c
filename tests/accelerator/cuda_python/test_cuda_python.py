"""Functions of CUDA's Python bindings: words that streams write and wait for, copies, what devices are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from emulated_devices import refused
from nvshmem_start import start

import emu

pytest.importorskip("torch")


def run_words() -> list[object]:
    torch, nv = start()
    from emu.accelerator.cuda_python import driver as cuda
    from emu.accelerator.cuda_python import runtime as cudart
    from emu.accelerator.errors import NotEmulatedError
    from emu.accelerator.nvshmem.errors import NvshmemInvalid

    me, n = nv.my_pe(), nv.n_pes()
    right = (me + 1) % n
    ok, done = cuda.CUresult.CUDA_SUCCESS, cudart.cudaError_t.cudaSuccess
    words = nv.tensor((4,), dtype=torch.int32)
    wide = nv.tensor((2,), dtype=torch.int64)
    data, inbox = nv.tensor((8,), dtype=torch.float32), nv.tensor((16,), dtype=torch.float32)
    for x in (words, wide, inbox):
        x.zero_()
    data.fill_(me + 1.0)
    nv.barrier(nv.Teams.TEAM_WORLD, stream=None)
    stream = torch.cuda.current_stream().cuda_stream
    default = cuda.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT
    equal = cuda.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_EQ
    least = cuda.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
    kind = cudart.cudaMemcpyKind.cudaMemcpyDefault
    there, theirs = nv.get_peer_tensor(inbox, right), nv.get_peer_tensor(data, right)
    peer_words, peer_wide = nv.get_peer_tensor(words, right), nv.get_peer_tensor(wide, right)
    assert cudart.cudaMemcpyAsync(there.data_ptr(), data.data_ptr(), 32, kind, stream) == (done,)
    assert cuda.cuStreamWriteValue32(stream, peer_words[1].data_ptr(), -5, default) == (ok,)
    assert cuda.cuStreamWriteValue64(stream, peer_wide[1].data_ptr(), (1 << 64) - 2, default) == (
        ok,
    )
    assert cuda.cuStreamWaitValue32(stream, words[1].data_ptr(), (1 << 32) - 5, equal) == (ok,)
    assert cuda.cuStreamWaitValue64(stream, wide[1].data_ptr(), -3, least) == (ok,)
    assert cudart.cudaMemcpyAsync(inbox.data_ptr() + 32, theirs.data_ptr(), 32, kind, stream) == (
        done,
    )
    private = torch.zeros(4, dtype=torch.int32, device="cuda")
    assert cuda.cuStreamWriteValue32(stream, private[2].data_ptr(), 9, default) == (ok,)
    assert cuda.cuStreamWaitValue32(stream, private[2].data_ptr(), 9, equal) == (ok,)
    assert cuda.cuStreamWaitValue32(stream, private[2].data_ptr(), 8, least) == (ok,)
    assert cudart.cudaMemcpyAsync(private.data_ptr(), private.data_ptr() + 8, 4, kind, stream)
    nv.barrier(nv.Teams.TEAM_WORLD, stream=None)
    address = private[2].data_ptr()
    for call, text in (
        (
            lambda: cuda.cuStreamWaitValue32(stream, address, 10, equal),
            "or hold 10 already, but .* holds 9",
        ),
        (
            lambda: cuda.cuStreamWaitValue32(stream, address, 10, 2),
            "flags must be one of .*GEQ, .*EQ, but got 2",
        ),
        (lambda: cuda.cuStreamWaitValue32(stream, address, 1 << 32, 1), "value must have 32 bits"),
        (
            lambda: cuda.cuStreamWriteValue64(stream, address + 4, 1, 0),
            "addr must be a multiple of 8",
        ),
        (lambda: cuda.cuStreamWriteValue32(stream, 0, 1, 0), "addr must be at least 1"),
        (lambda: cuda.cuStreamWriteValue32(stream, "x", 1, 0), "addr must be an integer"),
        (lambda: cuda.cuStreamWriteValue32(stream, address, 0.5, 0), "value must be an integer"),
        (lambda: cuda.cuStreamWriteValue32("s", address, 1, 0), "stream must be a stream"),
        (lambda: cudart.cudaMemcpyAsync(0, address, 4, kind, stream), "dst must be an address"),
        (
            lambda: cudart.cudaMemcpyAsync(address, address, -4, kind, stream),
            "count must be at least 0",
        ),
        (
            lambda: cudart.cudaMemcpyAsync(data.data_ptr(), address, 1 << 20, kind, stream),
            "dst must lie in allocated",
        ),
        (lambda: cudart.cudaFree(address), "cudaFree: memory is torch's"),
        (lambda: cudart.cudaDeviceGetP2PAttribute(9, 0, 1), "attr must be in"),
        (lambda: cuda.cuDeviceGetAttribute(1, 0), "attribute 1 is not emulated"),
        (lambda: cuda.cuDeviceGet(99), "ordinal must be in"),
    ):
        refused(call, (NvshmemInvalid, NotEmulatedError), text)  # type: ignore[arg-type] # either
    return [inbox.tolist(), words.tolist(), wide.tolist(), private.tolist()]


@pytest.mark.parametrize("n_pes", [1, 2])
def test_streams_write_and_wait_for_words_and_copy(n_pes: int) -> None:
    for me, (inbox, words, wide, private) in enumerate(emu.launch(run_words, n_pes)):
        left, right = (me - 1) % n_pes, (me + 1) % n_pes
        assert inbox == [left + 1.0] * 8 + [right + 1.0] * 8
        assert (words, wide) == ([0, -5, 0, 0], [0, -2])
        assert private == [9, 0, 9, 0]


def run_devices() -> None:
    torch, _ = start()
    from emu.accelerator.cuda_python import core, runtime
    from emu.accelerator.cuda_python import driver as cuda

    assert cuda.cuDriverGetVersion()[1] == 12040
    assert cuda.cuGetErrorName(0)[1] == b"CUDA_SUCCESS"
    assert cuda.cuDeviceGet(1) == (0, 1)
    attribute = cuda.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
    assert cuda.cuDeviceGetAttribute(attribute, 0) == (0, 0)
    assert cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(cuda.CUfunction(5), 128, 0) == (0, 1)
    assert runtime.cudaFree(0) == (0,)
    assert runtime.cudaGetErrorString(0)[1] == b"no error"
    atomic = runtime.cudaDeviceP2PAttr.cudaDevP2PAttrNativeAtomicSupported
    assert runtime.cudaDeviceGetP2PAttribute(atomic, 0, 1) == (0, 1)
    found = runtime.cudaGetDeviceProperties(0)[1]
    assert found.multiProcessorCount == torch.cuda.get_device_properties(0).multi_processor_count
    core.Device(1).set_current()
    assert core.Device().device_id == torch.cuda.current_device() == 1


def test_devices_are_described() -> None:
    emu.launch(run_devices, 2)


SCRIPT = """
import os, torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem
from cuda.bindings import driver

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
x = symm_mem.empty(4, dtype=torch.int32, device=f"cuda:{rank}").zero_()
handle = symm_mem.rendezvous(x, dist.group.WORLD.group_name)
handle.barrier()
there = handle.get_buffer(1 - rank, (4,), torch.int32)
stream = torch.cuda.current_stream().cuda_stream
assert driver.cuStreamWriteValue32(stream, there[2].data_ptr(), rank + 3, 0) == (0,)
assert driver.cuStreamWaitValue32(stream, x[2].data_ptr(), 4 - rank, 1) == (0,)
print(rank, x.tolist(), driver.cuOther())
"""


def test_installed_bindings_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "cuda" / "bindings"
    folder.mkdir(parents=True)
    (folder / "driver.py").write_text(
        "def cuStreamWriteValue32(*a): raise AssertionError\n"
        "cuStreamWaitValue32 = cuStreamWriteValue32\n"
        "def cuOther(): return 'theirs'\n"
    )
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "emu", "run", "-n", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    lines = sorted(done.stdout.splitlines())
    assert lines == ["[0] 0 [0, 0, 4, 0] theirs", "[1] 1 [0, 0, 3, 0] theirs"]
