"""Triton operators of xformers, beside torch; its own tests import a library of CUDA kernels."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
xops = pytest.importorskip("xformers.ops")
rmsnorm = pytest.importorskip("xformers.ops.rmsnorm")


@pytest.mark.parametrize("width", [64, 1000, 4096])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rms_norm(width, weighted, dtype):
    x, y = (torch.randn(3, 5, width, device="cuda", dtype=dtype) for _ in range(2))
    weight = torch.randn(width, device="cuda", dtype=dtype) if weighted else None
    near = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}

    def norm(x):
        wide = x.float()
        found = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (found * weight.float() if weighted else found).to(dtype)

    torch.testing.assert_close(rmsnorm.rms_norm(x, weight), norm(x), **near)
    total = x + y
    torch.testing.assert_close(rmsnorm.rms_norm_add(x, y, weight), norm(total), **near)
    torch.testing.assert_close(x, total)


@pytest.mark.parametrize("scaled", [False, True])
def test_scaled_index_add(scaled):
    x, source = (torch.randn(n, 7, 40, device="cuda", requires_grad=True) for n in (9, 4))
    scale = torch.randn(40, device="cuda", requires_grad=True) if scaled else None
    index = torch.tensor([5, 0, 8, 3], device="cuda")
    found = xops.scaled_index_add(x.clone(), index, source, scale, 0.5)
    part = source.detach().clone().requires_grad_()
    expected = x.detach().index_add(
        0, index, part if scale is None else scale.detach() * part, alpha=0.5
    )
    torch.testing.assert_close(found, expected)
    up = torch.randn_like(found)
    found.backward(up)
    expected.backward(up)
    torch.testing.assert_close(source.grad, part.grad)


def test_index_select_cat():
    sources = [torch.randn(n, 24, device="cuda", requires_grad=True) for n in (9, 14)]
    indices = [torch.tensor(at, device="cuda") for at in ([3, 0, 8], [13, 1])]
    found = xops.index_select_cat(sources, indices)
    expected = torch.cat([s[i].flatten() for s, i in zip(sources, indices, strict=True)])
    torch.testing.assert_close(found, expected)
    found.backward(torch.ones_like(found))
    for source, at in zip(sources, indices, strict=True):
        ones = torch.zeros_like(source).index_fill(0, at, 1)
        torch.testing.assert_close(source.grad, ones)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_tiled_products(dtype):
    def tiles(rows, columns):
        return [[torch.randn(m, n, device="cuda").to(dtype) for n in columns] for m in rows]

    a, b = tiles([64, 32], [32, 96]), tiles([32, 96], [64, 32, 16])
    found = xops.tiled_matmul(a, b)
    for i, row in enumerate(found):
        for j, tile in enumerate(row):
            expected = sum(a[i][k].float() @ b[k][j].float() for k in range(2))
            torch.testing.assert_close(tile.float(), expected, rtol=1e-2, atol=1e-2)
