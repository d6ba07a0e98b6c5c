"""What the threads of a warp do together: they read each other's values, and vote.

The functions take values of threads (:mod:`emu.triton.language.threads`), or scalars that all threads have alike, and
follow PTX. What all running threads get alike is returned as a scalar, so that tiles can use it. A thread that the mask of
members leaves out has no say; what it gets is, as on a GPU, of no meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from emu.tile.ir import Value
from emu.tile.ops import Code
from emu.triton.language.arithmetic import and_, equal, invert, not_equal, or_, where
from emu.triton.language.context import Varies, builder
from emu.triton.language.conversion import bitcast_to, cast_to, constant
from emu.triton.language.shapes import broadcast_to
from emu.triton.language.threads import (
    check_warp_is_together,
    count,
    element,
    for_all,
    is_own,
    lane_index,
    own_value,
    settled,
    state,
    thread_index,
)
from emu.triton.language.types import dtype, get_int_dtype, int1, int32, uint32, uint64
from emu.triton.language.values import tensor
from emu.triton.language.variation import WARP_SIZE, note, relevant, variation

ALL = 0xFFFFFFFF
"""The mask of all threads of a warp."""

_LAST = WARP_SIZE - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Operand ``c`` of ``shfl``: the parts of a warp among which values move.

    Attributes:
        clamp: The last lane of a part, or for moves up the first.
        segments: The bits of a lane's number that say which part it is in.
    """

    clamp: int
    segments: int

    @classmethod
    def of(cls, operand: int) -> Bounds:
        """Return what the bits of the operand say."""
        return cls(operand & _LAST, operand >> 8 & _LAST)


def _source(mode: str, lanes: tensor, by: tensor, bounds: Bounds) -> tuple[tensor, tensor]:
    """Return the lane that each lane reads, and whether that is in its part: if not, it reads its own."""
    first = lanes & bounds.segments
    last = first | (bounds.clamp & ~bounds.segments & _LAST)
    if mode == "up":
        at = lanes - by
        inside = at >= last
    else:
        if mode == "down":
            at = lanes + by
        elif mode == "bfly":
            at = lanes ^ by
        else:
            at = first | (by & (~bounds.segments & _LAST))
        inside = at <= last
    return where(inside, at, lanes), inside


def shuffle(mode: str, value: tensor, by: tensor, bounds: int) -> tensor:
    """Return what each thread reads of another thread of its warp.

    Args:
        mode: ``"up"``, ``"down"``, ``"bfly"`` or ``"idx"``.
        value: What is read.
        by: By how much the lanes' numbers differ, or, of ``"idx"``, the lane that is read.
        bounds: The parts of a warp, as ``shfl`` takes them.

    Raises:
        NotImplementedError: Threads run one after the other.
        ValueError: There is no such mode.
    """
    _check_mode(mode)
    check_warp_is_together("a shuffle of a warp's threads")
    if not is_own(value) or not variation(value.handle) & Varies.LANES:
        return value  # wherever it is read in the warp
    part, step = Bounds.of(bounds), settled(cast_to(by, int32)) & _LAST
    if mode == "idx" and part == Bounds(_LAST, 0):
        return _read(value, step)
    return _read(value, _source(mode, lane_index(), step, part)[0])


def is_inside(mode: str, by: tensor, bounds: int) -> tensor:
    """Return whether the thread that each thread reads by :func:`shuffle` is in its part of the warp.

    Args:
        mode: As of :func:`shuffle`.
        by: As of :func:`shuffle`.
        bounds: As of :func:`shuffle`.
    """
    _check_mode(mode)
    step = settled(cast_to(by, int32)) & _LAST
    return settled(_source(mode, lane_index(), step, Bounds.of(bounds))[1])


def _check_mode(mode: str) -> None:
    if mode not in ("up", "down", "bfly", "idx"):
        raise ValueError(f"mode must be 'up', 'down', 'bfly' or 'idx', but got {mode!r}")


def _read(value: tensor, at: tensor) -> tensor:
    """Return the values, which differ within a warp, of the lanes ``at``."""
    varies = variation(value.handle)
    place = variation(at.handle) if is_own(at) else Varies.NOT
    varies = (varies & ~Varies.LANES) | place
    if not varies & relevant():
        lane = settled(at)
        return element(value, lane.handle, varies)
    index = at + _first_lanes() if state().warp is None else for_all(at)
    return own_value(builder().gather(value.handle, index.handle, 0), value.dtype, varies)


def _first_lanes() -> tensor:
    """Return the index of the first thread of each thread's warp."""
    return thread_index() - lane_index()


def ballot(predicate: tensor, members: tensor) -> tensor:
    """Return a word with a bit for each thread of the warp for which a predicate holds, uint32.

    Args:
        predicate: The predicate.
        members: A word with a bit for each thread that has a say.

    Raises:
        NotImplementedError: Threads run one after the other.
    """
    check_warp_is_together("a vote of a warp's threads")
    holds, mask = settled(_truth(predicate)), settled(cast_to(members, uint32))
    if not is_own(holds) and not is_own(mask):
        return where(holds, mask, _word(0))
    bit = _bit_of_lane()
    held = where(and_(holds, not_equal(mask & bit, 0)), bit, _word(0))
    return _per_warp(Code.OR, held)


def _truth(value: tensor) -> tensor:
    return value if value.dtype == int1 else not_equal(value, 0)


def _word(value: int) -> tensor:
    return constant(value, uint32)


def _bit_of_lane() -> tensor:
    return _word(1) << cast_to(lane_index(), uint32)


def _per_warp(code: Code, values: tensor) -> tensor:
    """Combine the values of each warp's threads; every thread of the warp gets the result.

    Args:
        code: An operation of two values, in any order.
        values: Values of threads.
    """
    emit, extent = builder(), count()
    varies = variation(values.handle) & ~Varies.LANES
    rows = emit.reshape(values.handle, (extent // WARP_SIZE, WARP_SIZE))

    attributes = {"propagate_nan": False} if code in (Code.MIN, Code.MAX) else {}

    def combine(first: Value, second: Value) -> list[Value]:
        return [emit.binary(code, first, second, **attributes)]

    (made,) = emit.reduce([rows], 1, combine)
    if not varies & relevant():
        pair = emit.gather(made, emit.splat(constant(0, int32).handle, (2,)), 0)
        found = emit.split(pair)[0]
        note(found, varies)
        return tensor(found, values.dtype)
    warps = emit.binary(
        Code.DIV, emit.arange(0, extent), emit.splat(constant(WARP_SIZE, int32).handle, (extent,))
    )
    return own_value(emit.gather(made, warps, 0), values.dtype, varies)


def vote(what: str, predicate: tensor, members: tensor) -> tensor:
    """Return whether a predicate holds for all threads of a warp that have a say, or for any, or whether they agree.

    Args:
        what: ``"all"``, ``"any"`` or ``"uni"``.
        predicate: The predicate.
        members: As of :func:`ballot`.

    Raises:
        NotImplementedError: Threads run one after the other.
        ValueError: There is no such vote.
    """
    held, mask = ballot(predicate, members), settled(cast_to(members, uint32))
    is_all, is_none = equal(held, mask), equal(held, 0)
    if what == "all":
        return is_all
    if what == "any":
        return invert(is_none)
    if what == "uni":
        return or_(is_all, is_none)
    raise ValueError(f"what must be 'all', 'any' or 'uni', but got {what!r}")


def match_any(value: tensor, members: tensor) -> tensor:
    """Return a word with a bit for each thread of the warp that has the same bits, uint32.

    Args:
        value: Of 32 or 64 bits.
        members: As of :func:`ballot`.

    Raises:
        NotImplementedError: Threads run one after the other.
    """
    check_warp_is_together("a comparison of a warp's threads")
    mask = settled(cast_to(members, uint32))
    varies = variation(value.handle) if is_own(value) else Varies.NOT
    if not varies & Varies.LANES:
        return mask
    emit, extent = builder(), count()
    warps = extent // WARP_SIZE
    whole = (warps, WARP_SIZE, WARP_SIZE)
    bits = bitcast_to(value, uint64 if value.dtype.primitive_bitwidth == 64 else uint32).handle
    mine = emit.broadcast(emit.reshape(bits, (warps, WARP_SIZE, 1)), whole)
    other = emit.broadcast(emit.reshape(bits, (warps, 1, WARP_SIZE)), whole)
    lane = _bit_of_lane()
    bit = broadcast_to(for_all(where(not_equal(mask & lane, 0), lane, _word(0))), [extent])
    of_other = emit.broadcast(emit.reshape(bit.handle, (warps, 1, WARP_SIZE)), whole)
    none = emit.splat(_word(0).handle, whole)
    same = emit.select(emit.compare(Code.EQ, mine, other), of_other, none)

    def combine(first: Value, second: Value) -> list[Value]:
        return [emit.binary(Code.OR, first, second)]

    (made,) = emit.reduce([same], 2, combine)
    return own_value(emit.reshape(made, (extent,)), uint32, varies)


def match_all(value: tensor, members: tensor) -> tuple[tensor, tensor]:
    """Return the mask of members if all have the same bits, else 0, and whether they have.

    Args:
        value: Of 32 or 64 bits.
        members: As of :func:`ballot`.

    Raises:
        NotImplementedError: Threads run one after the other.
    """
    mask = settled(cast_to(members, uint32))
    same = vote("all", equal(match_any(value, members), mask), members)
    return where(same, mask, _word(0)), same


_REDUCTIONS: Mapping[str, Code] = {
    "add": Code.ADD,
    "min": Code.MIN,
    "max": Code.MAX,
    "and": Code.AND,
    "or": Code.OR,
    "xor": Code.XOR,
}


def _identity(what: str, element: dtype) -> int:
    width = element.primitive_bitwidth
    signed = element.is_int_signed()
    least = -(1 << (width - 1)) if signed else 0
    largest = (1 << (width - signed)) - 1
    return {"min": largest, "max": least, "and": -1 if signed else largest}.get(what, 0)


def reduce_warp(what: str, value: tensor, members: tensor) -> tensor:
    """Combine the integers of the threads of a warp that have a say; each of them gets the result.

    Args:
        what: ``"add"``, ``"min"``, ``"max"``, ``"and"``, ``"or"`` or ``"xor"``.
        value: Integers of 32 bits.
        members: As of :func:`ballot`.

    Raises:
        NotImplementedError: Threads run one after the other.
        ValueError: There is no such reduction.
    """
    check_warp_is_together("a reduction of a warp's threads")
    if what not in _REDUCTIONS:
        known = ", ".join(map(repr, _REDUCTIONS))
        raise ValueError(f"what must be one of {known}, but got {what!r}")
    mask, element_type = settled(cast_to(members, uint32)), value.dtype
    if not is_own(value) and not is_own(mask):
        return _of_equals(what, value, mask)
    neutral = constant(_identity(what, element_type), element_type)
    held = where(not_equal(mask & _bit_of_lane(), 0), value, neutral)
    return _per_warp(_REDUCTIONS[what], held)


def _of_equals(what: str, value: tensor, mask: tensor) -> tensor:
    """Return a reduction of a number that all members have."""
    if what not in ("add", "xor"):
        return value
    bits = mask
    for shift, parts in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        bits = (bits & _word(parts)) + ((bits >> shift) & _word(parts))
    members = bitcast_to((bits + (bits >> 16)) & _word(0x3F), get_int_dtype(32, True))
    times = cast_to(members if what == "add" else members & 1, value.dtype)
    return value * times


def elect(members: tensor) -> tuple[tensor, tensor]:
    """Return the first lane of the members, uint32, and whether the running thread is that.

    Args:
        members: As of :func:`ballot`.

    Raises:
        NotImplementedError: Threads run one after the other.
    """
    check_warp_is_together("an election among a warp's threads")
    mask, bit = settled(cast_to(members, uint32)), _bit_of_lane()
    is_first = and_(not_equal(mask & bit, 0), equal(mask & (bit - 1), 0))
    lane = where(is_first, cast_to(lane_index(), uint32), _word(0))
    return _per_warp(Code.OR, lane), is_first


def sync_warp(members: tensor | None = None) -> None:
    """Wait for the other threads of the warp: where they run together, they do one statement after the other.

    Args:
        members: Accepted.

    Raises:
        NotImplementedError: Threads run one after the other.
    """
    del members
    check_warp_is_together("a barrier of a warp's threads")
