"""Ops along an axis against NumPy."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pypto_ops import FLOATS, INTEGERS, few, ragged, reference, same, seeds, shapes, values

import emu.pypto as p


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
@given(seed=seeds, largest=st.booleans(), dtype=st.sampled_from([p.DT_FP32, p.DT_BF16, p.DT_INT32]))
def test_topk_takes_the_first_of_equals(seed, largest, dtype):
    a = np.random.default_rng(seed).integers(-2, 3, (3, 6)).astype(dtype.np_dtype)
    got, places = p.topk(p.from_numpy(a), 4, -1, largest)
    keys = a.astype(np.float64)
    order = np.argsort(-keys if largest else keys, axis=-1, kind="stable")[:, :4]
    np.testing.assert_array_equal(places.numpy(), order)
    same(got, np.take_along_axis(a, order, -1))
    assert places.dtype is p.DT_INT32


def test_reductions_see_the_valid_part_only():
    assert p.amax(ragged(), -1).numpy().tolist() == [-2, -2, 0, 0]
    assert p.sum(ragged(), 0).numpy().tolist() == [-4, -4, -4, 0]
    assert p.topk(ragged(), 3)[0].valid_shape == (2, 3)
    none = p.view(p.ones([4, 4]), [4, 4], [0, 0], valid_shape=[0, 4])
    assert p.amax(none, 0).numpy().tolist() == [0] * 4
    assert p.sum(none, 0).numpy().tolist() == [0] * 4
    assert p.softmax(none, 0).numpy().sum() == 0
