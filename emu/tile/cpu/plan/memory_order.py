"""Order of the memory operations of one stretch of straight-line code.

A program must not be able to tell that its operations were fused: between two memory operations of which at
least one writes, the schedule keeps this much of the program's order (the first column comes first in the program).

==========================  ============================================================================
tile load, tile store       the store in a later level; or in the same loop, if both have one shape and
                            pointers of a known span (``Analysis.has_span``): the emitter then checks
                            for overlap at run time
tile store, tile load       the load in a later level
tile store, tile store      the second in the same level or later: without a barrier, no order is promised
                            for different elements, and one loop does each element in program order
atomic tile, any tile       in a later level (and the other way round)
scalar, tile                the tile's level has at least the scalar's slot: a slot comes before its level
tile store or atomic,       the scalar in a slot after the tile's level
scalar
tile load, scalar write     the scalar in a slot after the tile's level
scalar, scalar              in program order: same slot (whose operations keep their order) or later
==========================  ============================================================================

:class:`MemoryOrder` keeps that order with a few counters instead of comparing pairs. Each counter is the greatest
level (or slot) of one kind of operation placed so far, -1 if there is none. Since operations are placed in program
order, an operation that must come after all earlier ones of a kind only needs to come after the greatest. A wrong
counter would be a silent miscompile: ``tests/tile/cpu/plan`` derives all dependences again, pair by pair.
"""

from __future__ import annotations

Shape = tuple[int, ...]


class MemoryOrder:
    """Fusion levels and issue slots of the memory operations placed so far.

    Each ``place_…`` method takes the earliest place at which the operands allow an operation, and returns the
    earliest at which the memory operations placed before it allow it as well.
    """

    def __init__(self) -> None:
        # Invariants; "level of" means the greatest level among those placed so far, -1 if there is none.
        self._tile_load = -1  # level of the tile loads
        # Level of the tile loads whose span is not known: never above _tile_load.
        self._spanless_load = -1
        self._tile_store = -1  # level of the tile stores
        self._tile_atomic = -1  # level of the atomic operations on tiles
        self._scalar_slot = (
            0  # slot of the scalar memory operations; 0 if there is none: it delays nothing
        )
        self._load_levels: dict[Shape, int] = {}  # level of the tile loads of each shape

    def place_load(self, level: int, shape: Shape, has_span: bool) -> int:
        """Return the level of a tile load."""
        level = max(level, self._tile_store + 1, self._tile_atomic + 1, self._scalar_slot)
        self._tile_load = max(self._tile_load, level)
        self._load_levels[shape] = max(self._load_levels.get(shape, -1), level)
        if not has_span:
            self._spanless_load = max(self._spanless_load, level)
        return level

    def place_store(self, level: int, shape: Shape, has_span: bool) -> int:
        """Return the level of a tile store."""
        level = max(level, self._tile_store, self._tile_atomic + 1, self._scalar_slot)
        # Loads before it may share its loop only where the emitter can check for overlap.
        level = max(level, self._tile_load if has_span else self._tile_load + 1)
        level = max(level, self._spanless_load + 1)
        for other, load_level in self._load_levels.items():
            if other != shape:  # another loop of the same level, which might run after this one
                level = max(level, load_level + 1)
        self._tile_store = level
        return level

    def place_atomic(self, level: int) -> int:
        """Return the level of an atomic operation on tiles."""
        earlier = max(self._tile_load, self._tile_store, self._tile_atomic)
        level = max(level, earlier + 1, self._scalar_slot)
        self._tile_atomic = level
        return level

    def place_scalar(self, slot: int, is_load: bool) -> int:
        """Return the slot of a memory operation on scalars."""
        slot = max(slot, self._tile_store + 1, self._tile_atomic + 1, self._scalar_slot)
        if not is_load:
            slot = max(slot, self._tile_load + 1)
        self._scalar_slot = slot
        return slot
