"""How values of threads vary: among the threads of a warp, from warp to warp, or not at all.

It follows from how a value was computed. A value that no running thread has otherwise than the others may be a scalar, so
that tiles can use it; one that is the same within a warp lets a branch or a loop be run warp by warp. What is said is never
too little: a value that is said not to vary does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from emu.tile.ir import Operation, Value
from emu.tile.ops import ATOMIC, Code
from emu.triton.language.context import Threads, Varies, current

WARP_SIZE = 32
_EVERYTHING = Varies.LANES | Varies.WARPS
_CONVERSIONS = (Code.CAST, Code.BITCAST)


def everything() -> Varies:
    """Return how a value varies that each thread has of its own: with one warp, only within it."""
    return Varies.LANES if current().num_warps == 1 else _EVERYTHING


def relevant() -> Varies:
    """Return the ways to vary that count where code is being emitted: in code of one warp only those within it."""
    known = current().threads
    return everything() if known is None or known.warp is None else Varies.LANES


def note(value: Value, varies: Varies) -> None:
    """Remember how a value varies, beside what is known of it already.

    In code of one warp any value may be another one in the next warp.
    """
    known = current().threads
    if known is None:
        return
    if known.warp is not None:
        varies |= everything() & Varies.WARPS
    known.varies[value] = known.varies.get(value, Varies.NOT) | varies


def variation(value: Value) -> Varies:
    """Return how a value may vary among the threads of a program."""
    known = current().threads
    if known is None:
        return Varies.NOT
    most, found = everything(), Varies.NOT
    todo, seen = [value], {value}
    while todo and found != most:
        one = todo.pop()
        here = _known_of(known, one)
        if here is not None:
            found |= here
            continue
        assert one.owner is not None
        for operand in _sources(one, one.owner):
            if operand not in seen:
                seen.add(operand)
                todo.append(operand)
    return found & most


def _known_of(known: Threads, value: Value) -> Varies | None:
    """Return how a value varies if that does not follow from its operands alone, else ``None``."""
    noted = known.varies.get(value)
    if noted is not None:
        return noted
    if value in known.own:
        return everything()
    owner = value.owner
    if owner is None:  # an argument: what loops carry is followed from their results
        return Varies.NOT
    if owner.code in ATOMIC and value.shape:
        return everything()
    return _part_of_index(known, owner)


def _part_of_index(known: Threads, operation: Operation) -> Varies | None:
    """Return how the number of a warp, or of a lane in its warp, varies; ``None``: it is not one."""
    if operation.code not in (Code.DIV, Code.REM, Code.SHR, Code.AND):
        return None
    value, by = operation.operands[0], _number(operation.operands[1])
    while value.owner is not None and value.owner.code in _CONVERSIONS:
        value = value.owner.operands[0]
    if value not in known.indices or by is None or by < 0:
        return None
    is_lane = (operation.code is Code.REM and by and WARP_SIZE % by == 0) or (
        operation.code is Code.AND and by < WARP_SIZE
    )
    is_warp = (
        (operation.code is Code.DIV and by and by % WARP_SIZE == 0)
        or (operation.code is Code.SHR and 1 << by >= WARP_SIZE)
        or (operation.code is Code.AND and by % WARP_SIZE == 0)
    )
    kept = Varies.LANES if is_lane else Varies.WARPS if is_warp else None
    return None if kept is None else everything() & kept


def _number(value: Value) -> int | None:
    """Return the number that all elements of a value are, if it is known."""
    while value.owner is not None and value.owner.code in (
        Code.SPLAT,
        Code.BROADCAST,
        *_CONVERSIONS,
    ):
        value = value.owner.operands[0]
    if value.owner is None or value.owner.code is not Code.CONSTANT:
        return None
    found = value.owner.attributes["value"]
    return found if isinstance(found, int) else None


def _sources(value: Value, operation: Operation) -> Iterator[Value]:
    """Yield the values that decide what a value is."""
    yield from operation.operands
    if operation.code is Code.IF:
        place = operation.results.index(value)
        for region in operation.regions:
            yield region.terminator.operands[place]
    elif operation.code in (Code.FOR, Code.WHILE):
        for region in operation.regions:
            yield from region.terminator.operands
