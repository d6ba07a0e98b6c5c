"""Quantisation and back against their formulas, and what is refused."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import operand_kinds as kinds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu import torch_npu
from emu.comm.errors import ArgumentError

give, take = kinds.give, kinds.take
BF16, F16 = kinds.BF16, np.dtype(np.float16)
F32, I8, I32, U8 = (np.dtype(t) for t in (np.float32, np.int8, np.int32, np.uint8))
KINDS = ["numpy", *(["torch"] if importlib.util.find_spec("torch") else [])]
SETTINGS = settings(deadline=None, max_examples=120)
FLOATS = st.sampled_from([F32, F16, BF16])
SHAPES = st.lists(st.integers(0, 9), min_size=1, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Say whether two arrays have the same dtype and elements; NaN equals NaN."""
    return one.dtype == other.dtype and np.array_equal(
        one.astype(np.float64), other.astype(np.float64), equal_nan=True
    )


@SETTINGS
@given(
    kind=st.sampled_from(KINDS),
    shape=SHAPES,
    types=st.tuples(FLOATS, FLOATS),
    zero=st.sampled_from([None, "float", "int32", "own"]),
    single=st.tuples(st.booleans(), st.booleans()),
    dtype=st.sampled_from([I8, U8, I32]),
    div_mode=st.booleans(),
    seed=st.integers(0, 99999),
)
def test_quantize_is_its_formula(
    kind: str,
    shape: list[int],
    types: tuple[Any, Any],
    zero: str | None,
    single: tuple[bool, bool],
    dtype: Any,
    div_mode: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    axis = int(rng.integers(-len(shape), len(shape)))
    x = kinds.values(rng, shape, types[0])
    if dtype == I32:
        with np.errstate(all="ignore"):
            x *= types[0].type(rng.choice([1, 1e4, 1e10]))
    counts = [1 if one else shape[axis] for one in single]
    scale = kinds.factors(rng, counts[0], types[1])
    zeros = None
    if zero is not None:
        kind_of_zero = {"float": types[1], "int32": I32, "own": dtype}[zero]
        zeros = kinds.factors(rng, counts[1], kind_of_zero)
    moved = np.moveaxis(x, axis, -1)
    expected = kinds.quantized(moved, scale, zeros, multiply=not div_mode, dtype=dtype)
    arguments = [give(kind, a) for a in (x, scale, zeros)]
    result = torch_npu.npu_quantize(*arguments, dtype, axis, div_mode)
    assert same(take(kind, result), np.moveaxis(expected, -1, axis))


@pytest.mark.parametrize("dtype", [I8, U8, I32])
def test_quantize_takes_single_factors_for_any_number_of_axes(dtype: Any) -> None:
    scale, zero = np.array([0.5], F32), np.array([3], I32)
    for x in (np.array(4.2, F32), np.array([4.2], F32), np.full((2, 3), 4.2, F32)):
        result = torch_npu.npu_quantize(x, scale, zero, dtype)
        assert result.shape == x.shape
        assert result.dtype == dtype
        assert (result == 11).all()


def test_int32_saturates_and_uint8_clips_at_zero() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 3e9, -3e9, 2147483520.0, -1.0], F32)
    wide = torch_npu.npu_quantize(x, np.ones(1, F32), None, np.int32)
    top = np.iinfo(np.int32)
    assert wide.tolist() == [top.max, top.min, 0, top.max, top.min, 2147483520, -1]
    narrow = torch_npu.npu_quantize(x, np.ones(1, F32), None, np.uint8)
    assert narrow.tolist() == [255, 0, 0, 255, 0, 255, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"input": np.ones((2, 3), np.float64)},
            "input must have dtype float32, float16, bfloat16",
        ),
        (
            {"scales": np.ones(2, F32)},
            "scales must have one element, or one for each of the 3 along",
        ),
        ({"scales": np.ones((1, 3), F32)}, r"scales must have one element.*\(1, 3\)"),
        ({"scales": np.ones(3, np.float64)}, "scales must have dtype"),
        ({"zero_points": np.ones(2, F32)}, "zero_points must have one element, or one for each"),
        ({"zero_points": np.ones(3, np.int64)}, "zero_points must have dtype"),
        ({"dtype": np.int16}, "dtype must be int8, uint8 or int32, but got int16"),
        ({"dtype": None}, "dtype must be a dtype of NumPy or torch, but got None"),
        ({"axis": 2}, r"axis must be in -2\.\.1"),
        ({"axis": 2, "dtype": np.uint8}, r"axis must be in -2\.\.1"),
        ({"axis": "last"}, "axis must be an integer, but got 'last'"),
        ({"div_mode": 1}, "div_mode must be True or False, but got 1"),
        ({"scales": 0.5}, "scales must be a NumPy array or a torch tensor, but got float"),
    ],
)
def test_quantize_refuses(kind: str, change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "input": np.ones((2, 3), F32), "scales": np.ones(3, F32), "zero_points": None, "dtype": I8,
        **change,
    }  # fmt: skip
    if "axis" in change and change["axis"] == 2:
        arguments["scales"] = np.ones(1, F32)
        arguments["zero_points"] = np.ones(3, F32)
    ready = {k: give(kind, v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(ArgumentError, match=message):
        torch_npu.npu_quantize(**ready)


@np.errstate(all="ignore")
def dynamic(x: Any) -> tuple[Any, Any]:
    """Row by row: the scale is the largest magnitude over 127; such a scale of no use gives zeros."""
    x = x.astype(np.float32)
    scale = np.abs(x).max(-1) / np.float32(127)
    usable = np.isfinite(scale) & (scale > 0)
    y = kinds.quantized(x, np.where(usable, scale, np.float32(1))[..., None])
    return np.where(usable[..., None], y, np.int8(0)), scale


@SETTINGS
@given(
    kind=st.sampled_from(KINDS),
    lead=st.lists(st.integers(0, 5), max_size=3),
    last=st.sampled_from([1, 2, 17, 64, 300]),
    dtype=FLOATS,
    smooth=st.sampled_from(["none", "one", "groups"]),
    seed=st.integers(0, 99999),
)
def test_dynamic_quant_is_its_formula(
    kind: str, lead: list[int], last: int, dtype: Any, smooth: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = kinds.values(rng, [*lead, last], dtype)
    rows = int(np.prod(lead))
    factors = ends = None
    expected = x
    if smooth == "one":
        factors = rng.uniform(-2, 2, last).astype(dtype)
        with np.errstate(all="ignore"):
            expected = x.astype(F32) * factors.astype(F32)
    elif smooth == "groups":
        ends = np.sort(rng.integers(0, rows + 1, 3)).astype(rng.choice([np.int32, np.int64]))
        ends[-1] = rows
        factors = rng.uniform(-2, 2, (3, last)).astype(dtype)
        flat = x.astype(F32).reshape(rows, last)
        start = 0
        with np.errstate(all="ignore"):
            for group, end in enumerate(ends):
                flat[start:end] *= factors[group].astype(F32)
                start = end
        expected = flat.reshape(x.shape)
    y, scale = torch_npu.npu_dynamic_quant(
        give(kind, x), smooth_scales=give(kind, factors), group_index=give(kind, ends), dst_type=I8
    )
    wanted, wanted_scale = dynamic(expected)
    assert same(take(kind, scale), wanted_scale)
    assert same(take(kind, y), wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones((2, 0), F32)}, "x must have at least one element in a row"),
        ({"x": np.ones((), F32)}, "x must have at least one element in a row"),
        ({"x": np.ones((2, 3), I8)}, "x must have dtype"),
        ({"smooth_scales": np.ones(2, F32)}, r"smooth_scales must have shape \(3,\)"),
        ({"smooth_scales": np.ones(3, F16)}, "smooth_scales must have dtype float32"),
        ({"group_index": np.array([2])}, "group_index must be None without smooth_scales"),
        ({"dst_type": np.int32}, "dst_type must be int8 or None"),
        *(
            ({"group_index": np.array(ends), "smooth_scales": np.ones((2, 3), F32)}, message)
            for ends, message in [
                ([1, 3], r"group_index must .* end at 2, .* got \[1, 3\]"),
                ([2, 1], "group_index must .* not decrease"),
                ([-1, 2], "group_index must .* not decrease"),
                ([1, 1, 2], r"smooth_scales must have shape \(3, 3\)"),
                ([[1, 2]], "group_index must have shape"),
                ([1.0, 2.0], "group_index must have dtype int32, int64"),
            ]
        ),
    ],
)
def test_dynamic_quant_refuses(kind: str, change: dict[str, Any], message: str) -> None:
    arguments = {"x": np.ones((2, 3), F32), **change}
    ready = {k: give(kind, v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(ArgumentError, match=message):
        torch_npu.npu_dynamic_quant(**ready)


@SETTINGS
@given(
    kind=st.sampled_from(KINDS),
    shape=SHAPES,
    dtype=st.sampled_from([None, F32, F16, BF16]),
    factor=FLOATS,
    offset=st.booleans(),
    single=st.booleans(),
    seed=st.integers(0, 99999),
)
def test_anti_quant_is_its_formula(
    kind: str, shape: list[int], dtype: Any, factor: Any, offset: bool, single: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = kinds.strided(rng, shape, I8)
    x[...] = rng.integers(-128, 128, shape)
    scale = kinds.factors(rng, 1 if single else shape[-1], factor)
    added = kinds.factors(rng, 1 if single else shape[-1], factor) if offset else None
    with np.errstate(all="ignore"):
        value = x.astype(F32)
        if added is not None:
            value = value + added.astype(F32)
        expected = (value * scale.astype(F32)).astype(dtype or F16)
    result = torch_npu.npu_anti_quant(
        give(kind, x), give(kind, scale), offset=give(kind, added), dst_dtype=dtype
    )
    assert same(take(kind, result), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.ones((2, 3), I32)}, "x must have dtype int8, but got int32"),
        (
            {"scale": np.ones(2, F32)},
            "scale must be a number or have one element for each of the 3",
        ),
        ({"offset": np.ones(3, F16)}, "offset must have dtype float32, but got float16"),
        ({"offset": np.ones(2, F32)}, "offset must be a number or have one element"),
        ({"dst_dtype": np.int8}, "dst_dtype must be float16, bfloat16 or float32, but got int8"),
        ({"src_dtype": np.int32}, "src_dtype must be int8 or None"),
    ],
)
def test_anti_quant_refuses(kind: str, change: dict[str, Any], message: str) -> None:
    arguments = {"x": np.ones((2, 3), I8), "scale": np.ones(3, F32), **change}
    ready = {k: give(kind, v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(ArgumentError, match=message):
        torch_npu.npu_anti_quant(**ready)
