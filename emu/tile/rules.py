"""What each operation of the tile IR must look like: operands, attributes, results, regions.

``RULES`` has one function for each code; it raises ``Broken`` where its operation breaks a rule that can
be seen from the operation alone. ``emu.tile.verify`` calls them and checks the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from emu.tile import ops
from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.types import (
    F16,
    F32,
    F64,
    I1,
    I32,
    I64,
    U64,
    DType,
    Pointer,
    Tile,
    Token,
    Type,
    element_of,
    shape_of,
    with_element,
    with_shape,
)

Rule: TypeAlias = Callable[[Operation], None]
Tests: TypeAlias = dict[str, tuple[Callable[[Any], bool], str]]


class Broken(Exception):
    """An operation breaks a rule; the text says which."""


def need(holds: bool, message: str) -> None:
    """Raise ``Broken`` unless something holds."""
    if not holds:
        raise Broken(message)


def types_are(what: str, found: Sequence[Value], wanted: Sequence[Type]) -> None:
    """Demand the types of a list of values."""
    types = [v.type for v in found]
    if types != list(wanted):
        raise Broken(f"{what} must be {_listed(wanted)}, but got {_listed(types)}")


def _listed(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def _operands(o: Operation, least: int, most: int | None = None) -> None:
    most = least if most is None else most
    if not least <= len(o.operands) <= most:
        counts = str(least) if least == most else f"{least} to {most}"
        raise Broken(f"it must have {counts} operands, but got {len(o.operands)}")


def _result(o: Operation, type_: Type) -> None:
    types_are("its results", o.results, [type_])


def _tile(value: Value, what: str = "its operand") -> Tile:
    if not isinstance(value.type, Tile):
        raise Broken(f"{what} must be a tile, but got {value.type}")
    return value.type


def _data(value: Value) -> Type:
    need(not isinstance(value.type, Token), "its operands must not be tokens")
    return value.type


def _dtype(value: Value, allowed: Callable[[DType], bool], what: str) -> DType:
    element = element_of(_data(value))
    if not isinstance(element, DType) or not allowed(element):
        raise Broken(f"it takes {what}, but got {value.type}")
    return element


def _is_integer(dtype: DType) -> bool:
    return dtype.is_integer


def _is_float(dtype: DType) -> bool:
    return dtype.is_float


def _is_number(dtype: DType) -> bool:
    return dtype != I1


def _axis(o: Operation, rank: int) -> int:
    axis = int(o.attributes["axis"])
    need(0 <= axis < rank, f"axis must be 0 to {rank - 1}, but got {axis}")
    return axis


# ---- attributes


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _wholes(value: Any) -> bool:
    return isinstance(value, tuple) and all(map(_whole, value))


_AXIS: Tests = {"axis": (_whole, "an int")}
_NAN: Tests = {"propagate_nan": (_truth, "a bool")}

REQUIRED: dict[Code, Tests] = {
    Code.CONSTANT: {"value": (lambda v: isinstance(v, bool | int | float), "a number")},
    Code.PROGRAM_ID: _AXIS,
    Code.NUM_PROGRAMS: _AXIS,
    Code.ARANGE: {"start": (_whole, "an int"), "end": (_whole, "an int")},
    Code.PERMUTE: {"order": (_wholes, "a tuple of ints")},
    Code.CAT: _AXIS,
    Code.GATHER: _AXIS,
    Code.FLIP: _AXIS,
    Code.ATOMIC_RMW: {"kind": (_text, "a string")},
    Code.CALL: {"callee": (_text, "a string")},
    Code.REDUCE: _AXIS,
    Code.SCAN: _AXIS,
    Code.HISTOGRAM: {"bins": (_whole, "an int")},
    Code.ASSERT: {"message": (_text, "a string")},
    Code.PRINT: {"prefix": (_text, "a string")},
}
"""Attributes that must be there, with a test and what it demands."""

OPTIONAL: dict[Code, Tests] = {
    Code.CAST: {"rounding": (lambda v: v in ("rtne", "rtz"), '"rtne" or "rtz"')},
    Code.MIN: _NAN,
    Code.MAX: _NAN,
    Code.SCAN: {"reverse": (_truth, "a bool")},
    Code.PRINT: {"hex": (_truth, "a bool")},
}
"""Attributes that may be there."""


def check_attributes(o: Operation) -> None:
    """Demand the attributes that the code has, and no others."""
    required, optional = REQUIRED.get(o.code, {}), OPTIONAL.get(o.code, {})
    for name, (test, what) in {**required, **optional}.items():
        if name not in o.attributes:
            need(name not in required, f"it must have the attribute {name}")
        elif not test(o.attributes[name]):
            raise Broken(f"{name} must be {what}, but got {o.attributes[name]!r}")
    for name in o.attributes:
        need(name in required or name in optional, f"it has no attribute {name}")


# ---- values from nothing


def _constant(o: Operation) -> None:
    _operands(o, 0)
    need(len(o.results) == 1, "it must have 1 result")
    element, value = element_of(_data(o.result)), o.attributes["value"]
    if isinstance(element, DType) and element.is_float:
        return
    need(isinstance(value, int), f"a value of {element} must be an int, but got {value!r}")
    if element == I1:
        low, high = 0, 1
    elif isinstance(element, Pointer):
        low, high = 0, 2**64 - 1
    else:
        info = np.iinfo(element.numpy)
        low, high = int(info.min), int(info.max)
    need(low <= value <= high, f"a value of {element} must be {low} to {high}, but got {value}")


def _program(o: Operation) -> None:
    _operands(o, 0)
    _axis(o, 3)
    _result(o, I32)


def _arange(o: Operation) -> None:
    _operands(o, 0)
    start, end = o.attributes["start"], o.attributes["end"]
    need(start < end, f"start must be less than end, but got {start} and {end}")
    need(start >= -(2**31) and end <= 2**31, f"it must fit i32, but got {start} to {end}")
    _result(o, Tile((end - start,), I32))


# ---- shape


def _splat(o: Operation) -> None:
    _operands(o, 1)
    type_ = _data(o.operands[0])
    need(not isinstance(type_, Tile), f"its operand must be a scalar, but got {type_}")
    need(len(o.results) == 1, "it must have 1 result")
    _result(o, Tile(_tile(o.result, "its result").shape, element_of(type_)))


def _reshaped(o: Operation) -> tuple[Tile, Tile]:
    _operands(o, 1)
    need(len(o.results) == 1, "it must have 1 result")
    source, target = _tile(o.operands[0]), _tile(o.result, "its result")
    _result(o, Tile(target.shape, source.element))
    return source, target


def _broadcast(o: Operation) -> None:
    source, target = _reshaped(o)
    fits = source.rank == target.rank and all(
        s in (1, t) for s, t in zip(source.shape, target.shape, strict=True)
    )
    need(fits, f"{source} cannot be broadcast to {target}")


def _reshape(o: Operation) -> None:
    source, target = _reshaped(o)
    need(source.size == target.size, f"{source} cannot be reshaped to {target}")


def _permute(o: Operation) -> None:
    _operands(o, 1)
    source, order = _tile(o.operands[0]), o.attributes["order"]
    permutes = sorted(order) == list(range(source.rank))
    need(permutes, f"order must permute {source.rank} axes, but got {order}")
    _result(o, Tile(tuple(source.shape[a] for a in order), source.element))


def _join(o: Operation) -> None:
    _operands(o, 2)
    first = _data(o.operands[0])
    types_are("its operands", o.operands, [first] * 2)
    _result(o, Tile((*shape_of(first), 2), element_of(first)))


def _split(o: Operation) -> None:
    _operands(o, 1)
    source = _tile(o.operands[0])
    need(source.shape[-1] == 2, f"the last axis must have extent 2, but got {source}")
    types_are("its results", o.results, [with_shape(source.shape[:-1], source.element)] * 2)


def _cat(o: Operation) -> None:
    _operands(o, 2)
    first, second = (_tile(v) for v in o.operands)
    axis = _axis(o, first.rank)
    wanted = list(second.shape)
    if axis < second.rank:
        wanted[axis] = first.shape[axis]
    need(Tile(tuple(wanted), second.element) == first, f"it cannot put {second} behind {first}")
    shape = list(first.shape)
    shape[axis] += second.shape[axis]
    _result(o, Tile(tuple(shape), first.element))


def _gather(o: Operation) -> None:
    _operands(o, 2)
    source, index = (_tile(v) for v in o.operands)
    _dtype(o.operands[1], _is_integer, "integers as indices")
    axis = _axis(o, source.rank)
    fits = index.rank == source.rank and all(
        a == axis or i == s for a, (i, s) in enumerate(zip(index.shape, source.shape, strict=True))
    )
    need(fits, f"{index} cannot index {source} along axis {axis}")
    _result(o, Tile(index.shape, source.element))


def _flip(o: Operation) -> None:
    _operands(o, 1)
    _axis(o, _tile(o.operands[0]).rank)
    _result(o, o.operands[0].type)


# ---- element by element


def _unary(o: Operation) -> None:
    _operands(o, 1)
    if o.code in ops.FLOAT_UNARY:
        _dtype(o.operands[0], _is_float, "floating-point values")
    elif o.code is Code.NOT:
        _dtype(o.operands[0], lambda d: not d.is_float, "integers or i1")
    else:
        _dtype(o.operands[0], _is_number, "integers or floating-point values")
    _result(o, o.operands[0].type)


_ALSO_OF_I1 = {Code.ADD, Code.SUB, Code.MUL, Code.MIN, Code.MAX, Code.AND, Code.OR, Code.XOR}


def _binary(o: Operation) -> None:
    _operands(o, 2)
    types_are("its operands", o.operands, [_data(o.operands[0])] * 2)
    if o.code in ops.FLOAT_BINARY:
        dtype = _dtype(o.operands[0], _is_float, "floating-point values")
    elif o.code in ops.BITWISE:
        dtype = _dtype(o.operands[0], lambda d: not d.is_float, "integers or i1")
    else:
        dtype = _dtype(o.operands[0], lambda d: True, "numbers")
    need(dtype != I1 or o.code in _ALSO_OF_I1, f"it does not take i1: {o.operands[0].type}")
    _result(o, o.operands[0].type)


def _compare(o: Operation) -> None:
    _operands(o, 2)
    type_ = _data(o.operands[0])
    types_are("its operands", o.operands, [type_] * 2)
    _result(o, with_element(type_, I1))


def _select(o: Operation) -> None:
    _operands(o, 3)
    type_ = _data(o.operands[1])
    types_are("its operands", o.operands, [with_element(type_, I1), type_, type_])
    _result(o, type_)


def _fma(o: Operation) -> None:
    _operands(o, 3)
    _dtype(o.operands[0], _is_float, "floating-point values")
    types_are("its operands", o.operands, [o.operands[0].type] * 3)
    _result(o, o.operands[0].type)


def _converted(o: Operation) -> tuple[DType | Pointer, DType | Pointer]:
    _operands(o, 1)
    need(len(o.results) == 1, "it must have 1 result")
    source, target = element_of(_data(o.operands[0])), element_of(_data(o.result))
    _result(o, with_element(o.operands[0].type, target))
    return source, target


def _cast(o: Operation) -> None:
    source, target = _converted(o)
    if isinstance(source, Pointer):
        need(isinstance(target, Pointer) or target in (I64, U64), f"no cast {source} to {target}")
    elif isinstance(target, Pointer):
        need(source in (I64, U64), f"no cast {source} to {target}")


def _bitcast(o: Operation) -> None:
    source, target = _converted(o)
    widths = [64 if isinstance(e, Pointer) else e.bits for e in (source, target)]
    need(widths[0] == widths[1], f"widths must be equal, but got {source} and {target}")


# ---- memory


def _pointer(value: Value) -> Type:
    """Demand a pointer or a tile of them, and return the type of what lies there."""
    element = element_of(_data(value))
    if not isinstance(element, Pointer):
        raise Broken(f"its first operand must be a pointer, but got {value.type}")
    return with_element(value.type, element.element)


def _pointer_add(o: Operation) -> None:
    _operands(o, 2)
    _pointer(o.operands[0])
    dtype = _dtype(o.operands[1], _is_integer, "integers as offsets")
    types_are(
        "its operands", o.operands, [o.operands[0].type, with_element(o.operands[0].type, dtype)]
    )
    _result(o, o.operands[0].type)


def _load(o: Operation) -> None:
    _operands(o, 1, 3)
    there = _pointer(o.operands[0])
    wanted = [o.operands[0].type, with_element(there, I1), there]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    _result(o, there)


def _store(o: Operation) -> None:
    _operands(o, 2, 3)
    there = _pointer(o.operands[0])
    wanted = [o.operands[0].type, there, with_element(there, I1)]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    types_are("its results", o.results, [])


def _atomic(o: Operation) -> DType:
    element = element_of(_pointer(o.operands[0]))
    if not isinstance(element, DType) or element == I1 or (element.is_float and element.bits < 16):
        raise Broken(f"there are no atomic operations on {element}")
    return element


def _atomic_rmw(o: Operation) -> None:
    _operands(o, 2, 3)
    kind = o.attributes["kind"]
    need(kind in [k.value for k in Rmw], f"there is no kind {kind!r}")
    dtype = _atomic(o)
    need(
        not dtype.is_float or kind not in ("and", "or", "xor"),
        f"{kind} takes integers, but got {dtype}",
    )
    there = _pointer(o.operands[0])
    wanted = [o.operands[0].type, there, with_element(there, I1)]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    _result(o, there)


def _atomic_cas(o: Operation) -> None:
    _operands(o, 3)
    _atomic(o)
    there = _pointer(o.operands[0])
    types_are("its operands", o.operands, [o.operands[0].type, there, there])
    _result(o, there)


# ---- control


def yields(region: Region) -> Sequence[Value]:
    """Return what a region's terminator gives."""
    last = region.operations[-1] if region.operations else None
    if last is None or last.code is not Code.YIELD:
        raise Broken("its region must end with yield")
    return last.operands


def _regions(o: Operation, count: int) -> None:
    need(
        len(o.regions) == count,
        f"the number of its regions must be {count}, but got {len(o.regions)}",
    )


def _scalar_truth(what: str, value: Value) -> None:
    need(value.type == I1, f"{what} must be i1, but got {value.type}")


def _for(o: Operation) -> None:
    need(len(o.operands) >= 3, f"it must have 3 operands or more, but got {len(o.operands)}")
    _regions(o, 1)
    index, carried = o.operands[0].type, [v.type for v in o.operands[3:]]
    need(isinstance(index, DType) and index.is_integer, f"bounds must be integers, but got {index}")
    types_are("its bounds", o.operands[:3], [index] * 3)
    types_are("the region's arguments", o.regions[0].arguments, [index, *carried])
    types_are("what the region yields", yields(o.regions[0]), carried)
    types_are("its results", o.results, carried)


def _while(o: Operation) -> None:
    _regions(o, 2)
    before, after = o.regions
    carried = [v.type for v in o.operands]
    types_are("the first region's arguments", before.arguments, carried)
    given = yields(before)
    need(len(given) > 0, "the first region must yield a condition")
    _scalar_truth("the condition", given[0])
    passed = [v.type for v in given[1:]]
    types_are("the second region's arguments", after.arguments, passed)
    types_are("what the second region yields", yields(after), carried)
    types_are("its results", o.results, passed)


def _if(o: Operation) -> None:
    _operands(o, 1)
    _regions(o, 2)
    _scalar_truth("the condition", o.operands[0])
    for region in o.regions:
        types_are("the region's arguments", region.arguments, [])
        types_are("what the region yields", yields(region), [v.type for v in o.results])


def _terminator(o: Operation) -> None:
    types_are("its results", o.results, [])


def _call(o: Operation) -> None:
    """Types are those of the callee, which ``verify`` knows."""


# ---- along an axis, products


def _along(o: Operation) -> tuple[list[Tile], int]:
    need(len(o.operands) > 0, "it must have 1 operand or more, but got 0")
    _regions(o, 1)
    tiles = [_tile(v) for v in o.operands]
    shape = tiles[0].shape
    types_are("its operands", o.operands, [Tile(shape, t.element) for t in tiles])
    axis = _axis(o, len(shape))
    elements: list[Type] = [t.element for t in tiles]
    types_are("the region's arguments", o.regions[0].arguments, elements * 2)
    types_are("what the region yields", yields(o.regions[0]), elements)
    return tiles, axis


def _reduce(o: Operation) -> None:
    tiles, axis = _along(o)
    shape = tiles[0].shape[:axis] + tiles[0].shape[axis + 1 :]
    types_are("its results", o.results, [with_shape(shape, t.element) for t in tiles])


def _scan(o: Operation) -> None:
    tiles, _ = _along(o)
    types_are("its results", o.results, tiles)


def _histogram(o: Operation) -> None:
    _operands(o, 1, 2)
    tile = _tile(o.operands[0])
    _dtype(o.operands[0], _is_integer, "integers")
    need(tile.rank == 1, f"its operand must have one axis, but got {tile}")
    wanted = [tile, with_element(tile, I1)]
    types_are("its operands", o.operands, wanted[: len(o.operands)])
    bins = o.attributes["bins"]
    need(bins >= 1, f"bins must be 1 or more, but got {bins}")
    _result(o, Tile((bins,), I32))


def _dot(o: Operation) -> None:
    _operands(o, 3)
    a, b, c = (_tile(v) for v in o.operands)
    fits = min(a.rank, b.rank) >= 2 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]
    fits = fits and c.shape == (*a.shape[:-1], b.shape[-1])
    need(fits, f"it cannot multiply {a} by {b} and add {c}")
    pair = [
        _dtype(v, lambda d: d.is_float or d.bits == 8, "floats, i8 or u8") for v in o.operands[:2]
    ]
    total = _dtype(
        o.operands[2], lambda d: d in (F16, F32, F64, I32), "f16, f32, f64 or i32 to add to"
    )
    if total == I32:
        need(
            not pair[0].is_float and pair[0] == pair[1],
            f"i32 adds products of i8 or u8, not {a}, {b}",
        )
    else:
        widest = max(d.bits for d in pair)
        need(all(d.is_float for d in pair), f"{total} adds products of floats, not {a}, {b}")
        need(widest <= max(total.bits, 32), f"products of {a} and {b} need f64, but got {c}")
    _result(o, c)


# ---- order and diagnosis


def _barrier(o: Operation) -> None:
    _operands(o, 0)
    types_are("its results", o.results, [])


def _join_tokens(o: Operation) -> None:
    _result(o, Token())


def _after(o: Operation) -> None:
    _operands(o, 2)
    types_are("its operands", o.operands, [_data(o.operands[0]), Token()])
    _result(o, o.operands[0].type)


def _assert(o: Operation) -> None:
    _operands(o, 1)
    _dtype(o.operands[0], lambda d: d == I1, "i1")
    types_are("its results", o.results, [])


def _print(o: Operation) -> None:
    for operand in o.operands:
        _data(operand)
    types_are("its results", o.results, [])


RULES: dict[Code, Rule] = {
    **dict.fromkeys(ops.UNARY, _unary),
    **dict.fromkeys(ops.BINARY, _binary),
    **dict.fromkeys(ops.COMPARISONS, _compare),
    Code.CONSTANT: _constant,
    Code.PROGRAM_ID: _program,
    Code.NUM_PROGRAMS: _program,
    Code.ARANGE: _arange,
    Code.SPLAT: _splat,
    Code.BROADCAST: _broadcast,
    Code.RESHAPE: _reshape,
    Code.PERMUTE: _permute,
    Code.JOIN: _join,
    Code.SPLIT: _split,
    Code.CAT: _cat,
    Code.GATHER: _gather,
    Code.FLIP: _flip,
    Code.CAST: _cast,
    Code.BITCAST: _bitcast,
    Code.SELECT: _select,
    Code.FMA: _fma,
    Code.PTR_ADD: _pointer_add,
    Code.LOAD: _load,
    Code.STORE: _store,
    Code.ATOMIC_RMW: _atomic_rmw,
    Code.ATOMIC_CAS: _atomic_cas,
    Code.FOR: _for,
    Code.WHILE: _while,
    Code.IF: _if,
    Code.YIELD: _terminator,
    Code.CALL: _call,
    Code.RETURN: _terminator,
    Code.REDUCE: _reduce,
    Code.SCAN: _scan,
    Code.HISTOGRAM: _histogram,
    Code.DOT: _dot,
    Code.BARRIER: _barrier,
    Code.JOIN_TOKENS: _join_tokens,
    Code.AFTER: _after,
    Code.ASSERT: _assert,
    Code.PRINT: _print,
}
"""The rule of each code."""

WITH_REGIONS = {Code.FOR: 1, Code.WHILE: 2, Code.IF: 2, Code.REDUCE: 1, Code.SCAN: 1}
"""Codes that have regions, and how many."""


def check_type(type_: Type) -> None:
    """Demand that tiles have axes with elements."""
    if not isinstance(type_, Tile):
        return
    if not type_.shape or not all(_whole(n) and n >= 1 for n in type_.shape):
        raise Broken(f"extents of a tile must be 1 or more, but got {type_.shape}")
    if math.prod(type_.shape) >= 2**31:
        raise Broken(f"a tile must have fewer than 2**31 elements, but got {type_}")
