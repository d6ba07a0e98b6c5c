"""``torch.profiler`` for emulated devices, whose work the CPU does and the profile shows."""

from __future__ import annotations

from typing import Any

from torch.autograd import profiler

from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES


def install() -> None:
    """Record a profile of an emulated device on the CPU, since there are no CUDA events."""
    begin = profiler.profile.__init__

    def begin_on_cpu(
        self: profiler.profile, enabled: bool = True, *args: object, **options: Any
    ) -> None:
        if options.pop("use_cuda", False) or options.get("use_device") in TYPES:
            options.update(use_device=None, use_cpu=True)
        begin(self, enabled, *args, **options)

    replace(profiler.profile, "__init__", begin_on_cpu, "CUPTI, which it would start, is not there")
