"""How a tile is cut into pieces, and where PEs are."""

from __future__ import annotations

import numpy as np
import pytest

from emu.comm.hosts.peers import merge
from emu.comm.hosts.places import Places
from emu.comm.hosts.port import dense_strides, pieces


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
