"""``torch.profiler`` for emulated devices, whose work the CPU does and the profile shows, Triton kernels by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.autograd import profiler

from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES
from emu.kernels.core.launch_count import Launches


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
    start, stop = profiler.profile._start_trace, profiler.profile.__exit__

    def start_with_kernels(self: profiler.profile) -> None:
        start(self)  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it
        if Launches.around is None:
            Launches.around = _record

    def stop_with_kernels(self: profiler.profile, *error: Any) -> Any:
        if Launches.around is _record:
            Launches.around = None
        return stop(self, *error)  # type: ignore[no-untyped-call, unused-ignore] # as above

    reason = "CUPTI would see the kernels"
    replace(profiler.profile, "_start_trace", start_with_kernels, reason)
    replace(profiler.profile, "__exit__", stop_with_kernels, reason)


def _record(name: str, launch: Callable[[], None]) -> None:
    with profiler.record_function(name):
        launch()
