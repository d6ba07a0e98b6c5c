"""Loops that only add products: the bits of the reference, however many rounds make one product."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel, values

from emu.tile.cpu import native
from emu.tile.cpu.compiling import _emit
from emu.tile.cpu.depth import deep
from emu.tile.cpu.emit import byte_products, emitter
from emu.tile.cpu.options import Options
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.passes import simplify
from emu.tile.reference import shapes
from emu.tile.types import BF16, F32, I8, I32, DType

V3 = "+sse4.2,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+popcnt,+lzcnt,+movbe"


DTYPES = [F32, I8, *([BF16] if native.has_feature("avx512bf16") else [])]  # bf16 natively


class Loop(Kernel):
    """A kernel that multiplies blocks along k, from row-major arrays of (m, total) and (total, n) elements."""

    def offsets(
        self, extents: tuple[int, int], stride: Value, start: Value, axis: int
    ) -> tuple[Value, Value]:
        """Return the offsets of a block that begins at an index of one axis, and its indices along it."""
        b, parts, along = self.builder, [], None
        for n, extent in enumerate(extents):
            line = b.arange(0, extent)
            if n == axis:
                line = b.binary(Code.ADD, line, b.splat(start, (extent,)))
            shape = (extent, 1) if n == 0 else (1, extent)
            line = b.reshape(line, shape)
            if n == axis:
                along = b.broadcast(line, extents)
            if n == 0:
                line = b.binary(Code.MUL, line, b.splat(stride, shape))
            parts.append(b.broadcast(line, extents))
        assert along is not None
        return b.binary(Code.ADD, *parts), along

    def block(
        self,
        pointer: Value,
        extents: tuple[int, int],
        stride: Value,
        start: Value,
        given: tuple[int, Value, bool],
    ) -> Value:
        """Load a block; elements from an end of the axis on are 0 if it is masked."""
        b, (axis, end, masked) = self.builder, given
        offsets, along = self.offsets(extents, stride, start, axis)
        tile = b.ptr_add(b.splat(pointer, extents), offsets)
        if not masked:
            return b.load(tile)
        mask = b.compare(Code.LT, along, b.splat(end, extents))
        return b.load(tile, mask, self.number(0, tile.type.element.element, extents))


def multiplied(
    dtype: DType,
    extents: tuple[int, int, int],
    total: int,
    *,
    masked: bool = False,
    turned: bool = False,
    gap: int = 0,
    skip: int = 1,
    step: int = 1,
    seed: int = 0,
) -> Loop:
    """Return a kernel whose rounds multiply blocks along k.

    Args:
        dtype: Of the operands; bf16 is multiplied natively.
        extents: Of a block: m, n, k.
        total: Extent of k; not a multiple of the block's only if ``masked``.
        masked: Whether elements beyond ``total`` are masked.
        turned: Whether B's columns lie side by side.
        gap: Elements between rows.
        skip: Each how many blocks one is read: of 2, rounds do not follow each other.
        step: Of the loop: -1 runs it backwards.
        seed: Of the values.
    """
    loop = Loop()
    b, (m, n, k) = loop.builder, extents
    rounds = -(-total // k)
    room = rounds * k * skip
    widths = (room + gap, room + gap if turned else n + gap)
    counts = (m * widths[0], (n if turned else room) * widths[1])
    pointers = [loop.pointer(values(dtype, count, seed + i)) for i, count in enumerate(counts)]
    strides = [loop.argument(I32, width) for width in widths]
    end = loop.argument(I32, total if masked else room)
    sums = I32 if dtype == I8 else F32
    start = loop.load(values(sums, m * n, seed).reshape(m, n))
    first, last = (0, rounds) if step > 0 else (rounds - 1, -1)
    limits = [loop.argument(I32, x) for x in (first, last, step)]
    with b.for_(*limits, [start]) as body:
        at = b.binary(Code.MUL, body.index, loop.number(k * skip))
        left = loop.block(pointers[0], (m, k), strides[0], at, (1, end, masked))
        if turned:
            right = loop.block(pointers[1], (n, k), strides[1], at, (1, end, masked))
            right = b.permute(right, (1, 0))
        else:
            right = loop.block(pointers[1], (k, n), strides[1], at, (0, end, masked))
        b.yield_(b.dot(left, right, body.carried[0], native=dtype == BF16))
    loop.result(body.results[0])
    return loop


@settings(deadline=None, max_examples=20)
@given(
    dtype=st.sampled_from(DTYPES),
    m=st.sampled_from([1, 8, 11]),
    n=st.sampled_from([32, 64]),
    total=st.sampled_from([0, 1, 64, 130, 640, 1600]),
    kind=st.sampled_from(["plain", "masked", "turned", "turned masked"]),
    gap=st.sampled_from([0, 3, 300]),
    skip=st.sampled_from([1, 1, 2]),
    step=st.sampled_from([1, 1, -1]),
    seed=st.integers(0, 9),
)
def check_loops(dtype, m, n, total, kind, gap, skip, step, seed):  # type: ignore[no-untyped-def]
    masked, turned = "masked" in kind, "turned" in kind
    total = total if masked else total // 64 * 64
    k = 64 if dtype == I8 else 32
    with np.errstate(all="ignore"):
        loop = multiplied(
            dtype,
            (m, n, k),
            total,
            masked=masked,
            turned=turned,
            gap=gap,
            skip=skip,
            step=step,
            seed=seed,
        )
        loop.program("loop").check(run)


@pytest.mark.parametrize("unit", ["amx", "vectors"])
def test_loops_are_those_of_the_reference(monkeypatch: pytest.MonkeyPatch, unit: str) -> None:
    if unit == "vectors":
        monkeypatch.setattr(
            byte_products,
            "has_feature",
            lambda f: not f.startswith("amx") and native.has_feature(f),
        )
    elif native.has_feature("amx-bf16"):
        monkeypatch.setattr(shapes, "_native_dot", shapes.dot_in_registers)
    else:
        pytest.skip("this CPU has no AMX, or this process may not use it")
    check_loops()


@pytest.mark.skipif(not native.host_is_x86(), reason="the other CPU is an x86, too")
def test_loops_for_a_cpu_without_avx512_are_those_of_the_reference() -> None:
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": V3}
    folder = str(Path(__file__).parent)
    environment["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, sys.path)])
    code = "import test_product_loops as t; t.check_loops()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the rounds of each loop that become one product; 0 for other loops."""
    rounds: list[int] = []
    original = emitter.product_loops.find

    def finding(*given: object) -> object:
        loop = original(*given)  # type: ignore[arg-type]  # as the emitter gives them
        rounds.append(0 if loop is None else loop.rounds)
        return loop

    monkeypatch.setattr(emitter.product_loops, "find", finding)
    return rounds


def emit(kernel: Kernel) -> None:
    kernel.builder.return_()
    with deep():
        _emit(simplify(kernel.module), Options())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("k", "rounds"), [(32, 8), (128, 2), (256, 0)])
def test_rounds_become_one_product_as_far_as_caches_hold_it(found, k, rounds, turned) -> None:  # type: ignore[no-untyped-def]
    emit(multiplied(F32, (8, 64, k), 512, turned=turned))
    assert found == [rounds]


@pytest.mark.skipif(BF16 not in DTYPES, reason="this CPU has no instruction for bf16")
@pytest.mark.parametrize("turned", [False, True])
def test_rounds_of_native_products_become_one(found, turned) -> None:  # type: ignore[no-untyped-def]
    emit(multiplied(BF16, (8, 64, 32), 512, turned=turned))
    assert found == [
        0 if turned else 16
    ]  # columns that lie side by side are turned over in each round


def test_a_loop_that_does_more_is_none(found) -> None:  # type: ignore[no-untyped-def]
    loop = Loop()
    b = loop.builder
    pointers = [loop.pointer(values(F32, 8192, n)) for n in range(2)]
    stride, zero = loop.argument(I32, 64), loop.number(0)
    tiles = loop.number(0, F32, (8, 64)), loop.number(0, F32, (8, 64))
    with b.for_(zero, loop.argument(I32, 4), loop.number(1), tiles) as body:
        at = b.binary(Code.MUL, body.index, loop.number(16))
        left = loop.block(pointers[0], (8, 16), stride, at, (1, stride, False))
        right = loop.block(pointers[1], (16, 64), stride, at, (0, stride, False))
        total = b.dot(left, right, body.carried[0])
        b.yield_(total, b.binary(Code.ADD, body.carried[1], total))
    loop.result(body.results[1])
    emit(loop)
    assert found == [0]


def test_what_a_loop_carries_keeps_its_memory_when_a_product_begins_with_a_multiple_of_it() -> None:
    loop = Loop()
    b = loop.builder
    pointers = [loop.pointer(values(F32, 64 * 64, n, special=False)) for n in range(2)]
    stride, zero = loop.argument(I32, 64), loop.number(0)
    tiles = loop.number(1, F32, (8, 64)), loop.number(1, F32, (8, 64))
    with b.for_(zero, loop.argument(I32, 3), loop.number(1), tiles) as body:
        at = b.binary(Code.MUL, body.index, loop.number(16))
        left = loop.block(pointers[0], (8, 16), stride, at, (1, stride, False))
        right = loop.block(pointers[1], (16, 64), stride, at, (0, stride, False))
        other = b.binary(
            Code.ADD, body.carried[1], b.dot(left, right, loop.number(0, F32, (8, 64)))
        )
        scaled = b.binary(Code.MUL, body.carried[0], b.binary(Code.SUB, other, body.carried[1]))
        total = b.dot(left, right, scaled)
        turned = b.permute(b.dot(left, right, loop.number(0, F32, (8, 64))), (1, 0))
        b.yield_(total, b.binary(Code.ADD, other, b.permute(turned, (1, 0))))
    for result in body.results:
        loop.result(result)
    loop.program("carried").check(run)
