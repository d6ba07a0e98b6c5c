"""Atomic updates of a tile straight from where its places and values lie.

An update reads its operands before the first element is changed, so they are mostly copied to scratch first. Where no update can
reach what they are loaded from, each may be loaded when its element is updated. That is known if all addresses lie in
the gap between the loaded ranges in which the pointer of the updates lies: one look at them tells it, together with what
``lone_updates`` asks anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from emu.tile import ops
from emu.tile.cpu.emit.assumptions import Assumptions
from emu.tile.cpu.emit.frame import Frame, is_tile
from emu.tile.cpu.emit.groups import GroupEmitter
from emu.tile.cpu.emit.lone_updates import LoneUpdates, can_be_alone
from emu.tile.cpu.emit.loop_nest import BLOCK
from emu.tile.cpu.emit.point_reader import ZERO, PointReader
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import is_view
from emu.tile.cpu.plan.schedule import Group
from emu.tile.ir import Operation, Value
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import element_of

_INLINE = ops.ELEMENTWISE | {Code.ARANGE, Code.SPLAT, Code.CONSTANT}
_SCALAR = ops.ELEMENTWISE | ops.LAUNCH | {Code.CONSTANT}


def find(frame: Frame, operations: Sequence[Operation]) -> Group | None:
    """Return the loop of a stretch of code that does nothing but load operands and update with them; ``None``: it does more."""
    updates = [operation for operation in operations if operation.code in ops.ATOMIC]
    if len(updates) != 1 or not can_be_alone(updates[0]):
        return None
    (update,) = updates
    analysis, shape = frame.analysis, update.operands[0].shape
    waits = any(operation.code is Code.WHILE for operation in analysis.region_of)
    if waits or len(shape) != 1 or shape[0] % BLOCK or analysis.users[update.result]:
        return None
    inside = set(operations)
    for operation in operations:
        if operation is update:
            continue
        if len(operation.results) != 1 or operation.regions:
            return None
        if not is_tile(operation.result):
            if operation.code not in _SCALAR:
                return None
        elif not _is_operand(frame, operation, inside) or not (
            operation.code is not Code.LOAD or _lies_side_by_side(frame, operation, shape)
        ):
            return None
    if any(is_tile(v) and v.owner not in inside for op in inside for v in op.operands):
        return None
    own = [o for o in operations if is_tile(o.result) and not analysis.is_inline(o.result)]
    if own[-1] is not update:
        return None
    group = Group(shape, True, own)
    assumed = _assumptions(frame, group)
    masks = [
        o.operands[2 if o is update else 1 :][:1] for o in own if o is update or o.code is Code.LOAD
    ]
    return group if all(assumed.make_true(mask) for given in masks for mask in given) else None


def _assumptions(frame: Frame, group: Group) -> Assumptions:
    """Return what the loop may assume: of a serial group nothing is found, so it is asked as one that is not."""
    return Assumptions(frame, Group(group.shape, False, group.operations), set(group.operations))


def _is_operand(frame: Frame, operation: Operation, inside: set[Operation]) -> bool:
    """Return whether nothing but the stretch itself reads a tile, which is simple to compute at any point."""
    simple = operation.code in _INLINE or operation.code is Code.LOAD or is_view(operation)
    return simple and all(user in inside for user in frame.analysis.users[operation.result])


def _lies_side_by_side(frame: Frame, load: Operation, shape: tuple[int, ...]) -> bool:
    pointer, analysis = load.operands[0], frame.analysis
    return (
        load.result.shape == shape
        and analysis.is_inline(pointer)
        and analysis.is_regular(pointer)
        and analysis.step(pointer, 0) == element_of(load.result.type).bytes
    )


def emit(frame: Frame, group: Group, otherwise: Callable[[], None]) -> None:
    """Emit the updates from where their operands lie, if that can be, and what is done if not.

    Args:
        frame: The function; the scalars of the stretch are computed.
        group: The loop.
        otherwise: Emits the stretch as any other.
    """
    updates = _DirectUpdates(frame, group)
    updates.emit(lambda masked: updates.nest(), otherwise)


class _DirectUpdates(LoneUpdates):
    """Emitter of the loop and of what decides about it.

    Args:
        frame: The function.
        group: The loop.
    """

    def __init__(self, frame: Frame, group: Group) -> None:
        super().__init__(frame, group.operations[-1])
        self._group = group
        self._assumed = _assumptions(frame, group)

    def nest(self) -> None:
        """Emit the loop."""
        GroupEmitter(self._frame, self._group).update_alone(self._assumed)

    def _reader(self) -> PointReader:
        assumed = self._assumed
        own = self._group.operations[:-1]
        return PointReader(self._frame, [], own, assumed.masks, assumed.divisions)

    def _look(self) -> tuple[Register, Register | None]:
        frame = self._frame
        holds = self._assumed.emit_holds()
        inside = self._emit_gap()
        may = inside if holds is None else frame.builder.and_(holds, inside)
        before = frame.builder.block
        look, after = frame.block("look"), frame.block("looked")
        frame.builder.cbranch(may, look, after)
        frame.start_block(look)
        private, _ = self._look_at([])
        end = frame.builder.block
        frame.builder.branch(after)
        frame.start_block(after)
        found = frame.builder.phi(r.BIT)
        found.add_incoming(r.number(r.BIT, 0), before)
        found.add_incoming(private, end)
        return found, None

    def _emit_gap(self) -> Register:
        """Narrow the range that updates may lie in to the gap between the loaded ranges; return whether there is one."""
        frame, builder = self._frame, self._frame.builder
        reader = PointReader(frame, [builder])
        base = _base(frame, self._operation.operands[0])
        low, high = self._low, builder.add(self._low, self._width)
        apart = r.number(r.BIT, 1)
        for load in self._group.operations[:-1]:
            if load.code is not Code.LOAD:
                continue
            (extent,), size = load.result.shape, element_of(load.result.type).bytes
            start = reader.read_short(load.operands[0], (ZERO,))
            end = builder.add(start, r.number(r.I64, extent * size))
            below = builder.icmp_unsigned("<=", end, base)
            above = builder.icmp_unsigned("<", base, start)
            apart = builder.and_(apart, builder.or_(below, above))
            low = builder.select(below, r.intrinsic(builder, "umax", (low, end)), low)
            high = builder.select(above, r.intrinsic(builder, "umin", (high, start)), high)
        self._low, self._width = low, builder.sub(high, low)
        return builder.and_(apart, builder.icmp_unsigned("<", low, high))


def _base(frame: Frame, pointer: Value) -> Register:
    """Return the address that a tile of pointers was made from; any other tells nothing, and is refused by the look."""
    while is_tile(pointer) and pointer.owner is not None and pointer.owner.operands:
        pointer = pointer.owner.operands[0]
    return r.number(r.I64, 0) if is_tile(pointer) else frame.scalar(pointer)
