"""Loops that assume what holds for all lanes: right where it does not hold, and where indices wrap around."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel

from emu.tile.cpu.emit import groups
from emu.tile.cpu.emit.assumptions import Assumptions
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import F32, I8, I16, I32, I64, U32, DType, Tile

COMPARISONS = [Code.LT, Code.LE, Code.GT, Code.GE]
BOUNDED = [I8, I16, I32, I64]


def _line(k: Kernel, dtype: DType, count: int, step: int, start: int) -> Value:
    b = k.builder
    line = b.cast(b.arange(0, count), dtype)
    line = b.binary(Code.MUL, line, b.splat(k.argument(dtype, step), (count,)))
    return b.binary(Code.ADD, line, b.splat(k.argument(dtype, start), (count,)))


def _edges(dtype: DType, small: int) -> st.SearchStrategy[int]:
    low, high = dtype.limits
    near = st.integers(-small, small)
    at_ends = st.one_of(st.integers(low, low + small), st.integers(high - small, high))
    return st.one_of(near, near, at_ends)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_masks_hold_where_they_hold_and_nowhere_else(data: st.DataObject) -> None:
    draw = data.draw
    dtype = draw(st.sampled_from(BOUNDED))
    count = draw(st.sampled_from([1, 5, 32, 33, 64]))
    k = Kernel()
    b = k.builder
    source = k.load(np.arange(count, dtype=np.float32) + 1)
    mask = None
    for _ in range(draw(st.integers(1, 2))):
        index = _line(k, dtype, count, draw(_edges(dtype, 3)), draw(_edges(dtype, 40)))
        limit = b.splat(k.argument(dtype, draw(_edges(dtype, 70))), (count,))
        pair = (index, limit) if draw(st.booleans()) else (limit, index)
        one = b.compare(draw(st.sampled_from(COMPARISONS)), *pair)
        mask = one if mask is None else b.binary(Code.AND, mask, one)
    out = k.output(Tile((count,), F32))
    b.store(k.addresses(out, (count,)), source, mask)
    read = k.pointer(np.arange(count, dtype=np.float32))
    k.result(b.load(k.addresses(read, (count,)), mask, b.splat(k.number(-1.0, F32), (count,))))
    k.program("masks").check(run)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_remainders_change_what_they_change(data: st.DataObject) -> None:
    draw = data.draw
    dtype = draw(st.sampled_from([I32, I64]))
    count = draw(st.sampled_from([5, 32, 40]))
    k = Kernel()
    b = k.builder
    # From the middle of the buffer, so that remainders of negative numbers stay inside, too.
    source = b.ptr_add(k.pointer(np.arange(200, dtype=np.float32)), k.number(100))
    index = _line(k, dtype, count, draw(_edges(dtype, 3)), draw(_edges(dtype, 60)))
    modulus = b.splat(k.argument(dtype, draw(st.integers(1, 90))), (count,))
    rest = b.binary(Code.REM, index, modulus)
    k.result(b.load(b.ptr_add(b.splat(source, (count,)), rest)))
    k.program("remainders").check(run)


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_quotients_and_remainders_of_long_indices(data: st.DataObject) -> None:
    """As of a tensor of several axes whose elements are numbered: nested, summed, with divisors of any sign, and zero."""
    draw = data.draw
    dtype = draw(st.sampled_from([I32, I64, U32]))
    count = draw(st.sampled_from([16, 32, 40, 64]))
    k = Kernel()
    b = k.builder
    least = 0 if dtype is U32 else -300
    start, step = draw(st.integers(least, 3000)), draw(st.sampled_from([1, 1, 1, 2, 3]))
    index = _line(k, dtype, count, step, start)
    sizes = st.sampled_from(
        [*range(1, 6), 16, 32, 48, 64, 100, 1000, 0, *([] if least == 0 else [-7])]
    )

    def number(value: int) -> Value:
        known = draw(st.booleans())
        scalar = k.number(value, dtype) if known else k.argument(dtype, value)
        return b.splat(scalar, (count,))

    d, m = draw(sizes), draw(sizes)
    quotient = b.binary(Code.DIV, index, number(d))
    rest = b.binary(Code.REM, index, number(d))
    nested = b.binary(Code.REM, quotient, number(m))
    scaled = b.binary(Code.ADD, b.binary(Code.MUL, nested, number(3)), rest)
    room = 40_000
    source = b.ptr_add(k.pointer(np.arange(2 * room, dtype=np.float32)), k.number(room))
    for offset in draw(
        st.lists(st.sampled_from([quotient, rest, nested, scaled]), min_size=1, max_size=3)
    ):
        mask = b.compare(Code.GE, index, number(draw(st.sampled_from([least, 40]))))
        given_mask = mask if draw(st.booleans()) else None
        k.result(b.load(b.ptr_add(b.splat(source, (count,)), offset), given_mask))
    out = k.output(Tile((2 * room,), F32))
    place = b.ptr_add(b.splat(b.ptr_add(out, k.number(room)), (count,)), scaled)
    if draw(st.booleans()):
        b.store(place, b.splat(k.number(5.0, F32), (count,)))
    k.program("divisions").check(run)


@pytest.mark.parametrize(("count", "divisor"), [(16, 32), (40, 48)])
def test_tiles_in_memory_are_read_lane_by_lane(count: int, divisor: int) -> None:
    """A sum over a quotient takes the quotient's memory: what reads either must not go by what they were made from."""
    k = Kernel()
    b = k.builder
    index = _line(k, I32, count, 1, 1)

    def number(value: int) -> Value:
        return b.splat(k.argument(I32, value), (count,))

    quotient = b.binary(Code.DIV, index, number(divisor))
    rest = b.binary(Code.REM, index, number(divisor))
    nested = b.binary(Code.REM, quotient, number(1))
    scaled = b.binary(Code.ADD, b.binary(Code.MUL, nested, number(3)), rest)
    source = k.pointer(np.arange(64, dtype=np.float32))
    for offset in (nested, scaled):
        k.result(b.load(b.ptr_add(b.splat(source, (count,)), offset)))
    place = b.ptr_add(b.splat(k.output(Tile((64,), F32)), (count,)), scaled)
    b.store(place, b.splat(k.number(5.0, F32), (count,)))
    k.program("divisions").check(run)


def test_which_masks_and_remainders_are_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[tuple[int, int]] = []

    class Noted(Assumptions):
        def emit_holds(self) -> object:  # type: ignore[override]  # as it is
            found.append((len(self.masks), len(self.divisions)))
            return super().emit_holds()

    monkeypatch.setattr(groups, "Assumptions", Noted)
    k = Kernel()
    b = k.builder
    index = b.arange(0, 64)
    flags = k.load(np.ones(64, np.int32))
    inside = b.compare(Code.LT, index, b.splat(k.argument(I32, 60), (64,)))
    loaded = b.compare(Code.NE, flags, k.number(0, I32, (64,)))
    mask = b.binary(Code.AND, inside, loaded)
    moved = b.binary(Code.REM, index, b.splat(k.argument(I32, 64), (64,)))
    source = k.pointer(np.arange(64, dtype=np.float32))
    k.result(b.load(b.ptr_add(b.splat(source, (64,)), moved), mask))
    k.program("both").check(run)
    # The comparison of the indices may hold everywhere, that of loaded flags says nothing now.
    assert max(found) == (1, 1)
