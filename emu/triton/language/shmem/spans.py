"""The lowest and the highest address of a tile of pointers, as scalars, where they follow from how it is made.

Most tiles are a pointer plus sums and multiples of ranges. Their ends cost a few scalar operations, while a look at each
lane costs as much as the access. The ends are those of all lanes, masked or not.
"""

from __future__ import annotations

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.tile.types import I64, DType, Pointer, element_of
from emu.triton.language.context import builder
from emu.triton.language.shmem import machine
from emu.triton.language.shmem.machine import Ends

_SAME = frozenset({Code.BROADCAST, Code.RESHAPE, Code.PERMUTE, Code.FLIP})


def ends_of_pointers(pointers: Value) -> Ends | None:
    """Return the ends of the addresses of a tile of pointers; None: they do not follow from how it is made."""
    operation = getattr(pointers, "owner", None)
    element = element_of(pointers.type)
    if operation is None or not isinstance(element, Pointer):
        return None
    if operation.code is Code.SPLAT:
        address = builder().cast(operation.operands[0], I64)
        return Ends(address, address)
    if operation.code in _SAME:
        return ends_of_pointers(operation.operands[0])
    if operation.code is not Code.PTR_ADD:
        return None
    base, offsets = ends_of_pointers(operation.operands[0]), _ends(operation.operands[1])
    if base is None or offsets is None:
        return None
    width = machine.number(element.element.bytes)
    return _sum(base, _product(offsets, Ends(width, width)))


def _ends(value: Value) -> Ends | None:
    """Return the ends of a tile of integers."""
    operation = getattr(value, "owner", None)
    if operation is None:
        return None
    code, operands = operation.code, operation.operands
    if code is Code.CONSTANT:
        constant = machine.number(int(operation.attributes["value"]))
        return Ends(constant, constant)
    if code is Code.ARANGE:
        start, end = operation.attributes["start"], operation.attributes["end"]
        return Ends(machine.number(start), machine.number(end - 1))
    if code is Code.SPLAT:
        wide = _widened(operands[0])
        return None if wide is None else Ends(wide, wide)
    if code in _SAME:
        return _ends(operands[0])
    if code is Code.CAST:
        return _ends(operands[0]) if _keeps_values(operands[0], value) else None
    if code not in (Code.ADD, Code.MUL):
        return None
    first, second = _ends(operands[0]), _ends(operands[1])
    if first is None or second is None:
        return None
    if code is Code.ADD:
        return _sum(first, second)
    is_scaled = first.low is first.high or second.low is second.high
    return _product(first, second) if is_scaled else None


def _widened(scalar: Value) -> Value | None:
    element = element_of(scalar.type)
    if not isinstance(element, DType) or not element.is_integer or element.bits > 64:
        return None
    if not element.is_signed and element.bits == 64:
        return None
    return builder().cast(scalar, I64)


def _keeps_values(value: Value, result: Value) -> bool:
    """Return whether a conversion of integers changes no value."""
    before, after = element_of(value.type), element_of(result.type)
    if not isinstance(before, DType) or not isinstance(after, DType):
        return False
    if not before.is_integer or not after.is_integer:
        return False
    return before.is_signed == after.is_signed and before.bits <= after.bits


def _sum(a: Ends, b: Ends) -> Ends:
    emit = builder()
    low = emit.binary(Code.ADD, a.low, b.low)
    if a.low is a.high and b.low is b.high:
        return Ends(low, low)
    return Ends(low, emit.binary(Code.ADD, a.high, b.high))


def _product(a: Ends, b: Ends) -> Ends:
    """Return the ends of the products; of one of the two all numbers are equal."""
    emit = builder()
    first = emit.binary(Code.MUL, a.low, b.low)
    if a.low is a.high and b.low is b.high:
        return Ends(first, first)
    second = emit.binary(Code.MUL, a.high, b.high)
    low, high = emit.binary(Code.MIN, first, second), emit.binary(Code.MAX, first, second)
    return Ends(low, high)
