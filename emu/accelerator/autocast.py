"""``torch.autocast("cuda")`` and ``("npu")``: the CPU's autocast, with the device's dtype.

C++ decides autocast by the kind of memory, which is the host's here.
"""

from __future__ import annotations

import torch
from torch.amp import autocast_mode

from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES


def install() -> None:
    """Make autocast for an emulated device cast on the CPU, to fp16 unless a dtype is given."""
    begin = autocast_mode.autocast.__init__

    def begin_on_cpu(
        self: autocast_mode.autocast,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type in TYPES:
            device_type, dtype = "cpu", dtype or torch.float16
        begin(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    replace(
        autocast_mode.autocast,
        "__init__",
        begin_on_cpu,
        "C++ decides autocast by the kind of memory",
    )
