"""``torch.Stream`` and ``torch.Event``, which serve any accelerator."""

from __future__ import annotations

from typing import Any

import torch

from emu.accelerator.annotations import DeviceLike
from emu.accelerator.device_tags import accelerator_type, resolve
from emu.accelerator.patches import replace
from emu.accelerator.runtime import Event
from emu.accelerator.state import TYPES

_RealStream: Any = torch.Stream
_RealEvent: Any = torch.Event


class _StreamMeta(type(_RealStream)):  # type: ignore[misc] # its metaclass has no type
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _RealStream)


class Stream(_RealStream, metaclass=_StreamMeta):  # type: ignore[misc] # its base is Any
    """``torch.Stream``; for an emulated device it makes a stream of that device's module."""

    def __new__(cls, device: DeviceLike | None = None, **options: Any) -> Any:
        """Make a stream of ``device``. Default: the script's accelerator."""
        where = resolve(accelerator_type() if device is None else device)
        if where.type not in TYPES:
            return _RealStream(where, **options)
        return getattr(torch, where.type).Stream(where, **options)


class _EventMeta(type(_RealEvent)):  # type: ignore[misc] # its metaclass has no type
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _RealEvent | Event)


class AnyEvent(_RealEvent, metaclass=_EventMeta):  # type: ignore[misc] # its base is Any
    """``torch.Event`` for emulated devices as well."""

    def __new__(cls, device: DeviceLike | None = None, **options: Any) -> Any:
        """Make an event of ``device``. Default: the script's accelerator."""
        where = resolve(accelerator_type() if device is None else device)
        return Event(**options) if where.type in TYPES else _RealEvent(where, **options)


def install() -> None:
    """Replace the two classes."""
    AnyEvent.__name__ = AnyEvent.__qualname__ = "Event"
    for name, kind in (("Stream", Stream), ("Event", AnyEvent)):
        replace(torch, name, kind, "the class has no extension point for a device in Python")
