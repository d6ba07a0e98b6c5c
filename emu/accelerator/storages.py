"""Storages of emulated devices: moved, as ``torch.load(map_location=function)`` does, and resized."""

from __future__ import annotations

from emu.accelerator.annotations import DeviceLike, Storage
from emu.accelerator.device_tags import (
    CPU,
    TAG,
    current_device,
    recount_bytes,
    resolve,
    tag_storage,
)
from emu.accelerator.patches import replace_all
from emu.accelerator.state import TYPES


def install() -> None:
    """Replace the methods of untyped storages; typed storages are built on them."""
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
