"""Ops together: refused operands, and valid parts."""

from __future__ import annotations

import numpy as np
import pytest
from pypto_ops import ragged, same, zero_outside

import emu.pypto as p


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
