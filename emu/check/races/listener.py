"""``RaceListener``: what a PE's operations mean to the clocks and the shadow."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from emu.check.area import ENTRY_WORDS, RECORD_WORDS, RECORDS, STATE_WORDS, Area
from emu.check.races import clocks as c
from emu.check.races import operations as do
from emu.check.races.findings import Findings
from emu.check.races.records import ATOMIC as ATOMIC_KIND
from emu.check.races.records import (
    ATOMICS,
    CLASS_SHIFT,
    NONBLOCKING,
    PROGRAM,
    PUTS,
    WRITES,
)
from emu.check.races.sites import Site, Sites
from emu.check.races.tasks import Tasks
from emu.check.races.views import CheckedArray, wrap
from emu.comm.arrays import Array, Words
from emu.comm.check_options import STRONG, Checks
from emu.comm.memory.segment import Segment
from emu.comm.sync.entry_points import put_short
from emu.comm.sync.signal_numbers import ADD, FETCH, SET
from emu.comm.world.listening import Tile, Word
from emu.comm.world.membership import Membership

_CLASSES = {
    ("i", 4): 1,
    ("i", 8): 2,
    ("f", 4): 3,
    ("f", 2): 4,
    ("V", 2): 5,
    ("f", 8): 6,
    ("i", 1): 7,
    ("i", 2): 8,
    ("b", 1): 9,
}
"""Operations of one class are atomic to each other."""


def class_of(kind: str, itemsize: int) -> int:
    """Return the class of atomic operations on elements, as a part of an access's kind."""
    return _CLASSES.get(("i" if kind == "u" else kind, itemsize), 10) << CLASS_SHIFT


def _kind_of_put(target: Tile, adds: bool) -> int:
    return WRITES | (ATOMIC_KIND | class_of(target.kind, target.itemsize) if adds else 0)


_WORD_KINDS = {4: class_of("i", 4), 8: class_of("i", 8)}

_Walk = tuple[int, int, int, Words | None]
"""Of a tile: address of its walk or 0, where its first byte is relative to its first element, bytes from there to the
last, and what keeps the walk alive."""


@functools.lru_cache(4096)
def walk_of(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> _Walk:
    """Return how the bytes of a tile are walked; ``span`` is 0 of an empty one."""
    if 0 in shape:
        return 0, 0, 0, None
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    rest: list[tuple[int, int]] = []
    axes = sorted(
        (abs(stride), extent)
        for extent, stride in zip(shape, strides, strict=True)
        if extent > 1 and stride
    )
    run = itemsize
    for stride, extent in axes:
        if not rest and stride == run:
            run *= extent
        else:
            rest.append((extent, stride))
    span = run + sum((extent - 1) * stride for extent, stride in rest)
    if not rest:
        return 0, low, span, None
    words = np.array([run, len(rest), *(n for axis in reversed(rest) for n in axis)], np.int64)
    return int(words.ctypes.data), low, span, words


class RaceListener:
    """Tells the checker of what this PE does, and collects what it finds.

    Args:
        segment: The world's.
        me: Address of this PE's block.
        pe: Its number.
        checks: What is looked for.
        between: As of :class:`~emu.check.races.sites.Sites`.
    """

    approach = None
    """Nobody is told of accesses before they happen."""

    def __init__(
        self, segment: Segment, me: int, pe: int, checks: Checks, between: int = 0
    ) -> None:
        self._me = me
        self._pe = pe
        self.finds_races = bool(checks.race)
        self._strong = checks.memory_model == STRONG
        self.area = area = Area.of(segment.layout)
        self._memory = memory = segment.map_listeners()
        self._base = base = int(memory.ctypes.data)
        self._state = base + area.states + pe * area.state_bytes
        self._words: Words = memory[area.states + pe * area.state_bytes :][: 8 * STATE_WORDS].view(
            np.int64
        )
        self._first_heap = segment.address + segment.layout.heaps
        self._stride = segment.layout.stride
        self._heaps_end = self._first_heap + segment.layout.n_pes * self._stride
        self._sites = Sites(self._part(area.sites, area.findings), between)
        self.findings = Findings(segment, memory, pe, finds_races=self.finds_races)
        self._parity: dict[int, int] = {}
        self._fill_state(me)
        self.tasks = Tasks(area, memory, pe, self._sites)
        do.begin(self._state)

    def _part(self, first: int, behind: int) -> Any:
        size = (behind - first) // self.area.n_pes
        return self._memory[first + self._pe * size :][:size]

    def _fill_state(self, me: int) -> None:
        area, words, base = self.area, self._words, self._base
        words[c.S_ME], words[c.S_PE], words[c.S_N_PES] = me, self._pe, area.n_pes
        words[c.S_LINES], words[c.S_BASE_LINES] = area.lines, area.base_lines
        words[c.S_LINE], words[c.S_LOCKS] = self._pe, base
        words[c.S_CHAINS] = base + area.chains_used
        words[c.S_RECORDS] = base + area.records
        words[c.S_RECORD_BYTES] = RECORDS * RECORD_WORDS * 8
        words[c.S_WORDS], words[c.S_WORDS_BYTES] = base + area.words, area.words_bytes
        words[c.S_WORD_WORDS] = area.word_words
        words[c.S_ENTRIES], words[c.S_ENTRIES_BYTES] = base + area.entries, area.entries_bytes
        words[c.S_ENTRIES_MOST] = area.entries_bytes // (8 * ENTRY_WORDS)
        words[c.S_SHADOW], words[c.S_SHADOW_BYTES] = base + area.shadow, area.shadow_bytes

    # --- accesses --------------------------------------------------------------------------

    def _purpose(self, site: Site, weak: int) -> int:
        """Return the line of an operation: ``weak``, or the program's where that may count on more.

        Front ends have their own rules, which their operations keep by emu's promises.
        """
        return PROGRAM if self._strong or site.is_own else weak

    def _touch(self, tile: Tile, purpose: int, kind: int, site: Site) -> None:
        walk, low, span, _ = walk_of(tile.shape, tile.strides, tile.itemsize)
        if span and do.do_touch(
            self._state, tile.pe, tile.offset + low, walk, purpose, kind, site.number, span
        ):
            self.findings.take(self._words)

    def _tile(self, array: Array) -> Tile | None:
        """Return where an array is in a heap; None if it is in none."""
        address = do.do_address_of(id(array))
        if not self._first_heap <= address < self._heaps_end:
            return None
        pe, offset = divmod(address - self._first_heap, self._stride)
        return Tile(pe, offset, array.shape, array.strides, array.itemsize, array.dtype.kind)

    def _use(self, array: Array, purpose: int, kind: int, site: Site) -> None:
        tile = self._tile(array)
        if tile is not None:
            self._touch(tile, purpose, kind, site)

    def stored(
        self, operation: str, target: Tile, source: Array, *, adds: bool, nonblocking: bool
    ) -> None:
        """Note a put."""
        site = self._sites.find(operation, 3)
        self._use(source, self._purpose(site, NONBLOCKING if nonblocking else PROGRAM), 0, site)
        self._touch(target, self._purpose(site, PUTS), _kind_of_put(target, adds), site)

    def put_dense(
        self,
        world_pe: int,
        offset: int,
        source: Array,
        dtype: tuple[int, int, str] | None,
        nbytes: int,
    ) -> bool:
        """Do, and note, the put of dense memory; return whether a dead PE's lock was recovered.

        Args:
            world_pe: To whom.
            offset: Where in its heap.
            source: A dense array.
            dtype: For an ADD: arithmetic kind, bytes and NumPy's kind of the elements.
            nbytes: Bytes of it.
        """
        site = self._sites.find("put", 2)
        purpose = self._purpose(site, PUTS)
        state, number = self._state, site.number
        recovered = False
        if dtype is None:
            found = do.do_put_dense(state, world_pe, offset, id(source), nbytes, purpose, number)
        else:
            arithmetic, size, kind = dtype
            access = WRITES | ATOMIC_KIND | class_of(kind, size)
            found = do.do_add_dense(
                *(state, world_pe, offset, id(source), arithmetic, size, nbytes),
                *(purpose, access, number),
            )
            recovered = found < 0
            found = -1 - found if recovered else found
        if found:
            self.findings.take(self._words)
        return recovered

    def get_dense(self, world_pe: int, offset: int, target: Array, nbytes: int) -> None:
        """Do, and note, the get of dense memory into a new array."""
        site = self._sites.find("get", 2).number
        if do.do_get_dense(self._state, world_pe, offset, id(target), nbytes, site):
            self.findings.take(self._words)

    def fetched(self, operation: str, source: Tile, target: Array, *, nonblocking: bool) -> None:
        """Note a get."""
        site = self._sites.find(operation, 3)
        purpose = NONBLOCKING if nonblocking and not self._strong else PROGRAM
        self._touch(source, purpose, 0, site)
        self._use(target, purpose, WRITES, site)

    def stored_word(
        self, operation: str, word: Word, value: int, source: Array, *, nonblocking: bool
    ) -> None:
        """Do, and note, the put of one integer."""
        site = self._sites.find(operation, 3)
        self._use(source, self._purpose(site, NONBLOCKING if nonblocking else PROGRAM), 0, site)
        do.do_begin_store(self._state, word.pe)
        try:
            data = np.ascontiguousarray(source)
            put_short(self._me, word.pe, word.offset, id(data), word.size)
        finally:
            found = do.do_end_store(
                *(self._state, word.pe, word.offset, word.size),
                *(self._purpose(site, PUTS), site.number, value),
            )
        if found:
            self.findings.take(self._words)

    def put_signal(
        self,
        operation: str,
        target: Tile,
        source: Array,
        signal: tuple[Word, int, int],
        *,
        adds: bool,
        nonblocking: bool,
    ) -> None:
        """Note the put of a put_signal, and do its signal."""
        site = self._sites.find(operation, 3)
        word, code, value = signal
        source_id = 0
        if nonblocking and self._purpose(site, NONBLOCKING) == NONBLOCKING:
            # Who sees the signal knows that the source was read, too.
            source_id = self._touch_separately(self._tile(source), NONBLOCKING, 0, site)
        else:
            self._use(source, PROGRAM, 0, site)
        kind = _kind_of_put(target, adds)
        put = self._touch_separately(target, self._purpose(site, PUTS), kind, site)
        chain = (source_id or put, put or source_id) if target.pe == word.pe else (0, 0)
        found = do.do_signal_put(
            *(self._state, word.pe, word.offset, word.size, code, value, site.number),
            *(*chain, _WORD_KINDS[word.size]),
        )
        if found:
            self.findings.take(self._words)

    def _touch_separately(self, tile: Tile | None, purpose: int, kind: int, site: Site) -> int:
        """Note an access that shares no record; return its id, 0 if it is none of a heap."""
        if tile is None:
            return 0
        walk, low, span, _ = walk_of(tile.shape, tile.strides, tile.itemsize)
        if not span:
            return 0
        identity: int = do.do_touch_separately(
            *(self._state, tile.pe, tile.offset + low, walk, purpose, kind, site.number, span)
        )
        if self._words[c.S_FOUND]:
            self.findings.take(self._words)
        return identity

    def start_atomic(self, operation: str, word: Word, code: int, value: int, expected: int) -> int:
        """Do, and note, a non-blocking atomic operation."""
        site = self._sites.find_user(operation)
        weak = NONBLOCKING if code == FETCH else ATOMICS
        purpose = do.FETCHES if self._strong or site.is_own else weak
        old = do.do_atomic(
            *(self._state, word.pe, word.offset, word.size, code, value, expected),
            *(site.number, purpose, _WORD_KINDS[word.size]),
        )
        if self._words[c.S_FOUND]:
            self.findings.take(self._words)
        return int(old)

    def got(self, operation: str, target: Array) -> None:
        """Note that a result was stored."""
        site = self._sites.find_user(operation)
        self._use(target, self._purpose(site, NONBLOCKING), WRITES, site)

    def atomic(
        self, operation: str, word: Word, code: int, value: int, expected: int, *, fetches: bool
    ) -> int:
        """Do, and note, an atomic operation."""
        site = self._sites.find(operation, 2 + fetches)
        old = do.do_atomic(
            self._state,
            word.pe,
            word.offset,
            word.size,
            code,
            value,
            expected,
            site.number,
            do.FETCHES if fetches else self._purpose(site, ATOMICS),
            _WORD_KINDS[word.size],
        )
        if self._words[c.S_FOUND]:
            self.findings.take(self._words)
        return int(old)

    def signal(self, world_pe: int, offset: int, size: int, adds: bool, value: int) -> None:
        """Do, and note, a SET or an ADD of a word."""
        site = self._sites.find("signal_op", 2)
        do.do_atomic(
            *(self._state, world_pe, offset, size, ADD if adds else SET, value, 0, site.number),
            *(self._purpose(site, ATOMICS), _WORD_KINDS[size]),
        )
        if self._words[c.S_FOUND]:
            self.findings.take(self._words)

    def waited(self, operation: str, words: list[tuple[Word, int, int]]) -> None:
        """Note waits that are over."""
        if self.tasks.is_silent:
            return
        site = self._sites.find_user(operation)
        for word, comparison, wanted in words:
            if do.do_wait(
                self._state,
                word.pe,
                word.offset,
                word.size,
                comparison,
                wanted,
                site.number,
                _WORD_KINDS[abs(word.size)],
            ):
                self.findings.take(self._words)

    # --- order -----------------------------------------------------------------------------

    def fence(self) -> None:
        """Note a fence."""
        do.fence(self._state)

    def quiet(self) -> None:
        """Note a quiet."""
        do.quiet(self._state)

    def _rows(self, group: Membership) -> int:
        area = self.area
        return self._base + area.rows + group.index * area.n_pes * 2 * area.row_bytes

    def enter(
        self, operation: str, group: Membership, inputs: list[Array], *, completes: bool = False
    ) -> int:
        """Note that this PE comes to a barrier or a collective."""
        for array in inputs:
            if self.is_shared(array):
                self._use(array, PROGRAM, 0, self._sites.find_user(operation))
        parity = self._parity[group.index] = 1 - self._parity.get(group.index, 0)
        rows = self._rows(group)
        barrier, mine = group.barrier_address, group.my_pe
        meeting: int = do.do_come(self._state, rows, mine, parity, barrier, int(completes))
        return meeting

    def leave(
        self,
        operation: str,
        group: Membership,
        entered: int,
        members: Sequence[int],
        outputs: list[Array],
    ) -> None:
        """Note that this PE leaves a barrier or a collective."""
        rows = self._rows(group)
        if len(members) == group.n_pes:
            do.do_part(self._state, rows, 0, group.n_pes, entered)
        else:
            for member in members:
                do.do_part(self._state, rows, member, member + 1, entered)
        for array in outputs:
            if self.is_shared(array):
                self._use(array, PROGRAM, WRITES, self._sites.find_user(operation))

    def locked(self, word: Word) -> None:
        """Note that this PE got a lock."""
        do.do_take_lock(self._state, word.pe, word.offset)

    def unlocks(self, word: Word) -> None:
        """Note that this PE is about to release a lock."""
        do.do_give_lock(self._state, word.pe, word.offset)

    def allocated(self) -> None:
        """Note that this PE got memory."""
        do.do_allocate(self._state, self._base + self.area.freed)

    def frees(self, offset: int, nbytes: int) -> None:
        """Note that this PE frees memory."""
        do.do_free(self._state, self._base + self.area.freed, offset, offset + nbytes)

    # --- the program's own accesses --------------------------------------------------------

    def view(self, array: Array) -> Array:
        """Return memory of a heap as an array whose uses by the program are noted."""
        if self._sites.find("", 2).is_own:
            return array
        return wrap(array, self)

    def used(self, operation: str, array: Array, *, writes: bool) -> None:
        """Note that the program reads, or writes, an array itself."""
        if type(array) is CheckedArray:
            array = array.view(np.ndarray)
        self._use(array, PROGRAM, WRITES if writes else 0, self._sites.find_user(operation))

    def used_elements(self, operation: str, array: Array, offsets: Array, *, writes: bool) -> None:
        """Note that the program reads, or writes, elements of an array.

        Args:
            operation: What it does.
            array: The array.
            offsets: Of the elements in bytes, from the array's first.
            writes: Whether it writes.
        """
        tile = self._tile(array)
        if tile is None or not offsets.size:
            return
        places: Words = np.ascontiguousarray(offsets.reshape(-1) + tile.offset, np.int64)
        if do.do_touch_elements(
            self._state,
            tile.pe,
            int(places.ctypes.data),
            places.size,
            array.itemsize,
            WRITES if writes else 0,
            self._sites.find_user(operation).number,
        ):
            self.findings.take(self._words)

    def used_spans(
        self,
        operation: str,
        spans: Array,
        *,
        writes: bool,
        atomic: tuple[str, int] | None = None,
    ) -> None:
        """Note that code which emu runs for the program reads, or writes, memory."""
        kind = WRITES if writes else 0
        if atomic is not None:
            kind |= ATOMIC_KIND | class_of(*atomic)
        site = self._sites.find_program(operation).number
        if len(spans) == 1:
            ((low, high),) = spans.tolist()
            if self._first_heap <= low < self._heaps_end:
                heap, offset = divmod(low - self._first_heap, self._stride)
                length = min(high - low, self._stride - offset)
                if do.do_touch(self._state, heap, offset, 0, PROGRAM, kind, site, length):
                    self.findings.take(self._words)
            return
        inside = spans[(spans[:, 0] >= self._first_heap) & (spans[:, 0] < self._heaps_end)]
        if not len(inside):
            return
        heaps = (inside[:, 0] - self._first_heap) // self._stride
        lengths = inside[:, 1] - inside[:, 0]
        for heap, length in np.unique(np.stack([heaps, lengths], axis=1), axis=0).tolist():
            here = inside[(heaps == heap) & (lengths == length), 0]
            offsets = np.ascontiguousarray(here - self._first_heap - heap * self._stride)
            fits = min(length, self._stride - int(offsets.max()))
            found = do.do_touch_elements(
                *(self._state, heap, int(offsets.ctypes.data), offsets.size, fits, kind, site)
            )
            if found:
                self.findings.take(self._words)

    def begins_unseen_order(self) -> None:
        """Note that nobody can see what order code finds among PEs, or gives them, from now on."""
        do.mark_unseen(self._state)

    def ends_unseen_order(self) -> None:
        """Note that this PE may have waited for all that others have done."""
        do.join_all(self._state)

    def open_scope(self, tile: Tile, *, writes: bool) -> int:
        """Note that the program uses memory unseen from now on; return the id of that."""
        walk, low, span, _ = walk_of(tile.shape, tile.strides, tile.itemsize)
        if not span:
            return 0
        site = self._sites.find_user("scope").number
        identity: int = do.do_open_scope(
            *(self._state, tile.pe, tile.offset + low, walk, WRITES if writes else 0, site, span)
        )
        if self._words[c.S_FOUND]:
            self.findings.take(self._words)
        return identity

    def close_scope(self, scope: int, tile: Tile, *, writes: bool) -> None:
        """Note that the program uses it no more."""
        walk, low, span, _ = walk_of(tile.shape, tile.strides, tile.itemsize)
        if span and do.do_close_scope(
            *(self._state, tile.pe, tile.offset + low, walk, WRITES if writes else 0, scope, span)
        ):
            self.findings.take(self._words)

    def is_shared(self, array: Array) -> bool:
        """Return whether an array is in a heap."""
        address: int = do.do_address_of(id(array))
        return self._first_heap <= address < self._heaps_end

    def finish(self) -> None:
        """Note that the PE's function has returned."""
        if self._words[c.S_LOST] and self.finds_races:
            self.findings.note_lost()
