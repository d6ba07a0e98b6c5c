"""Transfers between a program and its host, and between processes over channels."""

from __future__ import annotations

import queue
from collections.abc import Sequence

import numpy as np

from emu.mlir.attributes import BoolAttr
from emu.mlir.ir import Operation
from emu.mlir.types import TensorType
from emu.stablehlo.attributes import ChannelHandle
from emu.stablehlo.reference.devices import SingleDevice
from emu.stablehlo.reference.dtypes import constant_array
from emu.stablehlo.reference.errors import EvaluationError
from emu.stablehlo.reference.quantization import stored_dtype
from emu.stablehlo.reference.scope import Scope, handles
from emu.stablehlo.reference.values import TOKEN, Array

_PATIENCE = 60.0
"""Seconds that a process waits for what another has not sent yet."""


def _checked(op: Operation, values: Sequence[Array], what: str) -> list[Array]:
    """Return values that must be of the types of an operation's results, but for its token."""
    types = [r.type for r in op.results if isinstance(r.type, TensorType)]
    if len(values) != len(types):
        raise EvaluationError(f"{what} has {len(values)} values, but {len(types)} are taken")
    for index, (value, type_) in enumerate(zip(values, types, strict=True)):
        if value.shape != type_.shape or value.dtype != stored_dtype(type_.element):
            raise EvaluationError(
                f"value {index} of {what} is {value.dtype}{list(value.shape)}, but {type_} is taken"
            )
    return [*values, *[TOKEN] * (len(op.results) - len(types))]


@handles("stablehlo.infeed")
def _infeed(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    try:
        values = scope.program.streams.infeed.popleft()
    except IndexError:
        raise EvaluationError("the infeed is empty") from None
    return _checked(op, [np.asarray(each) for each in values], "the infeed's entry")


@handles("stablehlo.outfeed")
def _outfeed(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    scope.program.streams.outfeed.append([np.array(each) for each in args[:-1]])
    return (TOKEN,)


# Channels


def _channel(op: Operation) -> int:
    handle = op.properties.get("channel_handle")
    return handle.handle if isinstance(handle, ChannelHandle) else 0


def _pairs(op: Operation) -> list[tuple[int, int]] | None:
    """Return the pairs of processes of a transfer between devices; None for one with the host."""
    table = op.properties.get("source_target_pairs")
    if table is None or op.properties.get("is_host_transfer") == BoolAttr(True):
        return None
    return [(int(a), int(b)) for a, b in constant_array(table)]


@handles("stablehlo.send")
def _send(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    owner = None if _pairs(op) is None else scope.program.device.process
    scope.program.streams.channel(owner, _channel(op)).put(list(args[:-1]))
    return (TOKEN,)


@handles("stablehlo.recv")
def _recv(op: Operation, args: Sequence[Array], scope: Scope) -> Sequence[Array]:
    number, pairs, device = _channel(op), _pairs(op), scope.program.device
    sent = scope.program.streams.channel(None if pairs is None else device.process, number)
    if pairs is not None:
        types = [r.type for r in op.results if isinstance(r.type, TensorType)]
        empty = [np.zeros(t.static_shape, stored_dtype(t.element)) for t in types]
        mine = empty if sent.empty() else sent.get()
        moved = [device.permute(value, pairs) for value in mine]
        found = [e if m is None else m for e, m in zip(empty, moved, strict=True)]
        return _checked(op, found, f"channel {number}")
    try:
        # A process that is alone would wait for itself.
        patience = 0 if isinstance(device, SingleDevice) else _PATIENCE
        values = sent.get(timeout=patience) if patience else sent.get_nowait()
    except queue.Empty:
        raise EvaluationError(f"nothing was sent over channel {number}") from None
    return _checked(op, values, f"channel {number}")
