"""Conditions of wait nodes: polling, completion and description."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.comm.ops import Cmp
from emu.pypto.hangs import Expected, explain_barrier, explain_wait, slots_of
from emu.pypto.node import Node, Word
from emu.pypto.order import Op
from emu.pypto.pieces import Pieces, blocks_of
from emu.pypto.shmem import Memory

if TYPE_CHECKING:
    from emu.comm.world.array import SymmetricArray

_SIGNS = {Cmp.EQ: "==", Cmp.NE: "!=", Cmp.LT: "<", Cmp.LE: "<=", Cmp.GT: ">", Cmp.GE: ">="}


class TileWait:
    """A wait for the slots [src_pe][every tile] of this PE.

    Each tile latches: once its slot has matched, what happens to the slot no longer matters.
    """

    __slots__ = ("_op", "_pieces", "clear", "cmp", "left", "memory", "n_tiles", "slots", "value")

    def __init__(
        self,
        memory: Memory,
        slots: SymmetricArray,
        src_pe: int,
        n_tiles: int,
        cmp: Cmp,
        value: int,
        clear: bool,
        op: Op | None = None,
    ) -> None:
        self.memory = memory
        self.slots = slots
        self.n_tiles = n_tiles
        self.cmp = cmp
        self.value = value
        self.clear = clear
        self.left = list(range(src_pe * n_tiles, (src_pe + 1) * n_tiles))
        self._pieces: dict[int, tuple[Node, set[int]]] = {}
        self._op = op

    def poll(self) -> bool:
        """Look at the slots that have not matched; return whether none is left."""
        if self._op is None or self._op.task is None:
            return self._poll()
        return self._op.doing(self._poll)()

    def _poll(self) -> bool:
        test, slots, cmp, value = self.memory.group.test, self.slots, self.cmp, self.value
        left = [
            slot
            for slot in self.left
            if not (test(slots, cmp, value, index=slot) and (not self.clear or self._take(slot)))
        ]
        self.left = left
        return not left

    def pieces(self, node: Node, add: Callable[[Node, int], Node]) -> Pieces | None:
        """Return the pieces of a wait on a view; None for signals without data, or of one tile.

        Args:
            node: The node of the wait.
            add: Makes the node of a piece, from that of the wait and the number of the piece.
        """
        if self.n_tiles < 2:
            return None
        grid = slots_of(self.memory, self.slots).grid
        if not grid.shape:
            return None
        blocks = blocks_of(grid.shape, grid.tile)
        first = self.left[0] // self.n_tiles * self.n_tiles

        def node_of(number: int) -> Node | None:
            made = self._pieces.get(number)
            if made is None:
                slots = {first + tile for tile in grid.tiles_in(*blocks[number])}
                if slots.isdisjoint(self.left):
                    return None
                made = self._pieces[number] = add(node, number), slots
            return made[0]

        return Pieces(self.memory, grid.low, grid.shape, blocks, node_of)

    def released(self) -> list[Node]:
        """Return the pieces that have matched since the last call."""
        if not self._pieces:
            return []
        done = [n for n, (_, slots) in self._pieces.items() if slots.isdisjoint(self.left)]
        return [self._pieces[number][0] for number in done if not self._pieces[number][0].done]

    def _take(self, slot: int) -> bool:
        """Replace a matching value by 0; return whether it was still there, so that no signal is lost."""
        group, slots = self.memory.group, self.slots
        seen = self.value
        if self.cmp is not Cmp.EQ:
            seen = group.fetch(slots, group.my_pe, index=slot)
            if not _holds(self.cmp, seen, self.value):
                return False
        return group.compare_swap(slots, seen, 0, group.my_pe, index=slot) == seen

    def words(self) -> list[Word]:
        """Return the slots that have not matched."""
        return [(self.slots, slot, self.cmp, self.value) for slot in self.left]

    def describe(self) -> str:
        """Describe the slots that are waited for."""
        tiles = [slot % self.n_tiles for slot in self.left]
        names = slots_of(self.memory, self.slots).grid.names(tiles)
        src_pe = self.left[0] // self.n_tiles if self.left else 0
        return (
            f"shmem_wait_until: {self.memory.name}{names and ' ' + names} of src_pe {src_pe} "
            f"{_SIGNS[self.cmp]} {self.value}"
        )

    def explain(self) -> list[str]:
        """Return lines that name the missing tiles and what was found instead."""
        return explain_wait(self.memory, self.slots, self.left, Expected(self.cmp, self.value))


def _holds(cmp: Cmp, seen: int, value: int) -> bool:
    # In the order of Cmp's members.
    return (seen == value, seen != value, seen > value, seen >= value, seen < value, seen <= value)[
        cmp
    ]


class BarrierWait:
    """A wait for everyone's arrival, which is then taken off the count."""

    __slots__ = ("_op", "memory", "word")

    def __init__(self, memory: Memory, word: SymmetricArray, op: Op | None = None) -> None:
        self.memory = memory
        self.word = word
        self._op = op

    def poll(self) -> bool:
        """Return whether all have arrived; if so, count them off."""
        return self._poll() if self._op is None else self._op.doing(self._poll)()

    def _poll(self) -> bool:
        memory = self.memory
        group, n_pes = memory.group, memory.n_pes
        if not group.test(self.word, Cmp.GE, n_pes, index=0):
            return False
        # Subtracted, not cleared: the count may hold arrivals at the next barrier already.
        group.fetch_add(self.word, -n_pes, group.my_pe, index=0)
        return True

    def released(self) -> list[Node]:
        """Return nothing: it has no pieces."""
        return []

    def words(self) -> list[Word]:
        """Return the counter."""
        return [(self.word, 0, Cmp.GE, self.memory.n_pes)]

    def describe(self) -> str:
        """Describe the barrier that is waited for."""
        return f"shmem_barrier_all on {self.memory.name}: {self.memory.n_pes} arrivals"

    def explain(self) -> list[str]:
        """Return lines that give the number of arrivals."""
        return explain_barrier(self.memory, self.word)
