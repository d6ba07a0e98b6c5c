"""DLPack of device tensors: within torch it shares their memory; others are told that it is a device's."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.dlpack
from torch.utils.dlpack import DLDeviceType

from emu.accelerator.marks import look, mark_of, place
from emu.accelerator.mode import HANDLERS

Tensor = torch.Tensor

_CODES = {"cuda": DLDeviceType.kDLCUDA, "npu": DLDeviceType.kDLExtDev}

_exported: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""The storages of device tensors that were exported, by their addresses."""


def install() -> None:
    """Handle the two methods, and have what is imported be on the device that it was exported from."""
    HANDLERS[Tensor.__dlpack_device__] = _device
    HANDLERS[Tensor.__dlpack__] = _export
    HANDLERS[torch._C._to_dlpack] = _export
    original = torch.utils.dlpack.from_dlpack

    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
        mark = mark_of(ext_tensor) if isinstance(ext_tensor, Tensor) else None
        result = original(ext_tensor, copy=copy)
        storage = _exported.get(result.untyped_storage().data_ptr())
        if storage is not None or mark is not None:
            place(result, mark or storage._emu_device)
        return result if device is None else result.to(device)

    from_dlpack.__doc__ = original.__doc__
    torch.utils.dlpack.from_dlpack = torch.from_dlpack = from_dlpack


def _device(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mark = look(args[0])
    return func(*args, **kwargs) if mark is None else (_CODES[mark.type], mark.index)


def _export(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if look(args[0]) is not None:
        storage = args[0].untyped_storage()
        _exported[storage.data_ptr()] = storage
        kwargs = {k: v for k, v in kwargs.items() if k not in ("stream", "dl_device")}
    return func(*args, **kwargs)
