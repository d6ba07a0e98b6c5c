"""Loads, stores and atomic operations of elements of another PE's memory, after the checks of what a program gives.

On one host they are those of the language, at the place of the other PE's heap. Where PEs are on several hosts, a kernel asks
when it runs whether the PE is on its own; for one that is not it leaves the operands in memory that the machine gives, and
calls it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from emu.comm.sync import element_numbers
from emu.comm.sync.element_numbers import room_for
from emu.tile.ir import Region, Value
from emu.tile.objects import Attribute
from emu.tile.ops import Code, Rmw
from emu.tile.types import DTYPES, I64, Pointer
from emu.tile.types import element_of as tile_element
from emu.triton.language import memory
from emu.triton.language.context import builder, current
from emu.triton.language.conversion import bitcast_to
from emu.triton.language.shmem import machine
from emu.triton.language.types import bfloat16, dtype
from emu.triton.language.values import TensorLike, tensor

_TOLD: dict[str, Attribute] = {"machine": True}
_BYTE = DTYPES["u8"]
_UPDATES = {
    Rmw.ADD: element_numbers.ADD,
    Rmw.MIN: element_numbers.MIN,
    Rmw.MAX: element_numbers.MAX,
    Rmw.AND: element_numbers.AND,
    Rmw.OR: element_numbers.OR,
    Rmw.XOR: element_numbers.XOR,
    Rmw.EXCHANGE: element_numbers.EXCHANGE,
}


class Elements(NamedTuple):
    """Elements of a PE's memory.

    Attributes:
        pointer: Where they lie, as a pointer, or pointers, into this PE's own heap.
        peer: The PE.
        mask: Those that count, int1 that broadcasts to the pointers. Default: all.
    """

    pointer: tensor
    peer: Value
    mask: TensorLike | None = None


def load(at: Elements, other: TensorLike | None = None) -> tensor:
    """Return elements as ``tl.load`` does."""

    def here(there: tensor) -> tensor:
        return memory.load(there, at.mask, other)

    def elsewhere(room: _Room) -> tensor:
        room.access(element_numbers.LOAD)
        return memory.read(room.values, at.mask, other, _TOLD)

    found = _either(at, here, elsewhere)
    assert found is not None
    return found


def store(at: Elements, value: TensorLike, *, tells: bool = True) -> None:
    """Change elements as ``tl.store`` does, and, with ``tells``, tell the PE."""

    def here(there: tensor) -> None:
        memory.store(there, value, at.mask)
        if tells:
            machine.call("changed", at.peer)

    def elsewhere(room: _Room) -> None:
        memory.write(room.values, value, at.mask, _TOLD)
        room.access(element_numbers.STORE)

    _either(at, here, elsewhere, changes=True)


def update(
    at: Elements, kind: Rmw, value: TensorLike, function: Callable[[tensor], tensor]
) -> tensor:
    """Change elements atomically, and tell the PE; return what was there.

    Args:
        at: The elements.
        kind: What is done.
        value: The operand.
        function: Does it on this host, given the pointers into the PE's heap.
    """

    def here(there: tensor) -> tensor:
        old = function(there)
        machine.call("changed", at.peer)
        return old

    def elsewhere(room: _Room) -> tensor:
        memory.write(room.values, value, at.mask, _TOLD)
        room.access(_UPDATES[kind])
        return memory.read(room.values, at.mask, None, _TOLD)

    old = _either(at, here, elsewhere, changes=True)
    assert old is not None
    return old


def compare_and_swap(
    at: Elements, cmp: TensorLike, value: TensorLike, function: Callable[[tensor], tensor]
) -> tensor:
    """Replace elements that are ``cmp``, and tell the PE; return what was there. ``function``: as of :func:`update`."""

    def here(there: tensor) -> tensor:
        old = function(there)
        machine.call("changed", at.peer)
        return old

    def elsewhere(room: _Room) -> tensor:
        memory.write(room.values, value, None, _TOLD)
        memory.write(room.expected, cmp, None, _TOLD)
        room.access(element_numbers.CAS)
        return memory.read(room.values, None, None, _TOLD)

    old = _either(at, here, elsewhere, changes=True)
    assert old is not None
    return old


def _either(
    at: Elements,
    here: Callable[[tensor], tensor | None],
    elsewhere: Callable[[_Room], tensor | None],
    *,
    changes: bool = False,
) -> tensor | None:
    """Emit the access of elements of this host, and where hosts are several also that of elements of others."""
    if not current().over_hosts:
        return here(machine.translated(at.pointer, at.peer))
    emit, near, far = builder(), Region(), Region()
    with emit.into(near):
        if changes:
            machine.call("settle")
        found = here(machine.translated(at.pointer, at.peer))
        emit.yield_(*(() if found is None else (found.handle,)))
    with emit.into(far):
        room = _Room(at)
        fetched = elsewhere(room)
        if found is not None and fetched is not None:
            fetched = fetched if fetched.dtype == found.dtype else bitcast_to(fetched, found.dtype)
        room.leave()
        emit.yield_(*(() if fetched is None else (fetched.handle,)))
    results = emit.if_(machine.is_here(at.peer), near, far)
    return None if found is None else tensor(results[0], found.type)


class _Room:
    """Memory from which the machine takes the operands of an access, and in which it leaves what was found.

    Attributes:
        values: Pointers to the values, of the shape and to the dtype of the elements' own.
        expected: Likewise to what a compare-and-swap expects.
    """

    def __init__(self, at: Elements) -> None:
        emit, pointer = builder(), at.pointer
        self._element, self._at = machine.element_of(pointer), at
        self._size = max(1, self._element.primitive_bitwidth // 8)
        self._count = math.prod(pointer.extents)
        places = room_for(self._count, self._size)
        self._address = machine.call("take_room", machine.number(places.nbytes))
        kind = tile_element(pointer.handle.type)
        assert isinstance(kind, Pointer)
        self.values = tensor(self._pointers(places.values, kind), pointer.type)
        self.expected = tensor(self._pointers(places.expected, kind), pointer.type)
        addresses, heap = machine.address_of(pointer), machine.read("heap")
        if pointer.extents:
            heap = emit.splat(heap, pointer.extents)
        offsets = emit.binary(Code.SUB, addresses, heap)
        emit.store(self._pointers(places.offsets, Pointer(I64)), offsets, order=_TOLD)
        self._mask = machine.mask_of(at.mask, pointer)
        if self._mask is not None:
            there = self._pointers(places.mask, Pointer(_BYTE))
            emit.store(there, emit.cast(self._mask, _BYTE), order=_TOLD)

    def _pointers(self, place: int, kind: Pointer) -> Value:
        emit, extents = builder(), self._at.pointer.extents
        address = emit.binary(Code.ADD, self._address, machine.number(place))
        first = emit.cast(address, kind)
        if not extents:
            return first
        lanes = emit.reshape(emit.arange(0, self._count), extents)
        return emit.ptr_add(emit.splat(first, extents), lanes)

    def access(self, operation: int) -> None:
        """Have an operation done."""
        kind, masked = _kind_of(self._element), int(self._mask is not None)
        given = self._count, self._size, kind, operation, masked
        machine.call("elements", self._at.peer, self._address, *map(machine.number, given))

    def leave(self) -> None:
        """Give the memory back, once what was found has been read."""
        machine.call("give_room", self._address)


def _kind_of(element: dtype) -> int:
    if element == bfloat16:
        return element_numbers.BFLOAT
    if element.is_floating():
        return element_numbers.FLOAT
    return element_numbers.SIGNED if element.is_int_signed() else element_numbers.UNSIGNED
