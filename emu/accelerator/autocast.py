"""``torch.autocast("cuda")`` and ``("npu")``: the CPU's autocast, with the device's dtype.

C++ decides autocast by the kind of memory, which is the host's here. What scripts ask, ``torch.is_autocast_enabled()``
and ``torch.get_autocast_dtype("cuda")``, answers for the device: ``custom_fwd`` and kernels written by hand depend on it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.amp import autocast_mode

from emu.accelerator.annotations import TorchFunction
from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES

_KIND = "_emu_kind"
_BEFORE = "_emu_before"
_REASON = "C++ decides autocast by the kind of memory"


def install() -> None:
    """Make autocast for an emulated device cast on the CPU, to fp16 unless a dtype is given."""
    autocast = autocast_mode.autocast
    begin, enter = autocast.__init__, autocast.__enter__
    leave: TorchFunction = autocast.__exit__

    def begin_on_cpu(
        self: autocast_mode.autocast,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        kind = device_type
        if kind in TYPES:
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype(kind)
        begin(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)
        setattr(self, _KIND, kind if kind in TYPES else None)

    def enter_both(self: autocast_mode.autocast) -> Any:
        kind = getattr(self, _KIND, None)
        if kind is not None:
            before = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
            setattr(self, _BEFORE, before)
            _set(kind, self._enabled, self.fast_dtype)
        return enter(self)  # type: ignore[no-untyped-call, unused-ignore]  # torch does not annotate it

    def leave_both(self: autocast_mode.autocast, *error: Any) -> Any:
        kind = getattr(self, _KIND, None)
        if kind is not None:
            _set(kind, *getattr(self, _BEFORE))
        return leave(self, *error)

    replace(autocast, "__init__", begin_on_cpu, _REASON)
    replace(autocast, "__enter__", enter_both, _REASON)
    replace(autocast, "__exit__", leave_both, _REASON)


def _set(kind: str, is_enabled: bool, dtype: torch.dtype) -> None:
    torch.set_autocast_enabled(kind, is_enabled)
    torch.set_autocast_dtype(kind, dtype)
