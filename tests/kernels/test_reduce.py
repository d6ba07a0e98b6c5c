"""The reduction kernel against NumPy: every operation, dtype, tail and special value."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.core.dtypes import BFLOAT16, DTYPES
from emu.kernels.reduce import BLOCK, CODES, OPS, SCRATCH_BYTES, reduce_run, supports

_MEMORY = np.empty(SCRATCH_BYTES + 64, np.uint8)
_SCRATCH = -(-_MEMORY.ctypes.data // 64) * 64
_STEP = {"sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
CASES = [(op, d) for op in OPS for d in DTYPES if supports(OPS[op], d)]


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Draw values over the whole range of a dtype, NaN, infinities and zeros among them."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    with np.errstate(over="ignore"):
        raw = (rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)
    special = np.array([np.nan, np.inf, -np.inf, 0.0]).astype(dtype)
    return np.where(rng.random(shape) < 0.1, rng.choice(special, shape), raw).astype(dtype)


def reference(op: str, arrays: np.ndarray) -> np.ndarray:
    """What a reduction means, in NumPy: in the order of the members."""
    dtype = arrays.dtype
    if dtype.kind == "b":
        return arrays.any(0) if op in ("sum", "max") else arrays.all(0)
    with np.errstate(all="ignore"):
        wide = arrays.astype(np.float32) if dtype in (np.float16, BFLOAT16) else arrays
        total = reduce(_STEP[op], wide)
        if op == "avg":
            total = total / total.dtype.type(len(arrays))
        return total.astype(dtype)


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    """Compare bits; NaN by NaN-ness, and the zeros by value."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if actual.dtype == BFLOAT16 or actual.dtype.kind == "f":
        actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(actual, expected)


def aligned_array(size: int, dtype: np.dtype[Any], shift: int) -> np.ndarray:
    """Make an array that begins ``shift`` elements behind a cache line."""
    memory = np.full((size + shift) * dtype.itemsize + 64, 0x5A, np.uint8)
    start = -memory.ctypes.data % 64 + shift * dtype.itemsize
    return memory[start : start + size * dtype.itemsize].view(dtype)


def run(op: str, arrays: np.ndarray, targets: list[np.ndarray], stream: int = 0) -> None:
    dtype = arrays.dtype
    sources = np.array([row.ctypes.data for row in arrays], np.int64)
    places = np.array([t.ctypes.data for t in targets], np.int64)
    count = arrays[0].size
    reduce_run(CODES[dtype], OPS[op], sources, places, dtype.itemsize, count, _SCRATCH, stream)


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda x: str(x))
@settings(deadline=None, max_examples=12)
@given(
    members=st.integers(1, 18),
    count=st.one_of(st.integers(0, 200), st.integers(BLOCK - 2, 2 * BLOCK + 3)),
    seed=st.integers(0, 999),
    stream=st.integers(0, 1),
    n_targets=st.integers(1, 2),
    shift=st.sampled_from([0, 1, 64]),
)
def test_against_numpy(
    op: str,
    dtype: np.dtype[Any],
    members: int,
    count: int,
    seed: int,
    stream: int,
    n_targets: int,
    shift: int,
) -> None:
    arrays = values(np.random.default_rng(seed), (members, count), dtype)
    before = arrays.copy()
    targets = [aligned_array(count + 1, dtype, shift) for _ in range(n_targets)]
    last = targets[0][-1:].tobytes()
    run(op, arrays, targets, stream)
    for target in targets:
        assert_same(target[:-1], reference(op, before))
        assert target[-1:].tobytes() == last
    assert arrays.tobytes() == before.tobytes()


@pytest.mark.parametrize("members", [3, 11])
def test_a_target_may_be_a_source(members: int) -> None:
    for place in {0, 1, members - 1}:
        arrays = values(np.random.default_rng(0), (members, 3 * BLOCK + 5), np.dtype(np.float32))
        expected = reference("sum", arrays)
        run("sum", arrays, [arrays[place]])
        assert_same(arrays[place], expected)


def digest() -> str:
    """Return a digest of reductions of every operation and dtype."""
    found = hashlib.sha256()
    for op, dtype in CASES:
        arrays = values(np.random.default_rng(3), (11, BLOCK + 77), dtype)
        out = np.empty(BLOCK + 77, dtype)
        run(op, arrays, [out])
        if dtype == BFLOAT16 or dtype.kind == "f":
            out[np.isnan(out.astype(np.float32))] = 0  # which NaN it is, nobody says
        found.update(out.tobytes())
    return found.hexdigest()


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names CPUs of x86-64")
def test_the_same_bits_without_the_widest_vectors() -> None:
    info = Path("/proc/cpuinfo")
    if not info.exists() or "avx2" not in info.read_text("utf-8"):
        pytest.skip("this CPU has no AVX2")
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['digest']())"
    done = subprocess.run(
        [sys.executable, "-c", code, __file__],
        env={
            **os.environ,
            "NUMBA_CPU_NAME": "x86-64-v3",
            "NUMBA_CPU_FEATURES": "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt,+movbe",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == digest()


def test_integers_wrap() -> None:
    arrays = np.array([[127, -128], [1, -1]], np.int8)
    out = np.empty(2, np.int8)
    run("sum", arrays, [out])
    assert out.tolist() == [-128, 127]
    run("prod", np.array([[200, 3], [2, 100]], np.uint8), [out.view(np.uint8)])
    assert out.view(np.uint8).tolist() == [144, 44]


def test_the_sign_counts_in_a_maximum() -> None:
    bits = np.array([[0xFF], [0x01]], np.uint8)
    out = np.empty(1, np.uint8)
    run("max", bits, [out])
    assert out[0] == 0xFF
    run("max", bits.view(np.int8), [out])
    assert out[0] == 0x01


def test_sixteen_bits_are_rounded_once() -> None:
    """2048 + 1 is 2048 in fp16: rounding after each step would lose every one of them."""
    arrays = np.array([[2048.0], [1], [1], [1], [1]], np.float16)
    out = np.empty(1, np.float16)
    run("sum", arrays, [out])
    assert out[0] == 2052
