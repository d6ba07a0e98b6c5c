"""Products of int8 by each instruction that this CPU has: the bits of the reference, at the ends of the range, too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel, values

from emu.tile.cpu.emit import byte_products
from emu.tile.cpu.native import has_feature
from emu.tile.ir import Operation, Value
from emu.tile.ops import Code
from emu.tile.reference.shapes import dot_in_registers
from emu.tile.types import BF16, F32, I8, I16, I32, U8, DType, Tile

LEVELS = {
    "amx": ("amx-int8", "amx-bf16", "avx512vnni", "avx512vl", "avx512bw", "avx2"),
    "avx512vnni": ("avx512vnni", "avx512vl", "avx512bw", "avx2"),
    "avxvnni": ("avxvnni", "avx2"),
    "avx512bw": ("avx512bw", "avx2"),
    "avx2": ("avx2",),
    "none": (),
}


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Pretend that the CPU has no more than some features."""
    name: str = request.param
    missing = [f for f in LEVELS[name] if not has_feature(f)]
    if missing:
        pytest.skip(f"this CPU has no {', '.join(missing)}")
    monkeypatch.setattr(byte_products, "has_feature", lambda f: f in LEVELS[name])
    return name


def product(shape: tuple[int, int, int], a: DType = I8, b: DType = I8, c: DType = I32) -> Operation:
    m, k, n = shape
    extents = (((m, k), a), ((k, n), b), ((m, n), c))
    operands = [Value(Tile(shape, element)) for shape, element in extents]
    return Operation(Code.DOT, operands, [Tile((m, n), c)])


def test_what_is_covered(level: str) -> None:
    known = level != "none"
    parts = 4 if "vnni" in level or level == "amx" else 2
    assert byte_products.is_covered(product((3, 8, 16))) == known
    assert byte_products.is_covered(product((1, parts, 8))) == known
    assert not byte_products.is_covered(product((3, 7, 16)))
    assert not byte_products.is_covered(product((3, 8, 12)))
    assert not byte_products.is_covered(product((3, 8, 16), U8, U8))
    assert not byte_products.is_covered(product((3, 8, 16), I16, I16))


@settings(deadline=None, max_examples=12)
@given(
    batch=st.sampled_from([(), (2,), (2, 1, 2)]),
    m=st.sampled_from([1, 3, 8, 17, 33, 64]),
    n=st.sampled_from([8, 16, 24, 32, 40, 48, 96, 7]),
    k=st.sampled_from([2, 4, 12, 64, 192, 7]),
    turned=st.sampled_from(["", "a", "b", "ab"]),
    ends=st.booleans(),
    seed=st.integers(0, 9),
)
def check_products(
    batch: tuple[int, ...], m: int, n: int, k: int, turned: str, ends: bool, seed: int
) -> None:
    kernel = Kernel()
    b = kernel.builder
    chance = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, swapped: bool) -> Value:
        shape = (*batch, columns, rows) if swapped else (*batch, rows, columns)
        numbers = chance.choice([-128, 127], shape) if ends else chance.integers(-128, 128, shape)
        loaded: Value = kernel.load(numbers.astype(np.int8))
        axes = range(len(batch))
        return b.permute(loaded, (*axes, len(batch) + 1, len(batch))) if swapped else loaded

    left, right = matrix(m, k, "a" in turned), matrix(k, n, "b" in turned)
    start = chance.integers(-(2**31), 2**31, (*batch, m, n)).astype(np.int32)  # sums wrap around
    kernel.result(b.dot(left, right, kernel.load(start)))
    kernel.program("dot").check(run)


def test_products_are_those_of_the_reference(level: str) -> None:
    del level
    check_products()


UNITS = {"amx": "amx-bf16", "pairs": "avx512bf16"}


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Pretend that the CPU has one of the instructions for bf16."""
    name: str = request.param
    if not has_feature(UNITS[name]):
        pytest.skip(f"this CPU has no {UNITS[name]}, or this process may not use it")
    monkeypatch.setattr(byte_products, "has_feature", lambda f: f in (UNITS[name], "avx512bf16"))
    return name


@settings(deadline=None, max_examples=12)
@given(
    batch=st.sampled_from([(), (2,), (2, 1, 2)]),
    m=st.sampled_from([1, 3, 8, 17, 40]),
    n=st.sampled_from([16, 32, 48, 80]),
    k=st.sampled_from([2, 4, 12, 32, 64, 160]),
    turned=st.sampled_from(["", "a", "b", "ab"]),
    start=st.sampled_from(["zero", "one", "loaded"]),
    seed=st.integers(0, 9),
)
def check_native_products(
    unit: str,
    batch: tuple[int, ...],
    m: int,
    n: int,
    k: int,
    turned: str,
    start: str,
    seed: int,
) -> None:
    kernel = Kernel()
    b = kernel.builder

    def matrix(rows: int, columns: int, swapped: bool) -> tuple[Value, np.ndarray]:
        shape = (*batch, columns, rows) if swapped else (*batch, rows, columns)
        numbers = values(BF16, int(np.prod(shape)), seed + rows).reshape(shape)
        loaded: Value = kernel.load(numbers)
        axes = range(len(batch))
        if not swapped:
            return loaded, numbers
        turned = b.permute(loaded, (*axes, len(batch) + 1, len(batch)))
        return turned, numbers.swapaxes(-1, -2)

    (left, given_a), (right, given_b) = matrix(m, k, "a" in turned), matrix(k, n, "b" in turned)
    shape = (*batch, m, n)
    sums = values(F32, int(np.prod(shape)), seed).reshape(shape)
    if start != "loaded":
        sums = np.full(shape, float(start == "one"), np.float32)
    begin = (
        kernel.load(sums) if start == "loaded" else kernel.number(float(sums.flat[0]), F32, shape)
    )
    with np.errstate(all="ignore"):
        kernel.result(b.dot(left, right, begin, native=True))
        if unit == "amx" and k % 32 == 0 and start != "one":
            (found,) = kernel.program("dot").run(run)[-1:]
            wide = (x.astype(np.float32) for x in (given_a, given_b))
            np.testing.assert_array_equal(found, dot_in_registers(*wide, sums))
        else:
            kernel.program("dot").check(run)


def test_native_products_are_those_of_the_reference(unit: str) -> None:
    check_native_products(unit)


def test_a_cpu_without_the_instruction_multiplies_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_products, "has_feature", lambda _: False)
    left, right = values(BF16, 8 * 64, special=False), values(BF16, 64 * 16, 1, special=False)
    results = []
    for native in (True, False):
        kernel = Kernel()
        a, b = kernel.load(left.reshape(8, 64)), kernel.load(right.reshape(64, 16))
        c = kernel.number(0, F32, (8, 16))
        kernel.result(kernel.builder.dot(a, b, c, native=native))
        results.append(kernel.program("dot").run(run)[-1])
    np.testing.assert_array_equal(*results)


def test_a_loop_carries_the_sums(level: str) -> None:
    del level
    kernel = Kernel()
    b = kernel.builder
    chance = np.random.default_rng(0)
    left = kernel.load(chance.integers(-128, 128, (16, 64)).astype(np.int8))
    right = kernel.load(chance.integers(-128, 128, (64, 32)).astype(np.int8))
    total = kernel.load(np.zeros((16, 32), np.int32))
    for _ in range(3):
        total = b.dot(left, right, total)
    kernel.result(total)
    kernel.program("dot").check(run)
