"""Values from nothing: program ids, ranges, constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import Pointer, Scalar, emit, evaluate

import emu.triton.language as tl


def test_program_ids() -> None:
    out = np.zeros((2, 3, 4), np.int32)

    def work(p: Any) -> None:
        x, y, z = (tl.program_id(axis) for axis in range(3))
        nx, ny = tl.num_programs(0), tl.num_programs(axis=1)
        tl.store(p + (z * ny + y) * nx + x, 100 * x + 10 * y + z + 1000 * tl.num_programs(2))

    evaluate(work, Pointer(out), grid=(4, 3, 2))
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, 100 * x + 10 * y + z + 2000)
    with pytest.raises(ValueError, match="axis must be 0, 1, or 2 but got 3"):
        emit(lambda: tl.program_id(3))


def test_constants() -> None:
    assert evaluate(lambda: tl.full((2, 4), 1.5, tl.float16)).tolist() == [[1.5] * 4] * 2
    assert evaluate(lambda: tl.full([], 3, tl.int8)).shape == ()
    np.testing.assert_array_equal(evaluate(lambda: tl.zeros([4], tl.int64)), np.zeros(4))
    got = evaluate(tl.zeros_like, np.ones((2, 2), np.uint8))
    assert got.dtype == np.uint8
    assert not got.any()
    got = evaluate(lambda s: tl.full((tl.constexpr(4),), s, tl.float32), Scalar(7, "int32"))
    np.testing.assert_array_equal(got, np.full(4, 7, np.float32))
    np.testing.assert_array_equal(evaluate(lambda: tl.arange(4, 8)), np.arange(4, 8))
    np.testing.assert_array_equal(evaluate(lambda: tl.full((1,), 0xFFFFFFFF, tl.int32)), [-1])
