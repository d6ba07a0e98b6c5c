"""The rest of the language against plain NumPy, and torch where it has the same."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypto_ops import (
    FLOATS,
    INTEGERS,
    few,
    ragged,
    reference,
    same,
    seeds,
    shapes,
    values,
    zero_outside,
)

import emu.pypto as p

erf = np.vectorize(math.erf, otypes=[np.float64])

OF_FLOATS = {
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "erf": lambda x: erf(x).astype(x.dtype),
    "reciprocal": lambda x: 1 / x,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: (0.5 * x.astype(np.float64) * (1 + erf(x / np.float64(2) ** 0.5))).astype(
        x.dtype
    ),
}
OF_NUMBERS = {
    "relu": lambda x: np.maximum(x, 0),
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
}


@pytest.mark.parametrize("name", OF_FLOATS)
@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS))
def test_functions_of_floats(name, shape, seed, dtype):
    a = values(seed, shape, dtype, positive=True)
    same(getattr(p, name)(p.from_numpy(a)), reference(OF_FLOATS[name], dtype, a))
    with pytest.raises(p.DTypeError, match=f"{name} needs a float"):
        getattr(p, name)(p.zeros([2], p.DT_INT32))


@pytest.mark.parametrize("name", OF_NUMBERS)
@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS + INTEGERS))
def test_functions_of_numbers(name, shape, seed, dtype):
    a = values(seed, shape, dtype)
    same(getattr(p, name)(p.from_numpy(a)), reference(OF_NUMBERS[name], dtype, a))


def test_special_values():
    special = p.from_numpy(np.array([np.nan, np.inf, -np.inf, -0.0, 2.5, -0.5], np.float32))
    assert p.isnan(special).numpy().tolist() == [True] + [False] * 5
    assert p.isinf(special).numpy().tolist() == [False, True, True, False, False, False]
    assert p.isfinite(special).numpy().tolist() == [False] * 3 + [True] * 3
    np.testing.assert_array_equal(p.round(special).numpy(), [np.nan, np.inf, -np.inf, 0, 2, 0])
    np.testing.assert_array_equal(p.relu(special).numpy(), [np.nan, np.inf, 0, 0, 2.5, 0])
    np.testing.assert_array_equal(p.clip(special, -1, 1).numpy(), [np.nan, 1, -1, 0, 1, -0.5])
    for approximate in ("none", "tanh"):
        assert p.gelu(special, approximate).numpy()[1:4].tolist() == [np.inf, 0, 0]


@pytest.mark.parametrize("approximate", ["erf", None, np.zeros((2, 2)), ["tanh"]])
def test_gelu_names_a_wrong_way(approximate):
    with pytest.raises(p.ArgumentError, match="approximate must be 'none' or 'tanh', but got"):
        p.gelu(p.from_numpy(np.ones((2, 2), np.float32)), approximate)


def test_activations_agree_with_torch():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    a = values(3, (64, 64), p.DT_FP32)
    x, t = torch.from_numpy(a), p.from_numpy(a)
    for ours, theirs in (
        (p.gelu(t), functional.gelu(x)),
        (p.gelu(t, "tanh"), functional.gelu(x, approximate="tanh")),
        (p.silu(t), functional.silu(x)),
        (p.erf(t), torch.erf(x)),
        (p.log_softmax(t), torch.log_softmax(x, -1)),
        (p.layer_norm(t), functional.layer_norm(x, (64,))),
        (p.var(t, 0), torch.var(x, 0)),
        (p.remainder(t, 0.7), torch.remainder(x, 0.7)),
        (p.prod(t, 1), torch.prod(x, 1)),
        (p.scatter_add(t, 1, p.zeros([64, 64], p.DT_INT64), t),
         torch.scatter_add(x, 1, torch.zeros(64, 64, dtype=torch.int64), x)),
    ):  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=3e-5, atol=3e-6)


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS + INTEGERS))
def test_powers_and_remainders(shape, seed, dtype):
    a, b = values(seed, shape, dtype, positive=True), values(seed + 1, shape, dtype)
    x, y = p.from_numpy(a), p.from_numpy(b)
    with np.errstate(all="ignore"):
        same(p.remainder(x, y), reference(np.remainder, dtype, a, b))
        if dtype in FLOATS:
            same(p.pow(x, y), reference(np.power, dtype, a, b))
        else:
            same(p.pow(x, p.from_numpy(np.abs(b))), np.power(a, np.abs(b)))
    same(
        p.clip(x, 1, 3), reference(lambda v: np.clip(v, v.dtype.type(1), v.dtype.type(3)), dtype, a)
    )
    same(p.clip(x, y), np.maximum(a, b))
    same(p.clip(x, max=2), np.minimum(a, a.dtype.type(2)))


def test_integers_to_negative_powers():
    a = p.from_numpy(np.array([-2, -1, -1, 0, 1, 2], np.int32))
    b = p.from_numpy(np.array([-1, -1, -2, -1, -3, -1], np.int32))
    assert p.pow(a, b).numpy().tolist() == [0, -1, 1, 0, 1, 0]
    assert p.pow(2, p.from_numpy(np.array([3, -1], np.int8))).numpy().tolist() == [8, 0]


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from([*INTEGERS, *FLOATS]))
def test_logic_and_bits(shape, seed, dtype):
    a, b = values(seed, shape, dtype), values(seed + 1, shape, dtype)
    x, y = p.from_numpy(a), p.from_numpy(b)
    for name in ("logical_and", "logical_or", "logical_xor"):
        same(getattr(p, name)(x, y), getattr(np, name)(a != 0, b != 0))
    same(p.logical_not(x), a == 0)
    if dtype in FLOATS:
        with pytest.raises(p.DTypeError, match="bitwise_and needs an integer or DT_BOOL tensor"):
            p.bitwise_and(x, y)
        return
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        same(getattr(p, name)(x, y), getattr(np, name)(a, b))
        same(getattr(p, name)(x, 5), getattr(np, name)(a, a.dtype.type(5)))
    same(p.bitwise_not(x), ~a)
    counts = (b % 7).astype(a.dtype)
    same(p.bitwise_left_shift(x, p.from_numpy(counts)), a << counts)
    same(p.bitwise_right_shift(x, p.from_numpy(counts)), a >> counts)


def test_shifts_of_all_bits():
    a = p.from_numpy(np.array([-3, 5], np.int32))
    assert p.bitwise_left_shift(a, 32).numpy().tolist() == [0, 0]
    assert p.bitwise_right_shift(a, 40).numpy().tolist() == [-1, 0]
    assert p.bitwise_right_shift(a, -1).numpy().tolist() == [-1, 0]
    assert p.bitwise_not(p.from_numpy(np.array([True, False]))).numpy().tolist() == [False, True]


# --- reductions -------------------------------------------------------------------------------------

AXES = st.sampled_from([None, 0, -1, (0, 1), (0, -1), (2, 0, 1), [1]])


@few
@given(seed=seeds, dim=AXES, keepdim=st.booleans(), dtype=st.sampled_from(FLOATS + INTEGERS))
def test_reductions_along_several_axes(seed, dim, keepdim, dtype):
    a = values(seed, (3, 2, 4), dtype)
    t = p.from_numpy(a)
    axis = tuple(dim) if isinstance(dim, list) else dim
    # NumPy walks axes in order; of the order they are named in it makes nothing.
    total = reference(lambda x: x.sum(axis=axis, keepdims=keepdim, dtype=x.dtype), dtype, a)
    same(p.sum(t, dim, keepdim), np.asarray(total))
    same(p.amax(t, dim, keepdim), np.asarray(a.max(axis=axis, keepdims=keepdim)))
    same(p.amin(t, dim, keepdim), np.asarray(a.min(axis=axis, keepdims=keepdim)))
    same(p.any(t, dim, keepdim), np.asarray((a != 0).any(axis=axis, keepdims=keepdim)))
    same(p.all(t, dim, keepdim), np.asarray((a != 0).all(axis=axis, keepdims=keepdim)))
    product = reference(lambda x: np.prod(x, axis=axis, keepdims=keepdim, dtype=x.dtype), dtype, a)
    same(p.prod(t, dim, keepdim), np.asarray(product))
    if dtype in FLOATS:
        mean = reference(lambda x: x.mean(axis=axis, keepdims=keepdim, dtype=x.dtype), dtype, a)
        same(p.mean(t, dim, keepdim), np.asarray(mean))
        found = p.var(t, dim, keepdim, 0).numpy().astype(np.float64)
        expected = a.astype(np.float64).var(axis=axis, keepdims=keepdim)
        np.testing.assert_allclose(
            found,
            expected,
            rtol=2 * float(np.finfo(np.float32).eps) * 40
            if dtype in (p.DT_FP32, p.DT_FP64)
            else 0.01,
            atol=float(ml_dtypes.finfo(a.dtype).smallest_subnormal),
        )


@few
@given(
    seed=seeds,
    keepdim=st.booleans(),
    dim=st.integers(-2, 1),
    dtype=st.sampled_from(FLOATS + INTEGERS),
)
def test_places_of_extremes_and_running_products(seed, keepdim, dim, dtype):
    a = np.random.default_rng(seed).integers(0, 3, (4, 5)).astype(dtype.np_dtype)
    t = p.from_numpy(a)
    keys = a.astype(np.float64)
    same(p.argmax(t, dim, keepdim), np.argmax(keys, dim, keepdims=keepdim).astype(np.int32))
    same(p.argmin(t, dim, keepdim), np.argmin(keys, dim, keepdims=keepdim).astype(np.int32))
    same(p.cumprod(t, dim), reference(lambda x: np.cumprod(x, axis=dim, dtype=x.dtype), dtype, a))


def test_reductions_see_valid_parts():
    t = ragged()
    assert p.mean(t, None).numpy() == -2
    assert p.mean(t, -1).numpy().tolist() == [-2, -2, 0, 0]
    assert p.var(t, (0, 1)).numpy() == 0
    assert p.prod(t, 0).numpy().tolist() == [4, 4, 4, 0]
    assert p.argmax(t, 0).valid_shape == (3,)
    assert p.all(p.ne(t, 0.0), None).numpy()
    none = p.view(p.ones([4, 4]), [4, 4], [0, 0], valid_shape=[0, 4])
    assert p.mean(none, 0).numpy().tolist() == [0] * 4
    assert p.prod(none, 0).numpy().tolist() == [1] * 4
    with pytest.raises(p.ArgumentError, match="dim must be an axis with a valid element"):
        p.argmax(none, 0)


# --- sorting, norms ---------------------------------------------------------------------------------


@few
@given(seed=seeds, descending=st.booleans(), dim=st.integers(-2, 1))
def test_sort_is_stable(seed, descending, dim):
    a = np.random.default_rng(seed).integers(-2, 3, (5, 6)).astype(np.float32)
    a[0, 0] = np.nan
    keys = np.where(np.isnan(a), np.inf, a)
    order = np.argsort(-keys if descending else keys, axis=dim, kind="stable")
    got, places = p.sort(p.from_numpy(a), dim, descending)
    np.testing.assert_array_equal(places.numpy(), order)
    np.testing.assert_array_equal(got.numpy(), np.take_along_axis(a, order, dim))
    np.testing.assert_array_equal(p.argsort(p.from_numpy(a), dim, descending).numpy(), order)


@few
@given(seed=seeds, dtype=st.sampled_from(FLOATS), scaled=st.booleans())
def test_norms(seed, dtype, scaled):
    a = values(seed, (3, 8), dtype)
    w, b = (values(seed + i, (8,), dtype) for i in (1, 2))
    extra = [p.from_numpy(w), p.from_numpy(b)] if scaled else []

    def layer(x, w=None, b=None):
        c = x - x.mean(-1, keepdims=True, dtype=x.dtype)
        y = c / np.sqrt((c * c).mean(-1, keepdims=True, dtype=x.dtype) + x.dtype.type(1e-5))
        return y if w is None else y * w + b

    def rms(x, w=None):
        y = x / np.sqrt((x * x).mean(-1, keepdims=True, dtype=x.dtype) + x.dtype.type(1e-6))
        return y if w is None else y * w

    same(p.layer_norm(p.from_numpy(a), *extra), reference(layer, dtype, a, *([w, b] * scaled)))
    same(p.rms_norm(p.from_numpy(a), *extra[:1]), reference(rms, dtype, a, *([w] * scaled)))

    def log_softmax(x):
        s = x - x.max(0, keepdims=True)
        return s - np.log(np.exp(s).sum(0, keepdims=True))

    same(p.log_softmax(p.from_numpy(a), 0), reference(log_softmax, dtype, a))


def test_norms_see_the_valid_part():
    got = p.rms_norm(ragged(), p.full([1, 4], 3.0), 0.0)
    np.testing.assert_array_equal(got.numpy(), zero_outside(-3.0))
    assert p.layer_norm(ragged()).valid_shape == (2, 3)


# --- products ---------------------------------------------------------------------------------------


@few
@given(seed=seeds, dtype=st.sampled_from(FLOATS[:3]))
def test_matmul_adds_a_bias_and_accumulates(seed, dtype):
    a, b, c = (
        values(seed, (5, 7), dtype),
        values(seed + 1, (3, 7), dtype),
        values(seed + 2, (5, 3), dtype),
    )
    bias = values(seed + 3, (3,), p.DT_FP32)
    product = p.matmul(p.from_numpy(a), p.from_numpy(b), p.DT_FP32, b_trans=True).numpy()
    got = p.matmul(p.from_numpy(a), p.from_numpy(b), b_trans=True, bias=p.from_numpy(bias))
    same(got, (product + bias).astype(dtype.np_dtype))
    total = p.from_numpy(c.copy())
    found = p.matmul(
        p.from_numpy(a), p.from_numpy(b), b_trans=True, bias=p.from_numpy(bias), accumulate=total
    )
    assert found is total
    same(total, (product + bias + c.astype(np.float32)).astype(dtype.np_dtype))


@p.frontend.jit
def accumulate_blocks(a, b, out):
    total = p.zeros([4, 6])
    for k in p.loop(0, 8, 2, unroll_list=[1, 2]):
        p.matmul(a[:, k : k + 2], b[k : k + 2, :], accumulate=total)
    out[:, :] = total


def test_matmul_accumulates_in_a_kernel():
    a, b = (np.arange(n, dtype=np.float32).reshape(s) for n, s in ((32, (4, 8)), (48, (8, 6))))
    out = np.zeros((4, 6), np.float32)
    accumulate_blocks(a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_hints_of_loops_are_checked():
    assert [int(i) for i in p.loop(4, unroll=2, unroll_list=(1, 2, 4))] == [0, 1, 2, 3]
    with pytest.raises(p.ArgumentError, match="unroll must be at least 1, but got 0"):
        p.loop(4, unroll=0)
    with pytest.raises(p.ArgumentError, match=r"unroll_list\[1\] must be at least 1"):
        p.loop(4, unroll_list=[2, 0])


# --- indexing ---------------------------------------------------------------------------------------


@few
@given(seed=seeds, dim=st.integers(-2, 1), dtype=st.sampled_from(FLOATS + INTEGERS))
def test_indexing(seed, dim, dtype):
    generator = np.random.default_rng(seed)
    a, axis = values(seed, (4, 5), dtype), dim % 2
    at = generator.integers(0, a.shape[axis], 6)
    t, index = p.from_numpy(a), p.from_numpy(at)
    same(p.index_select(t, dim, index), np.take(a, at, axis))
    shape = (6, 5) if axis == 0 else (4, 6)
    src = values(seed + 1, shape, dtype)

    def index_add(x, s):
        total = x.copy()
        np.add.at(total, at if axis == 0 else (slice(None), at), s)
        return total

    same(p.index_add(t, dim, index, p.from_numpy(src)), reference(index_add, dtype, a, src))
    places = generator.integers(0, a.shape[axis], shape)
    stored, added = (
        a.copy(),
        a.astype(np.float64 if dtype is p.DT_FP64 else np.float32) if dtype in FLOATS else a.copy(),
    )
    for i, j in np.ndindex(shape):
        to = (places[i, j], j) if axis == 0 else (i, places[i, j])
        stored[to] = src[i, j]
        with np.errstate(over="ignore"):  # integers wrap
            added[to] += src[i, j].astype(added.dtype)
    same(p.scatter(t, dim, p.from_numpy(places), p.from_numpy(src)), stored)
    same(p.scatter_add(t, dim, p.from_numpy(places), p.from_numpy(src)), added.astype(a.dtype))
    same(p.take_along(t, p.from_numpy(places), dim), np.take_along_axis(a, places, axis))
    same(t, a)


def test_indices_that_lie_outside():
    t, index = p.zeros([2, 3]), p.from_numpy(np.array([0, 3]))
    with pytest.raises(
        p.ArgumentError, match="index must be at least 0 and below 3, but got 0 to 3"
    ):
        p.index_select(t, 1, index)
    with pytest.raises(p.ArgumentError, match="index must be at least 0 and below 2"):
        p.index_add(t, 0, index, p.zeros([2, 3]))
    for op in (p.scatter, p.scatter_add):
        with pytest.raises(p.ArgumentError, match="index must be at least 0 and below 2"):
            op(t, 0, p.full([2, 3], -1, p.DT_INT32), p.zeros([2, 3]))


def test_scatter_of_a_number():
    index = p.from_numpy(np.array([[2], [0]]))
    assert p.scatter(p.zeros([2, 3]), 1, index, 7).numpy().tolist() == [[0, 0, 7], [7, 0, 0]]
    assert p.scatter(ragged(), 1, p.zeros([4, 1], p.DT_INT64), 5).numpy()[:, 0].tolist() == [5] * 4


# --- arranging --------------------------------------------------------------------------------------


def test_arranging():
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    t = p.from_numpy(a)
    same(p.permute(t, [2, 0, -2]), a.transpose(2, 0, 1))
    same(p.unsqueeze(t, -1), a[..., None])
    same(p.squeeze(p.unsqueeze(t, 1), 1), a)
    same(p.squeeze(p.from_numpy(a[:1, :, :1])), a[0, :, 0])
    same(p.stack([t, t], 1), np.stack([a, a], 1))
    same(
        p.broadcast_to(p.from_numpy(a[:, :1]), [5, 2, 3, 4]),
        np.broadcast_to(a[:, :1], (5, 2, 3, 4)),
    )
    same(p.expand(p.from_numpy(a[:, :1]), [-1, 3, -1]), np.broadcast_to(a[:, :1], (2, 3, 4)))
    same(p.full_like(t, 3), np.full_like(a, 3))
    same(p.zeros_like(t, p.DT_BF16), np.zeros(a.shape, p.DT_BF16.np_dtype))
    same(p.ones_like(t), np.ones_like(a))
    assert [part.shape for part in p.split(t, 3, 2)] == [(2, 3, 3), (2, 3, 1)]
    parts = p.split(t, [1, 2], 1)
    same(parts[1], a[:, 1:])
    parts[0][0, 0, 0] = 99
    assert a[0, 0, 0] == 99  # views


def test_arranging_keeps_valid_parts():
    t = ragged()
    assert p.permute(t, [1, 0]).valid_shape == (3, 2)
    assert p.unsqueeze(t, 1).valid_shape == (2, 1, 3)
    assert p.squeeze(p.unsqueeze(t, 1)).valid_shape == (2, 3)
    assert p.broadcast_to(t, [2, 4, 4]).valid_shape == (2, 2, 3)
    row = p.view(p.ones([1, 4]), [1, 4], [0, 0], valid_shape=[0, 4])
    assert p.broadcast_to(row, [3, 4]).valid_shape == (0, 4)
    assert p.squeeze(row).numpy().tolist() == [0] * 4
    assert [part.valid_shape for part in p.split(t, 2, 1)] == [(2, 2), (2, 1)]
    np.testing.assert_array_equal(p.stack([t, t]).numpy()[1], zero_outside(-2.0))


@p.frontend.jit
def dynamic(x, sizes, out):
    at = sizes[0, 0]
    for i in p.loop(2, unroll=2):
        n = sizes[0, i + 1]
        part = p.view(x, [4, 3], [at, 0], valid_shape=[n.min(4), 3])
        out[at:, :] = p.mul(part, 2.0)
        at = at + n


def test_views_and_assembles_of_dynamic_shapes():
    x, out = np.ones((9, 3), np.float32), np.zeros((9, 3), np.float32)
    dynamic(x, np.array([[1, 3, 2]], np.int32), out)
    assert out[:, 0].tolist() == [0, 2, 2, 2, 2, 2, 0, 0, 0]
