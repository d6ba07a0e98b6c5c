"""Launching kernels: arguments, compiled kernels, the device, autotuning."""

from emu.triton.runtime._allocation import set_allocator
from emu.triton.runtime.autotuner import Autotuner, Heuristics, autotune, heuristics
from emu.triton.runtime.config import Config
from emu.triton.runtime.driver import driver
from emu.triton.runtime.errors import (
    GridRaceError,
    InterpreterError,
    OutOfBoundsError,
    OutOfResources,
    UninitialisedError,
)
from emu.triton.runtime.jit import (
    JITFunction,
    KernelInterface,
    MockTensor,
    TensorWrapper,
    reinterpret,
)

__all__ = [
    "Autotuner",
    "Config",
    "GridRaceError",
    "Heuristics",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfBoundsError",
    "OutOfResources",
    "TensorWrapper",
    "UninitialisedError",
    "autotune",
    "driver",
    "heuristics",
    "reinterpret",
    "set_allocator",
]
