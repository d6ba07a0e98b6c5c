"""Functions that Triton writes in its own language."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import emit, evaluate, value

import emu.triton.language as tl


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_softmax_is_along_the_first_axis_by_default(dim: Any) -> None:
    x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    e = np.exp(x - x.max(dim or 0, keepdims=True))
    wanted = e / e.sum(dim or 0, keepdims=True)
    np.testing.assert_allclose(evaluate(lambda t: tl.softmax(t, dim), x), wanted, rtol=1e-5)
    got = evaluate(lambda t: t.softmax(dim, ieee_rounding=True), x.astype(np.float16))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, rtol=1e-2)
    with pytest.warns(UserWarning, match="keep_dims of tl.softmax is deprecated"):
        emit(lambda t: tl.softmax(t, keep_dims=True), value("fp32", (4,)))


def test_swizzle2d_walks_groups_of_rows_column_by_column() -> None:
    i, j = np.indices((4, 4)).astype(np.int32)
    rows, columns = evaluate(lambda a, b: tl.swizzle2d(a, b, 4, 4, 2), i, j)
    order = rows * 4 + columns
    wanted = [[0, 4, 1, 5], [2, 6, 3, 7], [8, 12, 9, 13], [10, 14, 11, 15]]
    np.testing.assert_array_equal(order, wanted)
