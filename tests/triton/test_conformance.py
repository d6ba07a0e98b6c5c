"""What whole programs asked for that the tests of single features had not."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton


class Pair(NamedTuple):
    first: Any
    second: Any


@triton.constexpr_function
def swapped(pair: Any) -> Any:
    return Pair(pair.second, pair.first)


@triton.must_use_result("It has no other effect.")
@triton.jit
def square(x):
    return x * x


@triton.jit
def checked_sum(a, b):
    tl.device_assert((a >= 0) == (b >= 0) and a + b >= a, "overflow")
    return a + b


@triton.jit
def moved(out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    size: tl.constexpr = ROWS * COLUMNS
    x = tl.arange(0, size).reshape(ROWS, COLUMNS)
    x = tl.ravel(tl.trans(x)).reshape(COLUMNS // 2, ROWS * 2)
    tl.store(out_ptr + tl.arange(0, size), tl.ravel(x))


def test_tensors_are_reshaped_again_and_again() -> None:
    out = np.zeros(64, np.int32)
    moved[(1,)](out, ROWS=8, COLUMNS=8)
    np.testing.assert_array_equal(out, np.arange(64).reshape(8, 8).T.ravel())


@pytest.mark.parametrize(
    ("dtype", "expected"), [(tl.float16, 0.0999755859375), (tl.bfloat16, 0.10009765625)], ids=str
)
def test_a_float_argument_has_the_annotated_dtype(dtype: tl.dtype, expected: float) -> None:
    def kernel(out_ptr, x):
        tl.store(out_ptr, x)

    kernel.__annotations__["x"] = dtype
    out = np.zeros(1, np.float32)
    triton.jit(kernel)[(1,)](out, 0.1)
    assert out[0] == expected


def test_functions_of_compile_time_are_given_named_tuples() -> None:
    @triton.jit
    def kernel(out_ptr):
        pair = swapped(Pair(3, 4))
        tl.store(out_ptr, pair.first * 10 + pair.second)

    out = np.zeros(1, np.int32)
    kernel[(1,)](out)
    assert out[0] == 43


def test_a_result_that_must_be_used_is_used() -> None:
    @triton.jit
    def good(out_ptr):
        tl.store(out_ptr, square(3))

    @triton.jit
    def bad(out_ptr):
        square(3)

    out = np.zeros(1, np.int32)
    good[(1,)](out)
    assert out[0] == 9
    with pytest.raises(
        triton.CompilationError, match=r"square is not being used\. It has no other"
    ):
        bad[(1,)](out)


def test_assertions_in_what_combines_are_checked() -> None:
    @triton.jit(debug=True)
    def kernel(x_ptr, out_ptr, N: tl.constexpr):
        x = tl.load(x_ptr + tl.arange(0, N))
        tl.store(out_ptr, tl.reduce(x, 0, checked_sum))

    out = np.zeros(1, np.int32)
    kernel[(1,)](np.arange(16, dtype=np.int32), out, N=16)
    assert out[0] == 120
    with pytest.raises(AssertionError, match="overflow"):
        kernel[(1,)](np.full(16, 2**28, np.int32), out, N=16)


def test_a_constexpr_cannot_be_said_not_to_be_specialised() -> None:
    @triton.jit(do_not_specialize=["n"])
    def kernel(n: tl.constexpr):
        pass

    with pytest.raises(triton.CompilationError, match="n marked as constexpr and listed"):
        kernel[(1,)](5)
