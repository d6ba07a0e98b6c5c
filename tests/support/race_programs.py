"""Random programs of World's operations: PEs in this process, and the definition of a race beside them."""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from check_definition import Program

from emu import AtomicOp, Checks, Cmp
from emu.check import area_bytes
from emu.check.area import VERSIONS
from emu.check.races import clocks
from emu.check.races.sites import Site, Sites
from emu.comm.layout import Layout
from emu.comm.memory.heap import register
from emu.comm.memory.segment import Segment
from emu.comm.world.listened import ListenedWorld
from emu.comm.world.making import make_world

COMPARISONS = {
    Cmp.EQ: operator.eq,
    Cmp.NE: operator.ne,
    Cmp.GT: operator.gt,
    Cmp.GE: operator.ge,
    Cmp.LT: operator.lt,
    Cmp.LE: operator.le,
}
ADD_CLASS = 100
BYTES = 192


def _numbered(sites: Sites, numbers: Iterator[int], distinct: bool) -> Callable[..., Site]:
    """Return what gives each operation a site of its own, or all of them one."""
    find = sites.find

    def numbered(operation: str, depth: int = 0) -> Site:
        if sites.task is not None:
            return sites.task
        if not operation:  # whether emu itself looks at an array
            return find(operation, depth + 1)
        return Site(next(numbers) % 10_000 + 1 if distinct else 1, is_own=False)

    return numbered


class Run:
    """PEs in this process, and the definition beside them.

    Args:
        n_pes: Number of PEs.
        chosen: Source of choices.
        distinct: Whether each operation has a line of its own.
    """

    def __init__(self, n_pes: int, chosen: random.Random, *, distinct: bool) -> None:
        checks = Checks(race=True)
        layout = Layout(n_pes=n_pes, heap_bytes=1 << 16)
        layout = Layout(n_pes=n_pes, heap_bytes=1 << 16, listener_bytes=area_bytes(layout, checks))
        self.segment = Segment.create(layout)
        blocks = [register(self.segment, pe, 1) for pe in range(n_pes)]
        self.found: list[int] = []
        numbers = itertools.count(1)
        self.worlds: list[ListenedWorld] = []
        for pe, me in enumerate(blocks):
            world = make_world(self.segment, me, pe, poison=False, checks=checks)
            assert isinstance(world, ListenedWorld)
            listener: Any = world.listener
            sites = listener._sites
            sites.find = _numbered(sites, numbers, distinct)
            sites.find_user = sites.find
            sites.at = lambda *_: Site(next(numbers) % 10_000 + 1 if distinct else 1, is_own=True)
            listener.findings.take = self._take
            self.worlds.append(world)
        self.data = [w.alloc(BYTES, np.uint8) for w in self.worlds]
        self.floats = [w.alloc(16, np.float32) for w in self.worlds]
        self.words = [w.alloc(4, np.int64) for w in self.worlds]
        self.program = Program(n_pes)
        self.scopes: dict[int, tuple[Any, int]] = {}
        self.n_pes = n_pes
        self.chosen = chosen
        # Programs that order more, and programs whose PEs keep to bytes of their own, go on for longer.
        self.care = chosen.choice([0, 0.7, 0.9, 0.97])
        order = chosen.choice([1, 3, 8])
        self.weights = [w * order if k in ORDERING else w for k, w in OPERATIONS.items()]

    def _take(self, state: Any) -> None:
        self.found.append(int(state[clocks.S_FOUND]))
        state[clocks.S_FOUND] = 0

    def close(self) -> None:
        self.segment.close()

    # --- operations

    def step(self) -> None:
        """Do one random operation, both ways."""
        kind = self.chosen.choices(list(OPERATIONS), self.weights)[0]
        pe = self.chosen.randrange(self.n_pes)
        if kind in WRITING and pe in self.scopes:
            return  # what a PE writes into its own scope stands for the scope until that ends
        getattr(self, f"do_{kind}")(pe)

    def _tile(self, pe: int) -> tuple[Any, int, int]:
        """Return a part of the bytes, and where it is."""
        if self.chosen.random() < self.care:
            low = 48 * pe + self.chosen.choice([0, 1, 16])
            size = self.chosen.choice([1, 8, 31])
        else:
            low = self.chosen.choice([0, 1, 3, 60, 62, 64, 100])
            size = self.chosen.choice([2, 3, 8, 60, 64, 70, 128])
        high = min(low + size, BYTES)
        start = self.data[pe].offset
        return self.data[pe][low:high], start + low, start + high

    def do_load(self, pe: int) -> None:
        heap = self.chosen.randrange(self.n_pes)
        part, low, high = self._tile(pe)
        assert part.on(heap).sum() >= 0
        self.program.local(pe, (heap, low, high), writes=False)

    def do_store(self, pe: int) -> None:
        part, low, high = self._tile(pe)
        part.local[:] = 7
        self.program.local(pe, (pe, low, high), writes=True)

    def do_scope(self, pe: int) -> None:
        """Begin a scope, or end that which is open."""
        if pe in self.scopes:
            scope, number = self.scopes.pop(pe)
            scope.__exit__(None, None, None)
            self.program.close_scope(pe, number)
            return
        part, low, high = self._tile(pe)
        writes, heap = self.chosen.random() < 0.5, self.chosen.randrange(self.n_pes)
        world = self.worlds[pe]
        scope = world.writing(part, pe=heap) if writes else world.reading(part, pe=heap)
        view = scope.__enter__()
        assert type(view) is np.ndarray
        number = self.program.open_scope(pe, (heap, low, high), writes=writes)
        self.scopes[pe] = scope, number

    def do_strided(self, pe: int) -> None:
        if self.chosen.random() < self.care:
            return
        target = self.chosen.randrange(self.n_pes)
        first, step = self.chosen.choice([(0, 2), (1, 2), (5, 9), (2, 64)])
        part = self.data[pe][first::step]
        self.worlds[pe].put(part, np.ones(part.shape, np.uint8), target)
        numbers = [
            self.program.put(pe, (target, at, at + 1))
            for at in range(part.offset, self.data[pe].offset + BYTES, step)
        ]
        assert numbers

    def do_put(self, pe: int) -> None:
        target = self.chosen.randrange(self.n_pes)
        part, low, high = self._tile(pe)
        if self.chosen.random() < 0.3:
            source = self.data[pe][: high - low]
            self.worlds[pe].put(part, source.on_silently(pe), target)  # type: ignore[attr-defined]
            start = self.data[pe].offset
            self.program.local(pe, (pe, start, start + high - low), writes=False)
        else:
            self.worlds[pe].put(part, np.ones(high - low, np.uint8), target)
        self.program.put(pe, (target, low, high))

    def do_get(self, pe: int) -> None:
        source = self.chosen.randrange(self.n_pes)
        part, low, high = self._tile(pe)
        self.worlds[pe].get(part, source)
        self.program.local(pe, (source, low, high), writes=False)

    def do_add(self, pe: int) -> None:
        target = self.chosen.randrange(self.n_pes)
        low = self.chosen.choice([0, 3, 8])
        part = self.floats[pe][low : low + 5]
        self.worlds[pe].put(part, np.ones(5, np.float32), target, op=AtomicOp.ADD)
        self.program.put(pe, (target, part.offset, part.offset + 20), atomic=ADD_CLASS)

    def do_read_floats(self, pe: int) -> None:
        part = self.floats[pe][: self.chosen.choice([3, 16])]
        assert part.local.sum() >= 0
        span = (pe, part.offset, part.offset + part.nbytes)
        self.program.local(pe, span, writes=False)

    def do_fence(self, pe: int) -> None:
        self.worlds[pe].fence()
        self.program.fence(pe)

    def do_quiet(self, pe: int) -> None:
        self.worlds[pe].quiet()
        self.program.quiet(pe)

    def do_barrier(self, pe: int) -> None:
        completes = self.chosen.random() < 0.6
        entered = [w.listener.enter("barrier", w, [], completes=completes) for w in self.worlds]
        start = self.segment.layout.groups + 4
        self.segment.bytes[start : start + 4].view(np.int32)[0] += 1
        for world, number in zip(self.worlds, entered, strict=True):
            world.listener.leave("barrier", world, number, world.members, [])
        if completes:
            self.program.barrier()
        else:
            self.program.sync()

    def _word(self, pe: int) -> tuple[int, int, int]:
        """Return (heap, index, offset) of a word."""
        index = self.chosen.randrange(4)
        return self.chosen.randrange(self.n_pes), index, self.words[pe].offset + 8 * index

    def _value(self, heap: int, offset: int) -> int:
        start = self.segment.layout.heaps + heap * self.segment.layout.stride + offset
        return int(self.segment.bytes[start : start + 8].view(np.int64)[0])

    def do_signal(self, pe: int) -> None:
        heap, index, offset = self._word(pe)
        op = self.chosen.choice([AtomicOp.SET, AtomicOp.ADD])
        self.worlds[pe].signal_op(
            self.words[pe], self.chosen.randrange(1, 3), heap, op=op, index=index
        )
        value = self._value(heap, offset)
        self.program.signal(pe, (heap, offset), value, 8, adds=op is AtomicOp.ADD)

    def do_put_signal(self, pe: int) -> None:
        heap, index, offset = self._word(pe)
        part, low, high = self._tile(pe)
        op = self.chosen.choice([AtomicOp.SET, AtomicOp.ADD])
        ones = np.ones(high - low, np.uint8)
        word = self.words[pe]
        self.worlds[pe].put_signal(part, ones, heap, word, 1, index=index, sig_op=op)
        put = self.program.put(pe, (heap, low, high))
        value, adds = self._value(heap, offset), op is AtomicOp.ADD
        self.program.signal(pe, (heap, offset), value, 8, adds=adds, put=put)

    def do_put_word(self, pe: int) -> None:
        heap, index, offset = self._word(pe)
        value = self.chosen.randrange(3)
        self.worlds[pe].put(self.words[pe][index], value, heap)
        self.program.put_word(pe, (heap, offset), value, 8)

    def do_update(self, pe: int) -> None:
        heap, index, offset = self._word(pe)
        world, word = self.worlds[pe], self.words[pe]
        kind = self.chosen.choice(["fetch", "add", "swap", "cas"])
        writes = kind != "fetch"
        if kind == "fetch":
            world.fetch(word, heap, index=index)
        elif kind == "add":
            world.fetch_add(word, 1, heap, index=index)
        elif kind == "swap":
            world.swap(word, 2, heap, index=index)
        else:
            writes = world.compare_swap(word, 1, 2, heap, index=index) == 1
        value = self._value(heap, offset)
        self.program.update(pe, (heap, offset), value, 8, writes=writes, adds=kind == "add")

    def do_wait(self, pe: int) -> None:
        """Wait for something that holds already."""
        _, index, offset = self._word(pe)
        now = self._value(pe, offset)
        cmp = self.chosen.choice(list(Cmp))
        wanted = now + self.chosen.choice([-1, 0, 1])
        if COMPARISONS[cmp](now, wanted):
            self.worlds[pe].wait_until(self.words[pe], cmp, wanted, index=index)
            holds: Callable[[int], bool] = lambda seen: COMPARISONS[cmp](seen, wanted)
            self.program.wait(pe, offset, holds, 8, VERSIONS)

    def do_clear_word(self, pe: int) -> None:
        _, index, offset = self._word(pe)
        if self.chosen.random() < self.care:
            return
        self.words[pe].local[index] = 0
        self.program.local(pe, (pe, offset, offset + 8), writes=True)


OPERATIONS = {
    "load": 2,
    "store": 2,
    "scope": 2,
    "strided": 1,
    "put": 4,
    "get": 2,
    "add": 2,
    "read_floats": 1,
    "fence": 2,
    "quiet": 3,
    "barrier": 2,
    "signal": 4,
    "put_signal": 4,
    "put_word": 1,
    "update": 2,
    "wait": 6,
    "clear_word": 0.3,
}
"""Operations, and how often each is chosen."""

WRITING = ("store", "strided", "put", "put_signal")
"""Those that write the bytes of which scopes are."""

ORDERING = ("fence", "quiet", "barrier", "wait")
