"""Single operations in native code, where the reference evaluator alone would not do.

Functions such as ``exp`` are rounded here as in compiled kernels, bit by bit; atomic operations are atomic among
PEs. A kernel of one operation is compiled per code and dtype, once per process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from emu.tile import ir, ops
from emu.tile.objects import Attribute
from emu.tile.ops import Code, Rmw
from emu.tile.types import I32, U64, DType, Pointer, Tile, Type, element_of

Array = np.ndarray[Any, Any]
Run = Callable[[int, int, int, Sequence[int]], None]

INEXACT = ops.ELEMENTWISE - ops.EXACT - {Code.PTR_ADD}
"""Element-wise operations whose last bit is the compiler's choice."""

_LANES = 256


def elementwise(operation: ir.Operation, arrays: Sequence[Array]) -> Array:
    """Return the result of an element-wise operation on numbers, as compiled kernels give it."""
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    attributes = tuple(sorted(operation.attributes.items()))
    types = [element_of(v.type) for v in operation.operands]
    run = _elementwise_kernel(
        operation.code, tuple(types), element_of(operation.results[0].type), attributes
    )
    size = int(np.prod(shape))
    programs = -(-size // _LANES)
    given = []
    for array in arrays:
        padded = np.zeros(programs * _LANES, array.dtype)
        padded[:size] = np.broadcast_to(array, shape).ravel()
        given.append(padded)
    result_type = element_of(operation.results[0].type)
    assert isinstance(result_type, DType)
    result = np.empty(programs * _LANES, result_type.numpy)
    if programs:
        run(programs, 1, 1, [*[g.ctypes.data for g in given], result.ctypes.data])
    return result[:size].reshape(shape)


@functools.cache
def _elementwise_kernel(
    code: Code,
    operands: tuple[Any, ...],
    result: Any,
    attributes: tuple[tuple[str, Attribute], ...],
) -> Run:
    def body(builder: ir.Builder, pointers: Sequence[ir.Value]) -> None:
        first = builder.binary(Code.MUL, builder.program_id(0), builder.constant(_LANES, I32))
        tile = (_LANES,)
        offsets = builder.binary(Code.ADD, builder.splat(first, tile), builder.arange(0, _LANES))
        places = [builder.ptr_add(builder.splat(p, tile), offsets) for p in pointers]
        values = [builder.load(p) for p in places[:-1]]
        made = builder.append(code, values, [Tile(tile, result)], dict(attributes)).result
        builder.store(places[-1], made)

    return _compiled([Pointer(e) for e in (*operands, result)], body)


def atomic(
    operation: ir.Operation, pointers: Array, values: Sequence[Array], mask: Array | None
) -> Array:
    """Return what was in memory before an atomic operation, lane by lane; 0 where the mask is false.

    Args:
        operation: An ATOMIC_RMW or ATOMIC_CAS.
        pointers: Addresses.
        values: What is combined; of ATOMIC_CAS what is expected, and what is new.
        mask: Lanes that take part; None: all.
    """
    element = element_of(operation.operands[1].type)
    kind = operation.attributes.get("kind", "")
    return update(operation.code, element, kind, pointers, values, mask)


def update(
    code: Code,
    element: Any,
    kind: str,
    pointers: Array,
    values: Sequence[Array],
    mask: Array | None,
) -> Array:
    """Return what was in memory before an atomic operation on elements of a dtype; see :func:`atomic`."""
    shape = pointers.shape
    active = np.ones(shape, np.bool_) if mask is None else np.broadcast_to(mask, shape)
    addresses = np.ascontiguousarray(pointers[active], np.uint64)
    given = [np.ascontiguousarray(np.broadcast_to(v, shape)[active]) for v in values]
    old = np.zeros(addresses.shape, given[0].dtype)
    if addresses.size:
        places = [addresses.ctypes.data, *[g.ctypes.data for g in given], old.ctypes.data]
        _atomic_kernel(code, element, kind)(addresses.size, 1, 1, places)
    result = np.zeros(shape, old.dtype)
    result[active] = old
    return result


@functools.cache
def _atomic_kernel(code: Code, element: Any, kind: str) -> Run:
    def body(builder: ir.Builder, pointers: Sequence[ir.Value]) -> None:
        lane = builder.program_id(0)
        address, *given, old = [builder.ptr_add(p, lane) for p in pointers]
        at = builder.cast(builder.load(address), Pointer(element))
        values = [builder.load(g) for g in given]
        if code is Code.ATOMIC_CAS:
            found = builder.atomic_cas(at, *values)
        else:
            found = builder.atomic_rmw(Rmw(kind), at, *values)
        builder.store(old, found)

    count = 2 if code is Code.ATOMIC_CAS else 1
    return _compiled([Pointer(U64), *[Pointer(element)] * (count + 1)], body)


def _compiled(types: Sequence[Type], body: Callable[[ir.Builder, Sequence[ir.Value]], None]) -> Run:
    """Compile a kernel whose arguments are pointers; return the function that runs it on one thread."""
    from emu.tile import cpu

    region = ir.Region([ir.Value(t) for t in types])
    builder = ir.Builder(region)
    body(builder, region.arguments)
    builder.return_()
    run: Run = cpu.compile(ir.Module({"one": ir.Function("one", region)})).bind(1)
    return run
