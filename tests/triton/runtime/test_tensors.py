"""Stand-ins for tensors: of another dtype, or without memory."""

import pytest
from triton_kernels import copy, types_of

import emu.triton.language as tl
from emu import triton


def test_memory_is_reinterpreted():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, -2.0])
    y = torch.zeros(2, dtype=torch.int32)
    copy[(1,)](triton.reinterpret(x, tl.int32), y, 2)
    assert y.tolist() == x.view(torch.int32).tolist()
    assert triton.reinterpret(triton.reinterpret(x, tl.int32), torch.float32) is x


def test_dtypes_stand_for_tensors_in_a_warmup():
    torch = pytest.importorskip("torch")
    kernel = copy.warmup(torch.float16, torch.float32, 4, grid=(1,))
    assert types_of(kernel) == {
        "x_ptr": "*fp16",
        "y_ptr": "*fp32",
        "n": "i32",
        "BLOCK": "constexpr",
    }
