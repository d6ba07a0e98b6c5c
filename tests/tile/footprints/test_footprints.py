"""Footprints of accesses: every byte that a program accesses is in one, and proofs that they are apart are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from emu.tile.footprints import lines
from emu.tile.footprints.evaluation import Footprint, find_footprints
from emu.tile.footprints.lines import Line, Mask, number
from emu.tile.footprints.proofs import are_apart
from emu.tile.ir import Builder, Function, Module, Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import F32, I32, Pointer


def _line(base: int, strides: tuple[int, ...], shape: tuple[int, ...]) -> Line:
    return Line(number(base), tuple(map(number, strides)), shape)


def _elements(line: Line) -> np.ndarray[Any, Any]:
    grid = np.indices(line.shape)
    total = np.full(line.shape, int(line.base))
    for axis, stride in enumerate(line.strides):
        total = total + grid[axis] * int(stride)
    return total


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        (_line(3, (1,), (24,)), (4, 6)),
        (_line(3, (2,), (24,)), (2, 3, 4)),
        (_line(0, (6, 1), (4, 6)), (24,)),
        (_line(0, (5, 1), (4, 6)), (24,)),
        (_line(0, (5, 1), (4, 6)), (4, 2, 3)),
        (_line(0, (5, 1), (4, 6)), (2, 2, 1, 6)),
        (_line(1, (7, 0), (4, 6)), (4, 1, 6)),
        (_line(1, (0, 0), (4, 6)), (8, 3)),
        (_line(1, (-2,), (8,)), (2, 4)),
    ],
)
def test_a_line_of_another_shape_has_the_same_elements(line: Line, shape: tuple[int, ...]) -> None:
    found = lines.reshape(line, shape)
    wanted = _elements(line).reshape(shape)
    if found is None:
        assert line.strides[0] == 5  # rows with gaps are no line
    else:
        np.testing.assert_array_equal(_elements(found), wanted)


def test_a_mask_keeps_every_lane_in_which_it_may_be_true() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        shape = tuple(int(n) for n in rng.integers(1, 6, 2))
        conditions = [
            _line(int(rng.integers(-20, 10)), tuple(rng.integers(-4, 5, 2)), shape)
            for _ in range(int(rng.integers(1, 3)))
        ]
        alive, lows, highs = lines.narrowed(_line(0, (1, 1), shape), Mask(tuple(conditions)), 1)
        holds = np.logical_and.reduce([_elements(c) <= 0 for c in conditions])
        kept = np.zeros(shape, np.bool_)
        if alive[0]:
            kept[lows[0][0] : highs[0][0] + 1, lows[1][0] : highs[1][0] + 1] = True
        assert not np.any(holds & ~kept)
        if len(conditions) == 1 and np.count_nonzero([int(s) for s in conditions[0].strides]) < 2:
            np.testing.assert_array_equal(holds, kept)


def _footprint(
    programs: list[int],
    starts: list[int],
    strides: list[tuple[int, ...]],
    counts: list[tuple[int, ...]],
) -> Footprint:
    operation = Operation(Code.STORE)
    columns = [
        tuple(np.array(c, np.int64) for c in zip(*rows, strict=True)) for rows in (strides, counts)
    ]
    none = tuple(np.zeros(len(programs), np.int64) for _ in columns[0])
    return Footprint(
        operation, 0, 4, np.array(programs), np.array(starts), columns[0], columns[1], none
    )


def _touched(footprint: Footprint, n: int) -> list[int]:
    assert footprint.starts is not None
    at = np.array([footprint.starts[n]])
    for stride, count in zip(footprint.strides, footprint.counts, strict=True):
        at = (at[:, None] + np.arange(count[n]) * stride[n]).ravel()
    return [int(a) + b for a in at for b in range(footprint.size)]


def _is_apart(writes: Footprint, reads: Footprint) -> bool:
    owners: dict[int, int] = {}
    for n, program in enumerate(writes.programs.tolist()):
        for at in _touched(writes, n):
            if at in owners:
                return False
            owners[at] = program
    for n, program in enumerate(reads.programs.tolist()):
        if any(owners.get(at, program) != program for at in _touched(reads, n)):
            return False
    return True


def test_proofs_say_what_the_bytes_say() -> None:
    rng = np.random.default_rng(1)
    verdicts = []
    for _ in range(400):
        made = []
        steps = [(4, 8, 40)[int(rng.integers(3))], (4, 8, 12)[int(rng.integers(3))]]
        for _ in range(2):
            count = int(rng.integers(1, 5))
            starts = [
                int(s) * (4, 16, 40)[int(rng.integers(3))] for s in rng.permutation(8)[:count]
            ]
            counts = [tuple(int(c) for c in rng.integers(1, 4, 2)) for _ in starts]
            made.append(_footprint(list(range(count)), starts, [tuple(steps)] * count, counts))
        writes, reads = made
        found = are_apart([(writes, 0)], [], [(reads, 0)])
        wanted = _is_apart(writes, reads)
        assert not found or wanted  # a proof is right
        verdicts.append((found, wanted))
    assert (True, True) in verdicts
    assert (False, False) in verdicts
    missed = sum(wanted and not found for found, wanted in verdicts)
    assert missed <= len(verdicts) // 20  # lanes that are apart by luck


def test_rounds_of_loops_and_branches_are_told_apart() -> None:
    to, count = Value(Pointer(F32)), Value(I32)
    body = Region([to, count])
    build = Builder(body)
    zero, one, two = (build.constant(n, I32) for n in range(3))
    me = build.program_id(0)
    with build.for_(zero, count, one, (me,)) as loop:
        build.store(build.ptr_add(to, loop.carried[0]), build.constant(0.0, F32))
        build.yield_(build.binary(Code.ADD, loop.carried[0], two))
    then, other = Region(), Region()
    with build.into(then):
        build.store(build.ptr_add(to, loop.results[0]), build.constant(0.0, F32))
        build.yield_()
    with build.into(other):
        build.yield_()
    build.if_(build.compare(Code.EQ, me, one), then, other)
    build.return_()
    module = Module({"kernel": Function("kernel", body)})
    stores = [o for o in body.walk() if o.code is Code.STORE]
    first, last = find_footprints(module, (2, 1, 1), [None, 3], stores)
    assert first.starts is not None
    assert first.programs.tolist() == [0, 0, 0, 1, 1, 1]
    assert first.starts.tolist() == [0, 8, 16, 4, 12, 20]
    assert last.starts is not None
    assert (last.programs.tolist(), last.starts.tolist()) == ([1], [28])
    unknown, _ = find_footprints(module, (2, 1, 1), [None, None], stores)
    assert unknown.starts is None
