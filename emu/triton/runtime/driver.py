"""The device that kernels run on, as programs query it: ``triton.runtime.driver.active``.

Where torch has emulated devices the answers name one, as the program expects; else they name the CPU.
Figures of the device are those of the host where it has them; the others (registers, shared memory) are
constants that programs divide by to choose a grid.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from emu.kernels.core.environment import cuda_capability, device_model
from emu.triton.active import DriverConfig, driver
from emu.triton.formats import BY_SPELLING
from emu.triton.runtime.arguments import Tensor
from emu.triton.runtime.timing import do_bench

__all__ = ["Driver", "DriverConfig", "GPUTarget", "HostInterface", "driver"]

# Figures of a GPU that programs divide by, to choose how many programs a core holds at once.
REGISTERS_PER_CORE = 65536
SHARED_BYTES_PER_CORE = 1 << 20
WARP_SIZE = 32
_FLUSHED_BYTES = 1 << 25  # larger than the last-level caches of most hosts


@dataclass(frozen=True)
class GPUTarget:
    """Target that kernels are compiled for.

    Attributes:
        backend: ``"cuda"`` or ``"npu"`` where torch emulates that device, else ``"cpu"``.
        arch: Compute capability for ``"cuda"`` (80 for 8.0), else the name of the CPU.
        warp_size: 32.
    """

    backend: str
    arch: int | str
    warp_size: int


class Event:
    """A point in time on the host."""

    def __init__(self, enable_timing: bool = True, **_: object) -> None:
        self._at: float | None = None

    def record(self, stream: object = None) -> None:
        """Record the time."""
        self._at = time.perf_counter()

    def wait(self, stream: object = None) -> None:
        """Return: nothing is under way."""

    def query(self) -> bool:
        """Return True: what was recorded has happened."""
        return True

    def synchronize(self) -> None:
        """Return: nothing is under way."""

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to another.

        Raises:
            RuntimeError: One of them was not recorded.
        """
        if self._at is None or end_event._at is None:
            raise RuntimeError("both events must be recorded before their time is calculated")
        return (end_event._at - self._at) * 1e3


class HostInterface:
    """Stand-in for ``torch.cuda`` on the host, where everything is done when a call returns."""

    Event = Event

    @staticmethod
    def synchronize(device: object = None) -> None:
        """Return: nothing is under way."""

    @staticmethod
    def current_device() -> int:
        """Return 0: there is one."""
        return 0

    @staticmethod
    def device_count() -> int:
        """Return 1: there is one."""
        return 1

    @staticmethod
    def set_device(device: object) -> None:
        """Return: there is one."""

    @staticmethod
    def is_available() -> bool:
        """Return True."""
        return True


class Utilities:
    """Figures that programs read from ``driver.active.utils``."""

    @staticmethod
    def get_device_properties(device: object = None) -> dict[str, int]:
        """Return figures of the device: of its model, else one multiprocessor is a core of the host."""
        model = device_model()
        if model is not None:
            return {
                "max_shared_mem": model.block_shared_kib << 10,
                "max_num_regs": REGISTERS_PER_CORE,
                "multiprocessor_count": model.multiprocessors,
                "warpSize": WARP_SIZE,
                "sm_clock_rate": model.core_mhz * 1000,
                "mem_clock_rate": model.memory_mhz * 1000,
                "mem_bus_width": model.memory_bus,
            }
        return {
            "max_shared_mem": SHARED_BYTES_PER_CORE,
            "max_num_regs": REGISTERS_PER_CORE,
            "multiprocessor_count": os.cpu_count() or 1,
            "warpSize": WARP_SIZE,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 64,
        }


class Driver:
    """Answers about the device, as things are when a method is called."""

    utils = Utilities()

    @staticmethod
    def is_active() -> bool:
        """Return True: there always is a CPU."""
        return True

    def _emulated(self) -> str | None:
        """Return the type of the emulated devices that the program uses, if torch has any."""
        # Looked up, never imported: a program without torch must not pay for loading it.
        accelerator = sys.modules.get("emu.accelerator")
        if accelerator is None or "torch" not in sys.modules or not accelerator.installed():
            return None
        return "npu" if "torch_npu" in sys.modules else "cuda"

    def get_current_target(self) -> GPUTarget:
        """Return the target of kernels, by which programs choose their settings."""
        kind = self._emulated()
        if kind == "cuda":
            major, minor = cuda_capability()
            return GPUTarget(kind, 10 * major + minor, WARP_SIZE)
        from emu.tile.cpu.native import default_target

        return GPUTarget(kind or "cpu", default_target().cpu, WARP_SIZE)

    def get_active_torch_device(self) -> Any:
        """Return the current emulated device, or torch's CPU.

        Raises:
            ModuleNotFoundError: torch is not installed.
        """
        import torch

        kind = self._emulated()
        if kind is None:
            return torch.device("cpu")
        return torch.device(kind, self.get_current_device())

    def get_current_device(self) -> int:
        """Return the index of the current emulated device, or 0."""
        kind = self._emulated()
        if kind is None:
            return 0
        from emu.accelerator.device_tags import current_device

        return current_device(kind)

    def set_current_device(self, device: int) -> None:
        """Make another emulated device the current one; without any: change nothing."""
        kind = self._emulated()
        if kind is not None:
            from emu.accelerator.device_tags import set_current_device

            set_current_device(kind, device)

    def get_current_stream(self, device: object = None) -> int:
        """Return 0, the handle of the default stream: work is done when it is submitted."""
        return 0

    def get_device_interface(self) -> Any:
        """Return ``torch.cuda`` or ``torch.npu`` where they are emulated, else a :class:`HostInterface`."""
        kind = self._emulated()
        return HostInterface if kind is None else getattr(sys.modules["torch"], kind)

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        """Return the capability that emulated GPUs have: (8, 0) unless the environment says otherwise."""
        return cuda_capability()

    def get_benchmarker(self) -> Callable[..., object]:
        """Return :func:`emu.triton.testing.do_bench`."""
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return memory that :meth:`clear_cache` overwrites: a tensor, or an array without torch."""
        torch = sys.modules.get("torch")
        if torch is not None:
            return torch.empty(_FLUSHED_BYTES, dtype=torch.int8)
        import numpy as np

        return np.empty(_FLUSHED_BYTES, np.int8)

    def clear_cache(self, cache: Tensor) -> None:
        """Overwrite the memory, so that the caches of the CPU hold it and little else."""
        cache.zero_() if hasattr(cache, "zero_") else cache.fill(0)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C++ type of an argument's type in a signature."""
        if ty.startswith("*"):
            return "void*"
        found = BY_SPELLING[ty]
        if found.is_float:
            return "double" if found.bits == 64 else "float"
        return f"{'u' if ty.startswith('u') else ''}int{max(found.bits, 8)}_t"


driver.default = Driver()
