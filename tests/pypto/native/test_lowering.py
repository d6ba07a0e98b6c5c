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
EXACT = (
    "reciprocal",
    "relu",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sqrt",
    "rsqrt",
    "abs",
    "neg",
    "sign",
)
ROUNDED = ("sin", "cos", "tanh", "erf", "expm1", "exp", "sigmoid", "silu", "softmax")
GELUS = ("none", "tanh")
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


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not"])
def test_tests_of_floats_are_those_of_the_reference(name, dtype):
    x = values(dtype)
    function = getattr(pypto, name)
    found, wanted = both(lambda x: pypto.cast(function(x), x.dtype), [x], x.shape)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint8, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_is_that_of_the_reference(name, dtype):
    x, y = (extremes(dtype, seed) for seed in (0, 1))
    function = getattr(pypto, name)
    for second in (lambda y: y, lambda y: 1):
        found, wanted = both(
            lambda x, y, second=second: pypto.cast(function(x, second(y)), x.dtype), [x, y], x.shape
        )
        np.testing.assert_array_equal(found, wanted)


def extremes(dtype: type, seed: int) -> np.ndarray:
    """Return zeros, the ends of the range, and what is between."""
    if np.dtype(dtype).kind not in "biu":
        x = values(dtype, seed)
        x[5, ::3] = 0
        return x
    rng = np.random.default_rng(seed)
    if dtype is np.bool_:
        return rng.integers(0, 2, (6, 37)).astype(np.bool_)
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, (6, 37), endpoint=True, dtype=dtype)
    x[0, ::3], x[1, ::3], x[2, ::3] = 0, limits.min, limits.max
    return x


INTEGERS = [np.int8, np.uint8, np.int16, np.int32, np.int64]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["sign", "bitwise_not"])
def test_functions_of_integers_have_the_bits_of_the_reference(name, dtype):
    x = extremes(dtype, 0)
    found, wanted = whole(getattr(pypto, name), [x])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [*INTEGERS, np.bool_])
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_are_those_of_the_reference(name, dtype):
    found, wanted = whole(getattr(pypto, name), [extremes(dtype, 0), extremes(dtype, 1)])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
def test_shifts_by_any_count_are_those_of_the_reference(name, dtype):
    bits = np.dtype(dtype).itemsize * 8
    x, y = extremes(dtype, 0), extremes(dtype, 1)
    y[3:] = np.arange(3 * 37).reshape(3, 37) % (bits + 3)
    if np.dtype(dtype).kind == "i":
        y[5] -= 2
    found, wanted = whole(getattr(pypto, name), [x, y])
    np.testing.assert_array_equal(found, wanted)


def whole(function: Callable[..., Tensor], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Return what the two backends compute, in the dtype of the arrays."""
    found = []
    for backend in ("native", "reference"):
        out = np.zeros_like(arrays[0])

        @pypto.frontend.jit
        def kernel(out, *arrays):
            out[0:, 0:] = function(*arrays)

        with pypto.set_options(backend=backend):
            kernel(out, *arrays)
        found.append(out)
    assert any(
        not isinstance(action, int) for each in plan._plans.values() for action, _ in each._actions
    ), "nothing was compiled"
    return found


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("approximate", GELUS)
def test_gelu_is_within_a_few_units_of_what_it_is_made_of(approximate, dtype):
    x = values(dtype)
    found, wanted = whole(lambda x: pypto.gelu(x, approximate), [x])
    # 1 + erf cancels below 0, so the error is relative to that of 1 in the arithmetic: FP64, or that of tanh.
    wide = np.float64 if approximate == "none" or dtype is np.float64 else np.float32
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=4 * ulp(dtype), atol=16 * ulp(wide))
    assert found[2, 3] == 0
    assert np.signbit(found[2, 3])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["mean", "var"])
def test_means_and_variances_are_within_a_few_units_of_the_reference(name, keepdim, axis, dtype):
    x = values(dtype)
    shape = np.sum(x, axis=axis, keepdims=keepdim).shape
    found, wanted = both(lambda x: getattr(pypto, name)(x, axis, keepdim), [x], shape)
    np.testing.assert_allclose(found, wanted, rtol=16 * ulp(dtype), atol=8 * ulp(dtype))


def test_a_variance_of_too_few_elements_is_nan_or_infinite_as_the_reference():
    x = values(np.float32)
    for correction in (36, 37, 100):
        found, wanted = both(
            lambda x, correction=correction: pypto.var(x, 1, True, correction), [x], (6, 1)
        )
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
