"""Atomic read-modify-writes and compare-and-swaps, one element at a time.

LLVM has instructions for integers, fp32 and fp64; what is narrower than 32 bits, and ``min`` and ``max`` of
floats, are loops of compare-and-swap on the bits.
"""

from __future__ import annotations

from llvmlite import ir

from emu.tile.cpu.emit import memory
from emu.tile.cpu.emit.frame import Frame
from emu.tile.cpu.emit.point_reader import Point, PointReader
from emu.tile.cpu.numeric import elementwise
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.ir import Operation
from emu.tile.llvm import IrPointer, IrType, Register
from emu.tile.ops import Code, Rmw
from emu.tile.types import DType, ScalarType, element_of

# The strongest order: programs signal each other by atomics, and the data may lie in any other memory.
_ORDER = "seq_cst"
_INTEGER = {
    Rmw.ADD: "add",
    Rmw.AND: "and",
    Rmw.OR: "or",
    Rmw.XOR: "xor",
    Rmw.EXCHANGE: "xchg",
}
_COMBINE = {
    Rmw.ADD: Code.ADD,
    Rmw.MIN: Code.MIN,
    Rmw.MAX: Code.MAX,
    Rmw.AND: Code.AND,
    Rmw.OR: Code.OR,
    Rmw.XOR: Code.XOR,
}


def emit_atomic(
    frame: Frame,
    reader: PointReader,
    operation: Operation,
    point: Point,
    *,
    alone: bool = False,
    masked: bool = True,
) -> None:
    """Emit an atomic operation on the element at a point without a run, and keep the old value if it is read.

    Args:
        frame: The function.
        reader: Reads the operands.
        operation: The operation.
        point: Of the tile.
        alone: Whether nobody else can see the memory between the two steps of an update: no lock is needed.
        masked: Whether the mask must be asked.
    """
    result = operation.result
    operands = operation.operands if masked else operation.operands[:2]
    values = [reader.read(operand, point) for operand in operands]
    builder = reader.builders[-1]
    old = emit_one(frame, builder, operation, values, alone=alone)
    if result in frame.memories:
        reader.store_to(frame.memories[result], point, element_of(result.type), old)


def emit_one(
    frame: Frame,
    builder: ir.IRBuilder,
    operation: Operation,
    values: list[Register],
    *,
    alone: bool = False,
) -> Register:
    """Emit an atomic operation on registers of one element; return the old value, 0 if masked off."""
    element = element_of(operation.result.type)
    if operation.code is Code.ATOMIC_CAS:
        address, expected, new = values
        return _swap(frame, builder, element, address, expected, new)
    kind = Rmw(operation.attributes["kind"])
    address, value, *mask = values
    update = _update_alone if alone else _modify
    if not mask:
        return update(frame, builder, kind, element, address, value)
    then, after = frame.block("atomic"), frame.block("after")
    before = builder.block
    builder.cbranch(mask[0], then, after)
    builder.position_at_end(then)
    old = update(frame, builder, kind, element, address, value)
    last = builder.block  # not ``then``: the loop of a float has added blocks
    builder.branch(after)
    builder.position_at_end(after)
    merged = builder.phi(old.type)
    merged.add_incoming(old, last)
    merged.add_incoming(ir.Constant(old.type, None), before)
    return merged


def _update_alone(
    frame: Frame,
    builder: ir.IRBuilder,
    kind: Rmw,
    element: ScalarType,
    address: Register,
    value: Register,
) -> Register:
    """Emit the update of one element that nobody else can see."""
    old = memory.load_one(builder, element, address, None, None)
    new = value
    if kind is not Rmw.EXCHANGE:
        new = _combined(builder, kind, element, old, value)
    memory.store_one(builder, element, address, new, None)
    return old


def _combined(
    builder: ir.IRBuilder, kind: Rmw, element: ScalarType, old: Register, value: Register
) -> Register:
    """Return what an update stores."""
    if kind not in (Rmw.MIN, Rmw.MAX) or not (isinstance(element, DType) and element.is_float):
        operands = [old, value]
        return elementwise.emit(builder, _COMBINE[kind], {}, [element, element], element, operands)
    # By the order of the bits, as devices do it with atomic operations of integers: a NaN is beyond the
    # infinity of its sign, so that a largest element that is NaN arrives.
    keys = []
    for register in (old, value):
        bits = to_integer(builder, element, register)
        sign = builder.ashr(bits, ir.Constant(bits.type, 8 * element.bytes - 1))
        mask = builder.lshr(sign, ir.Constant(bits.type, 1))
        keys.append(builder.xor(bits, mask))
    wins = builder.icmp_signed(">" if kind is Rmw.MAX else "<", keys[1], keys[0])
    return builder.select(wins, value, old)


def _bits(element: ScalarType) -> IrType:
    return ir.IntType(8 * element.bytes)


def to_integer(builder: ir.IRBuilder, element: ScalarType, value: Register) -> Register:
    """Return the bits of a register of one element as an integer."""
    stored = r.to_memory(builder, element, value)
    return (
        stored if isinstance(stored.type, ir.IntType) else builder.bitcast(stored, _bits(element))
    )


def _from_bits(builder: ir.IRBuilder, element: ScalarType, bits: Register) -> Register:
    type_ = r.memory_type(element)
    value = bits if isinstance(type_, ir.IntType) else builder.bitcast(bits, type_)
    return r.from_memory(builder, element, value)


def _modify(
    frame: Frame,
    builder: ir.IRBuilder,
    kind: Rmw,
    element: ScalarType,
    address: Register,
    value: Register,
) -> Register:
    pointer = builder.inttoptr(address, ir.PointerType())
    real = isinstance(element, DType) and element.is_float
    if not real or kind is Rmw.EXCHANGE:
        name = _INTEGER.get(kind)
        if name is None:
            signed = isinstance(element, DType) and element.is_signed
            name = f"{'' if signed else 'u'}{kind.value}"
        bits = to_integer(builder, element, value)
        return _from_bits(builder, element, builder.atomic_rmw(name, pointer, bits, _ORDER))
    return _loop(frame, builder, kind, element, pointer, value)


def _loop(
    frame: Frame,
    builder: ir.IRBuilder,
    kind: Rmw,
    element: ScalarType,
    pointer: IrPointer,
    value: Register,
) -> Register:
    """Compare and swap until no other thread has interfered."""
    type_ = _bits(element)
    # A plain load will do: if the value is old by now, the first swap fails and brings the present one.
    first = builder.load(pointer, typ=type_)
    first.align = element.bytes
    before, again, done = builder.block, frame.block("again"), frame.block("done")
    builder.branch(again)
    builder.position_at_end(again)
    seen = builder.phi(type_)
    old = _from_bits(builder, element, seen)
    new = _combined(builder, kind, element, old, value)
    pair = builder.cmpxchg(pointer, seen, to_integer(builder, element, new), _ORDER, _ORDER)
    found = builder.extract_value(pair, 0)
    seen.add_incoming(first, before)
    seen.add_incoming(found, builder.block)
    builder.cbranch(builder.extract_value(pair, 1), done, again)
    builder.position_at_end(done)
    return old


def _swap(
    frame: Frame,
    builder: ir.IRBuilder,
    element: ScalarType,
    address: Register,
    expected: Register,
    new: Register,
) -> Register:
    pointer = builder.inttoptr(address, ir.PointerType())
    # Bits are compared, of floats too: so -0 differs from 0, and a NaN equals itself.
    bits = [to_integer(builder, element, v) for v in (expected, new)]
    pair = builder.cmpxchg(pointer, *bits, _ORDER, _ORDER)
    return _from_bits(builder, element, builder.extract_value(pair, 0))
