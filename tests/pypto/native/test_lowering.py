"""Compiled ops beside their references: what they compute, by data type."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from emu import pypto
from emu.pypto import operation
from emu.pypto.native import plan
from emu.pypto.tensor import Tensor

FLOATS = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
EXACT = ("reciprocal", "relu", "floor", "ceil", "round", "trunc", "sqrt", "rsqrt", "abs", "neg")
ROUNDED = ("sin", "cos", "tanh", "erf", "expm1", "exp", "sigmoid", "silu", "softmax")
NORMS = ("layer_norm", "rms_norm", "log_softmax")


@pytest.fixture(autouse=True)
def _compiles_small_arrays(monkeypatch):
    monkeypatch.setattr(operation, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(plan, "_plans", {})


def both(function: Callable[..., Tensor], arrays: list[np.ndarray], shape: tuple[int, ...]) -> list:
    """Return what the two backends compute."""
    found = []
    for backend in ("native", "reference"):
        out = np.zeros(shape, arrays[0].dtype)

        @pypto.frontend.jit
        def kernel(out, *arrays):
            out[tuple(slice(0, None) for _ in shape)] = function(*arrays)

        with pypto.set_options(backend=backend):
            kernel(out, *arrays)
        found.append(out.astype(np.float64))
    assert plan._plans, "nothing was compiled"
    return found


def values(dtype: type, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = (3 * rng.standard_normal((6, 37))).astype(dtype)
    x[0, 1], x[1, 2], x[2, 3], x[3, 4] = np.nan, np.inf, -np.inf, -0.0
    return x


def ulp(dtype: type) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions_have_the_bits_of_the_reference(name, dtype):
    x = values(dtype)
    found, wanted = both(getattr(pypto, name), [x], x.shape)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ROUNDED + NORMS)
def test_other_functions_are_within_a_few_units_in_the_last_place(name, dtype):
    x = values(dtype)
    found, wanted = both(getattr(pypto, name), [x], x.shape)
    # These subtract, so their error is relative to the row's largest element.
    scale = 1.0 if name in NORMS else 0.0
    np.testing.assert_allclose(found, wanted, rtol=6 * ulp(dtype), atol=6 * ulp(dtype) * scale)


@pytest.mark.parametrize("dtype", FLOATS)
def test_norms_take_weights_and_biases_as_rows(dtype):
    x, w, b = values(dtype), values(dtype, 1)[4], values(dtype, 2)[5:6]
    for function, arrays in (
        (lambda x, w, b: pypto.layer_norm(x, w, b), [x, w, b]),
        (lambda x, w: pypto.rms_norm(x, w), [x, w]),
    ):
        found, wanted = both(function, arrays, x.shape)
        np.testing.assert_allclose(found, wanted, rtol=8 * ulp(dtype), atol=8 * ulp(dtype) * 10)


def test_clip_takes_numbers_and_tensors_and_lets_nan_through():
    x = values(np.float32)
    found, wanted = both(lambda x: pypto.clip(x, -1.0, 1.5), [x], x.shape)
    np.testing.assert_array_equal(found, wanted)
    low = np.full((6, 1), -0.5, np.float32)
    found, wanted = both(lambda x, low: pypto.clip(x, low, 2.0), [x, low], x.shape)
    np.testing.assert_array_equal(found, wanted)


def test_a_softmax_written_out_is_one_kernel():
    x = values(np.float32)[4:]

    def softmax(x):
        e = pypto.exp(x - pypto.amax(x, 1, True))
        return e / pypto.sum(e, 1, True)

    found, wanted = both(softmax, [x], x.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    (only,) = plan._plans.values()
    assert len(only._actions) == 1
