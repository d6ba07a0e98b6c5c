"""Functions that autocast computes in fp32."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")
F = torch.nn.functional


def autocast_of_cuda():
    x = torch.randn(3, 8, device="cuda")
    host = torch.randn(3, 8)
    target = torch.zeros(3, dtype=torch.long, device="cuda")
    with torch.autocast("cuda"):
        y = x @ torch.randn(8, 8, device="cuda")
        in_fp32 = (
            y.softmax(-1),
            F.softmax(y, -1),
            torch.sum(y),
            y.exp(),
            y**2,
            F.layer_norm(y, (8,)),
            F.cross_entropy(y, target),
            F.mse_loss(y, y),
            y.norm(),
        )
        assert [t.dtype for t in in_fp32] == [torch.float32] * len(in_fp32)
        assert all(t.is_cuda for t in in_fp32)
        assert [t.dtype for t in (y, F.relu(y), y + 1, y.t())] == [torch.float16] * 4
        big = torch.full((8,), 6e4, device="cuda", dtype=torch.float16)
        assert big.sum().item() == 8 * float(big[0])  # in fp16 it would be infinite
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (host @ host.T).softmax(-1).dtype == torch.bfloat16  # the CPU's own rules
    assert y.half().exp().dtype == torch.float16


def test_autocast_computes_in_fp32_what_cuda_does() -> None:
    check_on_devices(autocast_of_cuda)
