"""The memory instructions of PTX: loads, stores, atomic operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.triton.language import memory
from emu.triton.language.arithmetic import where
from emu.triton.language.assembly.registers import Registers, type_of
from emu.triton.language.assembly.text import Address, Instruction, Vector, unsupported
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.types import dtype, get_int_dtype, pointer_type, uint64
from emu.triton.language.values import tensor

_ATOMICS: dict[str, Callable[..., tensor]] = {
    "add": memory.atomic_add,
    "min": memory.atomic_min,
    "max": memory.atomic_max,
    "and": memory.atomic_and,
    "or": memory.atomic_or,
    "xor": memory.atomic_xor,
    "exch": memory.atomic_xchg,
}
_ORDERS = {"relaxed": "relaxed", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_SHARED = ("shared", "local", "param", "shared__cta", "shared__cluster")


def _element(instruction: Instruction) -> dtype:
    held = type_of(instruction.suffixes[-1]) if instruction.suffixes else None
    if held is None:
        raise unsupported(instruction.text, "the type")
    space = next((s for s in instruction.suffixes if s in _SHARED), None)
    if space is not None:
        raise unsupported(instruction.text, f"the state space .{space}, which a CPU does not have,")
    return held


def _pointer(
    registers: Registers, instruction: Instruction, place: int, held: dtype, step: int = 0
) -> tensor:
    operand = instruction.operands[place]
    if not isinstance(operand, Address):
        raise unsupported(instruction.text, f"the address {operand}")
    at = registers.read(operand.base, uint64, instruction.text)
    offset = operand.offset + step * held.primitive_bitwidth // 8
    if offset:
        at = at + registers.filled(offset, uint64)
    return cast_to(at, pointer_type(held))


def _ld(registers: Registers, instruction: Instruction) -> None:
    held = _element(instruction)
    target = instruction.operands[0]
    items = target.items if isinstance(target, Vector) else (target,)
    for step, item in enumerate(items):
        pointer = _pointer(registers, instruction, 1, held, step)
        found = memory.read(pointer, registers.active, None, _plain_order(instruction))
        registers.write(item, found, instruction.text)


def _st(registers: Registers, instruction: Instruction) -> None:
    held = _element(instruction)
    source = instruction.operands[1]
    items = source.items if isinstance(source, Vector) else (source,)
    for step, item in enumerate(items):
        pointer = _pointer(registers, instruction, 0, held, step)
        value = registers.read(item, held, instruction.text)
        memory.write(pointer, value, registers.active, _plain_order(instruction))


def _order(instruction: Instruction) -> dict[str, Any]:
    found = next((_ORDERS[s] for s in instruction.suffixes if s in _ORDERS), "relaxed")
    return {"sem": found, "scope": _scope(instruction)}


def _plain_order(instruction: Instruction) -> memory.Order:
    """Return the attributes of a load or a store: none of one that is weak."""
    found = next((_ORDERS[s] for s in instruction.suffixes if s in _ORDERS), None)
    if found is None and {"volatile", "cv"}.intersection(instruction.suffixes):
        found = "volatile"
    return {} if found is None else memory.order_of(found, _scope(instruction), found)


def _scope(instruction: Instruction) -> str | None:
    return next((s for s in instruction.suffixes if s in ("cta", "gpu", "sys")), None)


def _changed(registers: Registers, instruction: Instruction, first: int) -> tensor:
    """Emit an atomic operation whose address is the operand ``first``; return what was there before."""
    held, text = _element(instruction), instruction.text
    pointer = _pointer(registers, instruction, first, held)
    operands = [registers.read(o, held, text) for o in instruction.operands[first + 1 :]]
    order = _order(instruction)
    if "cas" in instruction.suffixes:
        expected, new = operands
        if registers.active is not None:
            # Where it has no effect, 0 may only take the place of 0.
            expected = where(registers.active, expected, registers.zeros(held))
            new = where(registers.active, new, registers.zeros(held))
        return memory.atomic_cas(pointer, cast_to(expected, held), cast_to(new, held), **order)
    name = next((s for s in instruction.suffixes if s in _ATOMICS), None)
    if name is None or len(operands) != 1:
        raise unsupported(text, "the operation")
    return _ATOMICS[name](pointer, operands[0], registers.active, **order)


def _atom(registers: Registers, instruction: Instruction) -> None:
    before = _changed(registers, instruction, 1)
    held = _element(instruction)
    if before.dtype != held:
        same = before.dtype.primitive_bitwidth == held.primitive_bitwidth
        before = bitcast_to(before, held) if same else cast_to(before, get_int_dtype(64, False))
    registers.write(instruction.operands[0], before, instruction.text)


def _red(registers: Registers, instruction: Instruction) -> None:
    _changed(registers, instruction, 0)


MEMORY: dict[str, Callable[[Registers, Instruction], None]] = {
    "ld": _ld,
    "ldu": _ld,
    "st": _st,
    "atom": _atom,
    "red": _red,
}
"""What each memory instruction does."""
