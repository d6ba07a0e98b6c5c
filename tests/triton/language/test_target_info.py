"""What kernels are told of the device that they run on."""

from __future__ import annotations

import os

import pytest
from emulated_devices import check_on_devices

import emu.triton.language as tl
from emu import triton

torch = pytest.importorskip("torch")


@triton.jit
def tells_capability(out_ptr, N: tl.constexpr):
    if tl.target_info.cuda_capability_geq(9, 0):
        found = 90
    elif tl.target_info.is_cuda():
        found = 80
    else:
        found = 0
    i = tl.arange(0, N)
    tl.store(out_ptr + i, i * 0 + found)


def told(size):
    out = torch.full((size,), -1, dtype=torch.int32, device="cuda")
    tells_capability[(1,)](out, N=size)
    assert (out == out[0]).all()
    return int(out[0])


def kernels_ask():
    assert tl.target_info.is_cuda()
    assert not tl.target_info.is_hip()
    assert tl.target_info.current_target().arch == 80
    assert told(2) == 80
    os.environ["EMU_CUDA_CAPABILITY"] = "9.0"
    assert tl.target_info.cuda_capability_geq(9)
    assert not tl.target_info.cuda_capability_geq(10, 0)
    assert told(4) == 90


def test_kernels_see_the_emulated_gpu() -> None:
    check_on_devices(kernels_ask)


def test_without_emulated_devices_it_is_the_cpu() -> None:
    assert tl.target_info.current_target().backend == "cpu"
    assert not tl.target_info.is_cuda()
    assert not tl.target_info.cuda_capability_geq(7)
