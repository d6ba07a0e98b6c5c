"""Products of bf16 by the CPU's own instruction, beside what that means and beside the exact product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.errors import ArgumentError
from emu.kernels.gemm import arguments, blocks
from emu.kernels.gemm.arguments import has_amx
from emu.kernels.gemm.microkernel import HAS_PAIRS, LAYOUT
from emu.kernels.matmul import matmul, pack

Array = np.ndarray[Any, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
TINY = 2.0**-126  # the smallest normal number of bf16 and of fp32

UNITS = ("amx", "pairs")
"""What bf16 can be multiplied by: registers of AMX, or pairs in vector registers."""

needs_pairs = pytest.mark.skipif(not HAS_PAIRS, reason="this CPU has no instruction for bf16")


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Multiply by one of the units, where this CPU has it."""
    name: str = request.param
    if name == "amx" and not has_amx():
        pytest.skip("this CPU has no AMX, or this process may not use it")
    if name == "pairs":
        monkeypatch.setattr(arguments, "is_permitted", lambda: False)
    return name


def flushed(x: Array) -> Array:
    return np.where(np.abs(x) < TINY, np.copysign(F32.type(0), x), x)


def fma(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` of fp32 values with one rounding, after which subnormals are zero."""
    product = a.astype(F64) * b.astype(F64)  # exact
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    towards = np.where(error > 0, np.inf, -np.inf)
    even = total.view(np.int64) & 1 == 0
    odd = np.where((error != 0) & even & np.isfinite(error), np.nextafter(total, towards), total)
    return flushed(odd.astype(F32))


def padded(a: Array, b: Array, multiple: int) -> tuple[Array, Array]:
    """The operands as fp32, subnormals as zero, with zeros until k is a multiple."""
    k = -(-a.shape[1] // multiple) * multiple
    left, right = np.zeros((len(a), k), F32), np.zeros((k, b.shape[1]), F32)
    left[:, : a.shape[1]], right[: len(b)] = flushed(a.astype(F32)), flushed(b.astype(F32))
    return left, right


def by_registers(a: Array, b: Array) -> Array:
    """The meaning with AMX: of each 32 values of k the even ones are a chain, the odd ones another."""
    left, right = padded(a, b, 32)
    total = np.zeros((len(a), b.shape[1]), F32)
    with np.errstate(all="ignore"):
        for s in range(0, left.shape[1], 32):
            chains = [np.zeros_like(total), np.zeros_like(total)]
            for i in range(s, s + 32):
                chains[i % 2] = fma(left[:, i, None], right[None, i], chains[i % 2])
            total = flushed(total + flushed(chains[0] + chains[1]))
    return total


def pairwise(a: Array, b: Array) -> Array:
    """The meaning with AVX512-BF16: of each two neighbours along k the second, then the first, is added."""
    left, right = padded(a, b, 2)
    k = left.shape[1]
    total = np.zeros((len(a), b.shape[1]), F32)
    with np.errstate(all="ignore"):
        for s in range(0, k, 2):
            for i in (s + 1, s):
                total = fma(left[:, i, None], right[None, i], total)
    return total


def bound(a: Array, b: Array) -> Array:
    """How far a native product may be from the true one: two roundings a value of k, and what is flushed."""
    k = a.shape[1] + 1
    wide_a, wide_b = np.abs(a.astype(F64)), np.abs(b.astype(F64))
    largest = wide_a.max(initial=1) + wide_b.max(initial=1)
    return np.asarray(2 * k * 2.0**-23 * (wide_a @ wide_b) + k * TINY * (2 + largest))


def random_array(rng: np.random.Generator, shape: tuple[int, ...], spread: int) -> Array:
    scale = 2.0 ** rng.integers(-spread, spread + 1, shape)
    return np.asarray((rng.standard_normal(shape) * scale).astype(F32).astype(BF16))


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "rows": lambda a: a,
    "columns": np.asfortranarray,
    "spread": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
}
extents = st.integers(1, 40) | st.sampled_from((63, 64, 65, 100, 129))


@given(
    m=extents,
    n=extents,
    k=st.integers(1, 40) | st.sampled_from((63, 64, 65, 287, 511, 512, 513, 1025)),
    a_how=st.sampled_from(sorted(LAYOUTS)),
    b_how=st.sampled_from(sorted(LAYOUTS)),
    spread=st.sampled_from((3, 60, 120)),
    seed=st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def check_products(
    unit: str, m: int, n: int, k: int, a_how: str, b_how: str, spread: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # Products of about 1, whatever the operands: no sum overflows.
    a = random_array(rng, (m, k), spread)
    b = (random_array(rng, (k, n), 2).astype(F32) * 2.0**-spread).astype(BF16)
    given_a, given_b = LAYOUTS[a_how](a), LAYOUTS[b_how](b)
    got = matmul(given_a, given_b, dtype=F32, precision="native")
    true = a.astype(F64) @ b.astype(F64)
    assert (np.abs(got - true) <= bound(a, b)).all()
    exact = matmul(a, b, dtype=F32)
    assert (np.abs(got - exact) <= 2 * bound(a, b)).all()
    if unit == "amx":
        np.testing.assert_array_equal(got, by_registers(a, b))
    elif not HAS_PAIRS:
        assert got.tobytes() == exact.tobytes()
    elif LAYOUT.pairs == "vdpbf16ps":
        np.testing.assert_array_equal(got, pairwise(a, b))
    packed = pack(given_b, precision="native")
    again = matmul(given_a, packed, dtype=F32, precision="native", threads=2)
    assert again.tobytes() == got.tobytes()
    assert matmul(a, b, precision="native").tobytes() == got.astype(BF16).tobytes()


def test_native_is_what_the_unit_does(unit: str) -> None:
    check_products(unit)


@pytest.mark.parametrize("shape", [(300, 70, 260), (64, 512, 64), (1, 600, 300), (300, 33, 1)])
def test_threads_change_no_bit(shape: tuple[int, int, int], unit: str) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = random_array(rng, (m, k), 3), random_array(rng, (k, n), 3)
    one, *others = (matmul(a, b, precision="native", threads=t) for t in (1, 2, 3))
    assert all(one.tobytes() == other.tobytes() for other in others)


def test_rows_a_page_apart_give_the_same_bits(unit: str) -> None:
    rng = np.random.default_rng(8)
    a, b = random_array(rng, (37, 2048), 1), random_array(rng, (2048, 300), 1)
    near = np.zeros((len(a), 2056), BF16)
    near[:, :2048] = a
    for k in (2048, 2047, 513):
        got = matmul(a[:, :k], b[:k], precision="native")
        assert got.tobytes() == matmul(near[:, :k], b[:k], precision="native").tobytes()


def test_long_chains_go_on(unit: str) -> None:
    rng = np.random.default_rng(3)
    for k in (blocks.MAX_K, blocks.MAX_K + 3):
        a, b = random_array(rng, (3, k), 1), random_array(rng, (k, 5), 1)
        got = matmul(a, b, dtype=F32, precision="native")
        assert (np.abs(got - a.astype(F64) @ b.astype(F64)) <= bound(a, b)).all()
        shared = matmul(a, b, dtype=F32, precision="native", threads=2, deterministic=False)
        assert (np.abs(shared - a.astype(F64) @ b.astype(F64)) <= bound(a, b)).all()


@pytest.mark.parametrize("k", [1, 2, 7, 40, 513])
def test_nan_and_infinity_go_through(k: int, unit: str) -> None:
    rng = np.random.default_rng(k)
    for special in (np.nan, np.inf, -np.inf):
        for place in {0, k // 2, k - 1}:
            a, b = random_array(rng, (20, k), 1), random_array(rng, (k, 40), 1)
            a[3, place], a[17, place], b[place, 33] = special, -special, special
            with np.errstate(invalid="ignore"):
                got = matmul(a, b, dtype=F32, precision="native")
                exact = matmul(a, b, dtype=F32)
            special_there = ~np.isfinite(exact)
            np.testing.assert_array_equal(~np.isfinite(got), special_there)
            np.testing.assert_array_equal(got[special_there], exact[special_there])


@needs_pairs
def test_subnormals_are_zero(unit: str) -> None:
    a, b = np.array([[TINY / 2, 0]], BF16), np.array([[2.0**100], [0]], BF16)
    assert matmul(a, b, dtype=F32, precision="native")[0, 0] == 0
    assert matmul(a, b, dtype=F32)[0, 0] == 2.0**-27
    a, b = np.array([[2.0**-70, 0]], BF16), np.array([[2.0**-70], [0]], BF16)
    assert matmul(a, b, dtype=F32, precision="native")[0, 0] == 0
    assert matmul(a, b, dtype=F32)[0, 0] == 2.0**-140


def test_alpha_beta_bias_follow_the_sums(unit: str) -> None:
    rng = np.random.default_rng(5)
    a, b = random_array(rng, (30, 17), 2), random_array(rng, (17, 50), 2)
    sums = matmul(a, b, dtype=F32, precision="native")
    bias, old = rng.standard_normal(50).astype(F32), rng.standard_normal((30, 50)).astype(F32)
    got = matmul(a, b, out=old.copy(), alpha=2, beta=3, bias=bias, precision="native")
    assert got.tobytes() == (2 * sums + F32.type(3) * old + bias).tobytes()
    assert matmul(a, b, precision="native").tobytes() == sums.astype(BF16).tobytes()


@pytest.mark.parametrize("dtype", [F32, F64, np.dtype(np.float16), np.dtype(np.int8)], ids=str)
def test_other_dtypes_are_exact(dtype: Any) -> None:
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((30, 40), (40, 50)))
    native = matmul(a, b, precision="native")
    assert native.tobytes() == matmul(a, b).tobytes()


def test_a_packed_matrix_keeps_its_precision() -> None:
    a, b = np.ones((4, 5), BF16), np.ones((5, 6), BF16)
    for one, other in (("exact", "native"), ("native", "exact")):
        packed = pack(b, precision=one)
        assert packed.precision == one
        with pytest.raises(
            ArgumentError,
            match=f"precision must be that of the packed b, '{one}', but got '{other}'",
        ):
            matmul(a, packed, precision=other)
    with pytest.raises(ArgumentError, match="precision must be one of"):
        pack(b, precision="fast")
