"""Streams, events and the functions of ``torch.cuda`` and ``torch.npu``, one set per device type.

An emulated device has done its work when a call returns, so streams are always idle and an event has
happened when it is recorded. Only collectives are deferred (:mod:`emu.accelerator.distributed`):
``synchronize`` runs them.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, Self

import torch

from emu.accelerator.allocator import make_functions, total_memory
from emu.accelerator.annotations import DeviceLike, Namespace
from emu.accelerator.device_tags import (
    check_index,
    current_device,
    device_count,
    resolve,
    set_current_device,
)
from emu.accelerator.errors import NotEmulatedError
from emu.accelerator.events import HostEvent
from emu.accelerator.generator import DEFAULT, DeviceGenerator
from emu.accelerator.legacy_types import make_types
from emu.accelerator.state import refuse_in_capture, state
from emu.kernels.core.environment import cuda_capability, device_model

CAPABILITY = (8, 0)
"""What NPUs say to scripts that ask them for a compute capability."""
WARP_SIZE = 32


def synchronize(device: DeviceLike | None = None) -> None:
    """Run the deferred collectives; all other work is done already.

    Raises:
        RuntimeError: A CUDA graph is captured in this thread.
    """
    refuse_in_capture("synchronize()")
    distributed = sys.modules.get("emu.accelerator.distributed")
    if distributed is not None:
        distributed.flush_all()


def index_of(kind: str, device: DeviceLike | None) -> int:
    """Return the index that an argument ``device`` stands for; None: the current device's."""
    if device is None:
        return current_device(kind)
    if isinstance(device, int):
        return current_device(kind) if device < 0 else check_index(kind, device)
    found = resolve(device)
    if found.type != kind:
        raise ValueError(f"device must be a {kind} device, but got {found}")
    return int(found.index)


_DEVICE_TYPES = {"cuda": 1, "npu": 20}  # c10::DeviceType; the second is PrivateUse1
_stream_numbers = itertools.count(1)


class Stream(torch.Stream):  # type: ignore[misc, unused-ignore] # Any without torch
    """Stream of an emulated device: work is done when it is submitted."""

    kind = "cuda"

    def __new__(cls, device: DeviceLike | None = None, priority: int = 0, **known: Any) -> Self:
        """Make a stream of a device, by default the current one.

        Args:
            device: The device.
            priority: Stored, but without effect.
            **known: ``stream_id``, where a stream is made from its number.
        """
        made: Self = super().__new__(
            cls,
            stream_id=known.get("stream_id", next(_stream_numbers)),
            device_index=index_of(cls.kind, device),
            device_type=_DEVICE_TYPES[cls.kind],
        )
        return made

    def __init__(self, device: DeviceLike | None = None, priority: int = 0, **_: object) -> None:
        self.priority = priority

    def synchronize(self) -> None:
        """Run the deferred collectives."""
        synchronize()

    def query(self) -> bool:
        """Return True: nothing is under way."""
        return True

    def is_capturing(self) -> bool:
        """Return whether a CUDA graph is captured in this thread."""
        return state.capture is not None

    def wait_stream(self, stream: torch.Stream) -> None:
        """Return: nothing is under way on ``stream``."""

    def wait_event(self, event: object) -> None:
        """Return: an event that was recorded has happened."""

    def record_event(self, event: Event | None = None) -> Event:  # type: ignore[override, unused-ignore] # the events are ours
        """Record ``event``, or a new one."""
        event = type(self).event_type() if event is None else event
        event.record(self)
        return event

    event_type: type[Event]

    @property
    def cuda_stream(self) -> int:
        """Handle of the stream; 0 is that of the default stream."""
        return int(self.stream_id)

    npu_stream = cuda_stream

    def __enter__(self) -> Self:
        state.streams[self.kind].append(self)
        return self

    def __exit__(self, *_: object) -> None:
        state.streams[self.kind].pop()

    def __repr__(self) -> str:
        return f"<torch.{self.kind}.Stream device={self.device} (emulated)>"


class Event(HostEvent):
    """Event of an emulated device: it has happened once it is recorded."""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess:
            raise NotEmulatedError("Event(interprocess=True) is not emulated")
        super().__init__()
        self.enable_timing = enable_timing

    def synchronize(self) -> None:
        """Run the deferred collectives."""
        synchronize()

    def elapsed_time(self, end_event: HostEvent) -> float:
        """Return the milliseconds from this event to ``end_event``.

        Raises:
            ValueError: One of them was made without ``enable_timing``.
            RuntimeError: One of them was not recorded.
        """
        # Torch's own words: scripts match them.
        if not (self.enable_timing and getattr(end_event, "enable_timing", False)):
            raise ValueError("both events must be created with argument 'enable_timing=True'")
        return super().elapsed_time(end_event)


Stream.event_type = Event


def make_namespace(kind: str) -> Namespace:
    """Return the contents of a device module of ``kind``."""
    stream = type("Stream", (Stream,), {"kind": kind})
    names: Namespace = {"Stream": stream, "Event": Event}
    names["synchronize"] = lambda device=None: synchronize(device)
    names |= _device_functions(kind) | _stream_functions(kind, stream) | _random_functions(kind)
    names |= make_functions(kind, index_of) | _refusals(kind) | _facts(kind) | make_types(kind)
    for name, function in names.items():
        if callable(function) and not isinstance(function, type):
            function.__name__ = function.__qualname__ = name
    return names


def _device_functions(kind: str) -> Namespace:
    class device:
        """Context in which a device is current; None or a negative index change nothing."""

        def __init__(self, device: DeviceLike | None) -> None:
            self.idx = index_of(kind, device)
            self.prev_idx = -1

        def __enter__(self) -> None:
            self.prev_idx = current_device(kind)
            set_current_device(kind, self.idx)

        def __exit__(self, *_: object) -> None:
            set_current_device(kind, self.prev_idx)

    class device_of(device):
        """Context in which a tensor's device is current."""

        def __init__(self, tensor: torch.Tensor) -> None:
            super().__init__(tensor.device if tensor.device.type == kind else None)

    def set_device(device: DeviceLike) -> None:
        if not (isinstance(device, int) and device < 0):
            set_current_device(kind, index_of(kind, device))

    def exchange(device: int) -> int:
        """Make another device the current one; return the one before: compiled functions enter contexts so."""
        if device < 0:
            return -1
        before = current_device(kind)
        set_current_device(kind, device)
        return before

    return {
        "device": device,
        "device_of": device_of,
        "set_device": set_device,
        "_exchange_device": exchange,
        "_maybe_exchange_device": lambda device: exchange(device),  # Dynamo takes no function twice
        "current_device": lambda: current_device(kind),
        "device_count": lambda: device_count(),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_initialized": True,  # else checkpoints keep no states of generators
        "init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        "can_device_access_peer": lambda device, peer_device: (
            index_of(kind, device) != index_of(kind, peer_device)
        ),
    }


def _stream_functions(kind: str, stream_type: type[Stream]) -> Namespace:
    class StreamContext:
        """Context in which a stream is current; None changes nothing."""

        def __init__(self, stream: Stream | None) -> None:
            self.stream = stream

        def __enter__(self) -> None:
            if self.stream is not None:
                self.stream.__enter__()

        def __exit__(self, *_: object) -> None:
            if self.stream is not None:
                self.stream.__exit__()

    def current_stream(device: DeviceLike | None = None) -> torch.Stream:
        entered = state.streams[kind]
        index = index_of(kind, device)
        # Entered streams of other devices stay current on those.
        same = [stream for stream in entered if stream.device_index == index]
        return same[-1] if same else stream_type(index, stream_id=0)

    def set_stream(stream: Stream) -> None:
        set_current_device(kind, stream.device_index)
        state.streams[kind] = [stream]

    return {
        "stream": lambda stream: StreamContext(stream),
        "StreamContext": StreamContext,
        "current_stream": current_stream,
        "default_stream": lambda device=None: stream_type(device, stream_id=0),
        "set_stream": set_stream,
        "is_current_stream_capturing": lambda: state.capture is not None,
    }


def _random_functions(kind: str) -> Namespace:
    """Return the random functions; each device has a generator of its own."""
    generators = DEFAULT[kind]

    def of(device: DeviceLike) -> DeviceGenerator:
        where = torch.device(device) if isinstance(device, str) else device
        named = isinstance(where, int) or where.index is not None
        return generators.of(index_of(kind, device if named else None))

    def seed_all() -> None:
        generators.manual_seed_all(generators.current.seed())

    def set_states(new_states: Iterable[torch.Tensor]) -> None:
        for index, new_state in enumerate(new_states):
            of(index).set_state(new_state)

    return {
        "default_generators": generators,
        "manual_seed": lambda seed: generators.current.manual_seed(seed) and None,
        "manual_seed_all": lambda seed: generators.manual_seed_all(seed),
        "seed": lambda: generators.current.seed() and None,
        "seed_all": seed_all,
        "initial_seed": lambda: generators.current.initial_seed(),
        "get_rng_state": lambda device=kind: of(device).get_state(),
        "set_rng_state": lambda new_state, device=kind: of(device).set_state(new_state) and None,
        "get_rng_state_all": lambda: [generator.get_state() for generator in generators],
        "set_rng_state_all": set_states,
    }


_NO_SENSORS = "the clock and the power are the host's"
_NO_ALLOCATOR = "the memory is the host's"
_NO_NPU_GRAPHS = "graphs are captured on cuda devices only"
_REFUSED_BY_NPU = dict.fromkeys(
    ("NPUGraph", "graph", "graph_pool_handle", "make_graphed_callables"), _NO_NPU_GRAPHS
)
_REFUSED = {
    "utilization": _NO_SENSORS,
    "temperature": _NO_SENSORS,
    "power_draw": _NO_SENSORS,
    "memory_usage": _NO_SENSORS,
    "device_memory_used": _NO_SENSORS,
    "list_gpu_processes": _NO_SENSORS,
    "memory_snapshot": _NO_ALLOCATOR,
    "host_memory_stats": _NO_ALLOCATOR,
    "caching_allocator_alloc": _NO_ALLOCATOR,
    "caching_allocator_delete": _NO_ALLOCATOR,
    "change_current_allocator": _NO_ALLOCATOR,
    "cudart": _NO_ALLOCATOR,
    "ExternalStream": _NO_ALLOCATOR,
    "get_stream_from_external": _NO_ALLOCATOR,
}


def _refusals(kind: str) -> Namespace:
    refused: Namespace = {}
    for name, why in (_REFUSED | (_REFUSED_BY_NPU if kind == "npu" else {})).items():
        refusal = _refusal(f"torch.{kind}.{name}", why)
        is_class = name == "NPUGraph" or isinstance(getattr(torch.cuda, name, None), type)
        if is_class:  # annotations may name it
            refusal = type(name, (), {"__new__": refusal, "__doc__": f"Not emulated: {why}."})
        refused[name] = refusal
    return refused


def _refusal(name: str, why: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotEmulatedError(f"{name} is not emulated: {why}")

    return refuse


@dataclass(frozen=True)
class DeviceProperties:
    """Result of ``get_device_properties``; without a model with the sizes of a device of capability 8.0."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int = WARP_SIZE
    max_threads_per_block: int = 1024
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 48 << 10
    shared_memory_per_block_optin: int = 163 << 10
    shared_memory_per_multiprocessor: int = 164 << 10
    L2_cache_size: int = 40 << 20
    clock_rate: int = 1_410_000
    memory_clock_rate: int = 1_593_000
    memory_bus_width: int = 5120
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""


def _facts(kind: str) -> Namespace:
    def index(device: object) -> int:
        # Torch takes the current device for whatever names none, such as a tuple.
        return index_of(kind, device if isinstance(device, int | str | torch.device) else None)

    def get_device_name(device: DeviceLike | None = None) -> str:
        number = index(device)
        model = device_model() if kind == "cuda" else None
        return f"emu {kind}:{number}" if model is None else model.name

    def get_device_properties(device: DeviceLike | None = None) -> DeviceProperties:
        name, memory = get_device_name(device), total_memory(kind)
        model = device_model() if kind == "cuda" else None
        if model is None:
            return DeviceProperties(name, *capability(), memory, os.cpu_count() or 1)
        return DeviceProperties(
            name,
            *capability(),
            memory,
            model.multiprocessors,
            max_threads_per_multi_processor=model.threads,
            shared_memory_per_block_optin=model.block_shared_kib << 10,
            shared_memory_per_multiprocessor=model.shared_kib << 10,
            L2_cache_size=model.l2_mib << 20,
            clock_rate=model.core_mhz * 1000,
            memory_clock_rate=model.memory_mhz * 1000,
            memory_bus_width=model.memory_bus,
        )

    def capability() -> tuple[int, int]:
        return cuda_capability() if kind == "cuda" else CAPABILITY

    debug = {"mode": 0}

    def set_sync_debug_mode(debug_mode: int | str) -> None:
        names = {"default": 0, "warn": 1, "error": 2}
        mode = names.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
        if mode is None or mode not in names.values():
            raise RuntimeError(
                f"debug_mode must be one of {', '.join(names)} or 0 to 2, but got {debug_mode!r}"
            )
        debug["mode"] = mode

    return {
        "get_device_name": get_device_name,
        "get_device_properties": get_device_properties,
        "clock_rate": lambda device=None: get_device_properties(device).clock_rate // 1000,
        "get_device_capability": lambda device=None: capability() if index(device) >= 0 else None,
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "_sleep": lambda cycles: None,
        "get_gencode_flags": lambda: "",
        "get_sync_debug_mode": lambda: debug["mode"],
        "set_sync_debug_mode": set_sync_debug_mode,
        "get_arch_list": list,
    }
