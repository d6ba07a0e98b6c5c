"""Inputs, tolerances and the comparison for programs that check themselves."""

from __future__ import annotations

import numpy as np
import pytest
from pypto_ops import FLOATS, INTEGERS

import emu.pypto as p
from emu.pypto.testing import assert_close, random_array, tolerance


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_inputs_depend_on_their_seed_alone(dtype):
    values = random_array(3, [4, 50], dtype)
    assert (values.shape, values.dtype) == ((4, 50), dtype.np_dtype)
    np.testing.assert_array_equal(values, random_array(3, [4, 50], dtype))
    assert (values != random_array(4, [4, 50], dtype)).any()


def test_halves_are_allowed_a_rounding_for_each_pe():
    assert tolerance(p.DT_FP16, 4) == 4 * tolerance(np.float16, 1) == 2.0**-8
    assert tolerance(p.DT_BF16, 2) == 2.0**-6
    assert (tolerance(p.DT_FP32, 8), tolerance(p.DT_INT32, 8)) == (1e-4, 0)


def test_errors_are_relative_to_the_mean_or_to_a_larger_element():
    expected = np.array([1.0, 1.0, 1.0, 5.0])  # mean 2
    actual = expected.astype(np.float32)
    actual[0] += np.float32(1e-4)  # half of that of the mean
    assert assert_close(actual, expected, 1) == pytest.approx(5e-5, rel=1e-2)
    actual[3] += np.float32(4e-4)  # a fifth of that of the element itself
    assert assert_close(actual, expected, 1) == pytest.approx(8e-5, rel=1e-2)
    actual[1] += np.float32(3e-4)
    with pytest.raises(
        AssertionError, match=r"at most 0\.0001, but got 0\.00015 at \(1,\): 1\.0003"
    ):
        assert_close(actual, expected, 1)


def test_nan_is_never_close_and_nothing_is():
    with pytest.raises(AssertionError, match="relative error must be"):
        assert_close(np.array([np.nan], np.float32), np.ones(1), 1)
    with pytest.raises(AssertionError, match=r"shape must be \(3,\), but got \(2,\)"):
        assert_close(np.ones(2, np.float32), np.ones(3), 1)
    assert assert_close(np.ones((0, 2), np.float32), np.ones((0, 2)), 1) == 0
