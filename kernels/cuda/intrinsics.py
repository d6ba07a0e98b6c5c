"""The primitives as compiled code. Nothing here runs in the simulator.

Bit patterns travel as ``uint64``, whatever their width: LLVM drops the widening again. Arithmetic
that must not be fused goes through libdevice's functions with the rounding in their name, because
the code generator for NVIDIA devices turns a product and a sum into one FMA by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types as core_types
from numba.cuda import libdevice
from numba.cuda import types as cuda_types
from numba.cuda.extending import intrinsic as _intrinsic

# The separate package numba-cuda has types of its own; Numba's built-in target uses Numba's.
types: Any = cuda_types if hasattr(cuda_types, "int64") else core_types

_I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
_F16, _F32, _F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
_GLOBAL = 1  # the address space
_ADDRESS, _BITS = types.int64, types.uint64


def _make(result: Any, arguments: tuple[Any, ...], build: Callable[..., Any]) -> Any:
    """Make an intrinsic of fixed types from ``build(builder, *values)``."""
    signature = result(*arguments)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = build(builder, *args)
        return context.get_dummy_value() if result == types.void else value

    if len(arguments) == 1:
        return _intrinsic(lambda typingctx, a: (signature, codegen))
    if len(arguments) == 2:
        return _intrinsic(lambda typingctx, a, b: (signature, codegen))
    return _intrinsic(lambda typingctx, a, b, c: (signature, codegen))


def _pointer(builder: Any, address: Any, element: Any, space: int = _GLOBAL) -> Any:
    return builder.inttoptr(address, element.as_pointer(space))


def _load(element: Any, nbytes: int) -> Any:
    def build(builder: Any, address: Any) -> Any:
        value = builder.load(_pointer(builder, address, element), typ=element)
        value.align = nbytes
        return value if element is _I64 else builder.zext(value, _I64)

    return _make(_BITS, (_ADDRESS,), build)


def _store(element: Any, nbytes: int) -> Any:
    def build(builder: Any, address: Any, bits: Any) -> None:
        value = bits if element is _I64 else builder.trunc(bits, element)
        builder.store(value, _pointer(builder, address, element)).align = nbytes

    return _make(types.void, (_ADDRESS, _BITS), build)


load_8, load_16, load_32, load_64 = (
    _load(*e) for e in ((_I8, 1), (_I16, 2), (_I32, 4), (_I64, 8))
)
store_8, store_16, store_32, store_64 = (
    _store(*e) for e in ((_I8, 1), (_I16, 2), (_I32, 4), (_I64, 8))
)

_PAIR = ir.VectorType(_I64, 2)


@_intrinsic
def load_128(typingctx: Any, address: Any) -> Any:
    """Load 16 aligned bytes as a pair of 64-bit patterns, the lower address first."""
    pair = types.UniTuple(_BITS, 2)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(builder, args[0], _PAIR), typ=_PAIR)
        value.align = 16
        items = [builder.extract_element(value, _I32(i)) for i in range(2)]
        return context.make_tuple(builder, pair, items)

    return pair(_ADDRESS), codegen


def _store_128(builder: Any, address: Any, low: Any, high: Any) -> None:
    value = builder.insert_element(ir.Constant(_PAIR, ir.Undefined), low, _I32(0))
    value = builder.insert_element(value, high, _I32(1))
    builder.store(value, _pointer(builder, address, _PAIR)).align = 16


store_128 = _make(types.void, (_ADDRESS, _BITS, _BITS), _store_128)

as_f32 = _make(
    types.float32, (_BITS,), lambda builder, v: builder.bitcast(builder.trunc(v, _I32), _F32)
)
as_f64 = _make(types.float64, (_BITS,), lambda builder, v: builder.bitcast(v, _F64))
bits_f32 = _make(
    _BITS, (types.float32,), lambda builder, v: builder.zext(builder.bitcast(v, _I32), _I64)
)
bits_f64 = _make(_BITS, (types.float64,), lambda builder, v: builder.bitcast(v, _I64))
f16_to_f32 = _make(
    types.float32,
    (_BITS,),
    lambda builder, v: builder.fpext(builder.bitcast(builder.trunc(v, _I16), _F16), _F32),
)
f32_to_f16 = _make(
    _BITS,
    (types.float32,),
    lambda builder, v: builder.zext(builder.bitcast(builder.fptrunc(v, _F16), _I16), _I64),
)
signed_8 = _make(
    types.int64, (_BITS,), lambda builder, v: builder.sext(builder.trunc(v, _I8), _I64)
)
signed_32 = _make(
    types.int64, (_BITS,), lambda builder, v: builder.sext(builder.trunc(v, _I32), _I64)
)
signed_64 = _make(types.int64, (_BITS,), lambda builder, v: v)
int_f32 = _make(types.float32, (types.int64,), lambda builder, v: builder.sitofp(v, _F32))


def _divide(builder: Any, index: Any, extent: Any) -> Any:
    narrow = [builder.trunc(value, _I32) for value in (index, extent)]
    return builder.zext(builder.udiv(*narrow), _I64)


divide = _make(types.int64, (types.int64, types.int64), _divide)
imul_add = _make(
    types.int32,
    (types.int32, types.int32, types.int32),
    lambda builder, total, a, b: builder.add(total, builder.mul(a, b)),
)

fadd = libdevice.fadd_rn
fmul = libdevice.fmul_rn
fdiv = libdevice.fdiv_rn
fma32 = libdevice.fmaf_rn
fma64 = libdevice.fma_rn
fadd64 = libdevice.dadd_rn
rint = libdevice.rintf


def _cas(element: Any, space: int) -> Any:
    def build(builder: Any, address: Any, expected: Any, value: Any) -> Any:
        if element is not _I64:
            expected, value = (builder.trunc(v, element) for v in (expected, value))
        pointer = _pointer(builder, address, element, space)
        pair = builder.cmpxchg(pointer, expected, value, "monotonic", "monotonic")
        old = builder.extract_value(pair, 0)
        return old if element is _I64 else builder.zext(old, _I64)

    return _make(_BITS, (_ADDRESS, _BITS, _BITS), build)


cas_u32, cas_u64, any_cas_u32 = _cas(_I32, _GLOBAL), _cas(_I64, _GLOBAL), _cas(_I32, 0)


def _any_load_u32(builder: Any, address: Any) -> Any:
    value = builder.load(_pointer(builder, address, _I32, 0), typ=_I32)
    value.align = 4
    return builder.zext(value, _I64)


any_load_u32 = _make(_BITS, (_ADDRESS,), _any_load_u32)


def _add_at(element: Any) -> Any:
    def build(builder: Any, address: Any, value: Any) -> None:
        if element is not _I64:
            value = builder.trunc(value, element)
        builder.atomic_rmw("add", _pointer(builder, address, element), value, "monotonic")

    return _make(types.void, (_ADDRESS, _BITS), build)


add_u32_at, add_u64_at = _add_at(_I32), _add_at(_I64)


def _add_f64_at(builder: Any, address: Any, value: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_I64, _F64])
    code = ir.InlineAsm(kind, "red.global.add.f64 [$0], $1;", "l,d,~{memory}", side_effect=True)
    builder.call(code, [address, value])


add_f64_at = _make(types.void, (_ADDRESS, types.float64), _add_f64_at)


@_intrinsic
def address_of(typingctx: Any, array: Any, index: Any) -> Any:
    """Return the address of an element; ``index`` is an integer or a tuple of them."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, index_type = signature.args
        value = context.make_array(kind)(context, builder, args[0])
        address = builder.ptrtoint(value.data, _I64)
        indices = [(index_type, args[1])]
        if isinstance(index_type, types.BaseTuple):
            parts = builder.extract_value
            indices = [(t, parts(args[1], i)) for i, t in enumerate(index_type.types)]
        for axis, (t, item) in enumerate(indices):
            step = builder.extract_value(value.strides, axis)
            wide = context.cast(builder, item, t, types.int64)
            address = builder.add(address, builder.mul(wide, step))
        return address

    return types.int64(array, index), codegen
