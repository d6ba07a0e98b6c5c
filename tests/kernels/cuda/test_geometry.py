"""Walks of tiles in device memory, decided on the host; no array here has memory."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.cuda.geometry import FEW, MANY, ROW_LIMIT, packed, pieces, walks


def addresses(walk):
    """(target, source) of each byte that a walk touches."""
    found = [(walk.target, walk.source)]
    for extent, t, s in (*walk.outer, walk.inner):
        found = [(a + i * t, b + i * s) for a, b in found for i in range(extent)]
    return [(a + byte, b + byte) for a, b in found for byte in range(walk.unit)]


@settings(deadline=None, max_examples=100)
@given(
    axes=st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 2), st.booleans()), min_size=1, max_size=4
    ),
    itemsize=st.sampled_from([1, 2, 4, 8]),
    start=st.integers(0, 20),
    dense=st.booleans(),
    order=st.randoms(),
)
def test_walks_reach_each_byte_once_with_accesses_that_are_aligned(
    axes, itemsize, start, dense, order
):
    layouts = []
    for gaps in (not dense, False):
        layout, reach = [], itemsize
        for extent, gap, backward in axes:
            layout.append(-reach if backward and not dense else reach)
            reach *= extent + gap * gaps
        layouts.append(layout)
    places = list(range(len(axes)))
    order.shuffle(places)
    shape = tuple(axes[i][0] for i in places)
    dtype = np.dtype(f"u{itemsize}")
    target, source = (
        DeviceArray(base, shape, tuple(layout[i] for i in places), dtype, None)
        for base, layout in zip((1 << 20, (1 << 30) + itemsize * start), layouts, strict=True)
    )
    found = list(walks(target, source, (itemsize, 16)))
    touched = [pair for walk in found for pair in addresses(walk)]
    expected = [
        tuple(
            a.address + sum(i * s for i, s in zip(at, a.strides, strict=True)) + byte
            for a in (target, source)
        )
        for at in np.ndindex(*shape)
        for byte in range(itemsize)
    ]
    assert sorted(touched) == sorted(expected)
    for walk in found:
        steps = [step for axis in (*walk.outer, walk.inner) for step in axis[1:]]
        assert all(number % walk.unit == 0 for number in (walk.target, walk.source, *steps))
        assert len(packed(walk.outer, 2)) == 3 * (FEW if walk.few else MANY)


def test_a_grid_with_too_many_rows_is_cut_and_loses_none():
    axes = [(5, 1, 2), (1 << 20, 10, 3), (3000, 1 << 30, 7)]
    parts = list(pieces(axes, 2))
    assert len(parts) > 1
    rows = [math.prod(axis[0] for axis in part) for _, part in parts]
    assert max(rows) < ROW_LIMIT
    assert sum(rows) == 5 * (1 << 20) * 3000
    # The pieces follow each other along the slowest axis.
    slowest = [(at[0], part[-1][0]) for at, part in parts]
    assert [first >> 30 for first, _ in slowest] == np.cumsum(
        [0, *(n for _, n in slowest)]
    ).tolist()[:-1]
