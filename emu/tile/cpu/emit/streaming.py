"""Stores past the caches, where a launch writes more than they hold.

A plain store first reads the line that it writes. A launch that writes more than the last cache therefore moves a third more memory than an
addition of two vectors needs. Whether it does is known at run time: the programs of the grid, each of which writes what the
loop writes, and the alignment of the addresses. So there are two versions of such a loop.

Only kernels whose stores nothing in the same kernel waits for or reads again have them, and a launch ends with a fence: stores
past the caches are ordered with others by nothing else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from llvmlite import ir

from emu.tile import ops
from emu.tile.cpu import native
from emu.tile.cpu.emit.assumptions import Assumptions
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.loop_nest import RUN
from emu.tile.cpu.emit.memory import LINE
from emu.tile.cpu.emit.point_reader import ORIGIN_RUN, ZERO, PointReader, moved_to
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import constant_of, is_view, vector_axis
from emu.tile.cpu.plan.schedule import Group
from emu.tile.cpu.tuning import choices
from emu.tile.ir import Operation, Region, Value
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import DType, element_of

_LEAST_BYTES = 1024
"""What a store of a program writes at least: of less, the test would cost what is gained."""

_ORDERED = frozenset(
    {*ops.ATOMIC, Code.WHILE, Code.BARRIER, Code.CALL, Code.PRINT, Code.OBSERVE, Code.ASSERT}
    | {Code.MACHINE_CALL}
)


def find(frame: Frame, group: Group, assumed: Assumptions) -> list[Operation]:
    """Return the stores of a group that may go past the caches, if the assumptions hold."""
    if choices().stream_bytes is None or not native.host_is_x86() or not frame.grid:
        return []
    stores = [operation for operation in group.operations if operation.code is Code.STORE]
    axis = vector_axis(group.shape)
    if not stores or group.is_serial or group.materialized or group.shape[axis] % RUN:
        return []
    for store in stores:
        pointer, value, *mask = store.operands
        element = element_of(value.type)
        whole = math.prod(group.shape) * element.bytes
        if (
            not isinstance(element, DType)
            or whole < _LEAST_BYTES
            or frame.analysis.step(pointer, axis) != element.bytes
            or not frame.analysis.is_regular(pointer)
            or not all(map(assumed.make_true, mask))
        ):
            return []
    return stores if _is_last(frame, stores) else []


def _is_last(frame: Frame, stores: Sequence[Operation]) -> bool:
    """Return whether a kernel orders no stores, and does not read again what these write, each place once.

    They stand in the kernel's body, and no load after them; or in a loop in it, no load after that, and the loop itself
    goes on from place to place and loads from other memory.
    """
    body, analysis = frame.analysis.region_of[stores[0]], frame.analysis
    if any(op.code in _ORDERED for op in analysis.region_of):
        return False
    if body is frame.body:
        return not _loads(body.operations[body.operations.index(stores[0]) :])
    loop = _loop_of(frame, body)
    if loop is None or _loads(frame.body.operations[frame.body.operations.index(loop) + 1 :]):
        return False
    written = {_origin(store.operands[0]) for store in stores}
    read = {_origin(load.operands[0]) for load in _loads(body.operations)}
    return written.isdisjoint(read) and all(_moves(store.operands[0], body) for store in stores)


def _loop_of(frame: Frame, body: Region) -> Operation | None:
    """Return the loop of the kernel's body whose rounds can be counted; ``None``: a region is not that of one."""
    loop = frame.analysis.owner_of.get(id(body))
    if (
        loop is None
        or loop.code is not Code.FOR
        or frame.analysis.region_of[loop] is not frame.body
    ):
        return None
    step = constant_of(loop.operands[2])
    return loop if step is not None and step > 0 else None


def _loads(operations: Sequence[Operation]) -> list[Operation]:
    inside = [nested for op in operations for region in op.regions for nested in region.walk()]
    return [operation for operation in [*operations, *inside] if operation.code is Code.LOAD]


def _origin(pointer: Value) -> Value:
    """Return the pointer that a tile of addresses was made from."""
    while pointer.owner is not None and (
        is_view(pointer.owner) or pointer.owner.code in (Code.PTR_ADD, Code.SPLAT)
    ):
        pointer = pointer.owner.operands[0]
    return pointer


def _moves(pointer: Value, body: Region) -> bool:
    """Return whether an address depends on the round of a loop."""
    seen: set[Value] = set()
    waiting = [pointer]
    while waiting:
        value = waiting.pop()
        if value in body.arguments:
            return True
        if value not in seen and value.owner is not None:
            waiting += value.owner.operands
        seen.add(value)
    return False


def emit_worth(
    frame: Frame, group: Group, stores: Sequence[Operation], reader: PointReader
) -> Register:
    """Emit an i1: whether the launch writes enough, and all rows of the stores begin at cache lines."""
    builder, least = frame.builder, choices().stream_bytes
    assert least is not None
    width = sum(element_of(store.operands[1].type).bytes for store in stores)
    programs = functools.reduce(builder.mul, [builder.zext(n, r.I64) for n in frame.grid])
    written = builder.mul(programs, r.number(r.I64, math.prod(group.shape) * width))
    loop = _loop_of(frame, frame.analysis.region_of[stores[0]])
    if loop is not None:
        start, end, step = (builder.sext(frame.scalar(v), r.I64) for v in loop.operands[:3])
        rounds = builder.udiv(
            builder.sub(end, start), step
        )  # there is one now, so it is not negative
        written = builder.mul(written, builder.add(rounds, r.number(r.I64, 1)))
    bits: list[Register] = []
    axis = vector_axis(group.shape)
    for store in stores:
        pointer = store.operands[0]
        origin = (ZERO,) * len(pointer.shape)
        bits.append(reader.read_short(pointer, origin))
        for other, extent in enumerate(group.shape):
            if other != axis and extent != 1:
                _, step = reader.linear(pointer, moved_to(origin, other, ORIGIN_RUN), other)
                bits.append(r.number(r.I64, step) if isinstance(step, int) else step)
    together = functools.reduce(builder.or_, bits)
    rest = builder.and_(together, r.number(r.I64, LINE - 1))
    enough = builder.icmp_unsigned(">=", written, r.number(r.I64, least))
    return builder.and_(enough, builder.icmp_unsigned("==", rest, r.number(r.I64, 0)))


def emit_fence(builder: ir.IRBuilder) -> None:
    """Emit what orders all streamed stores before what follows."""
    builder.call(r.declare(builder, "llvm.x86.sse.sfence", ir.VoidType(), ()), ())
