"""``--check streams``: uses of memory on different streams that nothing orders.

Work on emulated devices is done at once, so a program that forgot an event gives right results here and wrong ones on a
GPU. What the program has ordered is known all the same: streams and events get vector clocks
(:mod:`emu.accelerator.stream_order`), a dispatch mode notes which bytes each operator reads and writes
(:mod:`emu.accelerator.stream_operators`), kernels tell theirs, and two uses without an order are an error, in any run.

This module is imported by :func:`start` 's callers, and only if the check is wanted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from emu.accelerator import division, graphs, modules, runtime
from emu.accelerator.annotations import Args, Handler, Kwargs, Storage, Tensor, TorchFunction
from emu.accelerator.device_tags import TAG, current_device, emulated_device
from emu.accelerator.mode import HANDLERS
from emu.accelerator.patches import Ledger
from emu.accelerator.state import TYPES, state
from emu.accelerator.stream_errors import HOST, Line
from emu.accelerator.stream_operators import ForwardStreams, OperatorMode
from emu.accelerator.stream_tracker import (
    KEPT,
    Memory,
    Tracker,
    Work,
    current_line,
    line_of,
    region_of,
    storage_of,
)

Extents = tuple[int, int]
"""Addresses of the first byte that a kernel touched, and of the one behind the last; (0, 0) of none."""

_ledger = Ledger()
_tracker: Tracker | None = None
_forward = ForwardStreams()
_mode: OperatorMode | None = None
_PATCHED = "streams are checked"
_CLOCK = "_emu_clock"


def is_on() -> bool:
    """Return whether streams are checked."""
    return _tracker is not None


def current_tracker() -> Tracker | None:
    """Return what knows of the streams, for work that is neither an operator nor a kernel; None: they are not checked."""
    return _tracker


def start() -> None:
    """Check streams from now on; a second call does nothing. Devices must be emulated.

    Raises:
        RuntimeError: A dispatch mode is active, which would be left before that of the check.
    """
    global _mode, _tracker
    if _tracker is not None:
        return
    if division.program_modes():
        raise RuntimeError(
            "the check of streams must begin outside of dispatch modes, but got "
            f"{torch._C._get_dispatch_stack_at(0)}: EMU_CHECK=streams begins it with torch"
        )
    tracker = _tracker = Tracker()
    _ledger.replace(Storage, KEPT, None, "every storage has one, which is None until it is used")
    _watch_streams(tracker)
    _watch_events(tracker)
    _watch_synchronize(tracker)
    _watch_handlers(tracker)
    _watch_graphs()
    _watch_storages(tracker)
    _watch_threads()
    _forward.threads.clear()
    _forward.note(_entered())
    _mode = _new_mode()
    _mode.__enter__()  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it
    if "emu.accelerator.distributed.works" in sys.modules:
        from emu.accelerator.distributed.stream_orders import watch

        watch(tracker, _ledger)


def stop() -> None:
    """Check streams no more.

    Raises:
        RuntimeError: Another dispatch mode was entered after :func:`start`, and not left.
    """
    global _mode, _tracker
    if _mode is None:
        return
    _mode.leave("streams")
    _mode.tracker.is_over = True
    _ledger.undo_all()
    _mode = _tracker = None


def forget_reports() -> None:
    """Report again what was reported: another test begins."""
    if _tracker is not None:
        _tracker.forget_reports()


def note_kernel(name: str, touched: Sequence[tuple[Tensor, Extents, Extents, Extents]]) -> None:
    """Note a launch.

    Args:
        name: The kernel's.
        touched: Each tensor, what of it was read, what was written, and what atomic operations have changed.

    Raises:
        StreamOrderError: Something else uses that memory, and nothing orders them.
    """
    tracker, mode = _tracker, _mode
    if tracker is None or mode is None or state.capture is not None:
        return
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():  # type: ignore[attr-defined, unused-ignore] # not in its stub
        tags = (emulated_device(tensor) for tensor, *_ in touched)
        device = next((tag for tag in tags if tag is not None), state.compiled_for)
        if device is None:
            return
        with tracker.lock:
            work, caller = mode.begin(f"kernel {name}", device)
            for tensor, *spans in touched:
                storage = storage_of(tensor)
                memory = None if storage is None else _memory_of(tracker, work, storage)
                if storage is None or memory is None:
                    continue
                whole = region_of(tensor)
                for kind, extents in enumerate(spans):
                    region = _touched(storage, whole, extents)
                    if region is not None:
                        tracker.access(work, memory, tensor, kind > 0, region, is_atomic=kind == 2)
            mode.end(work, caller)
            tracker.report()


def _memory_of(tracker: Tracker, work: Work, storage: Storage) -> Memory | None:
    """Return what is known of the storage of a kernel's argument; None of one on the host."""
    known = getattr(storage, KEPT, None)
    if getattr(storage, TAG) is not None or (known is not None and not known.is_host):
        return tracker.memory_of(storage)
    if state.compiled_for is None:
        return None
    return tracker.allocate(work, storage)  # a buffer of a compiled function has no tag yet


def _touched(storage: Storage, whole: Any, extents: Extents) -> Any:
    """Return the bytes that a kernel touched: of the tensor between two addresses, or all between them."""
    from emu.accelerator.byte_regions import dense

    low, high = (address - storage.data_ptr() for address in extents)
    if extents[0] >= extents[1] or high <= 0 or low >= storage.nbytes():
        return None
    if whole is None or low < whole.low or high > whole.high:
        return dense(max(low, 0), min(high, storage.nbytes()))
    return whole.within(low, high)


def _new_mode() -> OperatorMode:
    assert _tracker is not None
    return OperatorMode(_tracker, _forward)


def _entered() -> tuple[Line, ...]:
    return tuple(line_of(stream) for kind in TYPES for stream in state.streams[kind])


# ---- streams and events


def _watch_streams(tracker: Tracker) -> None:
    stream: Any = runtime.Stream
    enter, leave = stream.__enter__, stream.__exit__

    def wait_stream(self: Any, stream: Any) -> None:
        if not torch.compiler.is_compiling():  # Dynamo traces calls, and leaves them out
            tracker.wait(line_of(self), line_of(stream))

    def wait_event(self: Any, event: Any) -> None:
        if not torch.compiler.is_compiling():
            tracker.wait_for_clock(line_of(self), getattr(event, _CLOCK, None))

    def synchronize(self: Any) -> None:
        finish()
        tracker.wait(HOST, line_of(self))

    def query(self: Any) -> bool:
        tracker.wait(HOST, line_of(self))  # the program may go on because of the answer
        return True

    def entered(self: Any) -> Any:
        found = enter(self)
        _forward.note(_entered())
        if torch._C._current_graph_task_id() >= 0:
            _forward.entered_in_pass += 1
        return found

    def left(self: Any, *error: object) -> None:
        leave(self, *error)
        _forward.note(_entered())
        if torch._C._current_graph_task_id() >= 0 and _forward.entered_in_pass:
            _forward.entered_in_pass -= 1

    finish = runtime.synchronize
    found = {
        "wait_stream": wait_stream,
        "wait_event": wait_event,
        "synchronize": synchronize,
        "query": query,
        "__enter__": entered,
        "__exit__": left,
    }
    for name, value in found.items():
        _ledger.replace(stream, name, value, _PATCHED)
    for kind in TYPES:
        module = getattr(torch, kind)
        _ledger.replace(module, "set_stream", _noting(module.set_stream), _PATCHED)


def _noting(set_stream: Callable[[Any], None]) -> Callable[[Any], None]:
    def set_and_note(stream: Any) -> None:
        set_stream(stream)
        _forward.note(_entered())

    return set_and_note


def _watch_events(tracker: Tracker) -> None:
    event: Any = runtime.Event
    record, elapsed, finish = event.record, event.elapsed_time, runtime.synchronize

    def record_(self: Any, stream: Any = None) -> None:
        record(self, stream)
        with tracker.lock:
            clock: dict[Any, int] = {}
            for line in _lines(stream):
                for other, time in tracker.clocks.of(line).items():
                    clock[other] = max(time, clock.get(other, 0))
        setattr(self, _CLOCK, clock)

    def wait(self: Any, stream: Any = None) -> None:
        for line in _lines(stream):
            tracker.wait_for_clock(line, getattr(self, _CLOCK, None))

    def synchronize(self: Any) -> None:
        finish()
        tracker.wait_for_clock(HOST, getattr(self, _CLOCK, None))

    def query(self: Any) -> bool:
        tracker.wait_for_clock(HOST, getattr(self, _CLOCK, None))
        return True

    def elapsed_time(self: Any, end_event: Any) -> Any:
        for one in (self, end_event):
            tracker.wait_for_clock(HOST, getattr(one, _CLOCK, None))
        return elapsed(self, end_event)

    found = {
        "record": record_,
        "wait": wait,
        "synchronize": synchronize,
        "query": query,
        "elapsed_time": elapsed_time,
    }
    for name, value in found.items():
        _ledger.replace(event, name, value, _PATCHED)


def _lines(stream: Any) -> list[Line]:
    """Return the line of a stream; of None the current ones, as an event does not say for which type it is."""
    if stream is not None:
        return [line_of(stream)]
    return [current_line(kind, current_device(kind)) for kind in TYPES]


def _watch_synchronize(tracker: Tracker) -> None:
    finish = runtime.synchronize

    def synchronize(device: Any = None) -> None:
        finish(device)
        if torch.compiler.is_compiling():  # Dynamo traces the call, and leaves it out
            return
        for kind in TYPES:
            if not isinstance(device, int) and device is not None:
                found = torch.device(device)
                if found.type == kind:
                    tracker.synchronize(kind, runtime.index_of(kind, device))
            else:
                tracker.synchronize(kind, runtime.index_of(kind, device))

    for owner in (runtime, modules):
        _ledger.replace(owner, "synchronize", synchronize, _PATCHED)


# ---- what no operator tells


def _watch_handlers(tracker: Tracker) -> None:
    """Watch ``record_stream``, and the methods that take a tensor's values without an operator."""

    def record_stream(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        tensor, stream = args[0], args[1] if len(args) > 1 else kwargs["s"]
        storage = storage_of(tensor)
        if storage is not None and getattr(storage, TAG) is not None:
            with tracker.lock:
                tracker.memory_of(storage).recorded.add(line_of(stream))
        return None

    def reading(name: str, handle: Handler) -> Handler:
        def read(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
            if _mode is not None and isinstance(args[0], Tensor):
                with torch._C.DisableTorchFunction():
                    _mode.read_on_host(name, args[0])
            return handle(func, args, kwargs)

        return read

    _replace_handler(torch.Tensor.record_stream, record_stream)
    for function in (torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.tolist):
        _replace_handler(function, reading(function.__name__, HANDLERS[function]))


def _replace_handler(function: TorchFunction, handler: Handler) -> None:
    before = HANDLERS[function]
    HANDLERS[function] = handler
    _ledger.record(
        f"handler of {function.__name__}", _PATCHED, lambda: HANDLERS.update({function: before})
    )


def _watch_storages(tracker: Tracker) -> None:
    """Take memory that a program gives back by hand, and allocates anew, for other memory."""
    resize = Storage.resize_

    def resize_(self: Storage, size: int) -> Storage:
        before = self.nbytes()
        result: Storage = resize(self, size)
        device = getattr(self, TAG)
        if device is not None and 0 in (before, size) and before != size:
            setattr(self, KEPT, None)
            if size and state.capture is None:
                with tracker.lock:
                    line = current_line(device.type, device.index)
                    tracker.allocate(tracker.submit("resize_", line), self)
                    tracker.report()
        return result

    _ledger.replace(Storage, "resize_", resize_, _PATCHED)


def _watch_graphs() -> None:
    """Count what the end of a capture puts back as a part of it, which no GPU does."""
    capture: Any = graphs._Capture
    end = capture.end

    def end_inside(self: Any) -> None:
        before, state.capture = state.capture, self
        try:
            end(self)
        finally:
            state.capture = before

    _ledger.replace(capture, "end", end_inside, _PATCHED)


def _watch_threads() -> None:
    """Enter the mode in each thread started from now on: a dispatch mode belongs to a thread."""
    run = threading.Thread.run

    def run_inside(self: threading.Thread) -> None:
        if _tracker is None:
            run(self)
            return
        with _new_mode():
            run(self)

    _ledger.replace(threading.Thread, "run", run_inside, _PATCHED)
