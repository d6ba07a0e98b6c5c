"""The clock of all PEs: monotonic nanoseconds, the same in every process and in compiled code."""

from __future__ import annotations

import sys
import time
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.kernels.jit import intrinsic, jit

# The number that clock_gettime takes on this system, which NumPy's and Python's clocks use too.
_MONOTONIC = 1 if sys.platform == "linux" else int(getattr(time, "CLOCK_MONOTONIC", 1))


@intrinsic
def _clock(typingctx: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        spec = cgutils.alloca_once(builder, ir.ArrayType(i64, 2))
        pointer = builder.bitcast(spec, i64.as_pointer())
        kind = ir.FunctionType(i32, [i32, i64.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(function, [ir.Constant(i32, _MONOTONIC), pointer])
        seconds = builder.load(pointer)
        nanoseconds = builder.load(builder.gep(pointer, [ir.Constant(i64, 1)]))
        return builder.add(builder.mul(seconds, ir.Constant(i64, 1_000_000_000)), nanoseconds)

    return types.int64(), codegen


@jit()
def clock_ns() -> Any:
    """Return what :func:`time.monotonic_ns` returns; some 20 nanoseconds."""
    return _clock()


__all__ = ["clock_ns"]
