"""``torch.Generator(device="cuda")``: the host's generator under the name of another device."""

from __future__ import annotations

from typing import Self

import torch

from emu.accelerator.annotations import DeviceLike
from emu.accelerator.device_tags import TAG, resolve
from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES

_Real = torch._C.Generator


class _Meta(type(_Real)):  # type: ignore[misc] # its metaclass has no type
    """Instance check that accepts the generators which torch itself makes, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Real)


class Generator(_Real, metaclass=_Meta):  # type: ignore[misc, valid-type, unused-ignore] # Any without torch
    """``torch.Generator`` for emulated devices as well; its random bits are those of the CPU's."""

    def __new__(cls, device: DeviceLike = "cpu") -> Self:
        """Make a generator for ``device``."""
        where = resolve(device)
        if where.type not in TYPES:
            made: Self = super().__new__(cls, where)  # type: ignore[call-arg, unused-ignore] # the stub has no __new__
            return made
        made = super().__new__(cls, "cpu")  # type: ignore[call-arg, unused-ignore] # the stub has no __new__
        setattr(made, TAG, where)
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override, unused-ignore] # an attribute in the stub
        """Device that the generator was made for."""
        tag: torch.device | None = getattr(self, TAG, None)
        return torch.device("cpu") if tag is None else tag


def install() -> None:
    """Replace ``torch.Generator``, which has no extension point."""
    replace(torch, "Generator", Generator, "the class has no extension point")
