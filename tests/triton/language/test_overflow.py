"""Integers that wrap around are errors where assertions are enabled."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton


@triton.jit
def combined(x_ptr, y_ptr, z_ptr, kind: tl.constexpr, n: tl.constexpr):
    i = tl.arange(0, n)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    if kind == "add":
        z = x + y
    elif kind == "sub":
        z = x - y
    else:
        z = x * y
    tl.store(z_ptr + i, z)


NUMPY = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("kind", ["add", "sub", "mul"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32"])
def test_what_wraps_is_an_error_and_what_fits_is_not(dtype, kind, backend):
    bounds = np.iinfo(dtype)
    edges = [bounds.min, bounds.max, 0, 1, 2, bounds.max // 2, bounds.min // 2, 3]
    raised = 0
    for y in edges[: 3 if backend == "reference" else None]:
        x = np.array(edges, dtype)
        others = np.full(8, y, dtype)
        wide = NUMPY[kind](x.astype(object), others.astype(object))
        fits = np.array([bounds.min <= int(w) <= bounds.max for w in wide])
        z = np.zeros(8, dtype)
        for keep in (fits, ~fits):
            a = np.where(keep, x, 0).astype(dtype)
            b = np.where(keep, others, 0).astype(dtype)
            options = {"debug": True, "backend": backend}
            if keep is fits or not keep.any():
                combined[(1,)](a, b, z, kind, 8, **options)
                np.testing.assert_array_equal(z, NUMPY[kind](a, b))
                continue
            raised += 1
            with pytest.raises(
                Exception, match=f"device-side assert triggered: .* overflow in {kind}"
            ):
                combined[(1,)](a, b, z, kind, 8, **options)
            combined[(1,)](a, b, z, kind, 8, **options, sanitize_overflow=False)
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(z, NUMPY[kind](a, b))
    assert raised


def test_without_assertions_integers_wrap():
    z = np.zeros(2, np.int32)
    x = np.full(2, 2**31 - 1, np.int32)
    combined[(1,)](x, np.ones(2, np.int32), z, "add", 2)
    assert z.tolist() == [-(2**31)] * 2


@triton.jit
def numbers(z_ptr, seed, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(z_ptr + i, tl.randint(seed, i))


def test_functions_of_the_language_may_wrap():
    z = np.zeros((2, 64), np.int32)
    for row, debug in enumerate((False, True)):
        numbers[(1,)](z[row], 12345, 64, debug=debug)
    np.testing.assert_array_equal(z[0], z[1])
