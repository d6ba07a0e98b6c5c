"""The primitives as compiled code. Nothing here runs in the simulator.

Bit patterns travel as ``uint64``, whatever their width: LLVM drops the widening again. Arithmetic
that must not be fused goes through libdevice's functions with the rounding in their name, because
the code generator for NVIDIA devices turns a product and a sum into one FMA by default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

from llvmlite import ir
from numba.core import types as core_types
from numba.cuda import extending, libdevice
from numba.cuda import types as cuda_types

from emu.kernels.core.annotations import (
    Intrinsic,
    IrBuilder,
    IrType,
    IrValue,
    IrValues,
    NumbaType,
    Signature,
    TargetContext,
    Typed,
    TypingContext,
)

# The separate package numba-cuda has types of its own; Numba's built-in target uses Numba's.
types: ModuleType = cuda_types if hasattr(cuda_types, "int64") else core_types


def _intrinsic(typed: Callable[..., Typed | None]) -> Intrinsic:
    found: Intrinsic = extending.intrinsic(typed)
    return found


_I8, _I16, _I32, _I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
_F16, _F32, _F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
_GLOBAL = 1  # the address space
_ADDRESS, _BITS = types.int64, types.uint64


def _make(
    result: NumbaType, arguments: tuple[NumbaType, ...], build: Callable[..., IrValue | None]
) -> Intrinsic:
    """Make an intrinsic of fixed types from ``build(builder, *values)``."""
    signature = result(*arguments)

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        value = build(builder, *args)
        return context.get_dummy_value() if result == types.void else value

    if len(arguments) == 1:
        return _intrinsic(lambda typingctx, a: (signature, codegen))
    if len(arguments) == 2:
        return _intrinsic(lambda typingctx, a, b: (signature, codegen))
    return _intrinsic(lambda typingctx, a, b, c: (signature, codegen))


def _pointer(
    builder: IrBuilder, address: IrValue, element: IrType, space: int = _GLOBAL
) -> IrValue:
    return builder.inttoptr(address, element.as_pointer(space))


def _load(element: IrType, nbytes: int) -> Intrinsic:
    def build(builder: IrBuilder, address: IrValue) -> IrValue:
        value = builder.load(_pointer(builder, address, element), typ=element)
        value.align = nbytes
        return value if element is _I64 else builder.zext(value, _I64)

    return _make(_BITS, (_ADDRESS,), build)


def _store(element: IrType, nbytes: int) -> Intrinsic:
    def build(builder: IrBuilder, address: IrValue, bits: IrValue) -> None:
        value = bits if element is _I64 else builder.trunc(bits, element)
        builder.store(value, _pointer(builder, address, element)).align = nbytes

    return _make(types.void, (_ADDRESS, _BITS), build)


load_8, load_16, load_32, load_64 = (_load(*e) for e in ((_I8, 1), (_I16, 2), (_I32, 4), (_I64, 8)))
store_8, store_16, store_32, store_64 = (
    _store(*e) for e in ((_I8, 1), (_I16, 2), (_I32, 4), (_I64, 8))
)

_PAIR = ir.VectorType(_I64, 2)


@_intrinsic
def load_128(typingctx: TypingContext, address: NumbaType) -> Typed:
    """Load 16 aligned bytes as a pair of 64-bit patterns, the lower address first."""
    pair = types.UniTuple(_BITS, 2)

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        value = builder.load(_pointer(builder, args[0], _PAIR), typ=_PAIR)
        value.align = 16
        items = [builder.extract_element(value, _I32(i)) for i in range(2)]
        return context.make_tuple(builder, pair, items)

    return pair(_ADDRESS), codegen


def _store_128(builder: IrBuilder, address: IrValue, low: IrValue, high: IrValue) -> None:
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
# As an index: for a signed one Numba adds code that counts negative ones from the end.
unsigned = _make(_BITS, (types.int64,), lambda builder, v: v)
int_f32 = _make(types.float32, (types.int32,), lambda builder, v: builder.sitofp(v, _F32))


def _divide(builder: IrBuilder, index: IrValue, extent: IrValue) -> IrValue:
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
fmul64 = libdevice.dmul_rn


def _ptx(
    code: str, constraints: str, result: IrType, values: tuple[IrType, ...]
) -> Callable[..., IrValue]:
    """Return a builder of one instruction that touches memory."""

    def build(builder: IrBuilder, *args: IrValue) -> IrValue:
        kind = ir.FunctionType(result, values)
        narrow = [
            builder.trunc(arg, value) if arg.type is _I64 and value is _I32 else arg
            for arg, value in zip(args, values, strict=True)
        ]
        found = builder.call(
            ir.InlineAsm(kind, code, f"{constraints},~{{memory}}", side_effect=True), narrow
        )
        return builder.zext(found, _I64) if result is _I32 else found

    return build


# Of system scope, so that other devices may update the same memory; LLVM's own atomic instructions
# become ones that hold among the threads of one device only.
def _cas_u32(space: str) -> Intrinsic:
    code = f"atom.sys{space}.cas.b32 $0, [$1], $2, $3;"
    return _make(_BITS, (_ADDRESS, _BITS, _BITS), _ptx(code, "=r,l,r,r", _I32, (_I64, _I32, _I32)))


cas_u32, any_cas_u32 = _cas_u32(".global"), _cas_u32("")


def _add_at(width: str, constraint: str, argument: NumbaType, value: IrType) -> Intrinsic:
    code = f"red.sys.global.add.{width} [$0], $1;"
    build = _ptx(code, f"l,{constraint}", ir.VoidType(), (_I64, value))
    return _make(types.void, (_ADDRESS, argument), build)


add_u32_at = _add_at("u32", "r", _BITS, _I32)
add_u64_at = _add_at("u64", "l", _BITS, _I64)
add_f64_at = _add_at("f64", "d", types.float64, _F64)


def _any_load_u32(builder: IrBuilder, address: IrValue) -> IrValue:
    value = builder.load(_pointer(builder, address, _I32, 0), typ=_I32)
    value.align = 4
    return builder.zext(value, _I64)


any_load_u32 = _make(_BITS, (_ADDRESS,), _any_load_u32)


def _element(
    context: TargetContext, builder: IrBuilder, kinds: Sequence[NumbaType], values: IrValues
) -> IrValue:
    """Return the address of an element of an array; the index is an integer or a tuple."""
    kind, index_type = kinds
    array = context.make_array(kind)(context, builder, values[0])
    address = builder.ptrtoint(array.data, _I64)
    indices = [(index_type, values[1])]
    if isinstance(index_type, types.BaseTuple):
        part = builder.extract_value
        indices = [(t, part(values[1], i)) for i, t in enumerate(index_type.types)]
    for axis, (t, item) in enumerate(indices):
        step = builder.extract_value(array.strides, axis)
        wide = context.cast(builder, item, t, types.int64)
        address = builder.add(address, builder.mul(wide, step))
    return address


@_intrinsic
def address_of_half(typingctx: TypingContext, array: NumbaType, index: NumbaType) -> Typed | None:
    """Return the address of an element of a ``uint16`` array."""
    if getattr(array, "dtype", None) != types.uint16:
        return None  # Numba then says that there is no such function for these types

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        return _element(context, builder, signature.args, args)

    return types.int64(array, index), codegen


_REGISTERS = {32: (_I32, "r"), 64: (_I64, "l")}


@_intrinsic
def load_acquire(typingctx: TypingContext, array: NumbaType, index: NumbaType) -> Typed | None:
    """Load a 32- or 64-bit element; what its writer stored before is seen from then on."""
    if getattr(getattr(array, "dtype", None), "bitwidth", 0) not in _REGISTERS:
        return None

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        width = signature.args[0].dtype.bitwidth
        register, constraint = _REGISTERS[width]
        address = _element(context, builder, signature.args, args)
        kind = ir.FunctionType(register, [_I64])
        code = f"ld.acquire.sys.b{width} $0, [$1];"
        asm = ir.InlineAsm(kind, code, f"={constraint},l,~{{memory}}", side_effect=True)
        value_type = context.get_value_type(signature.return_type)
        return builder.bitcast(builder.call(asm, [address]), value_type)

    return array.dtype(array, index), codegen


@_intrinsic
def store_release(
    typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType
) -> Typed | None:
    """Store a 32- or 64-bit element; a thread that sees it sees all earlier stores."""
    if getattr(getattr(array, "dtype", None), "bitwidth", 0) not in _REGISTERS:
        return None

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        width = signature.args[0].dtype.bitwidth
        register, constraint = _REGISTERS[width]
        address = _element(context, builder, signature.args[:2], args[:2])
        kind = ir.FunctionType(ir.VoidType(), [_I64, register])
        code = f"st.release.sys.b{width} [$0], $1;"
        asm = ir.InlineAsm(kind, code, f"l,{constraint},~{{memory}}", side_effect=True)
        builder.call(asm, [address, builder.bitcast(args[2], register)])
        return context.get_dummy_value()

    return types.void(array, index, array.dtype), codegen
