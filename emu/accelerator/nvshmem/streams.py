"""Streams of operations: they are checked, and what is done on them is noted where streams are checked.

A stream of an emulated device does its work when it is submitted, so an operation runs at once. While a CUDA graph is
captured it is recorded, and runs with each replay.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.arrays import bump_version
from emu.accelerator.distributed import works
from emu.accelerator.nvshmem.errors import NvshmemInvalid
from emu.accelerator.state import state
from emu.accelerator.stream_errors import Line
from emu.accelerator.stream_tracker import current_line, storage_of
from emu.kernels.core.messages import shown


def number_of(op: str, stream: Any) -> int | None:
    """Return a stream's number; None stands for the current stream.

    Args:
        op: The call, for errors.
        stream: A torch stream, an object with ``__cuda_stream__`` or ``cuda_stream``, a number, or None.

    Raises:
        NvshmemInvalid: It is something else.
    """
    if stream is None or (isinstance(stream, int) and not isinstance(stream, bool)):
        return stream
    handle = getattr(stream, "cuda_stream", None)
    protocol = getattr(stream, "__cuda_stream__", None)
    if handle is None and callable(protocol):
        given = protocol()
        handle = given[1] if isinstance(given, tuple) and len(given) == 2 else None
    try:
        return int(handle)  # type: ignore[arg-type] # what cannot be converted is refused
    except (TypeError, ValueError):
        raise NvshmemInvalid(
            f"{op}: stream must be a stream with __cuda_stream__ or cuda_stream, or None, but got {shown(stream)}"
        ) from None


def run(
    op: str,
    device: torch.device,
    stream: Any,
    action: Callable[[], object],
    *,
    reads: Sequence[Tensor | None] = (),
    writes: Sequence[Tensor | None] = (),
    waits: bool = False,
) -> None:
    """Do an operation on a stream.

    Args:
        op: The call.
        device: Device of the stream.
        stream: The stream, as :func:`number_of` takes it.
        action: What to do.
        reads: Tensors of this PE that are read; None stands for memory that is no tensor.
        writes: Tensors of this PE that are written.
        waits: Whether the operation may wait for other PEs: collectives that were put off run before.

    Raises:
        NvshmemInvalid: It is no stream.
        StreamOrderError: Streams are checked, and another stream uses a tensor, with nothing that orders them.
    """
    number = number_of(op, stream)

    def act() -> None:
        if waits:
            works.flush_collectives()
        action()
        for tensor in writes:
            if tensor is not None:
                bump_version(tensor)

    capture: Any = state.capture
    if capture is not None:
        capture.record(act)
        return
    checked = sys.modules.get("emu.accelerator.stream_check")
    tracker: Any = None if checked is None else checked.current_tracker()
    if tracker is not None:
        uses = [*((t, False) for t in reads), *((t, True) for t in writes)]
        _note(tracker, op, device, number, uses)
    act()


def _note(
    tracker: Any,
    op: str,
    device: torch.device,
    number: int | None,
    uses: list[tuple[Tensor | None, bool]],
) -> None:
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),  # type: ignore[attr-defined, unused-ignore] # not in its stub
        tracker.lock,
    ):
        line = current_line(device.type, device.index)
        if number is not None:
            line = Line(device.type, device.index, number)
        work = tracker.submit(op, line)
        for tensor, writes in uses:
            storage = storage_of(tensor)
            if tensor is not None and storage is not None:
                tracker.access(work, tracker.memory_of(storage), tensor, writes)
        tracker.report()
