"""Ops on tensors against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.pypto as p

FLOATS = [p.DT_FP16, p.DT_BF16, p.DT_FP32, p.DT_FP64]
INTEGERS = [p.DT_UINT8, p.DT_INT8, p.DT_INT16, p.DT_INT32, p.DT_INT64]
few = settings(deadline=None, max_examples=15)
shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)


def values(seed, shape, dtype, *, positive=False):
    generator = np.random.default_rng(seed)
    if dtype in FLOATS:
        x = generator.standard_normal(shape) * 3
        return (np.abs(x) + 0.1 if positive else x).astype(dtype.np_dtype)
    limits = np.iinfo(dtype.np_dtype)
    return generator.integers(max(limits.min, -50), 50, shape).astype(dtype.np_dtype)


def reference(function, dtype, *arrays):
    """What an op means: computed wide, rounded once."""
    if dtype not in FLOATS:
        return function(*arrays).astype(dtype.np_dtype)
    wide = np.float64 if dtype is p.DT_FP64 else np.float32
    with np.errstate(all="ignore"):
        return function(*(a.astype(wide) for a in arrays)).astype(dtype.np_dtype)


def same(t, expected):
    assert t.dtype.np_dtype == expected.dtype
    np.testing.assert_array_equal(t.numpy().astype(np.float64), expected.astype(np.float64))


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
UNARY = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}


@pytest.mark.parametrize("name", [*BINARY, "div"])
@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS + INTEGERS))
def test_binary(name, shape, seed, dtype):
    a, b = values(seed, shape, dtype), values(seed + 1, shape[-1:], dtype)
    op = getattr(p, name)
    if name == "div":
        if dtype not in FLOATS:
            with pytest.raises(p.DTypeError, match="div needs a float tensor"):
                op(p.from_numpy(a), p.from_numpy(b))
            return
        function = np.divide
    else:
        function = BINARY[name]
    same(op(p.from_numpy(a), p.from_numpy(b)), reference(function, dtype, a, b))
    same(op(p.from_numpy(a), 3), reference(lambda x: function(x, x.dtype.type(3)), dtype, a))


@pytest.mark.parametrize("name", UNARY)
@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS))
def test_unary(name, shape, seed, dtype):
    a = values(seed, shape, dtype, positive=True)
    same(getattr(p, name)(p.from_numpy(a)), reference(UNARY[name], dtype, a))


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS + INTEGERS))
def test_signs_and_comparisons(shape, seed, dtype):
    a, b = values(seed, shape, dtype), values(seed + 1, shape, dtype)
    x, y = p.from_numpy(a), p.from_numpy(b)
    same(p.abs(x), reference(np.abs, dtype, a))
    same(-x, reference(np.negative, dtype, a))
    for name in ("eq", "ne", "gt", "ge", "lt", "le"):
        function = {"eq": np.equal, "ne": np.not_equal, "gt": np.greater}.get(name) or getattr(
            np, {"ge": "greater_equal", "lt": "less", "le": "less_equal"}.get(name, "equal")
        )
        same(getattr(p, name)(x, y), function(a, b))
    same(p.where(x > y, x, y), np.where(a > b, a, b))
    same(p.where(x >= y, x, 0), np.where(a >= b, a, np.zeros((), a.dtype)))


def test_sigmoid():
    a = np.array([-2.0, 0.0, 3.0], np.float32)
    same(p.sigmoid(p.from_numpy(a)), 1 / (1 + np.exp(-a)))


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS + INTEGERS), keepdim=st.booleans())
def test_reductions(shape, seed, dtype, keepdim):
    a = values(seed, shape, dtype)
    t, dim = p.from_numpy(a), seed % len(shape)
    same(
        p.sum(t, dim, keepdim),
        reference(lambda x: x.sum(axis=dim, keepdims=keepdim, dtype=x.dtype), dtype, a),
    )
    same(p.amax(t, dim, keepdim=keepdim), a.max(axis=dim, keepdims=keepdim))
    same(p.amin(t, dim - len(shape), keepdim), a.min(axis=dim, keepdims=keepdim))
    same(p.cumsum(t, dim), reference(lambda x: np.cumsum(x, axis=dim, dtype=x.dtype), dtype, a))


@few
@given(shape=shapes, seed=seeds, dtype=st.sampled_from(FLOATS))
def test_softmax(shape, seed, dtype):
    a, dim = values(seed, shape, dtype), seed % len(shape)

    def softmax(x):
        e = np.exp(x - x.max(axis=dim, keepdims=True))
        return e / e.sum(axis=dim, keepdims=True)

    same(p.softmax(p.from_numpy(a), dim), reference(softmax, dtype, a))


@few
@given(
    batch=st.sampled_from([(), (2,), (2, 3)]),
    m=st.integers(1, 5),
    k=st.integers(1, 5),
    n=st.integers(1, 5),
    seed=seeds,
    dtype=st.sampled_from([p.DT_FP16, p.DT_BF16, p.DT_FP32, p.DT_INT8, p.DT_INT32]),
    a_trans=st.booleans(),
    b_trans=st.booleans(),
)
def test_matmul(batch, m, k, n, seed, dtype, a_trans, b_trans):
    a = values(seed, (*batch, *((k, m) if a_trans else (m, k))), dtype)
    b = values(seed + 1, (n, k) if b_trans else (k, n), dtype)
    left = a.swapaxes(-1, -2) if a_trans else a
    exact = left.astype(np.float64) @ (b.T if b_trans else b).astype(np.float64)
    wide = p.matmul(p.from_numpy(a), p.from_numpy(b), p.DT_FP32, a_trans=a_trans, b_trans=b_trans)
    np.testing.assert_allclose(wide.numpy(), exact, rtol=1e-5, atol=1e-4)
    if dtype is p.DT_INT32:
        got = p.matmul(p.from_numpy(a), p.from_numpy(b), a_trans=a_trans, b_trans=b_trans)
        np.testing.assert_array_equal(got.numpy(), exact)


def test_matmul_refuses():
    a = p.zeros([2, 3])
    for other, message in (
        (p.zeros([2, 3]), "agree on k, but got 3 and 2"),
        (p.zeros([3]), "at least 2 axes"),
        (p.zeros([3, 2], p.DT_FP16), "one dtype"),
    ):
        with pytest.raises(p.ArgumentError, match=message):
            p.matmul(a, other)
    with pytest.raises(p.ArgumentError, match="batch axes"):
        p.matmul(p.zeros([2, 2, 3]), p.zeros([3, 3, 2]))


def test_matmul_does_not_round_before_the_cast():
    ones = np.ones((1, 4096), np.float16)
    same(
        p.matmul(p.from_numpy(ones), p.from_numpy(ones), b_trans=True),
        np.array([[4096]], np.float16),
    )


# --- cast -------------------------------------------------------------------------------------------


def test_cast_rounds_to_nearest_even():
    # 1 + 2^-8 lies halfway between two bfloat16 numbers, as does 1 + 3 * 2^-8.
    a = np.array([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 1e39], np.float64)
    got = p.cast(p.from_numpy(a), p.DT_BF16).numpy().astype(np.float64)
    assert got.tolist() == [1.0, 1 + 2**-6, -1.0, np.inf]
    # Just above halfway, by less than single precision sees: rounded once, it goes up.
    above = np.array([1 + 2**-8 + 2**-40], np.float64)
    assert float(p.cast(p.from_numpy(above), p.DT_BF16).numpy()[0]) == 1 + 2**-7
    half = np.array([2049.0, 2051.0], np.float32)
    assert p.cast(p.from_numpy(half), p.DT_FP16).numpy().tolist() == [2048.0, 2052.0]


def test_cast_to_integer_truncates():
    a = np.array([1.9, -1.9, 1e10, -1e10, np.nan, 3e19], np.float32)
    t = p.from_numpy(a)
    assert p.cast(t, p.DT_INT32).numpy().tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]
    assert p.cast(t, p.DT_INT64).numpy()[-1] == 2**63 - 1
    assert p.cast(t, p.DT_UINT8).numpy().tolist() == [1, 0, 255, 0, 0, 255]
    assert p.cast(p.from_numpy(np.array([0.0, 0.5])), p.DT_BOOL).numpy().tolist() == [False, True]


def test_large_integers_round_once_to_a_half():
    # Just above halfway between two bfloat16 numbers; by way of float32 the 1 would be lost.
    a = np.array([2**24 + 2**16 + 1], np.int32)
    assert float(p.cast(p.from_numpy(a), p.DT_BF16).numpy()[0]) == 2**24 + 2**17


# --- shapes -----------------------------------------------------------------------------------------


def test_moving_elements():
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    t = p.from_numpy(a)
    same(t.reshape(6, -1), a.reshape(6, 4))
    same(p.transpose(t, 0, -1), a.swapaxes(0, 2))
    same(p.concat([t, t], 1), np.concatenate([a, a], 1))
    index = np.array([[[2, 0], [1, 1]]], np.int64)
    expected = np.take_along_axis(a[:1, :2], index, 2)
    same(p.gather(t, 2, p.from_numpy(index)), expected)
    same(
        p.one_hot(p.from_numpy(np.array([1, 3, -1], np.int32)), 3),
        np.eye(4, dtype=np.int64)[[1, 3, 3], :3],
    )
    same(p.full([2, 2], 7, p.DT_INT8), np.full((2, 2), 7, np.int8))
    same(p.zeros([2]), np.zeros(2, np.float32))
    same(p.ones([2]), np.ones(2, np.float32))
    same(p.arange(2, 8, 3), np.array([2, 5], np.int32))


@few
@given(seed=seeds, largest=st.booleans(), dtype=st.sampled_from([p.DT_FP32, p.DT_BF16, p.DT_INT32]))
def test_topk_takes_the_first_of_equals(seed, largest, dtype):
    a = np.random.default_rng(seed).integers(-2, 3, (3, 6)).astype(dtype.np_dtype)
    got, places = p.topk(p.from_numpy(a), 4, -1, largest)
    keys = a.astype(np.float64)
    order = np.argsort(-keys if largest else keys, axis=-1, kind="stable")[:, :4]
    np.testing.assert_array_equal(places.numpy(), order)
    same(got, np.take_along_axis(a, order, -1))
    assert places.dtype is p.DT_INT32


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.reshape(5, 5), r"shape must hold the 12 elements of \[3, 4\]"),
        (lambda t: p.transpose(t, 0, 2), "dim1 must be at least -2 and below 2, but got 2"),
        (lambda t: p.concat([]), "at least one tensor"),
        (lambda t: p.concat([t, p.zeros([3, 5])]), r"tensors\[1\] must have the extents"),
        (lambda t: p.concat([t, p.zeros([3, 4], p.DT_FP16)]), "must have dtype DT_FP32"),
        (lambda t: p.topk(t, 5), "k must be at least 1 and at most 4"),
        (lambda t: p.gather(t, 0, t), "index must be an integer tensor"),
        (lambda t: p.gather(t, 0, p.full([1, 4], 3, p.DT_INT32)), "at least 0 and below 3"),
        (lambda t: p.one_hot(t, 3), "needs an integer tensor"),
        (lambda t: p.one_hot(p.zeros([2], p.DT_INT32), 0), "num_classes must be at least 1"),
        (lambda t: p.full([2], 300, p.DT_UINT8), "must fit DT_UINT8, but got 300"),
        (lambda t: p.full([2], 1.5, p.DT_INT32), "must be an integer for DT_INT32"),
        (lambda t: p.sum(t > 0), "sum needs a number tensor"),
        (lambda t: p.exp(p.zeros([2], p.DT_INT32)), "exp needs a float tensor"),
        (lambda t: p.softmax(p.zeros([2], p.DT_INT32)), "softmax needs a float tensor"),
        (lambda t: t + p.zeros([5]), r"broadcast to each other, but got \[3, 4\] and \[5\]"),
        (lambda t: t + p.zeros([4], p.DT_BF16), "one dtype, but got DT_FP32 and DT_BF16"),
        (lambda t: t + "1", "operand 1 must be a tensor or a number"),
        (lambda t: p.add(1, 2), "operand 0 or operand 1 must be a tensor"),
        (lambda t: p.cast(t, p.DT_INT32) + 0.5, "number must be an integer for DT_INT32"),
        (lambda t: p.cast(t, p.DT_INT8) + 300, "must fit DT_INT8"),
        (lambda t: p.where(t, t, t), "condition must be DT_BOOL or integer"),
        (lambda t: bool(t > 0), "a condition must be a scalar"),
    ],
)
def test_refused(call, message):
    with pytest.raises(p.PyptoError, match=message):
        call(p.ones([3, 4]))


# --- valid parts ------------------------------------------------------------------------------------


def ragged():
    return p.view(p.full([4, 4], -2.0), [4, 4], [0, 0], valid_shape=[2, 3])


def zero_outside(inside):
    expected = np.zeros((4, 4), np.float32)
    expected[:2, :3] = inside
    return expected


def test_what_is_not_valid_reads_as_zero():
    same(ragged(), zero_outside(-2))
    t = p.exp(ragged())
    assert t.valid_shape == (2, 3)
    same(t, zero_outside(np.exp(np.float32(-2))))
    assert p.softmax(ragged()).valid_shape == (2, 3)
    assert p.transpose(ragged(), 0, 1).valid_shape == (3, 2)


def test_valid_parts_join():
    same(ragged() + 1, zero_outside(-1))
    same(ragged() + p.full([1, 4], 5.0), zero_outside_columns())
    same(ragged() * p.full([4, 1], 5.0), zero_outside_rows())
    both = p.full([4, 4], 1.0) + ragged()
    assert both.valid_shape == (4, 4)
    same(both, 1 + zero_outside(-2))
    other = p.view(p.full([4, 4], 1.0), [4, 4], [0, 0], valid_shape=[4, 1])
    assert (ragged() + other).valid_shape == (4, 3)


def zero_outside_columns():
    # Along columns the full row is as long as the result: its fourth column counts.
    expected = np.zeros((4, 4), np.float32)
    expected[:2, :] = 5
    expected[:2, :3] -= 2
    return expected


def zero_outside_rows():
    expected = np.zeros((4, 4), np.float32)
    expected[:2, :3] = -10
    return expected


def test_reductions_see_the_valid_part_only():
    assert p.amax(ragged(), -1).numpy().tolist() == [-2, -2, 0, 0]
    assert p.sum(ragged(), 0).numpy().tolist() == [-4, -4, -4, 0]
    assert p.topk(ragged(), 3)[0].valid_shape == (2, 3)
    none = p.view(p.ones([4, 4]), [4, 4], [0, 0], valid_shape=[0, 4])
    assert p.amax(none, 0).numpy().tolist() == [0] * 4
    assert p.sum(none, 0).numpy().tolist() == [0] * 4
    assert p.softmax(none, 0).numpy().sum() == 0


def test_matmul_of_ragged():
    got = p.matmul(ragged(), p.ones([4, 4]))
    assert got.valid_shape == (2, 4)
    same(got, zero_outside(-2) @ np.ones((4, 4), np.float32))
    same(
        p.matmul(ragged(), ragged(), a_trans=True),
        zero_outside(-2).T @ zero_outside(-2),
    )


def test_reshape_of_ragged():
    t = p.reshape(ragged(), [2, 2, 4], valid_shape=[1, 2, 3])
    assert t.valid_shape == (1, 2, 3)
    same(t, zero_outside(-2).reshape(2, 2, 4))
