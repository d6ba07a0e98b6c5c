"""Copy past the caches: for results larger than them, which no one reads soon.

A plain store to memory that is not in the cache first fetches the line, and pushes out another that may
still be needed. A non-temporal store does neither: measured, two processes that fill large arrays
from cached sources go up to twice as fast (docs/machine.md has the machine). A target that fits in the
cache and is read next is better copied plainly.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from emu.kernels.address import move_bytes
from emu.kernels.jit import intrinsic, jit

_VECTOR, _STEP, _LINE = 32, 128, 64


@intrinsic
def _stream_step(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy ``_STEP`` bytes to a target aligned to a vector, with non-temporal stores."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        vector = ir.VectorType(i64, _VECTOR // 8)
        parts = []
        for offset in range(0, _STEP, _VECTOR):
            address = builder.add(args[1], ir.Constant(i64, offset))
            part = builder.load(builder.inttoptr(address, vector.as_pointer()))
            part.align = 1
            parts.append(part)
        hint = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        for index, part in enumerate(parts):
            address = builder.add(args[0], ir.Constant(i64, index * _VECTOR))
            store = builder.store(part, builder.inttoptr(address, vector.as_pointer()))
            store.align = _VECTOR
            store.set_metadata("nontemporal", hint)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@jit()
def stream_bytes(target: int, source: int, count: int) -> None:
    """Copy ``count`` bytes between ranges that don't overlap.

    Others see the stores in order only behind a fence (``emu.kernels.atomics.fence``).
    """
    head = -target & (_LINE - 1)
    if count < head + _STEP:
        move_bytes(target, source, count)
        return
    move_bytes(target, source, head)
    steps = (count - head) // _STEP
    for step in range(steps):
        _stream_step(target + head + step * _STEP, source + head + step * _STEP)
    done = head + steps * _STEP
    move_bytes(target + done, source + done, count - done)
