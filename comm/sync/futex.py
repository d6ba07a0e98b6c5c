"""Sleeping and waking in the kernel, from ``@njit`` code.

On Linux a futex is reached through libc's ``syscall`` symbol, the same on every architecture.
Elsewhere a sleeper naps for 100 microseconds and looks again; waking is then nothing to do.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from llvmlite import ir
from numba import types
from numba.core import cgutils

from emu.comm.sync.intrinsics import Typed, TypingContext
from emu.kernels.core import system
from emu.kernels.core.jit import intrinsic, jit

if TYPE_CHECKING:
    import numpy as np
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

_SYSCALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
HAVE_FUTEX = system.LINUX and platform.machine() in _SYSCALL
_FUTEX = _SYSCALL.get(platform.machine(), 0)
_WAIT, _WAKE = 0, 1  # not the private forms: the words are shared between processes
_NAP_US = 100

_PAUSE: dict[str, tuple[str, *tuple[int, ...]]] = {
    "x86_64": ("llvm.x86.sse2.pause",),
    "aarch64": ("llvm.aarch64.isb", 15),
    "arm64": ("llvm.aarch64.isb", 15),
}
"""Intrinsic, with its arguments, that lets some time pass in a spin loop, by the names that Linux and macOS have for a
CPU. An Arm core does nothing on ``yield``; ``isb`` empties its pipeline, which takes about as long as x86's ``pause``."""


def _libc(name: str, arguments: int) -> Callable[..., int]:
    """Make an intrinsic that calls a libc function of ``arguments`` int64 and returns int64."""
    signature = types.int64(*[types.int64] * arguments)

    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        i64 = ir.IntType(64)
        kind = ir.FunctionType(i64, [i64] * arguments)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)

    if arguments == 0:

        @intrinsic
        def call(typingctx: TypingContext) -> Typed:
            return signature, codegen

    elif arguments == 1:

        @intrinsic
        def call(typingctx: TypingContext, a: types.Type) -> Typed:
            return signature, codegen

    else:

        @intrinsic
        def call(
            typingctx: TypingContext,
            a: types.Type,
            b: types.Type,
            c: types.Type,
            d: types.Type,
            e: types.Type,
            f: types.Type,
            g: types.Type,
        ) -> Typed:
            return signature, codegen

    made: Callable[..., int] = call
    return made


_syscall = _libc("syscall", 7)
_usleep = _libc("usleep", 1)
sched_yield = _libc("sched_yield", 0)


@intrinsic
def pause(typingctx: TypingContext) -> Typed:
    """Hint to the core that this is a spin loop; do nothing where there is no such hint."""

    def codegen(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        hint = _PAUSE.get(platform.machine())
        if hint is not None:
            name, *numbers = hint
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [i32] * len(numbers))
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            builder.call(function, [ir.Constant(i32, number) for number in numbers])
        return context.get_dummy_value()

    return types.void(), codegen


@jit()
def futex_wait(address: int, expected: int | np.int32, timespec: int) -> None:
    """Sleep while the int32 at ``address`` is ``expected``, at most the timespec at ``timespec``.

    Return on a wake, a change, the time-out or a signal; the caller looks again in any case.
    """
    if HAVE_FUTEX:
        _syscall(_FUTEX, address, _WAIT, expected, timespec, 0, 0)
    else:
        _usleep(_NAP_US)


@jit()
def futex_wake(address: int, count: int) -> None:
    """Wake up to ``count`` sleepers on the int32 at ``address``."""
    if HAVE_FUTEX:
        _syscall(_FUTEX, address, _WAKE, count, 0, 0, 0)
