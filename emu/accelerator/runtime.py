"""Streams, events and the functions of ``torch.cuda`` and ``torch.npu``, one set per device type.

An emulated device has done its work when a call returns, so that streams are always idle and an event
has happened when it is recorded. What waits are deferred collectives (:mod:`emu.accelerator.distributed`):
``synchronize`` runs them.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import torch

from emu.accelerator import NotEmulatedError
from emu.accelerator.marks import (
    MARK,
    check_index,
    current_device,
    device_count,
    resolve,
    set_current_device,
)

CAPABILITY = (8, 0)
"""What ``get_device_capability`` says: bf16 is there, fp8 is not."""
WARP_SIZE = 32


def synchronize(device: Any = None) -> None:
    """Run what is deferred; everything else has been done."""
    distributed = sys.modules.get("emu.accelerator.distributed")
    if distributed is not None:
        distributed.flush_all()


def index_of(kind: str, device: Any) -> int:
    """Return the index that an argument ``device`` means for a type; None: the current one."""
    if device is None:
        return current_device(kind)
    if isinstance(device, int):
        return current_device(kind) if device < 0 else check_index(kind, device)
    found = resolve(device)
    if found.type != kind:
        raise ValueError(f"device must be a {kind} device, but got {found}")
    return int(found.index)


class Stream:
    """A stream of an emulated device: work is done when it is submitted."""

    kind = "cuda"

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        self.device = torch.device(self.kind, index_of(self.kind, device))
        self.device_index = self.device.index
        self.priority = priority

    def synchronize(self) -> None:
        """Run what is deferred."""
        synchronize()

    def query(self) -> bool:
        """Return True: nothing is under way."""
        return True

    def is_capturing(self) -> bool:
        """Return False: graphs are not emulated."""
        return False

    def wait_stream(self, stream: Stream) -> None:
        """Return: nothing is under way on ``stream``."""

    def wait_event(self, event: Event) -> None:
        """Return: an event that was recorded has happened."""

    def record_event(self, event: Event | None = None) -> Event:
        """Record ``event``, or a new one."""
        event = type(self).event_type() if event is None else event
        event.record(self)
        return event

    event_type: type[Event]

    @property
    def cuda_stream(self) -> int:
        """The handle, 0: that of the default stream."""
        return 0

    npu_stream = cuda_stream

    def __enter__(self) -> Self:
        _streams.setdefault(self.kind, []).append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _streams[self.kind].pop()

    def __repr__(self) -> str:
        return f"<torch.{self.kind}.Stream device={self.device} (emulated)>"


_streams: dict[str, list[Stream]] = {}


class Event:
    """An event of an emulated device: it has happened when it was recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess:
            raise NotEmulatedError("Event(interprocess=True) is not emulated")
        self.enable_timing = enable_timing
        self._at: int | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Note the time."""
        self._at = time.perf_counter_ns()

    def wait(self, stream: Stream | None = None) -> None:
        """Return: nothing is under way."""

    def query(self) -> bool:
        """Return True: what was recorded has happened."""
        return True

    def synchronize(self) -> None:
        """Run what is deferred."""
        synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to ``end_event``.

        Raises:
            ValueError: One of them was made without ``enable_timing``.
            RuntimeError: One of them was not recorded.
        """
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("both events must be created with argument 'enable_timing=True'")
        if self._at is None or end_event._at is None:
            raise RuntimeError("both events must be recorded before their time is calculated")
        return (end_event._at - self._at) / 1e6


Stream.event_type = Event


def make_namespace(kind: str) -> dict[str, Any]:
    """Return the names that a device module of ``kind`` gets."""
    stream = type("Stream", (Stream,), {"kind": kind})
    names: dict[str, Any] = {"Stream": stream, "Event": Event, "synchronize": synchronize}
    names |= _device_functions(kind) | _stream_functions(kind, stream) | _random_functions(kind)
    names |= _memory_functions(kind) | _facts(kind)
    for name, function in names.items():
        if callable(function) and not isinstance(function, type):
            function.__name__ = name
    return names


def _device_functions(kind: str) -> dict[str, Any]:
    class device:
        """Make a device the current one for a while; None or a negative index: change nothing."""

        def __init__(self, device: Any) -> None:
            self.idx = index_of(kind, device)
            self.prev_idx = -1

        def __enter__(self) -> None:
            self.prev_idx = current_device(kind)
            set_current_device(kind, self.idx)

        def __exit__(self, *_: object) -> None:
            set_current_device(kind, self.prev_idx)

    class device_of(device):
        """Make a tensor's device the current one for a while."""

        def __init__(self, tensor: torch.Tensor) -> None:
            super().__init__(tensor.device if tensor.device.type == kind else None)

    def set_device(device: Any) -> None:
        if not (isinstance(device, int) and device < 0):
            set_current_device(kind, index_of(kind, device))

    return {
        "device": device,
        "device_of": device_of,
        "set_device": set_device,
        "current_device": lambda: current_device(kind),
        "device_count": lambda: device_count(),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        "can_device_access_peer": lambda device, peer_device: (
            index_of(kind, device) != index_of(kind, peer_device)
        ),
    }


def _stream_functions(kind: str, stream_type: type[Stream]) -> dict[str, Any]:
    class NoStream:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    def current_stream(device: Any = None) -> Stream:
        entered = _streams.get(kind)
        return entered[-1] if entered else stream_type(device)

    def set_stream(stream: Stream) -> None:
        _streams[kind] = [stream]

    return {
        "stream": lambda stream: NoStream() if stream is None else stream,
        "StreamContext": lambda stream: NoStream() if stream is None else stream,
        "current_stream": current_stream,
        "default_stream": lambda device=None: stream_type(device),
        "set_stream": set_stream,
        "is_current_stream_capturing": lambda: False,
    }


def _random_functions(kind: str) -> dict[str, Any]:
    """Random numbers: one generator, the host's, serves every device."""
    generator = torch.default_generator

    def seed(value: int) -> None:
        generator.manual_seed(int(value))

    return {
        "manual_seed": seed,
        "manual_seed_all": seed,
        "seed": lambda: seed(generator.seed()),
        "seed_all": lambda: seed(generator.seed()),
        "initial_seed": lambda: generator.initial_seed(),
        "get_rng_state": lambda device=kind: generator.get_state(),
        "set_rng_state": lambda new_state, device=kind: generator.set_state(new_state) and None,
        "get_rng_state_all": lambda: [generator.get_state()] * device_count(),
        "set_rng_state_all": lambda new_states: (
            [generator.set_state(s) for s in new_states] and None
        ),
    }


def _memory_functions(kind: str) -> dict[str, Any]:
    def memory_allocated(device: Any = None) -> int:
        mark = torch.device(kind, index_of(kind, device))
        storages = {
            id(held): held.nbytes()
            for held in gc.get_objects()
            if type(held) is torch.UntypedStorage and getattr(held, MARK, None) == mark
        }
        return sum(storages.values())

    def mem_get_info(device: Any = None) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page

    refused = (
        "max_memory_allocated",
        "memory_reserved",
        "max_memory_reserved",
        "memory_stats",
        "memory_summary",
        "memory_snapshot",
        "reset_peak_memory_stats",
        "reset_max_memory_allocated",
        "reset_accumulated_memory_stats",
        "set_per_process_memory_fraction",
        "utilization",
        "temperature",
        "power_draw",
        "clock_rate",
        "memory_usage",
        "CUDAGraph",
        "graph",
        "make_graphed_callables",
        "cudart",
        "ExternalStream",
        "caching_allocator_alloc",
    )
    return {
        "memory_allocated": memory_allocated,
        "mem_get_info": mem_get_info,
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
        **{name: _refusal(f"torch.{kind}.{name}") for name in refused},
    }


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotEmulatedError(f"{name} is not emulated: the memory and the clock are the host's")

    return refuse


def _facts(kind: str) -> dict[str, Any]:
    def get_device_name(device: Any = None) -> str:
        return f"emu {kind}:{index_of(kind, device)}"

    def get_device_properties(device: Any = None) -> SimpleNamespace:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return SimpleNamespace(
            name=get_device_name(device),
            major=CAPABILITY[0],
            minor=CAPABILITY[1],
            total_memory=total,
            multi_processor_count=os.cpu_count() or 1,
            warp_size=WARP_SIZE,
        )

    return {
        "get_device_name": get_device_name,
        "get_device_properties": get_device_properties,
        "get_device_capability": lambda device=None: CAPABILITY,
        "is_bf16_supported": lambda including_emulation=True: True,
        "get_arch_list": list,
    }
