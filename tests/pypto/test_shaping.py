"""Ops that move elements, and reshape."""

from __future__ import annotations

import numpy as np
from pypto_ops import ragged, same, zero_outside

import emu.pypto as p

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


def test_reshape_of_ragged():
    t = p.reshape(ragged(), [2, 2, 4], valid_shape=[1, 2, 3])
    assert t.valid_shape == (1, 2, 3)
    same(t, zero_outside(-2).reshape(2, 2, 4))
