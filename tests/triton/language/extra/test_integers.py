"""Functions of integers and bits, against Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import evaluate

from emu.triton.language.extra import libdevice

RNG = np.random.default_rng(11)


def _random(dtype: Any, count: int = 64) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, count, dtype=dtype, endpoint=True)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_reversed_bits(dtype: Any) -> None:
    x, bits = _random(dtype), np.iinfo(dtype).bits
    wanted = [int(format(int(v) % 2**bits, f"0{bits}b")[::-1], 2) for v in x]
    got = evaluate(libdevice.brev, x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.view(f"u{bits // 8}"), np.array(wanted, f"u{bits // 8}"))


def test_bytes_are_chosen_by_nibbles() -> None:
    x, y, s = _random(np.int32), _random(np.int32), _random(np.int32)
    got = evaluate(libdevice.byte_perm, x, y, s, native=True)
    for a, b, selector, result in zip(x, y, s, got, strict=True):
        both = (int(a) % 2**32).to_bytes(4, "little") + (int(b) % 2**32).to_bytes(4, "little")
        chosen = bytes(both[int(selector) >> 4 * place & 7] for place in range(4))
        assert int(result) % 2**32 == int.from_bytes(chosen, "little")


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
def test_means_products_and_distances(dtype: Any) -> None:
    x, y = _random(dtype), _random(dtype)
    z = _random(np.uint32)
    x[:2], y[:2] = np.iinfo(dtype).max, [np.iinfo(dtype).max, np.iinfo(dtype).min]
    wide = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(evaluate(libdevice.hadd, x, y), [(a + b) >> 1 for a, b in wide])
    np.testing.assert_array_equal(
        evaluate(libdevice.rhadd, x, y), [(a + b + 1) >> 1 for a, b in wide]
    )
    sad = evaluate(libdevice.sad, x, y, z)
    assert sad.dtype == dtype
    wanted = [(abs(a - b) + int(c)) % 2**32 for (a, b), c in zip(wide, z, strict=True)]
    np.testing.assert_array_equal(sad.view(np.uint32), np.array(wanted, np.uint32))

    def low(value: int) -> int:
        value %= 2**24
        return value - 2**24 if dtype == np.int32 and value >= 2**23 else value

    product = evaluate(libdevice.mul24, x, y)
    wanted = [low(a) * low(b) % 2**32 for a, b in wide]
    np.testing.assert_array_equal(product.view(np.uint32), np.array(wanted, np.uint32))


def test_halves_of_doubles() -> None:
    x = RNG.standard_normal(64) * 10.0 ** RNG.integers(-200, 200, 64)
    high, low = evaluate(libdevice.double2hiint, x), evaluate(libdevice.double2loint, x)
    np.testing.assert_array_equal(high, (x.view(np.int64) >> 32).astype(np.int32))
    np.testing.assert_array_equal(low.view(np.uint32), x.view(np.uint64).astype(np.uint32))
    np.testing.assert_array_equal(evaluate(libdevice.hiloint2double, high, low), x)
    got = evaluate(libdevice.rcp64h, x)
    np.testing.assert_allclose(got, 1 / x, rtol=2.0**-19)
    assert not (got.view(np.uint64) & 0xFFFFFFFF).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponents(dtype: Any) -> None:
    info = np.finfo(dtype)
    x = np.concatenate(
        [
            np.array([1, 0.75, 2, -3, info.max, info.tiny, info.smallest_subnormal], dtype),
            (RNG.standard_normal(53) * 10.0 ** RNG.integers(-30, 30, 53)).astype(dtype),
            np.array([0, np.inf, -np.inf, np.nan], dtype),
        ]
    )
    exponents = np.frexp(x[:-4])[1] - 1
    got = evaluate(libdevice.ilogb, x)
    np.testing.assert_array_equal(got[:-4], exponents)
    top = np.iinfo(np.int32)
    np.testing.assert_array_equal(got[-4:], [top.min, top.max, top.max, top.min])
    np.testing.assert_array_equal(
        evaluate(libdevice.logb, x), [*exponents, -np.inf, np.inf, np.inf, np.nan]
    )
    n = RNG.integers(-400, 400, 64).astype(np.int32)
    n[:8] = [5000, -5000, 1, -1, -150, 2**31 - 1, 300, -(2**31)]
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.ldexp(x, n)
    for name in ("ldexp", "scalbn"):
        np.testing.assert_array_equal(evaluate(getattr(libdevice, name), x, n, native=True), wanted)
