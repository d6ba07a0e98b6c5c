"""Triton's language and runtime on a CPU: ``import emu.triton as triton``, ``import emu.triton.language as tl``.

Public are the modules and names that Triton has too. All others are internal: names may change in any
release.
"""

from emu.triton import (
    backends,  # noqa: F401 - they register themselves
    knobs,
    language,
    runtime,
    testing,
    tools,  # noqa: F401 - programs write triton.tools.tensor_descriptor without an import of it
)
from emu.triton.compiler import CompilationError, compile
from emu.triton.errors import TritonError
from emu.triton.integers import cdiv, next_power_of_2
from emu.triton.runtime import (
    Config,
    GridRaceError,
    InterpreterError,
    JITFunction,
    KernelInterface,
    MockTensor,
    OutOfBoundsError,
    OutOfResources,
    TensorWrapper,
    UninitialisedError,
    autotune,
    heuristics,
    reinterpret,
    set_allocator,
)
from emu.triton.runtime._async_compile import AsyncCompileMode, FutureKernel
from emu.triton.runtime.jit import aggregate, constexpr_function, jit, must_use_result

__version__ = "3.9.0+emu"
"""The release of Triton whose language this is."""

__all__ = [
    "AsyncCompileMode",
    "CompilationError",
    "Config",
    "FutureKernel",
    "GridRaceError",
    "InterpreterError",
    "JITFunction",
    "KernelInterface",
    "MockTensor",
    "OutOfBoundsError",
    "OutOfResources",
    "TensorWrapper",
    "TritonError",
    "UninitialisedError",
    "aggregate",
    "autotune",
    "cdiv",
    "compile",
    "constexpr_function",
    "heuristics",
    "jit",
    "knobs",
    "language",
    "must_use_result",
    "next_power_of_2",
    "reinterpret",
    "runtime",
    "set_allocator",
    "testing",
]
