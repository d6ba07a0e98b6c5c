"""Arrays of other libraries."""

from __future__ import annotations

import pytest

import emu.pypto as p


def test_torch_tensors_share_memory():
    torch = pytest.importorskip("torch")

    @p.jit
    def kernel(x, out):
        assert x.dtype is p.DT_BF16
        out[:] = p.matmul(x, x, p.DT_FP32)

    x = torch.full((2, 2), 1.5, dtype=torch.bfloat16)
    out = torch.zeros(2, 2)
    kernel(x, out)
    assert (out == 4.5).all()

    @p.jit
    def double(x):
        x[:] = x + x

    double(x)
    assert (x == 3).all()
    with pytest.raises(p.KernelError, match="must be a CPU tensor"):
        double(torch.zeros(2, device="meta"))
