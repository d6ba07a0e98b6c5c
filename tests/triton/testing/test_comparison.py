"""Comparing results."""

import ml_dtypes
import numpy as np
import pytest

from emu.triton.testing import assert_close


def test_defaults_allow_a_hundredth():
    assert_close(1.0, 1.009)
    assert_close([1.0, float("nan")], np.array([1.005, np.nan]))
    with pytest.raises(AssertionError, match="here"):
        assert_close(1.0, 1.02, err_msg="here")


def test_tolerances_may_depend_on_the_dtype():
    one = np.ones(3, np.float16)
    assert_close(one, one * 1.5, atol=lambda d: 1.0 if d == np.float16 else 0.0)
    with pytest.raises(AssertionError):
        assert_close(one.astype(np.float32), one * 1.5, atol=lambda d: float(d == np.float16))
    assert_close(one, one * 1.5, atol=0, rtol=lambda d: 0.5)


def test_shapes_must_agree():
    with pytest.raises(AssertionError):
        assert_close(np.ones(3), np.ones(4))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_narrow_arrays_are_compared(dtype):
    x = np.ones(3, dtype)
    assert_close(x, x)
    with pytest.raises(AssertionError):
        assert_close(x, x + x)


def test_tensors_are_compared_whatever_their_dtype():
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int32):
        x = torch.ones(3).to(dtype)
        assert_close(x, [1, 1, 1])
        with pytest.raises(AssertionError):
            assert_close(x, np.zeros(3))
    assert_close(torch.ones(2, requires_grad=True), torch.ones(2))
