"""Quantisation, bit for bit against NumPy: roundings, special values, layouts, refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.errors import ArgumentError
from emu.kernels.quant import dequantize, dynamic_quantize, quantize

BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
F32, I8 = np.dtype(np.float32), np.dtype(np.int8)
VALUES = [F32, F16, BF16]
ZEROS = [*VALUES, np.dtype(np.int32), I8]
EVERY_BF16 = np.arange(1 << 16, dtype=np.uint16).view(BF16)
SPECIAL = [0.0, -0.0, 1e-40, -1e-45, 1.5e-38, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38]


def wide(factor: Any, rank: int, axis: int) -> np.ndarray:
    """Scales or zero points in fp32, shaped to be broadcast along an axis."""
    vector = np.atleast_1d(np.asarray(factor)).astype(np.float32)
    return vector.reshape([-1 if i == axis % rank else 1 for i in range(rank)] if rank else ())


@np.errstate(all="ignore")
def reference(
    x: np.ndarray, scales: Any, zeros: Any = 0, axis: int = -1, multiply: bool = False
) -> np.ndarray:
    """What quantisation means: each of the operations is rounded to fp32."""
    scale, zero = wide(scales, x.ndim, axis), wide(zeros, x.ndim, axis)
    value = x.astype(np.float32)
    value = value * scale if multiply else value / scale
    value = np.clip(np.rint(value + zero), -128, 127)
    return np.where(np.isnan(value), 0, value).astype(np.int8)


@np.errstate(all="ignore")
def restored(q: np.ndarray, scales: Any, offsets: Any, axis: int, dtype: Any) -> np.ndarray:
    """What dequantisation means."""
    value = (q.astype(np.float32) + wide(offsets, q.ndim, axis)) * wide(scales, q.ndim, axis)
    return value.astype(dtype)


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare bits; of NaNs only that both are."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    bits = f"u{actual.itemsize}"
    same = np.ascontiguousarray(actual).view(bits) == np.ascontiguousarray(expected).view(bits)
    if actual.dtype != I8:
        same |= np.isnan(actual) & np.isnan(expected)
    assert same.all()


def values(rng: np.random.Generator, shape: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Values around those that quantise to something, ties, and special ones."""
    with np.errstate(all="ignore"):
        plain = (rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(dtype)
        ties = (rng.integers(-300, 300, shape) / 2).astype(dtype)
        special = rng.choice(np.array(SPECIAL), shape).astype(dtype)
    kind = rng.random(shape)
    return np.where(kind < 0.6, plain, np.where(kind < 0.9, ties, special)).astype(dtype)


def factors(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.kind == "i":
        return rng.integers(-100, 100, n).astype(dtype)
    found = rng.choice(np.array([0.5, 0.203125, 1.0, 0.1259, 3.7, -0.25]), n)
    found[rng.random(n) < 0.1] = rng.choice(np.array(SPECIAL))
    with np.errstate(all="ignore"):
        return found.astype(dtype)


def cut(base: np.ndarray, steps: list[int]) -> np.ndarray:
    """Every step-th element along each axis, from the other end where the step is negative."""
    return base[(*(slice(None, None, step) for step in steps), ...)]


def spread(shape: list[int], steps: list[int], dtype: np.dtype[Any], seed: int) -> np.ndarray:
    """Memory from which :func:`cut` takes an array of that shape, its axes in some order."""
    order = np.random.default_rng(seed).permutation(len(shape))
    full = [max(0, (n - 1) * abs(s) + 1) if n else 0 for n, s in zip(shape, steps, strict=True)]
    return np.zeros([full[i] for i in order], dtype).transpose(np.argsort(order))


@pytest.mark.parametrize(
    ("value", "scale", "expected"),
    [(1.3203125, 0.203125, 6), (1.1953125, 0.12597656, 9), (1.0625, 0.125, 8)],
    ids=["not by a reciprocal", "no rounding to bf16", "half to even"],
)
def test_traps(value: float, scale: float, expected: int) -> None:
    x, s = np.full(40, value, BF16), np.full(40, scale, BF16)
    assert quantize(x, s).tolist() == [expected] * 40
    assert quantize(x, s[0]).tolist() == [expected] * 40


@pytest.mark.parametrize("multiply", [False, True], ids=["divide", "multiply"])
def test_every_bf16_value_by_many_scales(multiply: bool) -> None:
    rng = np.random.default_rng(0)
    with np.errstate(over="ignore"):
        some = np.concatenate([SPECIAL, [1e-39, 0.203125, 0.125, -3.7, 127, 1e-5, 2e30]])
        scales = np.concatenate([some.astype(BF16), rng.choice(EVERY_BF16, 15)])
    zeros = np.concatenate([np.array([0, 0.5, -0.5, 100, np.nan, np.inf, 1e-8]), np.zeros(25)])
    x = np.broadcast_to(EVERY_BF16[:, None], (1 << 16, scales.size))
    got = quantize(x, scales, zeros.astype(BF16), multiply=multiply)
    assert_same(got, reference(x, scales, zeros, multiply=multiply))


def test_nothing_is_fused() -> None:
    """A fused multiply-add keeps the digits of the product that one in two steps rounds away."""
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.1, 2, 1 << 20).astype(np.float32)
    zero = (rng.integers(-40, 40, 1 << 20) + 0.5).astype(np.float32)
    x = (rng.integers(-80, 80, 1 << 20) / scale.astype(np.float64)).astype(np.float32)
    got = quantize(x, scale, zero, multiply=True)
    assert_same(got, reference(x, scale, zero, multiply=True))
    fused = np.rint(x.astype(np.float64) * scale + zero).astype(np.int8)
    assert (fused != got).any()


@pytest.mark.parametrize("dtype", VALUES, ids=str)
@pytest.mark.parametrize("single", [False, True], ids=["vector", "scalar"])
def test_tails(dtype: np.dtype[Any], single: bool) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 64, 65, 500, 1023, 1024, 1025, 3000):
        for rows in (1, 2, 9):
            x = values(rng, (rows, n), dtype)
            scale = np.float32(0.37) if single else factors(rng, n, F32)
            memory = np.full(rows * n + 2, 77, np.int8)
            quantize(x, scale, 0.25, out=memory[1:-1].reshape(rows, n))
            assert_same(memory[1:-1].reshape(rows, n), reference(x, scale, 0.25))
            assert memory[[0, -1]].tolist() == [77, 77]


LAYOUT = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from([1, 1, 1, 2, -1, -3])), min_size=1, max_size=5
)


@settings(deadline=None, max_examples=400)
@given(
    layout=LAYOUT,
    out_steps=st.lists(st.sampled_from([1, 1, 1, 2, -2]), min_size=5, max_size=5),
    last=st.sampled_from([1, 3, 40, 130, 1100]),
    axis=st.integers(-5, 4),
    dtypes=st.tuples(st.sampled_from(VALUES), st.sampled_from(VALUES), st.sampled_from(ZEROS)),
    forms=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
    seed=st.integers(0, 9999),
)
def test_quantize_and_dequantize_any_layout(
    layout: list[tuple[int, int]],
    out_steps: list[int],
    last: int,
    axis: int,
    dtypes: tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any]],
    forms: tuple[bool, bool, bool, bool],
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    shape, steps = [n for n, _ in layout], [s for _, s in layout]
    shape[seed % len(shape)] = last if seed % 3 else shape[seed % len(shape)]
    if np.prod(shape) > 30000:
        shape = [min(n, 5) for n in shape]
    axis = max(-len(shape), min(axis, len(shape) - 1))
    single_scale, single_zero, multiply, given_out = forms
    x = cut(spread(shape, steps, dtypes[0], seed), steps)
    x[...] = values(rng, shape, dtypes[0])
    scale = factors(rng, 1 if single_scale else shape[axis], dtypes[1])
    zero = factors(rng, 1 if single_zero else shape[axis], dtypes[2])
    out = None
    out_steps = out_steps[: len(shape)]
    if given_out:
        base = spread(shape, out_steps, I8, seed + 1)
        out = cut(base, out_steps)
    q = quantize(x, scale, zero, axis=axis, multiply=multiply, out=out)
    expected = reference(x, scale, zero, axis, multiply)
    assert_same(q, expected)
    if out is not None:
        assert q is out
        out[...] = 0
        assert not base.any()  # nothing was written around it
        out[...] = expected
    back = None
    if given_out:
        base = spread(shape, steps, dtypes[0], seed + 2)
        back = cut(base, steps)
    result = dequantize(q, scale, zero, axis=axis, dtype=dtypes[0], out=back)
    assert_same(result, restored(q, scale, zero, axis, dtypes[0]))
    assert back is None or result is back


@settings(deadline=None, max_examples=200)
@given(
    layout=LAYOUT,
    last=st.sampled_from([1, 5, 64, 129, 2500]),
    dtype=st.sampled_from(VALUES),
    given_out=st.booleans(),
    seed=st.integers(0, 9999),
)
def test_dynamic_quantize(
    layout: list[tuple[int, int]], last: int, dtype: np.dtype[Any], given_out: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    shape = [min(n, 4) for n, _ in layout[:-1]] + [last]
    steps = [s for _, s in layout]
    x = cut(spread(shape, steps, dtype, seed), steps)
    x[...] = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, [*shape[:-1], 1])
    if seed % 4 == 0:
        x[...] = values(rng, shape, dtype)
    out = cut(spread(shape, steps, I8, seed + 1), steps) if given_out else None
    places = cut(spread(shape[:-1], steps[:-1], F32, seed + 2), steps[:-1]) if given_out else None
    q, scales = dynamic_quantize(x, out=out, scales_out=places)
    assert out is None or q is out
    assert places is None or scales is places
    largest = np.abs(x.astype(np.float32)).max(-1) if x.size else np.zeros(shape[:-1], np.float32)
    with np.errstate(all="ignore"):
        expected = np.asarray(largest / np.float32(127))
        assert_same(scales, expected)
        value = np.clip(np.rint(x.astype(np.float32) / expected[..., None]), -128, 127)
    assert_same(q, np.where(np.isnan(value), 0, value).astype(np.int8))


def test_dynamic_rows_that_hide_nothing() -> None:
    x = np.array([[1, 2, -4], [0, 0, 0], [1, np.inf, 0], [np.nan, np.inf, 1]], np.float32)
    q, scales = dynamic_quantize(x)
    assert q.tolist() == [[32, 64, -127], [0] * 3, [0] * 3, [0] * 3]
    assert_same(scales, np.array([np.float32(4) / np.float32(127), 0, np.inf, np.nan], np.float32))
    back = dequantize(q, scales, axis=0)
    assert back[1].tolist() == [0, 0, 0]
    assert np.isnan(back[2:]).all()


def test_scalars_of_every_form() -> None:
    x = np.linspace(-5, 5, 50, dtype=np.float32).reshape(5, 10)
    expected = reference(x, 0.5, 3)
    for scale in (0.5, np.float32(0.5), F16.type(0.5), np.array(0.5, BF16), np.array([0.5], F32)):
        for zero in (3, 3.0, np.int8(3), np.array(3, np.int32), np.array([3], F16)):
            assert_same(quantize(x, scale, zero), expected)
    assert quantize(np.array(7, np.float32), 2.0).tolist() == 4


def test_a_new_array_keeps_the_order_of_the_axes() -> None:
    x = np.ones((3, 4, 5), np.float32).transpose(2, 0, 1)
    assert quantize(x, 1.0).strides == (1, 20, 5)


def test_the_source_is_left_alone() -> None:
    x = values(np.random.default_rng(0), (50, 40), F16)
    before = x.tobytes()
    q = quantize(x, 0.5)
    held = q.tobytes()
    dequantize(q, 0.5)
    dynamic_quantize(x)
    assert (x.tobytes(), q.tobytes()) == (before, held)


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": [1.0]}, "x must be a NumPy array, but got list"),
        (
            {"x": np.ones((2, 3))},
            r"x\.dtype must be one of float16, bfloat16, float32, but got float64",
        ),
        ({"scales": np.ones(2, F32)}, r"scales .* 3 along axis -1, but got shape \(2,\)"),
        ({"scales": np.ones((1, 3), F32)}, r"scales must be a number .*, but got shape \(1, 3\)"),
        ({"scales": np.ones(3)}, "scales must be one of .*, but got float64"),
        ({"scales": [1.0]}, "scales must be a number or an array, but got list"),
        ({"zero_points": np.ones(4, I8)}, r"zero_points must .*, but got shape \(4,\)"),
        ({"zero_points": np.ones(3, np.int64)}, "zero_points must be one of .*, but got int64"),
        ({"axis": 2}, r"axis must be in -2..1 for shape \(2, 3\), but got 2"),
        ({"out": np.ones((2, 4), I8)}, r"out must have shape \(2, 3\), but got \(2, 4\)"),
        ({"out": np.ones((2, 3), np.uint8)}, "out must have dtype int8, but got uint8"),
        ({"out": X.view(I8)[:, :3]}, "out must not share memory with x"),
    ],
)
def test_quantize_refuses(arguments: dict[str, Any], message: str) -> None:
    before = X.tobytes()
    with pytest.raises(ArgumentError, match=message):
        quantize(**{"x": X, "scales": 1.0, **arguments})
    assert X.tobytes() == before


def test_dequantize_refuses() -> None:
    q = np.ones((2, 3), np.int8)
    with pytest.raises(ArgumentError, match="q must have dtype int8, but got uint8"):
        dequantize(q.view(np.uint8), 1.0)
    with pytest.raises(ArgumentError, match=r"dtype must be one of .*, but got float64"):
        dequantize(q, 1.0, dtype=np.float64)
    with pytest.raises(ArgumentError, match=r"offsets must .*, but got shape \(2,\)"):
        dequantize(q, 1.0, np.ones(2, I8))
    scales = np.ones(6, np.float32)
    with pytest.raises(ArgumentError, match="out must not share memory with scales"):
        dequantize(q, scales[3:], out=scales.reshape(2, 3))
    assert scales.tolist() == [1] * 6


def test_dynamic_quantize_refuses() -> None:
    with pytest.raises(ArgumentError, match=r"x must have at least one .*, but got shape \(2, 0\)"):
        dynamic_quantize(np.ones((2, 0), np.float32))
    with pytest.raises(ArgumentError, match=r"x must have .*, but got shape \(\)"):
        dynamic_quantize(np.ones((), np.float32))
    with pytest.raises(ArgumentError, match=r"scales_out must have shape \(2,\), but got \(3,\)"):
        dynamic_quantize(X, scales_out=np.ones(3, np.float32))
    with pytest.raises(ArgumentError, match="out must not share memory with x"):
        dynamic_quantize(X, out=X.view(I8)[:, :3])
    assert (X == 1).all()
