"""Steps between the lanes of a run, for operations on values that have steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from emu.tile.cpu.emit.addressing import is_zero, plus, times
from emu.tile.cpu.emit.memory import Stride
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation
from emu.tile.llvm import Register
from emu.tile.ops import Code
from emu.tile.types import DTYPES, DType, Pointer, ScalarType, element_of

if TYPE_CHECKING:
    from emu.tile.cpu.emit.frame import Frame

_I64_DTYPE = DTYPES["i64"]


def combined(
    frame: Frame,
    builder: ir.IRBuilder,
    operation: Operation,
    parts: list[tuple[Register, Stride]],
) -> tuple[Register, Stride]:
    """Return the first lane and the step of an operation, given those of its operands.

    ``Analysis.step`` decides which operations have a step; the cases here are those of ``_step_of``.
    """
    starts, steps = [p[0] for p in parts], [p[1] for p in parts]
    start = frame.apply(builder, operation, starts)
    code = operation.code
    if code is Code.ADD:
        return start, plus(builder, steps[0], steps[1])
    if code is Code.SUB:
        return start, plus(builder, steps[0], times(builder, steps[1], -1))
    if code is Code.NEG:
        return start, times(builder, steps[0], -1)
    if code is Code.MUL:
        moving = 0 if not is_zero(steps[0]) else 1
        return start, times(builder, steps[moving], starts[1 - moving])
    if code is Code.SHL:
        bits = starts[1]
        if isinstance(steps[0], int):
            steps[0] = r.number(starts[0].type, steps[0])
        return start, builder.shl(steps[0], bits)
    if code is Code.PTR_ADD:
        element = element_of(operation.result.type)
        assert isinstance(element, Pointer)
        offset = element_of(operation.operands[1].type)
        moved = _widened(frame, builder, offset, steps[1])
        return start, plus(builder, steps[0], times(builder, moved, element.element.bytes))
    if code is Code.CAST:
        return start, _cast_step(frame, builder, operation, steps[0])
    return start, steps[0]


def _cast_step(frame: Frame, builder: ir.IRBuilder, operation: Operation, step: Stride) -> Stride:
    """Return the step of a CAST; steps are signed, whatever the values are."""
    source, target = (element_of(v.type) for v in (operation.operands[0], operation.result))
    if isinstance(step, int) or not isinstance(source, DType) or not isinstance(target, DType):
        return step
    return frame.convert(builder, source.as_signed(), target, step)


def _widened(frame: Frame, builder: ir.IRBuilder, element: ScalarType, step: Stride) -> Stride:
    """Return a step as i64; steps are signed, whatever the offsets are."""
    if isinstance(step, int):
        return step
    if isinstance(element, DType):
        return frame.convert(builder, element.as_signed(), _I64_DTYPE, step)
    return step
