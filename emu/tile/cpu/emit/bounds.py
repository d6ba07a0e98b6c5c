"""Bounds beyond which all lanes of a loop are the same, so that one is computed for all.

Rows of 781 columns are processed in tiles of 1024: a quarter of the lanes is masked off, and all of them compute
the same, because each gets the same ``other``. So one lane beyond the bound is computed for all. Its value enters
the accumulators of reductions once per lane and is written to the memory of values that later loops read, so that
results do not change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from emu.tile import ops
from emu.tile.cpu.emit.assumptions import is_within
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import RUN, Ends
from emu.tile.cpu.emit.point_reader import ZERO, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import Bound, is_view, source_axis
from emu.tile.ir import Operation, Value
from emu.tile.ops import Code
from emu.tile.types import DTYPES, DType, element_of

_I64 = DTYPES["i64"]
_LESS = frozenset({Code.LT, Code.LE})


def _bound_of(frame: Frame, comparison: Operation) -> Bound | None:
    """Return a comparison as a bound; ``None`` if it is none."""
    left, right = sides(comparison)
    element = element_of(left.type)
    if not isinstance(element, DType) or not element.is_signed:
        return None
    shape = left.shape
    if any(frame.analysis.step(right, axis) != 0 for axis in range(len(shape))):
        return None
    steps = [frame.analysis.step(left, axis) for axis in range(len(shape))]
    moving = [axis for axis, step in enumerate(steps) if step != 0]
    if len(moving) != 1 or steps[moving[0]] != 1:
        return None
    return Bound(comparison, moving[0])


def sides(comparison: Operation) -> tuple[Value, Value]:
    """Return the smaller and the greater side of an ordered comparison."""
    left, right = comparison.operands
    return (left, right) if comparison.code in _LESS else (right, left)


class TailAnalysis:
    """Analysis of what is the same in all lanes beyond a bound.

    Args:
        frame: The function.
        bound: The bound.
        own: Operations of the loop, which are computed in it.
    """

    def __init__(self, frame: Frame, bound: Bound, own: Collection[Operation]) -> None:
        self._frame = frame
        self._bound = bound
        self._own = own
        self._known: dict[tuple[Value, int], bool] = {}

    def is_uniform(self, value: Value, axis: int) -> bool:
        """Return whether a value is the same in all lanes beyond the bound, along an axis of its shape."""
        key = (value, axis)
        if key not in self._known:
            self._known[key] = self._is_uniform(value, axis)
        return self._known[key]

    def is_off(self, mask: Value, axis: int) -> bool:
        """Return whether a mask is false beyond the bound."""
        operation = mask.owner
        if operation is None:
            return False
        if operation is self._bound.comparison:
            return axis == self._bound.axis
        if is_view(operation):
            source = source_axis(operation, axis)
            return source is not None and self.is_off(operation.operands[0], source)
        if operation.code is Code.AND:
            return any(self.is_off(operand, axis) for operand in operation.operands)
        return False

    def _is_uniform(self, value: Value, axis: int) -> bool:
        operation = value.owner
        if self._frame.analysis.step(value, axis) == 0:
            return True
        if operation not in self._own and value in self._frame.memories:
            return self._bound in self._frame.beyond.get(value, ())
        if operation is None:
            return False
        if is_view(operation):
            source = source_axis(operation, axis)
            return source is None or self.is_uniform(operation.operands[0], source)
        return self.is_off(value, axis) or self._is_computed_alike(operation, axis)

    def _is_computed_alike(self, operation: Operation, axis: int) -> bool:
        """Return whether the lanes beyond the bound give one result, given what their operands are."""
        code = operation.code
        if code is Code.LOAD:
            _, *rest = operation.operands
            others = all(self.is_uniform(other, axis) for other in rest[1:])
            return bool(rest) and self.is_off(rest[0], axis) and others
        if code is Code.SELECT and self.is_off(operation.operands[0], axis):
            return self.is_uniform(operation.operands[2], axis)
        if code in ops.ELEMENTWISE:
            return all(self.is_uniform(operand, axis) for operand in operation.operands)
        return False


def emit_ends(frame: Frame, bound: Bound, extent: int) -> Ends:
    """Emit where the runs within a bound end."""
    builder = frame.builder
    reader = PointReader(frame, [builder])
    left, right = sides(bound.comparison)
    element = element_of(left.type)
    assert isinstance(element, DType)
    origin = (ZERO,) * len(left.shape)
    start = frame.convert(builder, element, _I64, reader.read_short(left, origin))
    most = frame.convert(builder, element, _I64, reader.read_short(right, origin))
    if bound.comparison.code in (Code.LE, Code.GE):
        most = builder.add(most, r.number(r.I64, 1))
    all_lanes = r.number(r.I64, extent)
    inside = builder.sub(most, start)
    end = builder.add(inside, r.number(r.I64, RUN - 1))
    end = builder.and_(end, r.number(r.I64, -RUN))
    least = r.number(r.I64, RUN)
    end = builder.select(builder.icmp_signed("<", end, least), least, end)
    end = builder.select(builder.icmp_signed(">", end, all_lanes), all_lanes, end)
    zero = r.number(r.I64, 0)
    whole = builder.and_(inside, r.number(r.I64, -RUN))
    whole = builder.select(builder.icmp_signed("<", whole, zero), zero, whole)
    whole = builder.select(builder.icmp_signed(">", whole, all_lanes), all_lanes, whole)
    # Where the range wraps its last lanes may be within the bound again.
    if element.bits == 64:
        near = builder.and_(is_within(builder, start, 1 << 61), is_within(builder, most, 1 << 61))
        parts = builder.select(near, whole, zero), builder.select(near, end, all_lanes)
        return Ends(*parts, bound)
    last = builder.add(start, r.number(r.I64, extent - 1))
    greatest = r.number(r.I64, (1 << (element.bits - 1)) - 1)
    wraps = builder.icmp_signed(">", last, greatest)
    parts = builder.select(wraps, zero, whole), builder.select(wraps, all_lanes, end)
    return Ends(*parts, bound)


def candidates(
    frame: Frame, comparisons: Iterable[Operation], read: Iterable[Value]
) -> list[Bound]:
    """Return the bounds that a loop may have: of its own masks, and of what it reads."""
    found: dict[Bound, None] = {}
    for comparison in comparisons:
        bound = _bound_of(frame, comparison)
        if bound is not None:
            found[bound] = None
    for value in read:
        for bound in frame.beyond.get(frame.analysis.root(value)[0], ()):
            found[bound] = None
    return list(found)
