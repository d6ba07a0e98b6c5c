"""``nvshmem.core.rma``: data and signals to other PEs."""

from __future__ import annotations

from typing import Any

from emu.accelerator.nvshmem import streams, transfers
from emu.accelerator.nvshmem.context import active
from emu.accelerator.nvshmem.enums import ComparisonType, SignalOp
from emu.accelerator.nvshmem.operands import check_pe, operand
from emu.accelerator.nvshmem.transfers import Signal

__all__ = ["fence", "get", "put", "put_signal", "quiet", "signal_op", "signal_wait"]


def put(dst: Any, src: Any, remote_pe: int = -1, stream: Any = None) -> None:
    """Store memory of this PE into that of another.

    Args:
        dst: Where it goes, named by this PE's own memory there: a tensor, buffer or array in symmetric memory.
        src: What is stored: memory of the device, as many bytes.
        remote_pe: The other PE.
        stream: Stream of the operation. Default: the current one.

    Raises:
        NvshmemInvalid: An argument breaks a rule; nothing was stored.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.put"
    here = active(op)
    target, source = operand(here, op, "dst", dst), operand(here, op, "src", src)
    pe = check_pe(op, "remote_pe", remote_pe, here.world)
    transfers.put(here, op, target, source, pe, stream)


def get(dst: Any, src: Any, remote_pe: int = -1, stream: Any = None) -> None:
    """Fetch memory of another PE.

    Args:
        dst: Where it goes: memory of the device, as many bytes.
        src: What is fetched, named by this PE's own memory there: a tensor, buffer or array in symmetric memory.
        remote_pe: The other PE.
        stream: As of :func:`put`.

    Raises:
        NvshmemInvalid: An argument breaks a rule; nothing was fetched.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.get"
    here = active(op)
    target, source = operand(here, op, "dst", dst), operand(here, op, "src", src)
    pe = check_pe(op, "remote_pe", remote_pe, here.world)
    transfers.get(here, op, target, source, pe, stream)


def put_signal(
    dst: Any,
    src: Any,
    signal_var: Any,
    signal_val: int,
    signal_op: SignalOp | int,
    remote_pe: int = -1,
    stream: Any = None,
) -> None:
    """Store as :func:`put` does, then signal on the same PE: who sees the signal sees what was stored.

    Args:
        dst: As of :func:`put`.
        src: As of :func:`put`.
        signal_var: The word, named by this PE's own: 8 bytes of symmetric memory.
        signal_val: Value to set or to add, a 64-bit number without a sign.
        signal_op: Which of both.
        remote_pe: As of :func:`put`.
        stream: As of :func:`put`.

    Raises:
        NvshmemInvalid: An argument breaks a rule; nothing was stored.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.put_signal"
    here = active(op)
    target, source = operand(here, op, "dst", dst), operand(here, op, "src", src)
    word = operand(here, op, "signal_var", signal_var)
    pe = check_pe(op, "remote_pe", remote_pe, here.world)
    signal = Signal(word, signal_val, signal_op)
    transfers.put_signal(here, op, target, source, signal, pe, stream)


def signal_op(
    signal_var: Any,
    signal_val: int,
    signal_op: SignalOp | int,
    remote_pe: int = -1,
    stream: Any = None,
) -> None:
    """Signal on another PE; the arguments are those of :func:`put_signal`.

    Raises:
        NvshmemInvalid: An argument breaks a rule; nothing was signalled.
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.signal_op"
    here = active(op)
    word = operand(here, op, "signal_var", signal_var)
    pe = check_pe(op, "remote_pe", remote_pe, here.world)
    transfers.signal_op(here, op, Signal(word, signal_val, signal_op), pe, stream)


def signal_wait(
    signal_var: Any,
    signal_val: int,
    signal_operation: ComparisonType | int = ComparisonType.CMP_EQ,
    stream: Any = None,
) -> None:
    """Wait until this PE's word of a signal compares with a value as asked.

    Args:
        signal_var: The word: 8 bytes of this PE's symmetric memory.
        signal_val: The value.
        signal_operation: The comparison.
        stream: As of :func:`put`; the call itself waits, too.

    Raises:
        NvshmemInvalid: An argument breaks a rule.
        NvshmemError: NVSHMEM is not initialised.
        DeadlockError: Nobody can end the wait.
    """
    op = "nvshmem.core.signal_wait"
    here = active(op)
    word = operand(here, op, "signal_var", signal_var)
    transfers.signal_wait(here, op, word, signal_val, signal_operation, stream)


def quiet(stream: Any = None) -> None:
    """Return when all that this PE has stored is complete.

    Raises:
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.quiet"
    here = active(op)
    streams.run(op, here.device, stream, here.world.quiet)


def fence(stream: Any = None) -> None:
    """Order what this PE stores to each PE: what was stored before is seen before what is stored from now on.

    Raises:
        NvshmemError: NVSHMEM is not initialised.
    """
    op = "nvshmem.core.fence"
    here = active(op)
    streams.run(op, here.device, stream, here.world.fence)
