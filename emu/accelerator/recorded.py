"""Operators of torch, ranges that programs name, and memory of devices as events of a trace."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler

from emu.accelerator import device_tags, mode, mstx
from emu.accelerator.patches import replace
from emu.accelerator.usage import HeldBytes, Usage
from emu.comm.world import recording
from emu.comm.world.recording import Recorder
from emu.tile.counting.state import take_last
from emu.trace.events import Kind

_now = time.monotonic_ns
_OP, _RANGE, _INSTANT, _ALLOCATE = map(int, (Kind.OP, Kind.RANGE, Kind.INSTANT, Kind.ALLOCATE))
_REASON = "it is an event of a trace"
_NO_OPERATORS = frozenset({"__get__", "__set__", "__delete__"})
"""Names of functions that look at a tensor's attributes."""


def start() -> None:
    """Record what torch does on emulated devices, where this process is recorded."""
    recorder = recording.active
    if recorder is None:
        return
    replace(mode, "_run_on", _operator(recorder, _run_innermost, 1), _REASON)
    replace(mode, "create", _operator(recorder, mode.create, 0), _REASON)
    for name in ("backward", "grad"):
        call = getattr(torch.autograd, name)
        replace(torch.autograd, name, _ranged(recorder, call, f"autograd.{name}"), _REASON)
    _record_functions(recorder)
    marker = _Marker(recorder)
    _record_nvtx(recorder, marker)
    replace(mstx, "marker", marker, _REASON)
    replace(device_tags, "HeldBytes", _recorded_bytes(recorder), _REASON)


def _run_innermost(*args: Any) -> Any:
    return mode.innermost(*args)  # looked up at each call: counting may begin later


def _operator(recorder: Recorder, run: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Return a function that runs a call into torch, which is its argument at ``place``, and records it."""
    here, write, end = recorder.here, recorder.write, recorder.end

    def run_and_record(*args: Any) -> Any:
        name = getattr(args[place], "__name__", None) or type(args[place]).__name__
        if name in _NO_OPERATORS:
            return run(*args)
        begun = _now()
        try:
            return run(*args)
        finally:
            counts = take_last()
            if counts is None:
                end(_OP, name, begun)
            else:
                details = {"counts": counts.to_json()}
                write(here(_OP, name, details, key=json.dumps(details)), begun)

    return run_and_record


def _ranged(recorder: Recorder, call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function whose calls are ranges of the trace."""

    def call_and_record(*args: Any, **kwargs: Any) -> Any:
        begun = _now()
        try:
            return call(*args, **kwargs)
        finally:
            recorder.end(_RANGE, name, begun)

    return call_and_record


def _record_functions(recorder: Recorder) -> None:
    """Record the ranges of ``torch.profiler.record_function``."""
    kind = profiler.record_function
    enter: Callable[..., Any] = kind.__enter__
    leave: Callable[..., Any] = kind.__exit__

    def enter_and_note(self: Any) -> Any:
        self._emu_site, self._emu_begun = recorder.here(_RANGE, self.name), _now()
        return enter(self)

    def leave_and_record(self: Any, *error: Any) -> Any:
        result = leave(self, *error)
        recorder.write(self._emu_site, self._emu_begun)
        return result

    replace(kind, "__enter__", enter_and_note, _REASON)
    replace(kind, "__exit__", leave_and_record, _REASON)


class _Marker:
    """Records ranges that end by a number, and moments; a :class:`emu.accelerator.mstx.Marker`."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._started: dict[int, tuple[int, int]] = {}
        self._numbers = itertools.count(1)

    def begin(self, message: str) -> int:
        """Begin a range; return its number."""
        number = next(self._numbers)
        self._started[number] = self._recorder.here(_RANGE, str(message)), _now()
        return number

    def end(self, number: int) -> None:
        """End a range; a number that no range has ends nothing."""
        found = self._started.pop(number, None)
        if found is not None:
            self._recorder.write(*found)

    def mark(self, message: str) -> None:
        """Write down a moment."""
        now = _now()
        self._recorder.write_span(self._recorder.here(_INSTANT, str(message)), now, now)


def _record_nvtx(recorder: Recorder, marker: _Marker) -> None:
    """Record the ranges and marks of ``torch.cuda.nvtx``."""
    pushed: list[tuple[int, int]] = []

    def push(message: str) -> int:
        pushed.append((recorder.here(_RANGE, str(message)), _now()))
        return len(pushed) - 1

    def pop() -> int:
        if pushed:
            recorder.write(*pushed.pop())
        return len(pushed)

    for name, function in (
        ("range_push", push),
        ("range_pop", pop),
        ("range_start", marker.begin),
        ("range_end", marker.end),
        ("mark", marker.mark),
    ):
        replace(torch.cuda.nvtx, name, function, _REASON)


def _recorded_bytes(recorder: Recorder) -> type[HeldBytes]:
    """Return the class of the bytes of a storage, which are recorded when they are made and when they are freed."""
    freed = recorder.site(_ALLOCATE, "free of device memory", thread=0)

    class RecordedBytes(HeldBytes):
        __slots__ = ()

        def __init__(self, usage: Usage, nbytes: int) -> None:
            super().__init__(usage, nbytes)
            if nbytes:
                recorder.write(recorder.here(_ALLOCATE, "device memory"), _now(), nbytes)

        def __del__(self) -> None:
            super().__del__()
            if self.nbytes:  # it may run anywhere: it takes no lock
                recorder.write(freed, _now(), -self.nbytes)

    return RecordedBytes
