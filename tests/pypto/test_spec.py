"""Annotations of kernel parameters."""

from __future__ import annotations

import numpy as np
import pytest

import emu.pypto as p

DYNAMIC = p.DYNAMIC


@p.jit
def annotated(
    x: p.Tensor([DYNAMIC, 4], p.DT_FP32), any_rank: p.Tensor([..., 4]) = None, n: int = 0
):
    del x, any_rank, n


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 4)),), "must have dtype DT_FP32, but got DT_FP64"),
        ((np.zeros(4, np.float32),), "must have 2 axes"),
        ((np.zeros((2, 5), np.float32),), "must have extent 4 on axis 1"),
        ((3,), "argument x of annotated must be pypto.Tensor.*DYNAMIC, 4.*, but got int"),
        ((np.zeros((2, 4), np.float32), np.zeros((1, 1, 3))), "argument any_rank"),
    ],
)
def test_annotations_are_checked(arguments, message):
    with pytest.raises(p.KernelError, match=message):
        annotated(*arguments)


def test_annotations_let_pass_what_fits():
    annotated(np.zeros((7, 4), np.float32), np.zeros((1, 2, 3, 4)))
    assert repr(p.Tensor([2, DYNAMIC], p.DT_BF16)) == "pypto.Tensor([2, DYNAMIC], DT_BF16)"
    assert repr(p.Tensor()) == "pypto.Tensor()"
    several = p.Tensor([..., ..., 4])
    several.check((1, 2, 4), p.DT_FP32, "x")
    with pytest.raises(p.KernelError, match="3 axes"):
        several.check((1, 4), p.DT_FP32, "x")
    with pytest.raises(p.ArgumentError, match=r"shape\[0\] of an annotation"):
        p.Tensor(["m"])


def test_annotations_that_cannot_be_evaluated_are_warned_of():
    @p.jit
    def kernel(x: nowhere):  # noqa: F821
        x[:] = x + 1

    with pytest.warns(p.PyptoWarning, match="cannot be evaluated"):
        kernel(np.zeros(1, np.int32))
