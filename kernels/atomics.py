"""Atomic loads, stores and updates of shared memory, for ``@njit`` code.

**On arrays**, for a user's own functions: the element is named as in ``array[index]``.

    from emu.kernels import atomics
    from emu.kernels.jit import jit

    @jit
    def count(histogram, samples):
        for sample in samples:
            atomics.add(histogram, sample, 1)

    histogram = world.alloc(64, np.int32)  # on(0) is PE 0's part as an ndarray, on every PE
    count(histogram.on(0), samples)        # so all PEs count into the same memory

* ``load(array, index)`` gives the element; ``store(array, index, value)`` replaces it and returns nothing.
* ``add`` and ``sub`` (array, index, value): integers wrap.
* ``minimum`` and ``maximum``: NaN wins, as in ``np.minimum``; of 0.0 and -0.0 the one that is there stays.
* ``and_``, ``or_`` and ``xor``: integers only.
* ``exchange(array, index, value)`` replaces the element.
* ``compare_exchange(array, index, expected, value)`` replaces it if it is ``expected``, compared bit by
  bit: NaN can be expected, and 0.0 is not -0.0.
* ``add_f16`` and ``add_bf16`` take ``uint16`` arrays that hold the bits (``array.view(np.uint16)``), add
  in fp32 and round once; the value and what they return are fp32. Numba knows neither dtype.
* ``fence()`` orders all loads and stores before it against all after it.

Each update returns what was there before, and all are sequentially consistent. The dtype is an integer
of 8 to 64 bits, float32 or float64. ``index`` is an integer, or a tuple of as many as the array has
axes; negative ones count from the end, and bounds are checked where ``array[index]`` checks them
(``boundscheck=True`` or ``NUMBA_BOUNDSCHECK=1``). A value is converted to the array's dtype as
``array[index] = value`` would. What does not fit is refused when the function is compiled. Elements lie
at multiples of their size, as all but packed records do; this is only seen where the type says it.

Compile functions of your own with :func:`emu.kernels.jit.jit`, or with ``numba.njit`` without a cache: Numba's
own cache does not see an update of emu.

**At raw addresses**, for kernels that PEs share (:mod:`emu.kernels.core.address` says why): the names that end
in a width take an address (``int64``), which must be aligned to it; nothing checks that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core.errors import TypingError
from numba.np import arrayobj

from emu.kernels.core.annotations import (
    Array,
    Dispatcher,
    Index,
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
from emu.kernels.core.dtypes import bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16
from emu.kernels.core.jit import fixed_intrinsic, intrinsic

_ORDER = "seq_cst"


def _pointer(builder: IrBuilder, address: IrValue, width: int) -> IrValue:
    return builder.inttoptr(address, ir.IntType(width).as_pointer())


def _load(ty: NumbaType, width: int) -> Intrinsic:
    @fixed_intrinsic(ty, types.int64)
    def load(builder: IrBuilder, address: IrValue) -> IrValue:
        pointer = _pointer(builder, address, width)
        return builder.load_atomic(pointer, _ORDER, width // 8, typ=ir.IntType(width))

    return load


def _store(ty: NumbaType, width: int) -> Intrinsic:
    @fixed_intrinsic(types.void, types.int64, ty)
    def store(builder: IrBuilder, address: IrValue, value: IrValue) -> None:
        builder.store_atomic(value, _pointer(builder, address, width), _ORDER, width // 8)

    return store


def _update(operation: str, ty: NumbaType, width: int) -> Intrinsic:
    @fixed_intrinsic(ty, types.int64, ty)
    def update(builder: IrBuilder, address: IrValue, value: IrValue) -> IrValue:
        return builder.atomic_rmw(operation, _pointer(builder, address, width), value, _ORDER)

    return update


def _compare_exchange(ty: NumbaType, width: int) -> Intrinsic:
    @fixed_intrinsic(ty, types.int64, ty, ty)
    def compare_exchange(
        builder: IrBuilder, address: IrValue, expected: IrValue, value: IrValue
    ) -> IrValue:
        pointer = _pointer(builder, address, width)
        return builder.extract_value(builder.cmpxchg(pointer, expected, value, _ORDER, _ORDER), 0)

    return compare_exchange


load_u16 = _load(types.uint16, 16)
load_i32 = _load(types.int32, 32)
load_i64 = _load(types.int64, 64)
store_i32 = _store(types.int32, 32)
store_i64 = _store(types.int64, 64)
add_i32 = _update("add", types.int32, 32)
add_i64 = _update("add", types.int64, 64)
exchange_i32 = _update("xchg", types.int32, 32)
exchange_i64 = _update("xchg", types.int64, 64)
compare_exchange_u16 = _compare_exchange(types.uint16, 16)
compare_exchange_i32 = _compare_exchange(types.int32, 32)
compare_exchange_i64 = _compare_exchange(types.int64, 64)


@fixed_intrinsic(types.void)
def fence(builder: IrBuilder) -> None:
    """Order every load and store before it against every one after it."""
    builder.fence(_ORDER)


# --- on arrays -----------------------------------------------------------------------------------

Build: TypeAlias = Callable[[IrBuilder, IrValue, IrType, IrValues], IrValue | None]
"""Emitter of an update: (builder, pointer to the element, its LLVM type, values) to the result."""

Dtypes: TypeAlias = frozenset[NumbaType]

_SIGNED = frozenset((types.int8, types.int16, types.int32, types.int64))
_UNSIGNED = frozenset((types.uint8, types.uint16, types.uint32, types.uint64))
_INTEGERS = _SIGNED | _UNSIGNED
_FLOATS = frozenset((types.float32, types.float64))
_NUMBERS = _INTEGERS | _FLOATS
_HALVES = frozenset((types.uint16,))
_NAMES = {
    _INTEGERS: "int8 to int64 or uint8 to uint64",
    _NUMBERS: "int8 to int64, uint8 to uint64, float32 or float64",
    _HALVES: "uint16, the bits of its elements",
}


def _parts(index: NumbaType) -> tuple[NumbaType, ...]:
    return tuple(index) if isinstance(index, types.BaseTuple) else (index,)  # type: ignore[arg-type]  # Numba's stub


def _check_element(name: str, allowed: Dtypes, array: NumbaType, index: NumbaType) -> None:
    """Raise TypingError unless ``array[index]`` is an element that can be changed atomically."""
    if (
        not isinstance(array, types.Array)
        or array.dtype not in allowed
        or not array.aligned
        or not (array.mutable or name == "load")
    ):
        writable = "an" if name == "load" else "a writable,"
        raise TypingError(
            f"atomics.{name}: array must be {writable} aligned array of {_NAMES[allowed]}, "
            f"but got {array}"
        )
    parts = _parts(index)
    if len(parts) != array.ndim or not all(isinstance(part, types.Integer) for part in parts):
        count = "an integer" if array.ndim == 1 else f"a tuple of {array.ndim} integers"
        raise TypingError(f"atomics.{name}: index must be {count} for {array}, but got {index}")


def _check_value(name: str, dtype: NumbaType, value: NumbaType) -> None:
    if not isinstance(value, types.Number | types.Boolean) or isinstance(value, types.Complex):
        raise TypingError(
            f"atomics.{name}: a value must be a number that converts to {dtype}, but got {value}"
        )


def _pointer_to(
    context: TargetContext,
    builder: IrBuilder,
    array_type: NumbaType,
    array: IrValue,
    index: tuple[NumbaType, IrValue],
) -> IrValue:
    """Return the pointer to ``array[index]``, as Numba's own indexing finds it."""
    index_type, value = index
    view = arrayobj.make_array(array_type)(context, builder, value=array)
    kinds = _parts(index_type)
    values = [value]
    if isinstance(index_type, types.BaseTuple):
        values = [builder.extract_value(value, i) for i in range(len(kinds))]
    pointer, _, _ = arrayobj.basic_indexing(
        context, builder, array_type, view, kinds, values, boundscheck=context.enable_boundscheck
    )
    return pointer


def _on_element(
    name: str,
    allowed: Dtypes,
    arguments: tuple[NumbaType, ...],
    build: Build,
    *,
    returns: bool = True,
) -> Typed:
    """Type an intrinsic on (array, index, values ...) that ``build`` emits."""
    array, index, *values = arguments
    _check_element(name, allowed, array, index)
    for value in values:
        _check_value(name, array.dtype, value)
    index = types.unliteral(index)

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        pointer = _pointer_to(context, builder, array, args[0], (index, args[1]))
        kind = context.get_value_type(array.dtype)
        result = build(builder, pointer, kind, list(args[2:]))
        return result if returns else context.get_dummy_value()

    result = array.dtype if returns else types.void
    return result(array, index, *[array.dtype] * len(values)), codegen


def _width(kind: IrType) -> int:
    return {ir.FloatType(): 32, ir.DoubleType(): 64}.get(kind) or int(kind.width)


def _rmw(name: str, allowed: Dtypes, operation: str, *args: NumbaType) -> Typed:
    def build(builder: IrBuilder, pointer: IrValue, kind: IrType, values: IrValues) -> IrValue:
        return builder.atomic_rmw(operation, pointer, values[0], _ORDER)

    return _on_element(name, allowed, args, build)


def _float_extreme(less: bool) -> Build:
    """Emit a loop of compare-exchange, which ends without a store where nothing would change."""

    def build(builder: IrBuilder, pointer: IrValue, kind: IrType, values: IrValues) -> IrValue:
        value = values[0]
        bits = ir.IntType(_width(kind))
        place = builder.bitcast(pointer, bits.as_pointer())
        first = builder.load_atomic(place, _ORDER, bits.width // 8, typ=bits)
        start = builder.block
        look, swap, done = (
            builder.append_basic_block(f"atomic_{n}") for n in ("look", "swap", "done")
        )
        builder.branch(look)
        builder.position_at_end(look)
        seen = builder.phi(bits)
        seen.add_incoming(first, start)
        old = builder.bitcast(seen, kind)
        # An unordered comparison holds for NaN: a NaN replaces all but another NaN.
        beyond = builder.fcmp_unordered("<" if less else ">", value, old)
        change = builder.and_(beyond, builder.fcmp_ordered("ord", old, old))
        builder.cbranch(change, swap, done)
        builder.position_at_end(swap)
        pair = builder.cmpxchg(place, seen, builder.bitcast(value, bits), _ORDER, _ORDER)
        seen.add_incoming(builder.extract_value(pair, 0), swap)
        builder.cbranch(builder.extract_value(pair, 1), done, look)
        builder.position_at_end(done)
        return old

    return build


def _extreme(name: str, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    dtype = getattr(array, "dtype", None)
    if dtype in _FLOATS:
        build = _float_extreme(name == "minimum")
        return _on_element(name, _NUMBERS, (array, index, value), build)
    operation = "min" if name == "minimum" else "max"
    if dtype in _UNSIGNED:
        operation = f"u{operation}"
    return _rmw(name, _NUMBERS, operation, array, index, value)


@intrinsic
def load(typingctx: TypingContext, array: NumbaType, index: NumbaType) -> Typed:
    """Return the element."""

    def build(builder: IrBuilder, pointer: IrValue, kind: IrType, values: IrValues) -> IrValue:
        return builder.load_atomic(pointer, _ORDER, _width(kind) // 8, typ=kind)

    return _on_element("load", _NUMBERS, (array, index), build)


@intrinsic
def store(typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Replace the element."""

    def build(builder: IrBuilder, pointer: IrValue, kind: IrType, values: IrValues) -> None:
        builder.store_atomic(values[0], pointer, _ORDER, _width(kind) // 8)

    arguments = (array, index, value)
    return _on_element("store", _NUMBERS, arguments, build, returns=False)


@intrinsic
def add(typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Add to the element; integers wrap. Return what was there."""
    operation = "fadd" if getattr(array, "dtype", None) in _FLOATS else "add"
    return _rmw("add", _NUMBERS, operation, array, index, value)


@intrinsic
def sub(typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Subtract from the element; integers wrap. Return what was there."""
    operation = "fsub" if getattr(array, "dtype", None) in _FLOATS else "sub"
    return _rmw("sub", _NUMBERS, operation, array, index, value)


@intrinsic
def minimum(
    typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType
) -> Typed:
    """Keep the lesser of the element and ``value``; NaN wins. Return what was there."""
    return _extreme("minimum", array, index, value)


@intrinsic
def maximum(
    typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType
) -> Typed:
    """Keep the greater of the element and ``value``; NaN wins. Return what was there."""
    return _extreme("maximum", array, index, value)


@intrinsic
def and_(typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Keep the bits that ``value`` has too. Return what was there."""
    return _rmw("and_", _INTEGERS, "and", array, index, value)


@intrinsic
def or_(typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Set the bits of ``value``. Return what was there."""
    return _rmw("or_", _INTEGERS, "or", array, index, value)


@intrinsic
def xor(typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType) -> Typed:
    """Flip the bits of ``value``. Return what was there."""
    return _rmw("xor", _INTEGERS, "xor", array, index, value)


@intrinsic
def exchange(
    typingctx: TypingContext, array: NumbaType, index: NumbaType, value: NumbaType
) -> Typed:
    """Replace the element. Return what was there."""
    return _rmw("exchange", _NUMBERS, "xchg", array, index, value)


@intrinsic
def compare_exchange(
    typingctx: TypingContext,
    array: NumbaType,
    index: NumbaType,
    expected: NumbaType,
    value: NumbaType,
) -> Typed:
    """Replace the element if its bits are those of ``expected``. Return what was there."""

    def build(builder: IrBuilder, pointer: IrValue, kind: IrType, values: IrValues) -> IrValue:
        bits = ir.IntType(_width(kind))
        place = builder.bitcast(pointer, bits.as_pointer())
        before, after = (builder.bitcast(value, bits) for value in values)
        pair = builder.cmpxchg(place, before, after, _ORDER, _ORDER)
        return builder.bitcast(builder.extract_value(pair, 0), kind)

    arguments = (array, index, expected, value)
    return _on_element("compare_exchange", _NUMBERS, arguments, build)


@intrinsic
def _half_address(typingctx: TypingContext, array: NumbaType, index: NumbaType) -> Typed:
    index = types.unliteral(index)

    def codegen(
        context: TargetContext, builder: IrBuilder, signature: Signature, args: IrValues
    ) -> IrValue:
        pointer = _pointer_to(context, builder, array, args[0], (index, args[1]))
        return builder.ptrtoint(pointer, ir.IntType(64))

    return types.int64(array, index), codegen


def add_f16(array: Array, index: Index, value: float) -> float:
    """Add an fp32 value to an fp16 element of a ``uint16`` array, rounding once.

    Returns:
        What was there, as fp32.
    """
    raise TypeError("atomics.add_f16 must be called in @njit code, but was called from Python")


def add_bf16(array: Array, index: Index, value: float) -> float:
    """Add an fp32 value to a bf16 element of a ``uint16`` array; as :func:`add_f16`."""
    raise TypeError("atomics.add_bf16 must be called in @njit code, but was called from Python")


def _overload_half(function: Callable[..., float], widen: Dispatcher, narrow: Dispatcher) -> None:
    """Compile calls of ``function``: the sum is taken in fp32 and rounded once to 16 bits."""
    name = function.__name__

    @extending.overload(function, inline="never")
    def typed(array: NumbaType, index: NumbaType, value: NumbaType) -> Callable[..., float]:
        _check_element(name, _HALVES, array, index)
        _check_value(name, types.float32, value)

        # Numba compares the parameters with those above, annotations included.
        def update(array: NumbaType, index: NumbaType, value: NumbaType) -> float:
            place = _half_address(array, index)
            seen = load_u16(place)
            while True:
                old: float = widen(seen)
                before = seen
                seen = compare_exchange_u16(place, before, narrow(old + np.float32(value)))
                if seen == before:
                    return old

        return update


_overload_half(add_f16, f16_to_f32, f32_to_f16)
_overload_half(add_bf16, bf16_to_f32, f32_to_bf16)


__all__ = [
    "add",
    "add_bf16",
    "add_f16",
    "add_i32",
    "add_i64",
    "and_",
    "compare_exchange",
    "compare_exchange_i32",
    "compare_exchange_i64",
    "compare_exchange_u16",
    "exchange",
    "exchange_i32",
    "exchange_i64",
    "fence",
    "load",
    "load_i32",
    "load_i64",
    "load_u16",
    "maximum",
    "minimum",
    "or_",
    "store",
    "store_i32",
    "store_i64",
    "sub",
    "xor",
]
