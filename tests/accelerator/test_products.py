"""Products whose results are wider than their operands."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")


def wide_products():
    for dtype in (torch.float16, torch.bfloat16):
        a, b = (torch.randn(2, 8, 8, device="cuda").to(dtype) for _ in range(2))
        c = torch.randn(8, 8, device="cuda").to(dtype)
        wide_a, wide_b, wide_c = a.float(), b.float(), c.float()
        got = torch.mm(a[0], b[0], out_dtype=torch.float32)
        assert (got.dtype, got.device) == (torch.float32, a.device)
        assert torch.equal(got, wide_a[0] @ wide_b[0])
        assert torch.equal(torch.bmm(a, b, torch.float32), wide_a @ wide_b)
        got = torch.addmm(c, a[0], b[0], out_dtype=torch.float32, beta=0.5, alpha=2)
        assert torch.equal(got, torch.addmm(wide_c, wide_a[0], wide_b[0], beta=0.5, alpha=2))
        assert torch.equal(
            torch.baddbmm(c, a, b, out_dtype=torch.float32), torch.baddbmm(wide_c, wide_a, wide_b)
        )
        out = torch.empty(8, 8, device="cuda")
        assert torch.mm(a[0], b[0], out_dtype=torch.float32, out=out) is out
        assert torch.equal(out, wide_a[0] @ wide_b[0])
        assert torch.mm(a[0], b[0], out_dtype=dtype).dtype == dtype
        refused(
            lambda x=a: torch.mm(x[0], x[0], out_dtype=torch.float64),
            RuntimeError,
            "out_dtype must",
        )
    x = torch.randn(4, 4, device="cuda")
    refused(lambda: torch.mm(x, x, out_dtype=torch.float16), RuntimeError, "out_dtype must")
    refused(
        lambda: torch.mm(x.half(), x.half(), out_dtype=torch.float32, out=x.half()),
        RuntimeError,
        "out",
    )


def test_products_of_narrow_matrices_are_added_in_fp32() -> None:
    check_on_devices(wide_products)
