"""How a tile is cut into pieces, and where PEs are."""

from __future__ import annotations

import json

import numpy as np
import pytest

from emu.comm.hosts.peers import merge
from emu.comm.hosts.places import Places
from emu.comm.hosts.port import dense_strides, pieces
from emu.comm.layout import B_STATE, B_WAITING, RUNNING, Layout
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.monitor import describe_all


@pytest.mark.parametrize("seed", range(20))
def test_pieces_cover_a_tile_once_and_are_small(seed: int) -> None:
    draw = np.random.default_rng(seed)
    shape = tuple(draw.integers(1, 9, int(draw.integers(0, 5))).tolist())
    itemsize = int(2 ** draw.integers(0, 4))
    limit = int(draw.integers(itemsize, 400))
    strides = dense_strides(shape, itemsize)
    seen = np.zeros(shape, np.int64)
    for key, start in pieces(shape, strides, itemsize, limit):
        part = seen[key]
        part += 1
        assert part.ndim == len(shape)
        assert part.size * itemsize <= limit
        first = np.arange(seen.size).reshape(shape)[key].flat[0]
        assert start == first * itemsize
    assert (seen == 1).all()


def test_pes_are_numbered_host_by_host() -> None:
    places = Places((2, 1, 3), 1, ("a", "b", "c"))
    assert [places.host_of(pe) for pe in range(places.n_pes)] == [0, 0, 1, 2, 2, 2]
    assert places.local == range(2, 3)
    assert places.distant == (0, 1, 3, 4, 5)
    assert places.hosts_of((5, 0, 1)) == (0, 2)
    assert places.describe(2) == "host 2 (c, PEs 3 to 5)"
    assert places.describe(1) == "host 1 (b, PE 2)"


def test_a_report_of_all_hosts_counts_members_of_a_barrier_on_each() -> None:
    first = "  PE 0 waits in barrier of group 'world': 2 of 4 have arrived, missing PEs [1, 2, 3]"
    second = (
        "  PE 2 waits in barrier of group 'world': 2 of 4 have arrived, missing PEs [0, 1, 3]\n"
        "  PE 3 waits in wait_until for s[0] EQ 1 (there: 0, last writer: nobody)"
    )
    lines = merge([first, second]).split("\n")
    assert lines[0].endswith(
        "PE 0 waits in barrier of group 'world': 2 of 4 have arrived, missing PEs [1, 3]"
    )
    assert lines[1].endswith("2 of 4 have arrived, missing PEs [1, 3]")
    assert lines[2] == second.split("\n")[1]


@pytest.mark.parametrize(
    ("arrived", "said"),
    [
        (1, "1 of 6 have arrived, missing PEs [1, 2, 3, 4, 5]"),
        (3, "3 of 6 have arrived, missing PEs [1, 2, 3, 4, 5] but for 2 of other hosts"),
        (5, "5 of 6 have arrived, missing PEs [1]"),
    ],
)
def test_a_host_counts_members_of_a_barrier_that_wait_elsewhere(arrived: int, said: str) -> None:
    segment = Segment.create(Layout(n_pes=6, heap_bytes=1 << 16, port_bytes=4096))
    try:
        for pe in (0, 1):
            segment.block(pe)[B_STATE] = RUNNING
        segment.block(0)[B_WAITING] = 1
        wait = {"call": "barrier", "group": "world", "index": 0, "generation": 3}
        segment.write_text(0, json.dumps(wait))
        segment.group_entry(0)["arrived"] = arrived
        told = describe_all(segment, frozenset(range(2, 6)))
    finally:
        segment.close()
    assert told.splitlines()[0].endswith(said)
    elsewhere = "  PE 2 waits in barrier of group 'world': 1 of 6 have arrived, missing PEs [0, 1]"
    if arrived == 3:
        assert "but for" not in merge([told, elsewhere])
