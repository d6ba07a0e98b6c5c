"""Programs with the constructs that libraries of kernels are made of, on small data, against NumPy."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.language import math as tl_math
from emu.triton.language.extra import libdevice
from emu.triton.source import JITCallable as jit
from emu.triton.source import constexpr_function

RNG = np.random.default_rng(1)

_NONE: tl.constexpr = tl.constexpr(-1)
_LLAMA: tl.constexpr = tl.constexpr(0)
_GEMMA: tl.constexpr = tl.constexpr(1)
_LOG2E = tl.constexpr(1.4426950408889634)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


# ---- rows


@jit
def rms_norm(
    y_ptr,
    y_stride,
    x_ptr,
    x_stride,
    w_ptr,
    rstd_ptr,
    n,
    eps,
    offset,
    casting: tl.constexpr,
    HAS_WEIGHT: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Two spellings of the same, chosen by names of known values."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, WIDTH)
    mask = columns < n
    y_base = y_ptr + row * y_stride
    x = tl.load(x_ptr + row * x_stride + columns, mask=mask, other=0)
    dtype = x.dtype
    if HAS_WEIGHT:
        w = tl.load(w_ptr + columns, mask=mask, other=0)
    if casting == _LLAMA:
        x = x.to(tl.float32)
    if casting == _GEMMA:
        if HAS_WEIGHT:
            w = w.to(tl.float32)
        x = x.to(tl.float32)
    if casting == _NONE:
        eps = eps.to(dtype)
        offset = offset.to(dtype)
    square = tl.sum(x * x, axis=0) / n
    rstd = tl.rsqrt(square + eps)
    tl.store(rstd_ptr + row, rstd)
    x = x * rstd
    if casting == _LLAMA:
        x = x.to(dtype)
    y = x * (offset + w) if HAS_WEIGHT else x
    if casting == _GEMMA:
        y = y.to(dtype)
    tl.store(y_base + columns, y, mask=mask)


@pytest.mark.parametrize("casting", [_LLAMA, _GEMMA, _NONE])
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(launch, casting, weighted):
    x, w = normal(3, 13), normal(13)
    y, rstd = np.zeros_like(x), np.zeros(3, np.float32)
    launch(
        rms_norm,
        *(y, 13, x, 13, w, rstd, 13, 1e-6, 0.5),
        grid=(3,),
        casting=casting,
        HAS_WEIGHT=weighted,
        WIDTH=16,
    )
    scale = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(1) + 1e-6)
    np.testing.assert_allclose(rstd, scale, rtol=1e-5)
    expected = x * scale[:, None] * (0.5 + w if weighted else 1)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@jit
def cross_entropy(
    x_ptr,
    x_stride,
    y_ptr,
    loss_ptr,
    n,
    ignored,
    softcap,
    REDUCTION: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Left early; one pass with a running maximum; gradients in place."""
    pid = tl.program_id(0).to(tl.int64)
    y_ptr += pid
    y = tl.load(y_ptr)
    x_ptr += pid * x_stride
    if y == ignored:
        for i in range(0, n, WIDTH):
            at = i + tl.arange(0, WIDTH)
            tl.store(x_ptr + at, 0.0, mask=at < n)
        return
    loss_ptr += pid
    m = float("-inf")
    d = 0.0
    picked = tl.load(x_ptr + y).cast(tl.float32)
    if HAS_SOFTCAP:
        picked = softcap * libdevice.tanh(picked / softcap)
    for i in range(0, n, WIDTH):
        at = i + tl.arange(0, WIDTH)
        block = tl.load(x_ptr + at, mask=at < n, other=float("-inf")).cast(tl.float32)
        if HAS_SOFTCAP:
            block = tl.where(at < n, softcap * libdevice.tanh(block / softcap), float("-inf"))
        top = tl.max(block)
        new = tl.maximum(m, top)
        d = d * tl.exp(m - new) + tl.sum(tl.exp(block - new))
        m = new
    lse = m + tl.log(d)
    for i in range(0, n, WIDTH):
        at = i + tl.arange(0, WIDTH)
        block = tl.load(x_ptr + at, mask=at < n, other=float("-inf")).cast(tl.float32)
        if HAS_SOFTCAP:
            inner = libdevice.tanh(block / softcap)
            block = softcap * inner
        g = tl.exp(block - m) / d
        g = tl.where(at != y, g, g - 1.0)
        if REDUCTION == "mean":
            g = g / n
        if HAS_SOFTCAP:
            g = g * (1 - inner * inner)
        tl.store(x_ptr + at, g, mask=at < n)
    tl.debug_barrier()
    loss = lse - picked
    if REDUCTION == "mean":
        loss = loss / n
    tl.store(loss_ptr, loss)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("capped", [True, False])
def test_cross_entropy(launch, reduction, capped):
    x = normal(4, 21) * 3
    y = np.array([3, -100, 20, 0], np.int64)
    gradient, loss = x.copy(), np.zeros(4, np.float32)
    launch(
        cross_entropy,
        *(gradient, 21, y, loss, 21, -100, 2.5),
        grid=(4,),
        REDUCTION=reduction,
        HAS_SOFTCAP=capped,
        WIDTH=8,
    )
    scale = 21 if reduction == "mean" else 1
    wide = x.astype(np.float64)
    z = 2.5 * np.tanh(wide / 2.5) if capped else wide
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    live = y >= 0
    expected = np.where(live, -np.log(p[range(4), np.maximum(y, 0)]), 0) / scale
    np.testing.assert_allclose(loss, expected, rtol=1e-5, atol=1e-6)
    slope = (p - (np.arange(21) == y[:, None])) / scale
    if capped:
        slope *= 1 - (z / 2.5) ** 2
    np.testing.assert_allclose(gradient, slope * live[:, None], rtol=1e-4, atol=1e-6)


# ---- activations, chosen by functions that are arguments


@jit
def gelu(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + libdevice.tanh(inner))


@jit
def silu(x):
    return x * tl.sigmoid(x)


@jit
def gated(a_ptr, b_ptr, c_ptr, stride, n: tl.constexpr, ACT: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    a_ptr, b_ptr, c_ptr = a_ptr + row * stride, b_ptr + row * stride, c_ptr + row * stride
    at = tl.arange(0, WIDTH)
    mask = at < n
    a = tl.load(a_ptr + at, mask=mask, other=0).to(tl.float32)
    b = tl.load(b_ptr + at, mask=mask, other=0)
    tl.store(c_ptr + at, ACT(a).to(b.dtype) * b, mask=mask)


@pytest.mark.parametrize("activation", [gelu, silu])
def test_gated_activations(launch, activation):
    a, b = normal(2, 10), normal(2, 10)
    c = np.zeros_like(a)
    launch(gated, a, b, c, 10, grid=(2,), n=10, ACT=activation, WIDTH=16)
    wide = a.astype(np.float64)
    soft = 0.7978845608028654 * (wide + 0.044715 * wide**3)
    expected = (
        0.5 * wide * (1 + np.tanh(soft)) if activation is gelu else wide / (1 + np.exp(-wide))
    )
    np.testing.assert_allclose(c, expected * b, rtol=1e-5, atol=1e-6)


# ---- reductions and scans with functions


@jit
def welford(mean_a, m2_a, weight_a, mean_b, m2_b, weight_b):
    delta = mean_b - mean_a
    weight = weight_a + weight_b
    share = tl.where(weight == 0.0, 0.0, weight_b / weight)
    return (
        mean_a + delta * share,
        m2_a + m2_b + delta * delta * weight_a * share,
        weight,
    )


@jit
def moments(x_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at)
    mean, m2, weight = tl.reduce((x, tl.zeros_like(x), tl.full(x.shape, 1, x.dtype)), 1, welford)
    rows = tl.arange(0, M)
    tl.store(out_ptr + rows, mean)
    tl.store(out_ptr + M + rows, m2 / weight)


def test_variance_by_a_reduction_of_three_tensors(launch):
    x, out = normal(4, 16), np.zeros((2, 4), np.float32)
    launch(moments, x, out, M=4, N=16)
    np.testing.assert_allclose(out, [x.mean(1), x.var(1)], rtol=1e-5, atol=1e-6)


@jit
def affine(a, b, c, d):
    return a * c, b * c + d


@jit
def recurrence(a_ptr, b_ptr, out_ptr, N: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, N)
    pair = (tl.load(a_ptr + at), tl.load(b_ptr + at))
    _, h = tl.associative_scan(pair, 0, affine, reverse=REVERSE)
    tl.store(out_ptr + at, h + tl.cumsum(pair[1], 0) * 0)


@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrence_by_a_scan(launch, reverse):
    a, b, out = normal(16), normal(16), np.zeros(16, np.float32)
    launch(recurrence, a, b, out, N=16, REVERSE=reverse)
    h, expected = 0.0, np.zeros(16)
    for i in range(16)[:: -1 if reverse else 1]:
        h = float(a[i]) * h + float(b[i])
        expected[i] = h
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@jit
def best(x_ptr, value_ptr, index_ptr, n, WIDTH: tl.constexpr):
    """A running maximum with its place, as arg-reductions over long rows have it."""
    value = tl.full((), -float("inf"), tl.float32)
    index = tl.full((), 0, tl.int64)
    for start in range(0, n, WIDTH):
        at = start + tl.arange(0, WIDTH)
        x = tl.load(x_ptr + at, mask=at < n, other=-float("inf"))
        local, place = tl.max(x, axis=0, return_indices=True)
        if local > value:
            value = local
            index = start + place.to(tl.int64)
    tl.store(value_ptr, value)
    tl.store(index_ptr, index)


def test_place_of_the_largest(launch):
    x = normal(50)
    value, index = np.zeros(1, np.float32), np.zeros(1, np.int64)
    launch(best, x, value, index, 50, WIDTH=16)
    assert value[0] == x.max()
    assert index[0] == x.argmax()


# ---- loops over blocks with branches inside


@jit
def sweep(
    acc,
    m,
    d,
    q,
    k_ptr,
    v_ptr,
    rows,
    n,
    STAGE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    D: tl.constexpr,
    start,
):
    """One of the two sweeps of attention: what is before the diagonal, and what crosses it."""
    if STAGE == 1:
        low, high = 0, start * BM
    else:
        low, high = start * BM, (start + 1) * BM
        low = tl.multiple_of(low, BM)
    columns = tl.arange(0, BN)
    dims = tl.arange(0, D)
    for at in range(low, high, BN):
        at = tl.multiple_of(at, BN)
        k = tl.load(k_ptr + (at + columns)[None, :] * D + dims[:, None])
        scores = tl.dot(q, k) * _LOG2E
        if STAGE == 2:
            mask = rows[:, None] >= (at + columns[None, :])
            scores = scores + tl.where(mask, 0, -1.0e6)
        new = tl.maximum(m, tl.max(scores, 1))
        p = tl.math.exp2(scores - new[:, None])
        alpha = tl_math.exp2(m - new)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptr + (at + columns)[:, None] * D + dims[None, :])
        acc = tl.dot(p, v, acc)
        d = d * alpha + tl.sum(p, 1)
        m = new
    return acc, d, m


@jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    tl.static_assert(BM % BN == 0, f"{BM=}, {BN=}")
    start = tl.program_id(0)
    rows = start * BM + tl.arange(0, BM)
    dims = tl.arange(0, D)
    m = tl.zeros([BM], dtype=tl.float32) - float("inf")
    d = tl.zeros([BM], dtype=tl.float32)
    acc = tl.zeros([BM, D], dtype=tl.float32)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :])
    for stage in tl.static_range(1, 3):
        acc, d, m = sweep(acc, m, d, q, k_ptr, v_ptr, rows, n, stage, BM, BN, D, start)
    tl.store(out_ptr + rows[:, None] * D + dims[None, :], acc / d[:, None])


def test_causal_attention_in_two_sweeps(launch):
    q, k, v = normal(64, 16), normal(64, 16), normal(64, 16)
    out = np.zeros_like(q)
    launch(attention, q, k, v, out, 64, grid=(2,), BM=32, BN=16, D=16)
    scores = q.astype(np.float64) @ k.T
    scores[np.triu_indices(64, 1)] = -np.inf
    p = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out, p / p.sum(1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)


@jit
def search(sorted_ptr, x_ptr, out_ptr, n, right: tl.constexpr, WIDTH: tl.constexpr):
    """Binary search: while with a tensor of states and a reduction as its condition."""
    x = tl.load(x_ptr + tl.arange(0, WIDTH))
    low = tl.zeros((WIDTH,), tl.int32)
    high = tl.zeros((WIDTH,), tl.int32) + n
    while tl.sum((low < high).to(tl.int32)) > 0:
        middle = (low + high) // 2
        live = low < high
        v = tl.load(sorted_ptr + middle, mask=live)
        beyond = v <= x if right else v < x
        low = tl.where(live & beyond, middle + 1, low)
        high = tl.where(live & ~beyond, middle, high)
    tl.store(out_ptr + tl.arange(0, WIDTH), low)


@pytest.mark.parametrize("side", ["left", "right"])
def test_binary_search(launch, side):
    rows = np.sort(RNG.integers(0, 20, 25).astype(np.int32))
    x, out = np.arange(-2, 30, dtype=np.int32), np.zeros(32, np.int32)
    launch(search, rows, x, out, 25, right=side == "right", WIDTH=32)
    np.testing.assert_array_equal(out, np.searchsorted(rows, x, side))


# ---- bits, dtypes, pointers


@constexpr_function
def lanes(bits):
    return 8 // bits


@jit
def unpack(packed_ptr, out_ptr, BITS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    packed = tl.load(packed_ptr + at)
    mask: tl.constexpr = (1 << BITS) - 1
    for lane in tl.static_range(lanes(BITS)):
        value = ((packed >> (lane * BITS)) & mask).to(tl.int8)
        value -= 1
        tl.store(out_ptr + at * lanes(BITS) + lane, value)


def test_packed_integers(launch):
    packed = RNG.integers(0, 256, 16).astype(np.uint8)
    out = np.zeros((16, 4), np.int8)
    launch(unpack, packed, out, BITS=2, N=16)
    expected = [[((int(p) >> (2 * i)) & 3) - 1 for i in range(4)] for p in packed]
    np.testing.assert_array_equal(out, expected)


@jit
def through_a_table(table_ptr, out_ptr, size, COUNT: tl.constexpr, WIDTH: tl.constexpr):
    """Addresses that lie in memory; a pointer compared with none."""
    total = tl.zeros((WIDTH,), tl.float32)
    at = tl.arange(0, WIDTH)
    for i in tl.static_range(COUNT):
        base = tl.load(table_ptr + i).to(tl.pointer_type(tl.float32))
        total += tl.load(base + at, mask=at < size, other=0.0)
    tl.store(out_ptr + at, total, mask=at < size)


def test_pointers_in_memory(launch):
    parts = [normal(6) for _ in range(3)]
    table = np.array([p.ctypes.data for p in parts], np.int64)
    out = np.zeros(6, np.float32)
    launch(through_a_table, table, out, 6, COUNT=3, WIDTH=8)
    np.testing.assert_allclose(out, sum(parts), rtol=1e-6)


@jit
def generic(x, y):
    """What it does depends on the dtype of its argument."""
    if x.dtype.is_floating():
        r = tl.math.fma(x, y, x)
    elif x.dtype == tl.int32 or x.dtype.is_int64():
        r = x * y + x
    else:
        tl.static_assert(False, f"no {x.dtype}")
    return r.to(x.dtype, bitcast=False)


@jit
def largest(dtype):
    """Known values that are declared in branches and returned."""
    kind = dtype.value
    if kind.is_floating():
        value: tl.constexpr = float("inf")
        return value
    width: tl.constexpr = kind.int_bitwidth
    value: tl.constexpr = 2 ** (width - kind.is_int_signed()) - 1
    return value


@jit
def limits(x_ptr, n: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, n), largest(x_ptr.dtype.element_ty))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
def test_dtypes_are_arguments(launch, dtype):
    x = np.zeros(4, dtype)
    launch(limits, x, n=4)
    assert set(x) == {dtype(np.inf) if dtype is np.float32 else np.iinfo(dtype).max}


@jit
def promotes(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, generic(x, tl.full((N,), 2, x.dtype)))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_functions_depend_on_dtypes(launch, dtype):
    x, out = np.arange(8, dtype=dtype), np.zeros(8, dtype)
    launch(promotes, x, out, N=8)
    np.testing.assert_array_equal(out, x * 3)


def test_a_false_static_assertion_in_a_called_function_has_a_chain(compile_):
    with pytest.raises(triton.compiler.CompilationError, match="in promotes") as caught:
        compile_(promotes, np.zeros(8, np.int16), np.zeros(8, np.int16), N=8)
    assert isinstance(caught.value.__cause__, triton.compiler.CompileTimeAssertionFailure)
    assert str(caught.value).endswith("no int16")


@jit
def counts(x_ptr, out_ptr, n, WIDTH: tl.constexpr, SEM: tl.constexpr = "relaxed"):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    x = tl.load(x_ptr + at, mask=at < n, other=-1)
    tl.atomic_add(out_ptr + x, 1, mask=(at < n) & (x >= 0), sem=SEM)


def test_counts_by_atomic_additions(launch):
    x, out = RNG.integers(0, 5, 40).astype(np.int32), np.zeros(5, np.int32)
    launch(counts, x, out, 40, grid=(3,), WIDTH=16)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=5))


@jit
def rotate(
    q_ptr, cos_ptr, sin_ptr, HEADS: tl.constexpr, D: tl.constexpr, BACK: tl.constexpr = False
):
    row = tl.program_id(0)
    half: tl.constexpr = D // 2
    dims = tl.arange(0, half)
    cos, sin = tl.load(cos_ptr + row * half + dims), tl.load(sin_ptr + row * half + dims)
    first = tl.arange(0, HEADS)[:, None] * D + dims[None, :] + row * HEADS * D
    second = first + half
    a = tl.load(q_ptr + first)
    b = tl.load(q_ptr + second)
    if not BACK:
        new_a, new_b = a * cos - b * sin, b * cos + a * sin
    else:
        new_a, new_b = a * cos + b * sin, b * cos - a * sin
    tl.store(q_ptr + first, new_a)
    tl.store(q_ptr + second, new_b)


def test_rotation_and_back(launch):
    q = normal(3, 2, 8)
    angle = normal(3, 4)
    cos, sin = np.cos(angle), np.sin(angle)
    out = q.copy()
    launch(rotate, out, cos, sin, grid=(3,), HEADS=2, D=8)
    a, b = q[..., :4], q[..., 4:]
    c, s = cos[:, None], sin[:, None]
    np.testing.assert_allclose(
        out, np.concatenate([a * c - b * s, b * c + a * s], -1), rtol=1e-5, atol=1e-6
    )
    launch(rotate, out, cos, sin, grid=(3,), HEADS=2, D=8, BACK=True)
    np.testing.assert_allclose(out, q, rtol=1e-5, atol=1e-6)


@jit
def planes(out_ptr, n, NAMES: tl.constexpr):
    """Three axes of programs; text decides; ranges that count down."""
    x, y, z = tl.program_id(0), tl.program_id(axis=1), tl.program_id(2)
    flat = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    value = 0
    for i in range(n - 1, -1, -1):
        value = value * 3 + i
    if "x" == NAMES[0]:
        value += x
    if NAMES[1] != "x" and len(NAMES) == 2:
        value += y * 10
    tl.store(out_ptr + flat, value)


def test_three_axes_of_programs(launch):
    out = np.zeros((2, 3, 4), np.int32)
    launch(planes, out, 4, grid=(4, 3, 2), NAMES=("x", "y"))
    value = 0
    for i in (3, 2, 1, 0):
        value = value * 3 + i
    expected = value + np.arange(4)[None, None, :] + 10 * np.arange(3)[None, :, None]
    np.testing.assert_array_equal(out, np.broadcast_to(expected, out.shape))
