"""``torch.profiler`` for a device whose work is done on the CPU: there it is recorded."""

from __future__ import annotations

from typing import Any

from torch.autograd import profiler

from emu.accelerator.state import TYPES


def install() -> None:
    """Have a profile of an emulated device be one of the CPU; there are no events of CUDA's to record."""
    begin = profiler.profile.__init__

    def begin_on_cpu(self: Any, enabled: bool = True, *args: Any, **options: Any) -> None:
        if options.pop("use_cuda", False) or options.get("use_device") in TYPES:
            options.update(use_device=None, use_cpu=True)
        begin(self, enabled, *args, **options)

    profiler.profile.__init__ = begin_on_cpu  # type: ignore[method-assign]
