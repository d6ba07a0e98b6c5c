"""Splitting a tile into runs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.address import array_data
from emu.kernels.tiles import outer_offsets, plan


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 3)), max_size=5),
    st.sampled_from([1, 2, 4, 8]),
    st.randoms(),
)
def test_runs_visit_each_element_once(
    axes: list[tuple[int, int, int]], itemsize: int, random: object
) -> None:
    """The runs cover exactly the byte pairs (target, source) that plain indexing covers."""
    shape = tuple(n for n, _, _ in axes)
    target = np.empty([n + t for n, t, _ in axes], f"V{itemsize}")
    source = np.empty([n + s for n, _, s in axes], f"V{itemsize}")
    run, outer = plan(shape, target.strides, source.strides, itemsize)
    flat = np.array([n for axis in outer for n in axis], np.int64)
    runs = int(np.prod([axis[0] for axis in outer]))
    visited = []
    for index in range(runs):
        t, s = outer_offsets(index, flat, len(outer))
        visited += [(t + i * itemsize, s + i * itemsize) for i in range(run)]
    expected = [
        (
            sum(i * n for i, n in zip(position, target.strides, strict=True)),
            sum(i * n for i, n in zip(position, source.strides, strict=True)),
        )
        for position in np.ndindex(shape)
    ]
    assert visited == expected


def test_dense_tiles_are_one_run() -> None:
    assert plan((3, 4, 5), (80, 20, 4), (80, 20, 4), 4) == (60, ())
    assert plan((3, 1, 5), (80, 7, 4), (20, 9, 4), 4) == (5, ((3, 80, 20),))
    assert plan((6, 4), (64, 4), (16, 4), 4) == (4, ((6, 64, 16),))
    assert plan((), (), (), 8) == (1, ())


def test_array_data() -> None:
    array = np.zeros((4, 4), np.float16)[1:, 2:]
    assert array_data(id(array)) == array.ctypes.data
