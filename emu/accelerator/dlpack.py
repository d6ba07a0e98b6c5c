"""DLPack of device tensors: shared memory within torch, an error for other libraries, as on a device."""

from __future__ import annotations

import weakref
from contextvars import ContextVar
from typing import Any

import torch
import torch.utils.dlpack
from torch.utils.dlpack import DLDeviceType

from emu.accelerator.annotations import (
    Args,
    DeviceLike,
    Kwargs,
    Storage,
    Tensor,
    TorchFunction,
)
from emu.accelerator.device_tags import TAG, assign_device, emulated_device, tag_of
from emu.accelerator.mode import HANDLERS
from emu.accelerator.patches import replace

_CODES = {"cuda": DLDeviceType.kDLCUDA, "npu": DLDeviceType.kDLExtDev}

_exported: weakref.WeakValueDictionary[int, Storage] = weakref.WeakValueDictionary()
"""Storages of exported device tensors by address: an import finds its device through them."""
_importing: ContextVar[bool] = ContextVar("whether torch asks for a tensor's DLPack", default=False)


def install() -> None:
    """Handle the two methods, and place imported tensors on the device they were exported from."""
    HANDLERS[Tensor.__dlpack_device__] = _device
    HANDLERS[Tensor.__dlpack__] = _export
    HANDLERS[torch._C._to_dlpack] = _export
    original = torch.utils.dlpack.from_dlpack

    def from_dlpack(
        ext_tensor: Any, *, device: DeviceLike | None = None, copy: bool | None = None
    ) -> Tensor:
        tag = emulated_device(ext_tensor) if isinstance(ext_tensor, torch.Tensor) else None
        token = _importing.set(True)
        try:
            result: Tensor = original(ext_tensor, copy=copy)
        finally:
            _importing.reset(token)
        storage = _exported.get(result.untyped_storage().data_ptr())
        tag = tag or getattr(storage, TAG, None)
        if tag is not None:
            assign_device(result, tag)
        if device is not None:
            result = result.to(device)
        return result

    from_dlpack.__doc__ = original.__doc__
    for owner in (torch, torch.utils.dlpack):
        replace(
            owner, "from_dlpack", from_dlpack, "the host's memory comes back without its device"
        )


def _device(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tag = tag_of(args[0])
    return func(*args, **kwargs) if tag is None else (_CODES[tag.type], tag.index)


def _export(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tag = tag_of(args[0])
    if tag is not None:
        if func is Tensor.__dlpack__ and not _importing.get():
            raise BufferError(
                f"DLPack of a tensor on {tag} is for torch only, since its memory is the host's: copy "
                "the tensor to the host with Tensor.cpu() first"
            )
        storage = args[0].untyped_storage()
        _exported[storage.data_ptr()] = storage
        kwargs = {k: v for k, v in kwargs.items() if k not in ("stream", "dl_device")}
    return func(*args, **kwargs)
