"""The machine as tensors: its words and calls, and the checks of what a program hands to it.

A program may hand over anything; so each number is checked by the kernel itself, before memory is touched. A check that
fails ends the program with an error that names the line, the program and the values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from emu.tile import machine
from emu.tile.ir import Region, Value
from emu.tile.ops import Code
from emu.tile.types import I64, U64
from emu.tile.types import element_of as tile_element
from emu.triton.language import reductions
from emu.triton.language.constants import unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.shapes import broadcast_handle, wrapped
from emu.triton.language.types import dtype, int1, int64, pointer_type
from emu.triton.language.values import TensorLike, tensor


class Ends(NamedTuple):
    """The lowest and the highest of some numbers, i64 scalars; one value if all are equal."""

    low: Value
    high: Value


WORLD = 0
"""The team of all PEs."""


def read(what: str) -> Value:
    """Return a machine word, i64."""
    return machine.read_word(builder(), what)


def call(what: str, *operands: Value) -> Value:
    """Make a call of the machine, and return its result, i64."""
    return machine.call(builder(), what, operands)


def number(value: int) -> Value:
    """Return a constant, i64."""
    return builder().constant(value, I64)


def demand(condition: Value, message: str, shown: Mapping[str, Value]) -> None:
    """End the program with an error that shows some values unless a condition holds."""
    builder().assert_(condition, message, shown)  # noqa: PT009 - emits an ASSERT


def integer(value: TensorLike, name: str) -> Value:
    """Return a single integer of a program as i64.

    Raises:
        TypeError: It is none.
    """
    given = value if isinstance(value, tensor) else to_tensor(_plain(value, name))
    if given.extents or not given.dtype.is_int():
        raise TypeError(f"{name} must be a single integer, but got {given}")
    return cast_to(given, int64).handle


def _plain(value: object, name: str) -> int:
    plain = unwrap(value)
    if isinstance(plain, bool) or not isinstance(plain, int):
        raise TypeError(f"{name} must be a single integer, but got {plain!r}")
    return plain


def check_peer(pe: TensorLike, name: str = "pe") -> Value:
    """Return the number of a PE after a check that there is such a PE, i64.

    Raises:
        TypeError: ``pe`` is no single integer.
    """
    emit, found = builder(), integer(pe, name)
    n_pes = read("n_pes")
    inside = emit.binary(
        Code.AND,
        emit.compare(Code.GE, found, number(0)),
        emit.compare(Code.LT, found, n_pes),
    )
    message = f"{name} must be the number of a PE, at least 0 and below n_pes"
    demand(inside, message, {name: found, "n_pes": n_pes, "my_pe": read("my_pe")})
    return found


def is_here(peer: Value) -> Value:
    """Return whether loads and stores can reach the memory of a PE: whether it is on this PE's host, i1."""
    return _is_between(peer, read("first_here"), read("end_here"))


def _is_between(peer: Value, first: Value, end: Value) -> Value:
    emit = builder()
    return emit.binary(
        Code.AND, emit.compare(Code.GE, peer, first), emit.compare(Code.LT, peer, end)
    )


def check_here(peer: Value, name: str = "pe") -> Value:
    """Return the number of a PE after a check that loads and stores can reach its memory: it is on this PE's host."""
    first, end = read("first_here"), read("end_here")
    inside = _is_between(peer, first, end)
    shown = {name: peer, "first_here": first, "end_here": end, "my_pe": read("my_pe")}
    demand(inside, _ELSEWHERE.format(name), shown)
    return peer


_ELSEWHERE = (
    "{} must be on this PE's host, at least first_here and below end_here, as loads, stores and atomics by a pointer cannot "
    "reach another: use shmem.load, store or atomic_..., put, get, put_signal or signal"
)


def check_size(nbytes: TensorLike, name: str = "nbytes") -> Value:
    """Return a number of bytes, i64, after a check that it is not negative."""
    emit, found = builder(), integer(nbytes, name)
    demand(
        emit.compare(Code.GE, found, number(0)),
        f"{name} must not be negative",
        {name: found, "my_pe": read("my_pe")},
    )
    return found


def is_world(team: TensorLike) -> bool:
    """Return whether a program has named the team of all PEs, when it is compiled."""
    return not isinstance(team, tensor) and unwrap(team) == WORLD


def check_team(team: TensorLike) -> Value:
    """Return the number of a team, i64, after a check that this PE is a member."""
    if is_world(team):
        return number(WORLD)
    emit, found = builder(), integer(team, "team")
    demand(
        emit.compare(Code.GE, call("team_pe", found), number(0)),
        "team must be a team that this PE is a member of",
        {"team": found, "my_pe": read("my_pe")},
    )
    return found


def element_of(pointer: tensor) -> dtype:
    """Return the dtype that a pointer points to."""
    assert isinstance(pointer.dtype, pointer_type)
    return pointer.dtype.element_ty


def check_pointer(
    pointer: object, name: str, *, single: bool, widths: Sequence[int] | None = None
) -> tensor:
    """Return a pointer after a check of its type.

    Args:
        pointer: What the program gives.
        name: What errors call it.
        single: Whether a tensor of pointers is refused.
        widths: Bits of the integers that it may point to. Default: it may point to anything.

    Raises:
        TypeError: It is another type.
    """
    what = "a single pointer" if single else "a pointer, or a tensor of pointers,"
    if (
        not isinstance(pointer, tensor)
        or not pointer.dtype.is_ptr()
        or (single and pointer.extents)
    ):
        got = str(pointer) if isinstance(pointer, tensor) else repr(unwrap(pointer))
        raise TypeError(f"{name} must be {what} to symmetric memory, but got {got}")
    element = element_of(pointer)
    if widths is not None and not (
        element.is_int() and element.primitive_bitwidth in widths and not element.is_bool()
    ):
        said = " or ".join(map(str, widths))
        raise TypeError(f"{name} must point to integers of {said} bits, but got {pointer}")
    return pointer


def address_of(pointer: tensor) -> Value:
    """Return the address, or addresses, of a pointer, i64."""
    return builder().cast(pointer.handle, I64)


def offset_in_heap(pointer: tensor, name: str, nbytes: Value) -> Value:
    """Return where in this PE's heap a pointer points to, i64, after a check that it does.

    Args:
        pointer: A single pointer.
        name: What the error calls it.
        nbytes: Number of bytes that are used from there on, i64.
    """
    address = address_of(pointer)
    demand(_fits(address, nbytes), _OUTSIDE.format(name), _shown(name, pointer.handle))
    return builder().binary(Code.SUB, address, read("heap"))


def check_aligned(pointer: tensor, name: str, nbytes: int) -> None:
    """Check that a word lies at a multiple of its bytes: nothing else is changed and read as a whole.

    Args:
        pointer: A single pointer.
        name: What the error calls it.
        nbytes: Bytes of the word, a power of 2.
    """
    emit = builder()
    rest = emit.binary(Code.AND, address_of(pointer), number(nbytes - 1))
    demand(
        emit.compare(Code.EQ, rest, number(0)),
        f"{name} must lie at a multiple of {nbytes} bytes, which its words have",
        {name: pointer.handle, "my_pe": read("my_pe")},
    )


_OUTSIDE = "{} must lie in this PE's symmetric heap"


def check_lanes(pointer: tensor, name: str, mask: Value | None, ends: Ends | None) -> None:
    """Check that pointers lie in this PE's heap.

    Args:
        pointer: One, or a tensor of them.
        name: What the error calls it.
        mask: Lanes that count, i1 of the pointers' shape. Default: all.
        ends: Ends of their addresses, if known: where those lie in the heap, no lane is looked at.
    """
    emit = builder()
    width = number(max(1, element_of(pointer).primitive_bitwidth // 8))
    if ends is None:
        _check_each(pointer, name, mask, width)
        return
    inside = emit.binary(Code.AND, _fits(ends.low, width), _fits(ends.high, width))
    nothing, each = Region(), Region()
    with emit.into(nothing):
        emit.yield_()
    with emit.into(each):
        _check_each(pointer, name, mask, width)
        emit.yield_()
    emit.if_(inside, nothing, each)


def _check_each(pointer: tensor, name: str, mask: Value | None, width: Value) -> None:
    emit = builder()
    fits = _fits(address_of(pointer), width)
    if mask is not None:
        fits = emit.binary(Code.OR, fits, emit.unary(Code.NOT, mask))
    demand(fits, _OUTSIDE.format(name), _shown(name, pointer.handle))


def _shown(name: str, pointer: Value) -> dict[str, Value]:
    shown = {name: pointer, "heap": read("heap"), "heap_bytes": read("heap_bytes")}
    return {**shown, "my_pe": read("my_pe")}


def _fits(address: Value, nbytes: Value) -> Value:
    """Return whether bytes at addresses lie in the heap, i1 under the addresses' shape."""
    emit, shape, size = builder(), address.shape, read("heap_bytes")
    offset = emit.binary(Code.SUB, address, _like(read("heap"), shape))
    # As an unsigned number an offset before the heap is too large, too.
    last = _like(_unsigned(emit.binary(Code.SUB, size, nbytes)), shape)
    return emit.binary(
        Code.AND,
        emit.compare(Code.LE, _unsigned(offset), last),
        _like(emit.compare(Code.LE, nbytes, size), shape),
    )


def _like(value: Value, shape: Sequence[int]) -> Value:
    return builder().splat(value, shape)


def _unsigned(value: Value) -> Value:
    return builder().bitcast(value, U64)


def translated(pointer: tensor, peer: Value) -> tensor:
    """Return the pointer to the same place of another PE's heap; nothing is checked.

    It is made by way of an integer: where it points to is no part of the tensor that a check of addresses knows.
    """
    emit = builder()
    distance = emit.binary(Code.SUB, peer, read("my_pe"))
    nbytes = emit.binary(Code.MUL, distance, read("stride"))
    return tensor(_moved(pointer.handle, nbytes), pointer.type)


def _moved(pointers: Value, nbytes: Value) -> Value:
    """Move pointers by bytes: where a tile is a pointer and offsets that pointer, so that runs of it stay runs."""
    emit, operation = builder(), getattr(pointers, "owner", None)
    if pointers.shape and operation is not None:
        if operation.code is Code.PTR_ADD:
            return emit.ptr_add(_moved(operation.operands[0], nbytes), operation.operands[1])
        if operation.code is Code.SPLAT:
            return emit.splat(_moved(operation.operands[0], nbytes), pointers.shape)
        if operation.code is Code.BROADCAST:
            return emit.broadcast(_moved(operation.operands[0], nbytes), pointers.shape)
        if operation.code is Code.RESHAPE:
            return emit.reshape(_moved(operation.operands[0], nbytes), pointers.shape)
    address = emit.binary(Code.ADD, emit.cast(pointers, I64), _like(nbytes, pointers.shape))
    return emit.cast(address, tile_element(pointers.type))


def carry(
    peer: Value, pointer: tensor, mask: Value | None, *, sends: bool = False, fetches: bool = False
) -> None:
    """Let elements take their time on an emulated link, if there is one.

    Args:
        peer: The PE at the other end.
        pointer: Where the elements are.
        mask: Those that travel, i1 of the pointers' shape. Default: all.
        sends: Whether they go to the peer.
        fetches: Whether they come from it.
    """
    emit = builder()
    width = max(1, element_of(pointer).primitive_bitwidth // 8)
    travel, nothing = Region(), Region()
    with emit.into(travel):
        if mask is None:
            nbytes = number(width * math.prod(pointer.extents))
        else:
            lanes = reductions.sum(cast_to(wrapped(mask, int1), int64))
            nbytes = emit.binary(Code.MUL, lanes.handle, number(width))
        zero = number(0)
        call("carried", peer, nbytes if sends else zero, nbytes if fetches else zero)
        emit.yield_()
    with emit.into(nothing):
        emit.yield_()
    emit.if_(emit.compare(Code.GT, read("link"), number(0)), travel, nothing)


def mask_of(mask: TensorLike | None, pointer: tensor) -> Value | None:
    """Return the handle of a mask under the shape of the pointers."""
    if mask is None or (not isinstance(mask, tensor) and unwrap(mask) is None):
        return None
    given = mask if isinstance(mask, tensor) else to_tensor(mask)
    return broadcast_handle(given.handle, pointer.extents)


def typed(value: Value, to: dtype) -> tensor:
    """Return an i64 of the machine as a scalar of a dtype."""
    return cast_to(tensor(value, int64), to)
