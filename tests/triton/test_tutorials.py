"""Programs of the kinds that Triton's tutorials teach, with what their host sides ask for."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton

torch = pytest.importorskip("torch")

active = triton.runtime.driver.active


# ---- a softmax over rows, on as many programs as the device's figures give


@triton.jit
def softmax_rows(
    to, source, to_stride, stride, rows, columns, BLOCK: tl.constexpr, num_stages: tl.constexpr
):
    first, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(first, rows, step, num_stages=num_stages):
        at = tl.arange(0, BLOCK)
        mask = at < columns
        x = tl.load(source + row * stride + at, mask=mask, other=-float("inf"))
        power = tl.exp(x - tl.max(x, axis=0))
        tl.store(to + row * to_stride + at, power / tl.sum(power, axis=0), mask=mask)


def softmax(x):
    rows, columns = x.shape
    figures = active.utils.get_device_properties(active.get_active_torch_device().index)
    target = active.get_current_target()
    settings = {"BLOCK": triton.next_power_of_2(columns), "num_stages": 2}
    y = torch.empty_like(x)
    kernel = softmax_rows.warmup(
        y, x, y.stride(0), x.stride(0), rows, columns, num_warps=8, grid=(1,), **settings
    )
    kernel._init_handles()
    resident = figures["max_num_regs"] // (kernel.n_regs * target.warp_size * 8)
    resident = min(resident, figures["max_shared_mem"] // kernel.metadata.shared)
    programs = min(figures["multiprocessor_count"] * resident, rows)
    kernel[(programs, 1, 1)](
        y, x, y.stride(0), x.stride(0), rows, columns, settings["BLOCK"], settings["num_stages"]
    )
    return y


def test_softmax_over_rows():
    torch.manual_seed(0)
    x = torch.randn(183, 78)
    triton.testing.assert_close(softmax(x), torch.softmax(x, dim=1), atol=1e-6)


# ---- a matrix product in blocks, tuned, with an activation as a constant


def settings():
    return [
        triton.Config({"BM": m, "BN": n, "BK": 16, "GROUP": 4}, num_stages=s, num_warps=4)
        for m, n in ((16, 32), (32, 32))
        for s in (2, 3)
    ]


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(configs=settings(), key=["M", "N", "K"])
@triton.jit
def product(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    tl.assume(sam > 0)
    high, wide = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * wide)
    first = group * GROUP
    size = min(high - first, GROUP)
    row = first + (pid % (GROUP * wide)) % size
    column = (pid % (GROUP * wide)) // size
    rows = (row * BM + tl.arange(0, BM)) % M
    columns = (column * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    at_a = a + rows[:, None] * sam + inner[None, :] * sak
    at_b = b + inner[:, None] * sbk + columns[None, :] * sbn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(at_a, mask=inner[None, :] < K - k * BK, other=0.0)
        y = tl.load(at_b, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(x, y, total)
        at_a += BK * sak
        at_b += BK * sbk
    if ACTIVATION == "leaky":
        total = leaky(total)
    out_rows = row * BM + tl.arange(0, BM)
    out_columns = column * BN + tl.arange(0, BN)
    mask = (out_rows[:, None] < M) & (out_columns[None, :] < N)
    at_c = c + scm * out_rows[:, None] + scn * out_columns[None, :]
    tl.store(at_c, total.to(c.dtype.element_ty), mask=mask)


@pytest.mark.parametrize("activation", ["", "leaky"])
def test_a_tuned_matrix_product(activation):
    torch.manual_seed(0)
    a, b = torch.randn(70, 50).half(), torch.randn(50, 90).half()
    c = torch.empty(70, 90, dtype=torch.float16)

    def grid(meta):
        return (triton.cdiv(70, meta["BM"]) * triton.cdiv(90, meta["BN"]),)

    product[grid](
        a, b, c, 70, 90, 50, *a.stride(), *b.stride(), *c.stride(), ACTIVATION=activation
    )  # fmt: skip
    expected = a.float() @ b.float()
    if activation:
        expected = torch.where(expected >= 0, expected, 0.01 * expected)
    triton.testing.assert_close(c, expected.half(), atol=2e-2, rtol=1e-3)
    assert len(product.configs_timings) == 4


# ---- dropout whose mask is a seed


@triton.jit
def drop(source, to, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(source + at, mask=mask)
    keep = tl.rand(seed, at) > p
    tl.store(to + at, tl.where(keep, x / (1 - p), 0.0), mask=mask)


def test_dropout_by_a_seed():
    x = torch.ones(5000)

    def dropped(seed, block):
        y = torch.empty_like(x)
        drop[lambda m: (triton.cdiv(5000, m["BLOCK"]),)](x, y, 5000, 0.25, seed, BLOCK=block)
        return y

    first = dropped(123, 1024)
    assert torch.equal(first, dropped(123, 256))
    assert not torch.equal(first, dropped(512, 1024))
    kept = (first != 0).float().mean().item()
    assert abs(kept - 0.75) < 0.03
    assert torch.equal(first[first != 0].unique(), torch.tensor([1 / 0.75]))


# ---- layer norm with both passes, the second with a lock for partial sums


@triton.jit
def norm_forward(x, y, weight, bias, mean_to, rstd_to, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
        value = tl.where(at < columns, value - mean, 0.0)
        total += value * value
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / columns + eps)
    tl.store(mean_to + row, mean)
    tl.store(rstd_to + row, rstd)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < columns
        value = (tl.load(x + at, mask=mask, other=0.0).to(tl.float32) - mean) * rstd
        value = value * tl.load(weight + at, mask=mask) + tl.load(bias + at, mask=mask)
        tl.store(y + at, value, mask=mask)


@triton.jit
def norm_backward(
    dx, dy, dw, db, x, weight, mean_from, rstd_from, lock, stride, columns,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < columns
    group = row % GROUPS
    lock += group
    count = lock + GROUPS
    dw += group * columns + at
    db += group * columns + at
    value = tl.load(x + row * stride + at, mask=mask, other=0).to(tl.float32)
    grad = tl.load(dy + row * stride + at, mask=mask, other=0).to(tl.float32)
    scale = tl.load(weight + at, mask=mask).to(tl.float32)
    rstd = tl.load(rstd_from + row)
    hat = tl.where(mask, (value - tl.load(mean_from + row)) * rstd, 0.0)
    weighted = tl.where(mask, scale * grad, 0.0)
    c1 = tl.sum(hat * weighted, axis=0) / columns
    c2 = tl.sum(weighted, axis=0) / columns
    tl.store(dx + row * stride + at, (weighted - (hat * c1 + c2)) * rstd, mask=mask)
    part_w, part_b = grad * hat, grad
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    seen = tl.load(count)
    if seen == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw, mask=mask)
        part_b += tl.load(db, mask=mask)
    tl.store(dw, part_w, mask=mask)
    tl.store(db, part_b, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def test_layer_norm_and_its_gradients():
    torch.manual_seed(0)
    rows, columns, groups = 23, 100, 4
    x = (2 * torch.randn(rows, columns) - 0.5).requires_grad_()
    weight = torch.rand(columns).requires_grad_()
    bias = torch.rand(columns).requires_grad_()
    dy = torch.randn(rows, columns)
    y, mean, rstd = torch.empty(rows, columns), torch.empty(rows), torch.empty(rows)
    norm_forward[(rows,)](x, y, weight, bias, mean, rstd, x.stride(0), columns, 1e-5, BLOCK=64)
    expected = torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5)
    triton.testing.assert_close(y, expected, atol=1e-5)
    expected.backward(dy)
    dx = torch.empty_like(dy)
    dw, db = torch.zeros(groups, columns), torch.zeros(groups, columns)
    locks = torch.zeros(2 * groups, dtype=torch.int32)
    norm_backward[(rows,)](
        dx, dy, dw, db, x, weight, mean, rstd, locks, x.stride(0), columns,
        GROUPS=groups, BLOCK=128,
    )  # fmt: skip
    triton.testing.assert_close(dx, x.grad, atol=1e-5)
    triton.testing.assert_close(dw.sum(0), weight.grad, atol=1e-4)
    triton.testing.assert_close(db.sum(0), bias.grad, atol=1e-4)
    assert np.array_equal(locks.numpy(), [0] * groups + [1] * groups)
