"""The clock of all PEs: monotonic nanoseconds, the same in every process and in compiled code.

And sleeping by it, to the microsecond, where Linux would by default be 50 microseconds late.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.comm.sync.intrinsics import Typed, TypingContext
from emu.kernels.core import system
from emu.kernels.core.jit import intrinsic, jit

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

# The number of the clock that time.monotonic_ns reads: on macOS it stands while the machine sleeps.
_MONOTONIC = int(
    getattr(time, "CLOCK_UPTIME_RAW" if sys.platform == "darwin" else "CLOCK_MONOTONIC", 1)
)
_IS_LINUX = system.LINUX


@intrinsic
def _clock(typingctx: TypingContext) -> Typed:
    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
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
def clock_ns() -> int:
    """Return what :func:`time.monotonic_ns` returns; some 20 nanoseconds."""
    now: int = _clock()
    return now


_ABSOLUTE = 1  # TIMER_ABSTIME
_SET_SLACK, _GET_SLACK = 29, 30  # of prctl


def _call(
    builder: ir.IRBuilder, name: str, result: ir.Type, types_: list[ir.Type], args: list[ir.Value]
) -> ir.Value:
    kind = ir.FunctionType(result, types_)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


def _prctl(builder: ir.IRBuilder, option: int, value: ir.Value) -> ir.Value:
    i32, i64 = ir.IntType(32), ir.IntType(64)
    kind = ir.FunctionType(i32, [i32], var_arg=True)
    function = cgutils.get_or_insert_function(builder.module, kind, "prctl")
    zero = ir.Constant(i64, 0)
    return builder.call(function, [ir.Constant(i32, option), value, zero, zero, zero])


@intrinsic
def _sleep_linux(typingctx: TypingContext, deadline: types.Type) -> Typed:
    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        pointer, second = i64.as_pointer(), ir.Constant(i64, 1_000_000_000)
        spec = builder.bitcast(cgutils.alloca_once(builder, ir.ArrayType(i64, 2)), pointer)
        builder.store(builder.udiv(args[0], second), spec)
        builder.store(builder.urem(args[0], second), builder.gep(spec, [ir.Constant(i64, 1)]))
        zero = ir.Constant(i64, 0)
        slack = builder.sext(_prctl(builder, _GET_SLACK, zero), i64)
        # Where it cannot be read, 0 brings back the thread's default.
        slack = builder.select(builder.icmp_signed(">", slack, zero), slack, zero)
        _prctl(builder, _SET_SLACK, ir.Constant(i64, 1))
        numbers = [ir.Constant(i32, n) for n in (_MONOTONIC, _ABSOLUTE)]
        nothing = ir.Constant(pointer, None)
        kinds = [i32, i32, pointer, pointer]
        _call(builder, "clock_nanosleep", i32, kinds, [*numbers, spec, nothing])
        _prctl(builder, _SET_SLACK, slack)
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def _usleep(typingctx: TypingContext, microseconds: types.Type) -> Typed:
    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        i32 = ir.IntType(32)
        _call(builder, "usleep", i32, [i32], [builder.trunc(args[0], i32)])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@jit()
def sleep_to(deadline: int) -> None:
    """Sleep until the clock shows ``deadline``; a signal ends it earlier.

    The thread's timer slack is 1 ns meanwhile. Keep it below a second: elsewhere than on Linux it
    is one ``usleep``.
    """
    if _IS_LINUX:
        _sleep_linux(deadline)
    else:
        left = deadline - clock_ns()
        if left > 0:
            _usleep(left // 1000)
