"""Whole programs with the features of Triton's tutorials, on small data, against NumPy."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.source import JITCallable as jit

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


# ---- sum of two vectors


@jit
def add(a_ptr, b_ptr, sum_ptr, count, WIDTH: tl.constexpr):
    first = tl.program_id(axis=0) * WIDTH
    at = first + tl.arange(0, WIDTH)
    inside = at < count
    a = tl.load(a_ptr + at, mask=inside)
    b = tl.load(b_ptr + at, mask=inside)
    tl.store(sum_ptr + at, a + b, mask=inside)


def test_sum_of_two_vectors(launch):
    a, b, out = normal(100), normal(100), np.zeros(104, np.float32)
    launch(add, a, b, out, 100, grid=(triton.cdiv(100, 16),), WIDTH=16)
    np.testing.assert_array_equal(out, np.append(a + b, np.zeros(4, np.float32)))


# ---- softmax of rows, several rows for each program


@jit
def softmax_rows(
    out_ptr, in_ptr, in_stride, out_stride, rows, columns, WIDTH: tl.constexpr, STAGES: tl.constexpr
):
    start = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(start, rows, step, num_stages=STAGES):
        at = tl.arange(0, WIDTH)
        mask = at < columns
        x = tl.load(in_ptr + row * in_stride + at, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * out_stride + at, e / tl.sum(e, axis=0), mask=mask)


def test_softmax_of_rows(launch):
    x, out = normal(7, 11), np.zeros((7, 11), np.float32)
    launch(softmax_rows, out, x, 11, 11, 7, 11, grid=(3,), WIDTH=16, STAGES=2)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-6)


# ---- matrix product, programs in groups, an activation


@jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


@jit
def grouped(pid, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    rows = tl.cdiv(M, BM)
    columns = tl.cdiv(N, BN)
    group = pid // (GROUP * columns)
    first = group * GROUP
    size = min(rows - first, GROUP)
    return first + (pid % (GROUP * columns)) % size, (pid % (GROUP * columns)) // size


@jit
def product(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    cm,
    cn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    pm, pn = grouped(tl.program_id(axis=0), M, N, BM, BN, GROUP)
    tl.assume(pm >= 0)
    rows = (pm * BM + tl.arange(0, BM)) % M
    columns = (pn * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a = a_ptr + (rows[:, None] * am + k[None, :] * ak)
    b = b_ptr + (k[:, None] * bk + columns[None, :] * bn)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        x = tl.load(a, mask=k[None, :] < left, other=0.0)
        y = tl.load(b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        a += BK * ak
        b += BK * bk
    if ACTIVATION == "leaky":
        total = leaky(total)
    c = total.to(tl.float16)
    m = pm * BM + tl.arange(0, BM)
    n = pn * BN + tl.arange(0, BN)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + cm * m[:, None] + cn * n[None, :], c, mask=inside)


@pytest.mark.parametrize("activation", ["", "leaky"])
def test_matrix_product_in_groups(launch, activation):
    m, n, k = 40, 50, 35
    a, b = normal(m, k).astype(np.float16), normal(k, n).astype(np.float16)
    out = np.zeros((m, n), np.float16)
    grid = (triton.cdiv(m, 16) * triton.cdiv(n, 16),)
    blocks = {"BM": 16, "BN": 16, "BK": 16, "GROUP": 2, "ACTIVATION": activation}
    launch(product, a, b, out, m, n, k, k, 1, n, 1, n, 1, grid=grid, **blocks)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    if activation:
        expected = np.where(expected >= 0, expected, 0.01 * expected)
    np.testing.assert_allclose(out, expected, rtol=2e-3, atol=2e-3)


# ---- dropout


@jit
def keep_some(x_ptr, keep_ptr, out_ptr, count, p, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside)
    keep = tl.load(keep_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def test_dropout_with_a_given_mask(launch):
    x, out = normal(40), np.zeros(40, np.float32)
    keep = (RNG.random(40) > 0.5).astype(np.int32)
    with pytest.warns(
        UserWarning, match=r"condition of tl.where should be int1, but is int32\[16\]"
    ):
        launch(keep_some, x, keep, out, 40, 0.5, grid=(3,), WIDTH=16)
    np.testing.assert_array_equal(out, np.where(keep, x * 2, np.float32(0)))


@jit
def drop_seeded(x_ptr, out_ptr, count, p, seed, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside)
    keep = tl.rand(seed, at) > p
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def test_dropout_from_a_seed(launch):
    x = np.ones(512, np.float32)
    first, second, other = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    launch(drop_seeded, x, first, 512, 0.25, 123, grid=(8,), WIDTH=64)
    launch(drop_seeded, x, second, 512, 0.25, 123, grid=(2,), WIDTH=256)
    launch(drop_seeded, x, other, 512, 0.25, 321, grid=(8,), WIDTH=64)
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()
    assert set(first) == {np.float32(0), np.float32(1) / np.float32(0.75)}
    assert 0.65 < (first != 0).mean() < 0.85


# ---- layer norm, forward and backward


@jit
def norm(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, stride, n, eps, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    y_ptr += row * stride
    x_ptr += row * stride
    sums = tl.zeros([WIDTH], dtype=tl.float32)
    for at in range(0, n, WIDTH):
        columns = at + tl.arange(0, WIDTH)
        sums += tl.load(x_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / n
    squares = tl.zeros([WIDTH], dtype=tl.float32)
    for at in range(0, n, WIDTH):
        columns = at + tl.arange(0, WIDTH)
        x = tl.load(x_ptr + columns, mask=columns < n, other=0.0).to(tl.float32)
        x = tl.where(columns < n, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for at in range(0, n, WIDTH):
        columns = at + tl.arange(0, WIDTH)
        mask = columns < n
        w = tl.load(w_ptr + columns, mask=mask)
        b = tl.load(b_ptr + columns, mask=mask)
        x = tl.load(x_ptr + columns, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + columns, (x - mean) * rstd * w + b, mask=mask)


@jit
def norm_backward(
    dx_ptr,
    dy_ptr,
    dw_ptr,
    db_ptr,
    x_ptr,
    w_ptr,
    mean_ptr,
    rstd_ptr,
    lock_ptr,
    stride,
    n,
    GROUPS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0)
    columns = tl.arange(0, WIDTH)
    mask = columns < n
    x_ptr += row * stride
    dy_ptr += row * stride
    dx_ptr += row * stride
    group = row % GROUPS
    lock_ptr += group
    count_ptr = lock_ptr + GROUPS
    dw_ptr = dw_ptr + group * n + columns
    db_ptr = db_ptr + group * n + columns
    x = tl.load(x_ptr + columns, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + columns, mask=mask, other=0).to(tl.float32)
    w = tl.load(w_ptr + columns, mask=mask).to(tl.float32)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    hat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1 = tl.sum(hat * wdy, axis=0) / n
    c2 = tl.sum(wdy, axis=0) / n
    tl.store(dx_ptr + columns, (wdy - (hat * c1 + c2)) * rstd, mask=mask)
    dw = (dy * hat).to(w.dtype)
    db = (dy).to(w.dtype)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        dw += tl.load(dw_ptr, mask=mask)
        db += tl.load(db_ptr, mask=mask)
    tl.store(dw_ptr, dw, mask=mask)
    tl.store(db_ptr, db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@jit
def norm_gather(dw_ptr, db_ptr, fw_ptr, fb_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    dw = tl.zeros((BM, BN), dtype=tl.float32)
    db = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, m, BM):
        rows = i + tl.arange(0, BM)
        mask = (rows[:, None] < m) & (columns[None, :] < n)
        at = rows[:, None] * n + columns[None, :]
        dw += tl.load(dw_ptr + at, mask=mask, other=0.0)
        db += tl.load(db_ptr + at, mask=mask, other=0.0)
    tl.store(fw_ptr + columns, tl.sum(dw, axis=0), mask=columns < n)
    tl.store(fb_ptr + columns, tl.sum(db, axis=0), mask=columns < n)


def test_layer_norm_and_its_gradients(launch):
    m, n, groups = 9, 21, 4
    x, w, b, dy = normal(m, n), normal(n), normal(n), normal(m, n)
    y, dx = np.zeros_like(x), np.zeros_like(x)
    mean, rstd = np.zeros(m, np.float32), np.zeros(m, np.float32)
    launch(norm, x, y, w, b, mean, rstd, n, n, 1e-5, grid=(m,), WIDTH=16)
    wide = x.astype(np.float64)
    center = wide - wide.mean(1, keepdims=True)
    scale = 1 / np.sqrt((center**2).mean(1, keepdims=True) + 1e-5)
    hat = center * scale
    np.testing.assert_allclose(y, hat * w + b, rtol=2e-5, atol=2e-6)
    dw, db = np.zeros((groups, n), np.float32), np.zeros((groups, n), np.float32)
    locks = np.zeros(2 * groups, np.int32)
    arguments = (dx, dy, dw, db, x, w, mean, rstd, locks, n, n)
    launch(norm_backward, *arguments, grid=(m,), GROUPS=groups, WIDTH=32)
    wdy = w * dy.astype(np.float64)
    means = (hat * wdy).mean(1, keepdims=True), wdy.mean(1, keepdims=True)
    np.testing.assert_allclose(dx, (wdy - hat * means[0] - means[1]) * scale, rtol=1e-4, atol=1e-5)
    assert locks.tolist() == [0] * groups + [1] * groups
    fw, fb = np.zeros(n, np.float32), np.zeros(n, np.float32)
    launch(norm_gather, dw, db, fw, fb, groups, n, grid=(3,), BM=4, BN=8)
    np.testing.assert_allclose(fw, (dy * hat).sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fb, dy.sum(0), rtol=1e-4, atol=1e-5)
