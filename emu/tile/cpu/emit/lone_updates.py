"""Atomic updates without locks, where no one else can see the memory between the two steps of an update.

A locked update costs five to ten times what a load and a store do. A thread does without the lock while it is the only
one of its process that runs a kernel, for addresses that no other process sees; ``run.private_memory`` says how
both are known. Kernels that wait for something keep their locks: what they wait for may come from Python, from a thread that
runs no kernel. The order of the updates, and with it every bit, is the same either way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from llvmlite import ir

from emu.tile.cpu import call
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.table import read, word
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.cpu.plan.analysis import is_view
from emu.tile.ir import Function, Operation, Value
from emu.tile.llvm import IrPointer, Register
from emu.tile.ops import Code
from emu.tile.types import Tile

_FEWEST = 64
"""Elements of a tile for which it pays to find out whether the thread is alone: two locked instructions."""

_ORDER = "seq_cst"


def can_be_alone(operation: Operation) -> bool:
    """Return whether an operation updates a tile that is large enough."""
    return (
        operation.code is Code.ATOMIC_RMW
        and isinstance(operation.operands[0].type, Tile)
        and math.prod(operation.operands[0].shape) >= _FEWEST
    )


def updated_argument(kernel: Function, operation: Operation) -> int | None:
    """Return the number of the argument that points to what an operation updates, if it can do without locks."""
    if not can_be_alone(operation):
        return None
    value: Value = operation.operands[0]
    while value.owner is not None:
        owner = value.owner
        if not is_view(owner) and owner.code not in (Code.PTR_ADD, Code.SPLAT):
            return None
        value = owner.operands[0]
    arguments = kernel.body.arguments
    return arguments.index(value) if value in arguments else None


def enter(builder: ir.IRBuilder, table: IrPointer) -> ir.IRBuilder:
    """Count this thread among those that run a kernel; wait until no other updates without locks."""
    shared = _shared(builder, table)
    builder.atomic_rmw("add", word(builder, shared, call.RUNNING), r.number(r.I64, 1), _ORDER)
    function = builder.function
    wait, go = function.append_basic_block("wait"), function.append_basic_block("go")
    builder.branch(wait)
    builder.position_at_end(wait)
    holder = builder.load_atomic(word(builder, shared, call.ALONE), _ORDER, 8, typ=r.I64)
    # This thread's own mark is left from a launch that was ended by force.
    own = builder.icmp_unsigned("==", holder, builder.ptrtoint(table, r.I64))
    nobody = builder.icmp_unsigned("==", holder, r.number(r.I64, 0))
    builder.cbranch(builder.or_(own, nobody), go, wait)
    builder.position_at_end(go)
    return builder


def leave(builder: ir.IRBuilder, table: IrPointer) -> None:
    """Count this thread no more."""
    place = word(builder, _shared(builder, table), call.RUNNING)
    builder.atomic_rmw("sub", place, r.number(r.I64, 1), _ORDER)


def _shared(builder: ir.IRBuilder, table: IrPointer) -> IrPointer:
    facts = read(builder, table, call.FACTS, ir.PointerType())
    return read(builder, facts, call.LAUNCHES, ir.PointerType())


class LoneUpdates:
    """Emitter of the two versions of a loop of updates.

    Args:
        frame: The function.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._table = frame.function.args[8]
        self._low = read(frame.builder, self._table, call.LOW)
        self._width = frame.builder.sub(read(frame.builder, self._table, call.HIGH), self._low)

    def emit(self, alone: Callable[[], None], locked: Callable[[], None]) -> None:
        """Emit the version of a thread that is alone, and the one with locks."""
        frame = self._frame
        asked, taken, lone = frame.block("asked"), frame.block("taken"), frame.block("alone")
        release, other, after = frame.block("release"), frame.block("locked"), frame.block("after")
        known = frame.builder.icmp_unsigned("!=", self._width, r.number(r.I64, 0))
        frame.builder.cbranch(known, asked, other)
        frame.start_block(asked)
        shared = _shared(frame.builder, self._table)
        mark, zero = frame.builder.ptrtoint(self._table, r.I64), r.number(r.I64, 0)
        place = word(frame.builder, shared, call.ALONE)
        pair = frame.builder.cmpxchg(place, zero, mark, _ORDER, _ORDER)
        frame.builder.cbranch(frame.builder.extract_value(pair, 1), taken, other)
        frame.start_block(taken)
        # Only now: who comes later is counted, and waits.
        running = frame.builder.load_atomic(
            word(frame.builder, shared, call.RUNNING), _ORDER, 8, typ=r.I64
        )
        one = frame.builder.icmp_unsigned("==", running, r.number(r.I64, 1))
        frame.builder.cbranch(one, lone, release)
        frame.start_block(release)
        frame.builder.atomic_rmw("xchg", place, zero, _ORDER)
        frame.builder.branch(other)
        frame.start_block(lone)
        alone()
        frame.builder.atomic_rmw("xchg", place, zero, _ORDER)
        frame.builder.branch(after)
        frame.start_block(other)
        locked()
        frame.builder.branch(after)
        frame.start_block(after)

    def is_private(self, builder: ir.IRBuilder, address: Register, size: int) -> Register:
        """Return whether no other process sees an element (i1)."""
        # Wraps below the range; the range is whole pages.
        most = builder.sub(self._width, r.number(r.I64, size))
        return builder.icmp_unsigned("<=", builder.sub(address, self._low), most)
