"""Storages of emulated devices: moved, as ``torch.load(map_location=function)`` does, and resized."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from emu.accelerator.annotations import DeviceLike, Storage
from emu.accelerator.device_tags import (
    CPU,
    TAG,
    current_device,
    recount_bytes,
    resolve,
    tag_storage,
)
from emu.accelerator.mode import on_stack
from emu.accelerator.patches import replace, replace_all
from emu.accelerator.state import TYPES

_LARGEST = 1 << 40


def new_storage(nbytes: int) -> Storage:
    """Return memory from torch's allocator, as tensors have it: storages that are made by themselves have not."""
    with torch._C.DisableTorchFunction():
        made: Storage = torch.empty(nbytes, dtype=torch.uint8, device="cpu").untyped_storage()
    return made


def copy_of(storage: Storage) -> Storage:
    """Return a copy of a storage of the CPU in memory from torch's allocator."""
    return new_storage(storage.nbytes()).copy_(storage)


def install() -> None:
    """Replace the methods of untyped storages; typed storages are built on them."""
    # Found on the class, the tag of a host tensor costs no handled AttributeError in each call.
    replace(Storage, TAG, None, "every storage has a tag, which is None on the host")
    _show_devices()
    _replace_makers()
    _replace_moves()


def _show_devices() -> None:
    """Let storages say where they are to the program; torch's own functions, which run outside of the mode, see the CPU."""
    base: Any = torch._C.StorageBase
    where = base.device

    def device(self: Storage) -> torch.device:
        tag: torch.device | None = getattr(self, TAG, None)
        if tag is None or not on_stack() or torch._C._is_torch_function_all_disabled():
            real: torch.device = where.__get__(self)
            return real
        return tag

    replace(Storage, "device", property(device), "a mode does not see attributes of storages")


def _replace_makers() -> None:
    make: Any = Storage.__new__
    clone: Callable[[Storage], Storage] = Storage.clone

    def new(cls: type[Storage], *args: object, **kwargs: object) -> Storage:
        if cls is Storage and not kwargs and len(args) == 1 and type(args[0]) is int:
            nbytes = args[0]
            if 0 <= nbytes < _LARGEST:  # of others torch's error says what is wrong
                return new_storage(nbytes)
        made: Storage = make(cls, *args, **kwargs)
        return made

    def clone_(self: Storage) -> Storage:
        tag = getattr(self, TAG, None)
        if type(self) is not Storage or (tag is None and self.device != CPU):
            return clone(self)
        made = copy_of(self)
        tag_storage(made, tag)
        return made

    replace_all(
        Storage,
        {"__new__": staticmethod(new), "clone": clone_},
        "storages that are made by themselves do not ask torch's allocator",
    )


def _replace_moves() -> None:
    resize, to = Storage.resize_, Storage.to

    def resize_(self: Storage, size: int) -> Storage:
        result: Storage = resize(self, size)
        recount_bytes(self)
        return result

    def move(self: Storage, *, device: DeviceLike, non_blocking: bool = False) -> Storage:
        target = resolve(device)
        if target.type not in (*TYPES, "cpu"):
            result: Storage = to(self, device=target, non_blocking=non_blocking)
            return result
        here = getattr(self, TAG, None)
        if (here or CPU) == target:
            return self
        moved: Storage = self.clone()
        tag_storage(moved, target if target.type in TYPES else None)
        return moved

    def cuda(
        self: Storage, device: DeviceLike | None = None, non_blocking: bool = False
    ) -> Storage:
        return move(self, device=current_device("cuda") if device is None else device)

    replace_all(
        Storage,
        {
            "resize_": resize_,
            "to": move,
            "cuda": cuda,
            "cpu": lambda self: move(self, device=CPU),
        },
        "a mode does not see the methods of storages",
    )
