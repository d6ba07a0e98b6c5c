"""Triton kernels under pytest-benchmark; what is asserted is what they computed."""

from __future__ import annotations

from typing import Any

import pytest

import emu.triton.language as tl
from emu import triton

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.benchmark(max_time=0.05, min_rounds=3, warmup=False)


@triton.jit
def nothing(a, b, c, d):
    pass


@triton.jit
def add(x_at, y_at, out_at, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = places < count
    total = tl.load(x_at + places, mask=mask) + tl.load(y_at + places, mask=mask)
    tl.store(out_at + places, total, mask=mask)


@triton.jit
def softmax(x_at, out_at, columns, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    mask = places < columns
    start = tl.program_id(0) * columns
    x = tl.load(x_at + start + places, mask=mask, other=-float("inf"))
    tl.store(out_at + start + places, tl.softmax(x), mask=mask)


@triton.jit
def multiply(a_at, b_at, c_at, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    places = i[:, None] * SIZE + i[None, :]
    product = tl.dot(tl.load(a_at + places), tl.load(b_at + places))
    tl.store(c_at + places, product)


def test_launch_of_nothing(benchmark: Any) -> None:
    tensors = [torch.ones(4) for _ in range(4)]
    kernel = benchmark(lambda: nothing[(1,)](*tensors))
    assert kernel.name == "nothing"


@pytest.mark.parametrize("count", [1000, 98_432])
def test_add(benchmark: Any, count: int) -> None:
    x, y = torch.arange(count, dtype=torch.float32), torch.ones(count)
    out = torch.empty(count)
    benchmark(lambda: add[(-(-count // 1024),)](x, y, out, count, BLOCK=1024))
    assert torch.equal(out, x + 1)


def test_softmax(benchmark: Any) -> None:
    x = torch.linspace(-9, 9, 64 * 781).reshape(64, 781)
    out = torch.empty_like(x)
    benchmark(lambda: softmax[(64,)](x, out, 781, BLOCK=1024))
    torch.testing.assert_close(out, torch.softmax(x, 1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_product(benchmark: Any, dtype: str) -> None:
    # Small integers: every sum is exact.
    torch.manual_seed(0)
    a, b = (torch.randint(-4, 5, (64, 64)).to(getattr(torch, dtype)) for _ in range(2))
    c = torch.empty(64, 64)
    benchmark(lambda: multiply[(1,)](a, b, c, SIZE=64))
    assert torch.equal(c, a.float() @ b.float())
