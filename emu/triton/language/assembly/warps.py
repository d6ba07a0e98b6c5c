"""The instructions of PTX that the threads of a warp do together: shuffles, votes, matches, reductions."""

from __future__ import annotations

from collections.abc import Callable

from emu.triton.language import warps
from emu.triton.language.assembly.registers import Registers, type_of
from emu.triton.language.assembly.text import Immediate, Instruction, Pair, Register, unsupported
from emu.triton.language.conversion import bitcast_to, constant
from emu.triton.language.shapes import is_repeated
from emu.triton.language.threads import check_warp_is_together, is_own, own_value, settled
from emu.triton.language.types import dtype, get_int_dtype, int1, uint32
from emu.triton.language.values import tensor
from emu.triton.language.variation import variation


def is_of_warps(text: str) -> bool:
    """Return whether an assembly text has such an instruction."""
    return any(f"{name}." in text for name in WARPS)


def _read(registers: Registers, instruction: Instruction, place: int, held: dtype) -> tensor:
    if place >= len(instruction.operands):
        raise unsupported(instruction.text, "the number of operands")
    return _of_threads(registers.read(instruction.operands[place], held, instruction.text))


def _of_threads(value: tensor) -> tensor:
    """Return an operand as a value of threads, or as the scalar that all threads have.

    Raises:
        TypeError: It is a tile.
    """
    if value.extents and not is_own(value):
        if len(value.extents) > 1 or not is_repeated(value.handle):
            raise TypeError(
                f"a warp's threads exchange values that each of them has of its own, but got a tile, {value}: elements of "
                "tiles belong to no certain thread"
            )
        value = own_value(value.handle, value.dtype, variation(value.handle))
    return settled(value)


def _members(registers: Registers, instruction: Instruction) -> tensor:
    """Return the last operand: which threads take part."""
    return _read(registers, instruction, len(instruction.operands) - 1, uint32)


def _held(instruction: Instruction, *widths: int) -> dtype:
    held = type_of(instruction.suffixes[-1]) if instruction.suffixes else None
    if held is None or held.is_floating() or held.primitive_bitwidth not in widths:
        raise unsupported(instruction.text, "the type")
    return held


def _write(
    registers: Registers, instruction: Instruction, value: tensor, predicate: tensor | None = None
) -> None:
    """Write a result, and beside it the predicate ``p`` of a destination ``d|p``."""
    target = instruction.operands[0]
    if isinstance(target, Pair):
        if predicate is None:
            raise unsupported(instruction.text, "the second destination")
        registers.write(target.second, predicate, instruction.text)
        target = target.first
    if value.dtype != int1:
        value = bitcast_to(value, get_int_dtype(value.dtype.primitive_bitwidth, False))
    registers.write(target, value, instruction.text)


def _shfl(registers: Registers, instruction: Instruction) -> None:
    held, text = _held(instruction, 32), instruction.text
    mode = next((s for s in instruction.suffixes if s in ("up", "down", "bfly", "idx")), None)
    if mode is None or len(instruction.operands) != 4 + ("sync" in instruction.suffixes):
        raise unsupported(text, "the mode" if mode is None else "the number of operands")
    bounds = instruction.operands[3]
    if not isinstance(bounds, Immediate) or not isinstance(bounds.value, int):
        raise unsupported(text, "the third operand, which is not known at compile time,")
    value, by = _read(registers, instruction, 1, held), _read(registers, instruction, 2, uint32)
    found, inside = warps.shuffle(mode, value, by, bounds.value), None
    if isinstance(instruction.operands[0], Pair):
        inside = warps.is_inside(mode, by, bounds.value)
    _write(registers, instruction, found, inside)


def _vote(registers: Registers, instruction: Instruction) -> None:
    operands = instruction.operands
    if len(operands) != 2 + ("sync" in instruction.suffixes):
        raise unsupported(instruction.text, "the number of operands")
    source = operands[1]
    predicate = _of_threads(registers.read(source, int1, instruction.text))
    members = _members_or_all(registers, instruction)
    what = next((s for s in instruction.suffixes if s in ("all", "any", "uni", "ballot")), None)
    if what is None or not isinstance(source, Register | Immediate):
        raise unsupported(instruction.text, "the vote")
    if what == "ballot":
        _write(registers, instruction, warps.ballot(predicate, members))
    else:
        _write(registers, instruction, warps.vote(what, predicate, members))


def _members_or_all(registers: Registers, instruction: Instruction) -> tensor:
    """Return the members that an instruction names, or all where it names none."""
    if "sync" in instruction.suffixes:
        return _members(registers, instruction)
    return constant(warps.ALL, uint32)


def _match(registers: Registers, instruction: Instruction) -> None:
    held = _held(instruction, 32, 64)
    value, members = _read(registers, instruction, 1, held), _members(registers, instruction)
    if "any" in instruction.suffixes:
        _write(registers, instruction, warps.match_any(value, members))
    elif "all" in instruction.suffixes:
        _write(registers, instruction, *warps.match_all(value, members))
    else:
        raise unsupported(instruction.text, "the comparison")


def _redux(registers: Registers, instruction: Instruction) -> None:
    held = _held(instruction, 32)
    known = ("add", "min", "max", "and", "or", "xor")
    what = next((s for s in instruction.suffixes if s in known), None)
    if what is None:
        raise unsupported(instruction.text, "the reduction")
    value, members = _read(registers, instruction, 1, held), _members(registers, instruction)
    _write(registers, instruction, warps.reduce_warp(what, value, members))


def _elect(registers: Registers, instruction: Instruction) -> None:
    _write(registers, instruction, *warps.elect(_members(registers, instruction)))


def _activemask(registers: Registers, instruction: Instruction) -> None:
    check_warp_is_together("the mask of a warp's active threads")
    _write(registers, instruction, constant(warps.ALL, uint32))


WARPS: dict[str, Callable[[Registers, Instruction], None]] = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "elect": _elect,
    "activemask": _activemask,
}
"""What each instruction of a warp does."""
