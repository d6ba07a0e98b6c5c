"""Axes that were ordered and joined visit the same elements of every operand together."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.strided.axes import order_and_join


def offsets(axes, operands):
    """Every element's distance from the start, as a tuple of one distance per operand."""
    steps = itertools.product(*(range(axis[0]) for axis in axes))
    return [
        tuple(
            sum(i * axis[1 + k] for i, axis in zip(at, axes, strict=True)) for k in range(operands)
        )
        for at in steps
    ]


@settings(deadline=None)
@given(
    axes=st.lists(
        st.tuples(st.integers(1, 4), st.booleans(), st.integers(0, 2), st.integers(-8, 8)),
        max_size=5,
    ),
    order=st.randoms(),
    forward=st.booleans(),
)
def test_the_walk_visits_what_the_operands_have(axes, order, forward):
    strides, reach = [], 1
    for extent, backward, gap, _ in axes:  # of the first operand, whose elements lie apart
        strides.append(-reach if backward else reach)
        reach *= extent + gap
    tile = [(n, stride, other) for (n, *_, other), stride in zip(axes, strides, strict=True)]
    order.shuffle(tile)
    joined, shifts = order_and_join(
        [n for n, *_ in tile], *([axis[k] for axis in tile] for k in (1, 2)), forward=forward
    )
    found = [(t + shifts[0], s + shifts[1]) for t, s in offsets(joined, 2)]
    assert sorted(found) == sorted(offsets(tile, 2))
    assert [abs(axis[1]) for axis in joined] == sorted((abs(a[1]) for a in joined), reverse=True)
    if forward:
        assert all(axis[1] > 0 for axis in joined)
        assert [t for t, _ in found] == sorted(t for t, _ in found)
    for outer, inner in itertools.pairwise(joined):
        assert any(o != inner[0] * i for o, i in zip(outer[1:], inner[1:], strict=True))


def test_a_dense_array_is_one_axis_and_no_axis_is_needed_for_one_element():
    array = np.zeros((3, 4, 5), np.int16)
    assert order_and_join(array.shape, array.strides) == ([(60, 2)], (0,))
    assert order_and_join((1, 1), (7, 9), (3, 0)) == ([], (0, 0))
