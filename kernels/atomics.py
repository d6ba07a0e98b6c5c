"""Atomic loads, stores and updates at raw addresses, for ``@njit`` code on shared memory.

Each name is a Numba intrinsic that takes an address (``int64``) and becomes one LLVM atomic
instruction, sequentially consistent: on x86-64 a plain ``mov``, ``xchg``, ``lock xadd`` or
``lock cmpxchg``. The address must be aligned to the width; nothing checks it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from emu.kernels.jit import intrinsic

_ORDER = "seq_cst"


def _pointer(builder: Any, address: Any, width: int) -> Any:
    return builder.inttoptr(address, ir.IntType(width).as_pointer())


def _load(ty: Any, width: int) -> Any:
    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load_atomic(
                _pointer(builder, args[0], width), _ORDER, width // 8, typ=ir.IntType(width)
            )

        return ty(types.int64), codegen

    return load


def _store(ty: Any, width: int) -> Any:
    @intrinsic
    def store(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store_atomic(args[1], _pointer(builder, args[0], width), _ORDER, width // 8)
            return context.get_dummy_value()

        return types.void(types.int64, ty), codegen

    return store


def _update(operation: str, ty: Any, width: int) -> Any:
    @intrinsic
    def update(typingctx: Any, address: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(builder, args[0], width)
            return builder.atomic_rmw(operation, pointer, args[1], _ORDER)

        return ty(types.int64, ty), codegen

    return update


def _compare_exchange(ty: Any, width: int) -> Any:
    @intrinsic
    def compare_exchange(typingctx: Any, address: Any, expected: Any, value: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = _pointer(builder, args[0], width)
            pair = builder.cmpxchg(pointer, args[1], args[2], _ORDER, _ORDER)
            return builder.extract_value(pair, 0)

        return ty(types.int64, ty, ty), codegen

    return compare_exchange


load_i32 = _load(types.int32, 32)
load_i64 = _load(types.int64, 64)
store_i32 = _store(types.int32, 32)
store_i64 = _store(types.int64, 64)
add_i32 = _update("add", types.int32, 32)
add_i64 = _update("add", types.int64, 64)
exchange_i32 = _update("xchg", types.int32, 32)
exchange_i64 = _update("xchg", types.int64, 64)
compare_exchange_i32 = _compare_exchange(types.int32, 32)
compare_exchange_i64 = _compare_exchange(types.int64, 64)


@intrinsic
def fence(typingctx: Any) -> Any:
    """Order every load and store before it against every one after it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence(_ORDER)
        return context.get_dummy_value()

    return types.void(), codegen
