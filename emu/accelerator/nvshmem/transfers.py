"""Puts, gets, signals and waits on operands: what ``core`` and ``bindings`` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from emu.accelerator.nvshmem import streams
from emu.accelerator.nvshmem.context import Context
from emu.accelerator.nvshmem.enums import ComparisonType, SignalOp
from emu.accelerator.nvshmem.errors import NvshmemInvalid, check
from emu.accelerator.nvshmem.operands import Operand, check_same, own
from emu.comm.ops import AtomicOp, Cmp
from emu.kernels.core.messages import shown

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.array import SymmetricArray

_WORD = np.dtype(np.uint64)
_OPS = {SignalOp.SIGNAL_SET: AtomicOp.SET, SignalOp.SIGNAL_ADD: AtomicOp.ADD}
_COMPARISONS = {
    ComparisonType.CMP_EQ: Cmp.EQ,
    ComparisonType.CMP_NE: Cmp.NE,
    ComparisonType.CMP_GT: Cmp.GT,
    ComparisonType.CMP_LE: Cmp.LE,
    ComparisonType.CMP_LT: Cmp.LT,
    ComparisonType.CMP_GE: Cmp.GE,
}


class Signal(NamedTuple):
    """A word of this PE's memory, and what is done with the same word of another.

    Attributes:
        word: The word.
        value: Value to set or to add.
        operation: A :class:`SignalOp`, or its number.
    """

    word: Operand
    value: Any
    operation: Any


def put(
    context: Context,
    op: str,
    dst: Operand,
    src: Operand,
    pe: int,
    stream: Any,
    *,
    is_blocking: bool = True,
) -> None:
    """Store ``src`` where ``dst`` lies, on a PE whose number was checked.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    world = context.world
    dtype = check_same(own(context, dst), src)
    store = world.put if is_blocking else world.put_nbi

    def act() -> None:
        store(dst.symmetric(world, dtype), src.local(world, dtype), pe)

    writes = [dst.tensor] if pe == world.my_pe else []
    streams.run(op, context.device, stream, act, reads=[src.tensor], writes=writes)


def get(
    context: Context,
    op: str,
    dst: Operand,
    src: Operand,
    pe: int,
    stream: Any,
    *,
    is_blocking: bool = True,
) -> None:
    """Fetch what lies on a PE where ``src`` lies here.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    world = context.world
    dtype = check_same(dst, own(context, src))

    def act() -> None:
        there, out = src.symmetric(world, dtype), dst.local(world, dtype)
        if is_blocking:
            world.get(there, pe, out=out)
        else:
            world.get_nbi(there, pe, out)

    streams.run(op, context.device, stream, act, writes=[dst.tensor])


def put_signal(
    context: Context,
    op: str,
    dst: Operand,
    src: Operand,
    signal: Signal,
    pe: int,
    stream: Any,
) -> None:
    """Store as :func:`put` does, then signal on the same PE: who sees the signal sees the bytes.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    world = context.world
    dtype = check_same(own(context, dst), src)
    word, number, operation = _signal(context, op, signal)

    def act() -> None:
        there, source = dst.symmetric(world, dtype), src.local(world, dtype)
        world.put_signal(there, source, pe, word, number, sig_op=operation)

    writes = [dst.tensor] if pe == world.my_pe else []
    streams.run(op, context.device, stream, act, reads=[src.tensor], writes=writes)


def signal_op(context: Context, op: str, signal: Signal, pe: int, stream: Any) -> None:
    """Set, or add to, the word of a signal on a PE.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    word, number, operation = _signal(context, op, signal)
    streams.run(
        op,
        context.device,
        stream,
        lambda: context.world.signal_op(word, number, pe, op=operation),
    )


def signal_wait(
    context: Context, op: str, signal: Operand, value: Any, comparison: Any, stream: Any
) -> None:
    """Wait until this PE's word compares with a value as asked.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
    """
    word, number = _word(context, signal), _value(op, value)
    compare = _COMPARISONS[_choice(op, "signal_operation", comparison, ComparisonType)]
    streams.run(
        op,
        context.device,
        stream,
        lambda: context.world.wait_until(word, compare, number),
        waits=True,
    )


def _word(context: Context, signal: Operand) -> SymmetricArray:
    """Return a signal's word.

    Raises:
        NvshmemInvalid: It is no 64-bit word of symmetric memory.
    """
    own(context, signal)
    kind = signal.dtype
    if kind is not None and kind not in (np.dtype(np.int64), _WORD, np.dtype(np.uint8)):
        raise NvshmemInvalid(
            f"{signal.what} must be of int64 or uint64, or 8 bytes of uint8, but got {kind}"
        )
    if signal.nbytes < _WORD.itemsize or signal.offset % _WORD.itemsize:
        raise NvshmemInvalid(
            f"{signal.what} must have a word of 8 bytes, at a multiple of 8, but got {signal.nbytes} bytes at "
            f"{signal.address:#x}"
        )
    from emu.comm.world.allocation import array_at

    return array_at(context.world, signal.offset, (1,), _WORD, signal.label)


def _value(op: str, value: Any) -> int:
    return check.integer(f"{op}: signal_val", value, 0, (1 << 64) - 1)


def _signal(context: Context, op: str, signal: Signal) -> tuple[SymmetricArray, int, AtomicOp]:
    """Return a signal's word, the value and what is done with it, checked."""
    word, value = _word(context, signal.word), _value(op, signal.value)
    return word, value, _OPS[_choice(op, "signal_op", signal.operation, SignalOp)]


def _choice(op: str, name: str, value: Any, kind: Any) -> Any:
    """Return the member of an enumeration that a value is, or is the number of."""
    try:
        return kind(check.integer(f"{op}: {name}", value))
    except ValueError as error:
        if isinstance(error, NvshmemInvalid):
            raise
        known = ", ".join(f"{each.name} ({each.value})" for each in kind)
        raise NvshmemInvalid(
            f"{op}: {name} must be one of {known}, but got {shown(value)}"
        ) from None
