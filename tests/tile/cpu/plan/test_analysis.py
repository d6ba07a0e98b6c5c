"""Steps of tiles are those that the reference computes; inline values are cheap ones of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_harness import Kernel

from emu.tile.cpu.plan.analysis import VARIES, Analysis
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import F32, I8, I32, I64

SHAPE = (3, 8)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[Kernel, Value]:
    """A tile of i32 that is computed from ranges, numbers and scalars of the launch."""
    k = Kernel()
    b = k.builder

    def leaf() -> Value:
        kind = draw(st.sampled_from(["rows", "columns", "number", "argument"]))
        if kind == "number":
            return k.number(draw(st.integers(-9, 9)), I32, SHAPE)
        if kind == "argument":
            return b.splat(k.argument(I32, draw(st.integers(-9, 9))), SHAPE)
        axis = 0 if kind == "rows" else 1
        line = (SHAPE[0], 1) if axis == 0 else (1, SHAPE[1])
        start = draw(st.integers(-5, 5))
        return b.broadcast(b.reshape(b.arange(start, start + SHAPE[axis]), line), SHAPE)

    value = leaf()
    for _ in range(draw(st.integers(0, 8))):
        code = draw(st.sampled_from([Code.ADD, Code.SUB, Code.MUL, Code.SHL, Code.FLIP, Code.NEG]))
        if code is Code.FLIP:
            value = b.flip(value, draw(st.integers(0, 1)))
        elif code is Code.NEG:
            value = b.unary(code, value)
        elif code is Code.SHL:
            value = b.binary(code, value, k.number(draw(st.integers(0, 4)), I32, SHAPE))
        else:
            value = b.binary(code, *draw(st.permutations([value, leaf()])))
    return k, value


@settings(deadline=None)
@given(expressions())
def test_steps_are_those_of_the_reference(expression: tuple[Kernel, Value]) -> None:
    k, value = expression
    k.result(value)
    program = k.program("p")
    found = program.run_reference()[-1]
    assert found is not None
    analysis = Analysis(program.module.kernel.body)
    for axis in range(len(SHAPE)):
        step = analysis.step(value, axis)
        if step is None:
            continue
        moved = np.diff(found.astype(np.int64), axis=axis) % 2**32  # registers wrap
        # One amount along the axis, wherever on the others; a constant is that amount.
        assert (moved == moved.take([0], axis)).all()
        if step != VARIES:
            assert (moved == step % 2**32).all()
        # Of a regular tile one amount in all.
        assert not analysis.is_regular(value) or (moved == moved[0, 0]).all()


def test_a_product_of_rows_and_columns_is_no_regular_tile() -> None:
    k = Kernel()
    b = k.builder
    rows = b.broadcast(b.reshape(b.arange(0, 3), (3, 1)), SHAPE)
    columns = b.broadcast(b.reshape(b.arange(0, 8), (1, 8)), SHAPE)
    product = b.binary(Code.MUL, rows, columns)
    total = b.binary(Code.ADD, product, columns)
    scaled = b.binary(Code.MUL, rows, b.splat(k.argument(I32, 5), SHAPE))
    for value in (total, scaled):
        k.result(value)
    analysis = Analysis(k.program("p").module.kernel.body)
    assert [analysis.step(product, axis) for axis in (0, 1)] == [VARIES, VARIES]
    assert not analysis.is_regular(product)
    assert not analysis.is_regular(total)
    assert analysis.is_regular(scaled)
    assert analysis.is_regular(b.binary(Code.ADD, scaled, columns))


def test_floats_and_narrow_integers_have_no_steps() -> None:
    """Floats are rounded, and integers of 8 and 16 bits wrap."""
    k = Kernel()
    b = k.builder
    offsets = b.arange(0, 8)
    half = b.binary(Code.MUL, b.cast(offsets, F32), k.number(0.5, F32, (8,)))
    narrow = b.cast(b.cast(offsets, I8), I32)
    same = b.cast(k.number(3, I32, (8,)), I8)
    for value in (b.cast(half, I32), narrow, same):
        k.result(value)
    analysis = Analysis(k.program("p").module.kernel.body)
    assert analysis.step(half, 0) is None
    assert analysis.step(narrow, 0) is None
    assert analysis.step(same, 0) == 0


def test_offsets_are_inline_and_loaded_or_floating_point_values_are_not() -> None:
    k = Kernel()
    b = k.builder
    offsets = b.binary(Code.MUL, b.arange(0, 8), k.number(3, I32, (8,)))
    loaded = k.load(np.zeros(8, np.int32))
    real = b.cast(offsets, F32)
    long = b.arange(0, 8)
    for _ in range(40):
        long = b.binary(Code.ADD, long, offsets)
    wide = b.cast(offsets, I64)
    for value in (loaded, real, long, wide):
        k.result(value)
    analysis = Analysis(k.program("p").module.kernel.body)
    assert analysis.is_inline(offsets)
    assert analysis.is_inline(wide)
    assert not any(map(analysis.is_inline, (loaded, real, long)))
