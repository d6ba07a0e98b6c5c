"""The allocation table: as a plain first fit, over handles, groups and processes; room; small memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import emu
from emu.comm.errors import SymmetricMemoryError
from emu.comm.layout import ALLOCATIONS, H_TABLE_GOOD
from emu.comm.memory.table import Table
from emu.comm.world.group import Group
from emu.comm.world.world import World

Worlds = Callable[..., list[World]]
HEAP = 1 << 16


@dataclass
class FirstFit:
    """The meaning: arrays by name, each at the lowest offset where it fits."""

    heap_bytes: int
    live: dict[str, tuple[int, int]] = field(default_factory=dict)

    def alloc(self, name: str, nbytes: int) -> int | None:
        """Return the offset of array ``name``, or None if there is no room."""
        if name in self.live:
            return self.live[name][0]
        align = 64 if nbytes < 4096 else 4096
        position = 0
        for start, taken in sorted(self.live.values()):
            if nbytes and taken:
                position = -(-position // align) * align
                if position + nbytes <= start:
                    break
                position = start + taken
        offset = -(-position // align) * align if nbytes else 0
        if offset + nbytes > self.heap_bytes:
            return None
        self.live[name] = offset, nbytes
        return offset


def free_bytes(group: Group) -> int:
    table = group.heap._table
    return sum(end - start for start, end in table.gaps())


step = st.tuples(
    st.integers(0, 2),  # which PE
    st.integers(0, 2),  # in which group
    st.integers(0, 7),  # key, or 0 for a call by order
    st.one_of(st.integers(0, 300), st.sampled_from([4095, 4096, 4097, 20_000, HEAP - 1, HEAP])),
    st.integers(0, 9),  # below 4: free instead
    st.integers(0, 19),  # 0: the change is interrupted
)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(step, max_size=60))
def test_as_a_plain_first_fit(
    worlds: Worlds, plan: list[tuple[int, int, int, int, int, int]]
) -> None:
    w = worlds(3, heap_bytes=HEAP)
    groups = [list(w), [x.group("pair", [2, 0]) if x.my_pe != 1 else None for x in w],
              [x.group("one", [1]) if x.my_pe == 1 else None for x in w]]  # fmt: skip
    model = FirstFit(HEAP)
    held: dict[str, dict[int, emu.SymmetricArray]] = {}
    freed: dict[str, int] = {}
    order = [[0] * 3 for _ in groups]
    for pe, which, key, nbytes, drop, broken in plan:
        group = groups[which][pe]
        if group is None:
            continue
        mine = [name for name, by in held.items() if pe in by and name.startswith(f"{which}/")]
        if drop < 4 and mine:
            name = mine[key % len(mine)]
            held[name].pop(pe).free()
            freed[name] = freed.get(name, 0) + 1
            if freed[name] == group.n_pes:
                del model.live[name], freed[name], held[name]
        else:
            name = f"{which}/={key}" if key else f"{which}/#{order[which][pe]}"
            order[which][pe] += not key
            if name in model.live:
                nbytes = model.live[name][1]
            if pe in held.get(name, {}) or (name in freed and pe not in held.get(name, {})):
                continue  # this PE has it, or had it: a call by key would open it again
            expected = model.alloc(name, nbytes)
            if expected is None:
                with pytest.raises(SymmetricMemoryError, match="bytes left in one piece"):
                    group.alloc(nbytes, np.uint8, key=str(key) if key else None)
                continue
            array = group.alloc(nbytes, np.uint8, key=str(key) if key else None)
            assert array.offset == expected
            held.setdefault(name, {})[pe] = array
        if not broken:
            w[0].segment.header[H_TABLE_GOOD] = 0
        with w[pe].heap.table_lock():
            spans = sorted(span for span in model.live.values() if span[1])
            table = w[pe].heap._table
            assert len(table.used()) == len(model.live)
            taken = sum(min(-(-n // 64) * 64, HEAP - start) for start, n in spans)
            assert free_bytes(w[pe]) == HEAP - taken


@pytest.mark.parametrize("method", ["_link", "_take", "_unlink", "_give", "_move"])
def test_a_change_that_is_interrupted_leaves_no_wrong_index(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    (me,) = worlds(1, heap_bytes=HEAP)
    kept = [me.alloc(100, np.uint8, key=f"kept {i}") for i in range(5)]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Table, method, interrupted)
        for use in (lambda: kept[1].free(), lambda: me.alloc(100, np.uint8, key="lost")):
            with contextlib.suppress(KeyboardInterrupt):
                use()
    survivors = [a for a in kept if not a.freed]
    assert {a.offset for a in survivors} <= {a.offset for a in me.find_allocs("kept")}
    me.alloc(100, np.uint8, key="new")
    with me.heap.table_lock():
        table = me.heap._table
        spans = sorted(table._span(i) for i in table.used())
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        assert sum(end - start for start, end in spans) + free_bytes(me) == HEAP
    for array in survivors:
        assert me.alloc(100, np.uint8, key=me._keys[array.index]) is array


def churn(seed: int) -> list[int]:
    """Allocate and free in an order of this PE's own; return the offsets of what stays."""
    world = emu.world()
    rng = np.random.default_rng([seed, world.my_pe])
    names = [f"array {i}" for i in range(40)]
    sizes = np.random.default_rng(seed).integers(1, 9000, len(names))
    kept = []
    for turn in range(3):
        arrays = {}
        for i in rng.permutation(len(names)):
            arrays[i] = world.alloc(int(sizes[i]), np.uint8, key=f"{names[i]} of {turn}")
            assert not arrays[i].local.any()
        world.barrier()
        for i, array in arrays.items():
            array.local[...] = i + 1
        world.barrier()
        for i in rng.permutation(len(names)):
            assert (arrays[i].local == i + 1).all()
            if i % 8:
                arrays[i].free()
        kept += [arrays[i].offset for i in range(0, len(names), 8)]
        world.barrier()
    return kept


@pytest.mark.slow
def test_many_processes_agree() -> None:
    results = emu.launch(churn, 4, args=(7,), timeout=240)
    assert len({tuple(result) for result in results}) == 1
    assert len(set(results[0])) == len(results[0])


# --- what the errors say ---------------------------------------------------------------------


def test_the_text_of_no_room_counts_right(worlds: Worlds) -> None:
    (me,) = worlds(1, heap_bytes=HEAP)
    arrays = [me.alloc(4096, np.uint8, name=f"part {i}") for i in range(16)]
    with pytest.raises(
        SymmetricMemoryError,
        match=r"has no 1 bytes left in one piece: heap_size is 65536 bytes a PE, 65536 of them are taken "
        r"by 16 arrays \(the largest: 'part 0' of 4096, 'part 1' of 4096, 'part 2' of 4096\), 0 are free;",
    ):
        me.alloc(1, np.uint8)
    for array in arrays[::2]:
        array.free()
    with pytest.raises(
        SymmetricMemoryError,
        match=r"no 8192 bytes left in one piece: .* 32768 of them are taken by 8 arrays .*, "
        r"32768 are free in 8 pieces, the largest of 4096; free arrays or launch with a larger",
    ):
        me.alloc(8192, np.uint8)
    arrays[1].free()
    assert me.alloc(8192 + 4096, np.uint8).offset == 0
    small = me.alloc(64, np.uint8)  # in the piece at 4 * 4096: what is left of it begins at no page
    assert small.offset == 4 * 4096
    for array in arrays[3::2]:
        array.free()
    with pytest.raises(
        SymmetricMemoryError, match=r"in one piece \(at an offset that is a multiple"
    ):
        me.alloc(HEAP - 4 * 4096 - 64, np.uint8)


def test_a_full_table_says_so_and_goes_on(worlds: Worlds) -> None:
    (me,) = worlds(1)
    arrays = [me.alloc(i % 70, np.uint8) for i in range(ALLOCATIONS)]
    spans = sorted((a.offset, a.offset + a.nbytes) for a in arrays if a.nbytes)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
    with pytest.raises(SymmetricMemoryError, match=r"at most 4096 symmetric allocations, and all"):
        me.alloc(1, np.uint8)
    arrays[77].free()
    assert me.alloc(7, np.uint8).offset == arrays[77].offset
    assert free_bytes(me) == me.segment.layout.heap_bytes - sum(-(-n // 64) * 64 for n in
                                                                 (i % 70 for i in range(ALLOCATIONS)))  # fmt: skip


# --- a small /dev/shm ------------------------------------------------------------------------

SMALL = """
    import numpy as np
    from emu.comm.errors import SymmetricMemoryError
    from emu.comm.memory.heap import register
    from emu.comm.layout import Layout
    from emu.comm.world.making import make_world
    from emu.comm.memory.segment import Segment

    segment = Segment.create(Layout(n_pes=2, heap_bytes=1 << 30))
    blocks = [register(segment, pe, 1) for pe in range(2)]
    a, b = [make_world(segment, me, pe, poison=False) for pe, me in enumerate(blocks)]
    size, granted, alone = {size}, [], a.group("alone", [0])
    try:
        while True:
            granted.append(a.alloc(size, np.uint8))
    except SymmetricMemoryError as error:
        print("refused:", error)
    for array in granted:  # all that was granted is there
        array.on(0)[...] = 1
        array.on(1)[...] = 1
    print("written", len(granted) * size * 2)
    for array in granted:
        b_array = b.alloc(size, np.uint8)
        array.free()
        b_array.free()
    big = alone.alloc(len(granted) * size * 2 - (1 << 20), np.uint8)  # the pages of both PEs
    big.local[...] = 2
    print("again", big.nbytes)
"""


def in_small_memory(script: str, mebibytes: int) -> subprocess.CompletedProcess[str]:
    """Run a script where /dev/shm has so much room; skip where that cannot be had."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare to mount a small /dev/shm")
    mount = f"mount -t tmpfs -o size={mebibytes}m tmpfs /dev/shm"
    if subprocess.run(
        ["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False
    ).returncode:
        pytest.skip("cannot mount a small /dev/shm here")
    command = f'{mount} && exec "$0" -c "$1"'
    path = os.pathsep.join(p for p in sys.path if p and Path(p).is_dir())
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", command, sys.executable, textwrap.dedent(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("size", [100_000, 5000, 3 << 20])
def test_what_was_granted_is_there_when_shared_memory_is_small(size: int) -> None:
    done = in_small_memory(SMALL.format(size=size), 24)
    assert done.returncode == 0, done.stderr[-2000:] or done.returncode
    assert "must fit in shared memory, but" in done.stdout
    written = int(done.stdout.split("written ")[1].split()[0])
    assert written > 12 << 20  # most of the room was given
    assert "again" in done.stdout
