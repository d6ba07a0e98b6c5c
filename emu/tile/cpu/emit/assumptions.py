"""What the lanes of a loop may assume: that bounds hold, and that divisions have one quotient in all lanes.

Then a quotient is a number, and a remainder steps as what is divided: ``(start + range) % n`` is contiguous.

A few scalar instructions test that at run time: of a regular tile the least and the greatest element tell it.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.point_reader import ORIGIN_RUN, ZERO, Point, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import is_view
from emu.tile.cpu.plan.schedule import Group
from emu.tile.ir import Operation, Value
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import DTYPES, DType, ScalarType, Tile, element_of

_I64 = DTYPES["i64"]


class Assumptions:
    """What a loop may assume of its masks and divisions.

    Args:
        frame: The function that the loop is part of.
        group: The operations of the loop.
        own: Those whose values the loop computes.

    Attributes:
        masks: The comparisons that may hold everywhere.
        divisions: The divisions and remainders that may have one quotient in all lanes.
    """

    def __init__(self, frame: Frame, group: Group, own: AbstractSet[Operation]) -> None:
        self._frame = frame
        self._own = own
        self.masks, self.divisions = self._find(group)

    def make_true(self, mask: Value) -> bool:
        """Return whether a mask is true in all lanes if the bounds hold."""
        operation = mask.owner
        if operation is None:
            return False
        if is_view(operation):
            return self.make_true(operation.operands[0])
        if operation.code is Code.AND:
            return all(self.make_true(operand) for operand in operation.operands)
        return operation in self.masks

    def emit_holds(self) -> Register | None:
        """Emit an i1 that says whether all assumptions hold; ``None`` if there are none."""
        if not self.masks and not self.divisions:
            return None
        builder = self._frame.builder
        reader = PointReader(self._frame, [builder], self._own)
        conditions = []
        for operation in self.masks:
            left, right = operation.operands
            if operation.code in (Code.GT, Code.GE):
                left, right = right, left
            (_, most, safe), (least, _, safe_too) = (
                self._range(reader, left),
                self._range(reader, right),
            )
            word = "<" if operation.code in (Code.LT, Code.GT) else "<="
            conditions += [builder.icmp_signed(word, most, least), *safe, *safe_too]
        for operation in self.divisions:
            left, right = operation.operands
            least, most, safe = self._range(reader, left)
            bound, _, safe_too = self._range(reader, right)
            zero = r.number(r.I64, 0)
            divides = builder.icmp_signed(">", bound, zero)
            rest = builder.srem(least, builder.select(divides, bound, r.number(r.I64, 1)))
            last = builder.add(rest, builder.sub(most, least))
            conditions += [
                builder.icmp_signed(">=", least, zero),
                divides,
                builder.icmp_signed("<", last, bound),
                *safe,
                *safe_too,
            ]
        holds = conditions[0]
        for condition in conditions[1:]:
            holds = builder.and_(holds, condition)
        return holds

    def _range(
        self, reader: PointReader, value: Value
    ) -> tuple[Register, Register, list[Register]]:
        """Return the least and the greatest element of a regular tile as i64.

        The last item lists conditions under which they are right: that no lane wraps.
        """
        builder, element = reader.builders[0], element_of(value.type)
        start = reader.read_short(value, (ZERO,) * len(value.shape))
        assert isinstance(element, DType)
        least = most = self._frame.convert(builder, element, _I64, start)
        steps = emit_steps(self._frame, reader, value, element)
        least, most = extended(builder, (least, most), steps)
        if not steps:
            return least, most, []
        if (
            element.bits == 64
        ):  # the sums themselves might wrap around; tiles have at most 2**20 elements
            moved = (is_within(builder, step, 1 << 40) for step, _ in steps)
            return least, most, [is_within(builder, start, 1 << 62), *moved]
        low, high = element.limits
        return (
            least,
            most,
            [
                builder.icmp_signed(">=", least, r.number(r.I64, low)),
                builder.icmp_signed("<=", most, r.number(r.I64, high)),
            ],
        )

    def _find(self, group: Group) -> tuple[list[Operation], list[Operation]]:
        """Return the comparisons that may hold everywhere, and the divisions that may have one quotient."""
        masks: dict[Operation, None] = {}
        divisions: dict[Operation, None] = {}
        if group.is_serial:
            return [], []
        for operation in group.operations:
            if operation.code is Code.LOAD:
                pointer, given = operation.operands[0], operation.operands[1:2]
            elif operation.code is Code.STORE or operation.code is Code.ATOMIC_RMW:
                pointer, given = operation.operands[0], operation.operands[2:3]
            else:
                continue
            self._search_divisions(pointer, divisions)
            for mask in given:
                self._search_bounds(mask, masks)
        if self._reads_tiles_of(group, frozenset(divisions)):
            divisions = {}
        return list(masks), list(divisions)

    def _reads_tiles_of(self, group: Group, assumed: frozenset[Operation]) -> bool:
        """Return whether a loop would read a tile in memory at one lane for all, as an assumption has it.

        Such a tile must be read lane by lane, each where it is needed: the loop may write others' lanes to its memory
        behind those that have been read. Quotients that are assumed are computed, not read, and so is what steps by
        them, with all that it is made from.
        """
        analysis, seen = self._frame.analysis, set[Value]()
        waiting = [operand for operation in group.operations for operand in operation.operands]
        while assumed and waiting:
            value = waiting.pop()
            operation = value.owner
            if operation is None or operation in assumed or value in seen:
                continue
            seen.add(value)
            is_here = operation in self._own or is_view(operation) or analysis.is_inline(value)
            if not is_here and isinstance(value.type, Tile):
                steps = [
                    analysis.step(value, axis, assumed)
                    for axis in range(len(value.shape))
                    if analysis.step(value, axis) is None
                ]
                if 0 in steps:
                    return True
                if all(step is None for step in steps):
                    continue
            waiting += operation.operands
        return False

    def _search_bounds(self, mask: Value, found: dict[Operation, None]) -> None:
        analysis, seen, waiting = self._frame.analysis, {mask}, [mask]
        while waiting:
            mask = waiting.pop()
            operation = mask.owner
            if operation is None:
                continue
            if is_view(operation) or operation.code is Code.AND:
                waiting += [v for v in reversed(operation.operands) if v not in seen]
                seen.update(operation.operands)
            elif (
                operation.code in ops.ORDERED_COMPARISONS
                and isinstance(mask.type, Tile)
                and self._is_bounded(operation)
                and all(map(analysis.is_regular, operation.operands))
            ):
                found[operation] = None

    @staticmethod
    def _is_bounded(operation: Operation) -> bool:
        element = element_of(operation.operands[0].type)
        return isinstance(element, DType) and (
            element.is_signed or (element.is_integer and element.bits <= 32)
        )

    def _search_divisions(self, pointer: Value, found: dict[Operation, None]) -> None:
        seen, waiting = {pointer}, [pointer]
        while waiting:
            value = waiting.pop()
            operation = value.owner
            if operation is None or not isinstance(value.type, Tile):
                continue
            if self._may_have_one_quotient(operation):
                found[operation] = None
            elif operation.code is not Code.LOAD:
                waiting += [v for v in reversed(operation.operands) if v not in seen]
                seen.update(operation.operands)

    def _may_have_one_quotient(self, operation: Operation) -> bool:
        """Return whether a division by one number has a dividend whose lanes may differ, but step evenly."""
        if operation.code not in (Code.DIV, Code.REM) or not self._is_bounded(operation):
            return False
        left, right = operation.operands
        element, step = element_of(left.type), self._frame.analysis.step
        axes = range(len(right.shape))
        return (
            isinstance(element, DType)
            and element.is_integer
            and all(step(right, axis) == 0 for axis in axes)
            and any(step(left, axis) != 0 for axis in axes)
            and self._frame.analysis.is_regular(left)
        )


def is_within(builder: ir.IRBuilder, number: Register, limit: int) -> Register:
    """Emit and return whether an i64 is at least ``-limit`` and less than ``limit`` (i1)."""
    moved = builder.add(number, r.number(r.I64, limit))
    return builder.icmp_unsigned("<", moved, r.number(r.I64, 2 * limit))


def emit_steps(
    frame: Frame, reader: PointReader, value: Value, element: ScalarType
) -> list[tuple[Register, int]]:
    """Emit the steps of a regular tile as i64 and the extents, of the axes along which it moves."""
    builder, found = reader.builders[0], []
    for axis, extent in enumerate(value.shape):
        if frame.analysis.step(value, axis) == 0:
            continue
        point: Point = tuple(
            ORIGIN_RUN if other == axis else ZERO for other in range(len(value.shape))
        )
        _, step = reader.linear(value, point, axis)
        if isinstance(step, int):
            step = r.number(r.I64, step)
        elif isinstance(element, DType):
            step = frame.convert(builder, element.as_signed(), _I64, step)
        found.append((step, extent))
    return found


def extended(
    builder: ir.IRBuilder, span: tuple[Register, Register], steps: Sequence[tuple[Register, int]]
) -> tuple[Register, Register]:
    """Return a span of i64, extended by steps (i64) that are repeated over extents."""
    low, high = span
    for step, extent in steps:
        zero, last = r.number(r.I64, 0), builder.mul(step, r.number(r.I64, extent - 1))
        falls = builder.icmp_signed("<", step, zero)
        low = builder.add(low, builder.select(falls, last, zero))
        high = builder.add(high, builder.select(falls, zero, last))
    return low, high
