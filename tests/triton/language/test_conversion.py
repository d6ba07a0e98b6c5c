"""Casts and bitcasts, against NumPy's and a table of what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from language_harness import DTYPES, Pointer, Scalar, emit, evaluate, value

import emu.triton.language as tl

NAMES = list(DTYPES)
INTEGERS = NAMES[1:9]
FLOATS = ["fp16", "bf16", "fp32", "fp64"]
FP8 = ["fp8e4nv", "fp8e5"]


def sample(name: str) -> Any:
    dtype = DTYPES[name]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 100, limits.max, limits.min, limits.max - 1, 77], dtype)
    if dtype.kind == "b":
        return np.array([0, 1, 1, 0], bool)
    return np.array([0.0, 1.5, -2.75, 100.25, -0.0, 3.0, 0.125, -17.0], np.float64).astype(dtype)


def _saturated(x: float, to: Any) -> int:
    limits = np.iinfo(to)
    return 0 if math.isnan(x) else min(max(int(x), limits.min), limits.max)


def expected(x: Any, to: Any) -> Any:
    if to.kind == "b":
        return x.astype(np.float64) != 0
    if to.kind in "iu" and x.dtype.kind not in "iub":
        return np.array([_saturated(float(v), to) for v in x], to)
    if x.dtype.kind in "iub" and to.kind not in "iub":
        with np.errstate(over="ignore"):
            return np.array([int(v) for v in x], np.float64).astype(to)
    if to.itemsize == 1 and to.kind == "V":
        return x.astype(np.float32).astype(to)
    return x.astype(to)


def _is_refused(a: str, b: str) -> bool:
    return a != b and ((a in FP8 and b not in FLOATS + FP8) or (b in FP8 and a not in FLOATS + FP8))


@pytest.mark.parametrize("a", NAMES)
def test_casts_between_all_dtypes(a: str) -> None:
    x = sample(a)
    for b in NAMES:
        if _is_refused(a, b):
            with pytest.raises(
                TypeError, match=f"cannot cast .* to .*{tl.dtype(b).codegen_name()}"
            ):
                emit(lambda t, d=b: t.to(tl.dtype(d)), value(a, (8,)))
            continue
        got = evaluate(lambda t, d=b: t.to(tl.dtype(d)), x)
        assert got.dtype == DTYPES[b]
        np.testing.assert_array_equal(got, expected(x, DTYPES[b]), err_msg=f"{a} to {b}")


def test_floats_out_of_range_saturate_and_nan_gives_0() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9], np.float32)
    np.testing.assert_array_equal(
        evaluate(lambda t: t.to(tl.int32), x), [0, 2**31 - 1, -(2**31), 2**31 - 1]
    )
    np.testing.assert_array_equal(evaluate(lambda t: t.to(tl.int1), x), [True, True, True, True])


def test_rounding_toward_zero() -> None:
    x = np.array([1 + 2**-11 + 2**-12, -1 - 2**-10 + 2**-13], np.float32)
    nearest = evaluate(lambda t: t.to(tl.float16), x)
    np.testing.assert_array_equal(nearest, x.astype(np.float16))
    down = evaluate(lambda t: t.to(tl.float16, fp_downcast_rounding="rtz"), x)
    np.testing.assert_array_equal(down, np.array([1, -1], np.float16))


def test_rounding_is_only_for_narrowing_floats() -> None:
    with pytest.raises(ValueError, match="must only be given for a float that becomes a narrower"):
        emit(lambda t: t.to(tl.float32, fp_downcast_rounding="rtz"), value("fp16"))
    with pytest.raises(ValueError, match="must be 'rtne' or 'rtz', but got 'up'"):
        emit(lambda t: t.to(tl.float16, fp_downcast_rounding="up"), value("fp32"))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("fp32", "int32"),
        ("uint64", "fp64"),
        ("fp16", "bf16"),
        ("int8", "fp8e5"),
        ("int16", "uint16"),
    ],
)
def test_bitcasts_keep_the_bits(a: str, b: str) -> None:
    x = sample(a)
    for source, to in ((x, b), (x.view(DTYPES[b]), a)):
        got = evaluate(lambda t, d=to: tl.cast(t, tl.dtype(d), bitcast=True), source)
        assert got.dtype == DTYPES[to]
        assert got.tobytes() == x.tobytes()


def test_bitcasts_to_another_width_are_refused() -> None:
    with pytest.raises(ValueError, match="int32 of 32 bits and fp16 of 16"):
        emit(lambda t: t.to(tl.float16, bitcast=True), value("int32"))


def test_pointers_are_integers_and_back() -> None:
    x = np.arange(8, dtype=np.int32)

    def through(p: Any, by: Any) -> Any:
        address = p.to(tl.int64)
        again = (address + 4 * by).to(tl.pointer_type(tl.int32))
        halves = p.to(tl.pointer_type(tl.int16))
        bits = (p.to(tl.uint64, bitcast=True) + 8).to(tl.pointer_type(tl.int32), bitcast=True)
        return tl.load(again), tl.load(halves + 4), tl.load(bits), p.to(tl.int1), address

    *loaded, address = evaluate(through, Pointer(x), Scalar(3, "int32"))
    np.testing.assert_array_equal(loaded, [3, 2, 2, True])
    assert address == x.ctypes.data


def test_pointers_convert_to_64_bits_only() -> None:
    for to in (tl.int32, tl.float64):
        with pytest.raises(TypeError, match="cannot cast pointer<fp32>"):
            emit(lambda t, d=to: t.to(d), value("*fp32"))
    with pytest.raises(TypeError, match="cannot cast"):
        emit(lambda t: t.to(tl.pointer_type(tl.int8)), value("fp32"))


def test_a_block_type_stands_for_its_elements() -> None:
    result, _ = emit(lambda t: t.to(tl.block_type(tl.float16, [8])), value("fp32", (4,)))
    assert str(result) == "fp16[4]"


def test_numbers_are_cast_too() -> None:
    assert evaluate(lambda: tl.cast(3, tl.float16)).dtype == np.float16
    with pytest.raises(
        TypeError, match=r"dtype must be a dtype of triton\.language, but got 'fp32'"
    ):
        emit(lambda t: t.to("fp32"), value("fp16"))


@pytest.mark.parametrize("native", [False, True], ids=["reference", "cpu"])
@pytest.mark.parametrize("source", ["fp16", "bf16", "fp32", "fp64"])
@pytest.mark.parametrize(("name", "largest"), [("float8e4nv", 448), ("float8e5", 57344)])
def test_what_is_too_large_for_8_bits_becomes_the_largest(
    name: str, largest: float, source: str, native: bool
) -> None:
    numbers = [largest, largest * 1.06, 65504, np.inf, 0.0, 1.0, -0.0, np.nan]
    x = np.array([*numbers, *(-n for n in numbers)]).astype(DTYPES[source])
    wanted = np.clip(x.astype(np.float64), -largest, largest)

    def convert(t: Any, rounding: Any = None) -> Any:
        return t.to(getattr(tl, name), fp_downcast_rounding=rounding).to(tl.float32)

    np.testing.assert_array_equal(evaluate(convert, x, native=native), wanted)
    got = evaluate(lambda t: convert(t, "rtz"), x, native=native)
    if name == "float8e5":  # toward zero infinities stay
        wanted = np.where(np.isinf(x.astype(np.float64)), x.astype(np.float64), wanted)
    np.testing.assert_array_equal(got, wanted)
