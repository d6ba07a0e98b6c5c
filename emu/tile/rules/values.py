"""Rules of operations that compute: values from nothing, shapes, arithmetic."""

from __future__ import annotations

from emu.tile import ops
from emu.tile.ir import Operation
from emu.tile.ops import Code
from emu.tile.rules.demands import (
    axis_in,
    count_operands,
    data_of,
    dtype_in,
    is_float,
    is_integer,
    is_number,
    need,
    result_is,
    tile_of,
    types_are,
)
from emu.tile.types import (
    I1,
    I32,
    I64,
    U64,
    DType,
    Pointer,
    Tile,
    element_of,
    shape_of,
    with_element,
    with_shape,
)

# ---- values from nothing


def constant(o: Operation) -> None:
    """Check the rules of CONSTANT."""
    count_operands(o, 0)
    need(len(o.results) == 1, "it must have 1 result")
    element, value = element_of(data_of(o.result)), o.attributes["value"]
    if isinstance(element, DType) and element.is_float:
        return
    need(isinstance(value, int), f"a value of {element} must be an int, but got {value!r}")
    low, high = (U64 if isinstance(element, Pointer) else element).limits
    need(low <= value <= high, f"a value of {element} must be {low} to {high}, but got {value}")


def program(o: Operation) -> None:
    """Check the rules of PROGRAM_ID, NUM_PROGRAMS."""
    count_operands(o, 0)
    axis_in(o, 3)
    result_is(o, I32)


def arange(o: Operation) -> None:
    """Check the rules of ARANGE."""
    count_operands(o, 0)
    start, end = o.attributes["start"], o.attributes["end"]
    need(start < end, f"start must be less than end, but got {start} and {end}")
    need(start >= -(2**31) and end <= 2**31, f"it must fit i32, but got {start} to {end}")
    result_is(o, Tile((end - start,), I32))


# ---- shape


def splat(o: Operation) -> None:
    """Check the rules of SPLAT."""
    count_operands(o, 1)
    type_ = data_of(o.operands[0])
    need(not isinstance(type_, Tile), f"its operand must be a scalar, but got {type_}")
    need(len(o.results) == 1, "it must have 1 result")
    result_is(o, Tile(tile_of(o.result, "its result").shape, element_of(type_)))


def _reshaped(o: Operation) -> tuple[Tile, Tile]:
    count_operands(o, 1)
    need(len(o.results) == 1, "it must have 1 result")
    source, target = tile_of(o.operands[0]), tile_of(o.result, "its result")
    result_is(o, Tile(target.shape, source.element))
    return source, target


def broadcast(o: Operation) -> None:
    """Check the rules of BROADCAST."""
    source, target = _reshaped(o)
    fits = source.rank == target.rank and all(
        s in (1, t) for s, t in zip(source.shape, target.shape, strict=True)
    )
    need(fits, f"{source} cannot be broadcast to {target}")


def reshape(o: Operation) -> None:
    """Check the rules of RESHAPE."""
    source, target = _reshaped(o)
    need(source.size == target.size, f"{source} cannot be reshaped to {target}")


def permute(o: Operation) -> None:
    """Check the rules of PERMUTE."""
    count_operands(o, 1)
    source, order = tile_of(o.operands[0]), o.attributes["order"]
    permutes = sorted(order) == list(range(source.rank))
    need(permutes, f"order must permute {source.rank} axes, but got {order}")
    result_is(o, Tile(tuple(source.shape[a] for a in order), source.element))


def join(o: Operation) -> None:
    """Check the rules of JOIN."""
    count_operands(o, 2)
    first = data_of(o.operands[0])
    types_are("its operands", o.operands, [first] * 2)
    result_is(o, Tile((*shape_of(first), 2), element_of(first)))


def split(o: Operation) -> None:
    """Check the rules of SPLIT."""
    count_operands(o, 1)
    source = tile_of(o.operands[0])
    need(source.shape[-1] == 2, f"the last axis must have extent 2, but got {source}")
    types_are("its results", o.results, [with_shape(source.shape[:-1], source.element)] * 2)


def cat(o: Operation) -> None:
    """Check the rules of CAT."""
    count_operands(o, 2)
    first, second = (tile_of(v) for v in o.operands)
    axis = axis_in(o, first.rank)
    wanted = list(second.shape)
    if axis < second.rank:
        wanted[axis] = first.shape[axis]
    need(Tile(tuple(wanted), second.element) == first, f"it cannot put {second} behind {first}")
    shape = list(first.shape)
    shape[axis] += second.shape[axis]
    result_is(o, Tile(tuple(shape), first.element))


def gather(o: Operation) -> None:
    """Check the rules of GATHER."""
    count_operands(o, 2)
    source, index = (tile_of(v) for v in o.operands)
    dtype_in(o.operands[1], is_integer, "integers as indices")
    axis = axis_in(o, source.rank)
    fits = index.rank == source.rank and all(
        a == axis or i == s for a, (i, s) in enumerate(zip(index.shape, source.shape, strict=True))
    )
    need(fits, f"{index} cannot index {source} along axis {axis}")
    result_is(o, Tile(index.shape, source.element))


def flip(o: Operation) -> None:
    """Check the rules of FLIP."""
    count_operands(o, 1)
    axis_in(o, tile_of(o.operands[0]).rank)
    result_is(o, o.operands[0].type)


# ---- element by element


def unary(o: Operation) -> None:
    """Check the rules of UNARY operations."""
    count_operands(o, 1)
    if o.code in ops.FLOAT_UNARY:
        dtype_in(o.operands[0], is_float, "floating-point values")
    elif o.code is Code.NOT:
        dtype_in(o.operands[0], lambda d: not d.is_float, "integers or i1")
    else:
        dtype_in(o.operands[0], is_number, "integers or floating-point values")
    result_is(o, o.operands[0].type)


_ALSO_OF_I1 = {Code.ADD, Code.SUB, Code.MUL, Code.MIN, Code.MAX, Code.AND, Code.OR, Code.XOR}


def binary(o: Operation) -> None:
    """Check the rules of BINARY operations."""
    count_operands(o, 2)
    types_are("its operands", o.operands, [data_of(o.operands[0])] * 2)
    if o.code in ops.FLOAT_BINARY:
        dtype = dtype_in(o.operands[0], is_float, "floating-point values")
    elif o.code in ops.BITWISE:
        dtype = dtype_in(o.operands[0], lambda d: not d.is_float, "integers or i1")
    else:
        dtype = dtype_in(o.operands[0], lambda d: True, "numbers")
    need(dtype != I1 or o.code in _ALSO_OF_I1, f"it does not take i1: {o.operands[0].type}")
    result_is(o, o.operands[0].type)


def compare(o: Operation) -> None:
    """Check the rules of COMPARISONS operations."""
    count_operands(o, 2)
    type_ = data_of(o.operands[0])
    types_are("its operands", o.operands, [type_] * 2)
    result_is(o, with_element(type_, I1))


def select(o: Operation) -> None:
    """Check the rules of SELECT."""
    count_operands(o, 3)
    type_ = data_of(o.operands[1])
    types_are("its operands", o.operands, [with_element(type_, I1), type_, type_])
    result_is(o, type_)


def fma(o: Operation) -> None:
    """Check the rules of FMA."""
    count_operands(o, 3)
    dtype_in(o.operands[0], is_float, "floating-point values")
    types_are("its operands", o.operands, [o.operands[0].type] * 3)
    result_is(o, o.operands[0].type)


def _converted(o: Operation) -> tuple[DType | Pointer, DType | Pointer]:
    count_operands(o, 1)
    need(len(o.results) == 1, "it must have 1 result")
    source, target = element_of(data_of(o.operands[0])), element_of(data_of(o.result))
    result_is(o, with_element(o.operands[0].type, target))
    return source, target


def cast(o: Operation) -> None:
    """Check the rules of CAST."""
    source, target = _converted(o)
    if isinstance(source, Pointer):
        need(isinstance(target, Pointer) or target in (I64, U64), f"no cast {source} to {target}")
    elif isinstance(target, Pointer):
        need(source in (I64, U64), f"no cast {source} to {target}")


def bitcast(o: Operation) -> None:
    """Check the rules of BITCAST."""
    source, target = _converted(o)
    widths = [64 if isinstance(e, Pointer) else e.bits for e in (source, target)]
    need(widths[0] == widths[1], f"widths must be equal, but got {source} and {target}")
