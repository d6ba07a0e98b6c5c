"""Loads of rows that indices pick share the loop of a store, whose rows may lie anywhere beside, before or over them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Array, Kernel, values

from emu.tile.cpu.emit import groups
from emu.tile.cpu.plan.analysis import Analysis
from emu.tile.cpu.plan.schedule import Schedule
from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import F16, F32, I1, I16, I32, I64, DType

SIZE = 1400  # elements of a buffer; rows lie from its middle on
SHAPES = [(3, 8), (16, 32), (16, 40), (40, 8), (2, 3, 16), (4, 1), (1, 64), (3, 4)]


def rows_of(k: Kernel, shape: tuple[int, ...], indices: Array, stride: int, step: int) -> Value:
    """Return offsets: those of the rows that indices pick, and in them a range along the last axis."""
    b = k.builder
    picked = k.load(indices.reshape(*shape[:-1], 1))
    scaled = b.binary(Code.MUL, b.cast(picked, I64), k.number(stride, I64, (*shape[:-1], 1)))
    columns = b.binary(Code.MUL, b.arange(0, shape[-1]), k.number(step, I32, shape[-1:]))
    columns = b.cast(b.reshape(columns, (*[1] * (len(shape) - 1), shape[-1])), I64)
    return b.binary(Code.ADD, b.broadcast(scaled, shape), b.broadcast(columns, shape))


def regular(k: Kernel, shape: tuple[int, ...], stride: int) -> Value:
    """Return the offsets of neighbouring rows, which the compiler knows to be such."""
    b, total = k.builder, k.number(0, I64, shape)
    strides = [stride * int(np.prod(shape[axis + 1 : -1])) for axis in range(len(shape) - 1)] + [1]
    for axis, (extent, factor) in enumerate(zip(shape, strides, strict=True)):
        line = tuple(extent if other == axis else 1 for other in range(len(shape)))
        along = b.cast(b.reshape(b.arange(0, extent), line), I64)
        along = b.binary(Code.MUL, along, k.number(factor, I64, line))
        total = b.binary(Code.ADD, total, b.broadcast(along, shape))
    return total


def indices(draw: st.DrawFn, shape: tuple[int, ...], dtype: type) -> Array:
    """Return a number for each row, some negative, some equal."""
    count = int(np.prod(shape[:-1]))
    numbers = st.lists(st.integers(-6, 9), min_size=count, max_size=count)
    return np.array(draw(numbers), dtype)


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_rows_are_read_before_they_are_overwritten(data: st.DataObject) -> None:
    draw = data.draw
    shape, dtype = draw(st.sampled_from(SHAPES)), draw(st.sampled_from([F32, F16, I16]))
    k = Kernel()
    b = k.builder
    room = values(dtype, SIZE)
    source = k.pointer(room)
    other = draw(st.sampled_from(["same", "separate", "same argument"]))
    target = (
        source
        if other == "same argument"
        else k.pointer(room if other == "same" else values(dtype, SIZE))
    )
    integers = draw(st.sampled_from([np.int32, np.int64]))
    stride, step = draw(st.sampled_from([0, 1, 5, 16])), draw(st.sampled_from([1, 2, -1, 0]))

    def pointers(base: Value, offsets: Value) -> Value:
        start = k.number(draw(st.integers(300, 380)), I64, shape)
        return b.ptr_add(b.splat(base, shape), b.binary(Code.ADD, offsets, start))

    loaded = pointers(source, rows_of(k, shape, indices(draw, shape, integers), stride, step))
    kind = draw(st.sampled_from(["regular", "rows", "loaded"]))
    if kind == "loaded" and target is source and step:
        stored = loaded
    elif kind == "rows":
        stored = pointers(target, rows_of(k, shape, indices(draw, shape, integers), 40, 1))
    else:
        stored = pointers(target, regular(k, shape, shape[-1]))
    mask = k.load(values(I1, int(np.prod(shape))).reshape(shape)) if draw(st.booleans()) else None
    given_other = k.number(3, dtype, shape) if mask is not None and draw(st.booleans()) else None
    x = b.load(loaded, mask, given_other)
    result = b.binary(Code.ADD, x, k.number(1, dtype, shape))
    b.store(stored, result, mask)
    k.program("rows").check(run)


def places(k: Kernel, dtype: DType = F32) -> tuple[Value, Value]:
    """Return pointers to rows that indices pick, and to neighbouring rows of another buffer."""
    b, shape = k.builder, (4, 16)
    source, target = (k.pointer(values(dtype, SIZE)) for _ in range(2))
    loaded = b.ptr_add(
        b.splat(source, shape), rows_of(k, shape, np.array([3, 0, 3, 7], np.int32), 16, 1)
    )
    return loaded, b.ptr_add(b.splat(target, shape), regular(k, shape, 16))


def test_picked_rows_share_the_loop_of_their_store() -> None:
    k = Kernel()
    loaded, stored = places(k)
    k.builder.store(stored, k.builder.load(loaded))
    program = k.program("embedding")
    body = program.module.kernel.body
    stages = Schedule(Analysis(body), body.operations).stages
    (group,) = [
        group
        for stage in stages
        for group in stage.groups
        if any(operation.code is Code.STORE for operation in group.operations)
    ]
    assert [operation.code for operation in group.operations] == [Code.LOAD, Code.STORE]
    assert not group.materialized
    program.check(run)


def test_a_wrong_answer_about_the_overlap_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property above would fail if the question were not asked."""
    monkeypatch.setattr(groups.Overlaps, "emit", lambda self: {})
    k = Kernel()
    b, shape = k.builder, (4, 16)
    source = k.pointer(values(F32, SIZE))
    loaded = b.ptr_add(
        b.splat(source, shape), rows_of(k, shape, np.array([3, 0, 1, 0], np.int32), 16, 1)
    )
    stored = b.ptr_add(b.splat(source, shape), regular(k, shape, 16))
    b.store(stored, b.load(loaded))
    with pytest.raises(AssertionError, match="differs"):
        k.program("overlap").check(run)
