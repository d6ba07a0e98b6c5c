"""RecordExtents: code that notes which bytes of each argument a launch has read, and which it has written.

A launch fills a block of *facts*, words for each argument of the kernel (``WORDS``), with empty spans; each
memory operation widens the span of the argument that its pointer comes from, by the lanes that its mask lets through.
Pointers that were read from memory, or that may come from two arguments, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from emu.tile import ops
from emu.tile.ir import Builder, Module, Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.passes.check_bounds import Then, mask_of
from emu.tile.passes.intervals import combining
from emu.tile.passes.origins import UNKNOWN, find_origins
from emu.tile.types import I64, Pointer, Tile, element_of

WORDS = 6
"""Words of an argument: the first address that was read, the address behind the last, the same of what was
written, and of what atomic operations have changed."""

_SPAN = {Code.LOAD: 0, Code.STORE: 2}
"""Words before those of what an operation does; others are atomic."""

NOTHING = (I64.limits[1], I64.limits[0])
"""An empty span."""


def record_extents(module: Module, recorded: Collection[Operation]) -> None:
    """Instrument a kernel so that it notes what it touches.

    Args:
        module: Module of a kernel that calls nothing. It is changed: its kernel gets one more argument, the address of
            the facts.
        recorded: The memory operations that count: those of the program, not of other checks.
    """
    recorder = _Recorder(module.kernel.body, recorded)
    recorder.run()


class _Recorder:
    def __init__(self, body: Region, recorded: Collection[Operation]) -> None:
        self._body = body
        self._recorded = recorded
        self._origins = find_origins(body)
        self._facts = Value(Pointer(I64), name="extents")

    def run(self) -> None:
        self._region(self._body)
        self._body.arguments.append(self._facts)

    def _region(self, region: Region) -> None:
        operations, region.operations = region.operations, []
        builder = Builder(region)
        for operation in operations:
            builder.location = operation.location
            for nested in operation.regions:
                self._region(nested)
            if operation.code in ops.MEMORY and operation in self._recorded:
                self._record(builder, operation)
            region.operations.append(operation)

    def _record(self, builder: Builder, operation: Operation) -> None:
        pointer, mask = operation.operands[0], mask_of(operation)
        found = self._origins.get(pointer, frozenset((UNKNOWN,)))
        if len(found) != 1 or UNKNOWN in found:
            return
        (argument,) = found
        element = element_of(pointer.type)
        assert isinstance(element, Pointer)
        first = WORDS * argument + _SPAN.get(operation.code, 4)
        address = builder.cast(pointer, I64)
        size = builder.constant(element.element.bytes, I64)
        low = self._extreme(builder, address, mask, Code.MIN)
        high = self._extreme(builder, address, mask, Code.MAX)
        # Where no lane is let through, both are those of an empty span.
        self._widen(builder, first, low, Code.LT, Rmw.MIN)
        behind = builder.binary(Code.ADD, high, size)
        self._widen(builder, first + 1, behind, Code.GT, Rmw.MAX)

    def _extreme(self, builder: Builder, address: Value, mask: Value | None, code: Code) -> Value:
        """Return the least or the greatest address of the lanes that a mask lets through."""
        nothing = NOTHING[0] if code is Code.MIN else NOTHING[1]
        if mask is not None:
            address = builder.select(mask, address, builder.constant(nothing, address.type))
        if not isinstance(address.type, Tile):
            return address
        flat = builder.reshape(address, (math.prod(address.shape),))
        (found,) = builder.reduce((flat,), 0, combining(builder, code))
        return found

    def _widen(self, builder: Builder, word: int, to: Value, is_beyond: Code, kind: Rmw) -> None:
        place = builder.ptr_add(self._facts, builder.constant(word, I64))
        with Then(builder, builder.compare(is_beyond, to, builder.load(place))):
            builder.atomic_rmw(kind, place, to)
