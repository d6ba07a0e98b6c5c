"""Access plans, read as plain loops: every byte of a tile is reached, by its own source, and nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.strided import access_plan as plans
from emu.kernels.strided.access_plan import CONTIGUOUS, TRANSPOSED, add_plan, copy_plan


def accesses(plan):
    """(target, source) of each byte that the loops of a plan touch; forms differ in speed alone."""
    words = plan.words
    width = int(words[plans.WIDTH])
    rows, columns = (words[at : at + 3].tolist() for at in (plans.ROWS, plans.COLUMNS))
    outer = words[plans.OUTER :].reshape(-1, 3)[: words[plans.RANK]].tolist()
    axes = [*outer, rows, columns]
    found = set()
    for at in itertools.product(*(range(axis[0]) for axis in axes)):
        t = words[plans.TARGET_SHIFT] + sum(i * axis[1] for i, axis in zip(at, axes, strict=True))
        s = words[plans.SOURCE_SHIFT] + sum(i * axis[2] for i, axis in zip(at, axes, strict=True))
        found |= {(int(t) + byte, int(s) + byte) for byte in range(width)}
    return found


def meant(shape, target, source, itemsize):
    return {
        (
            sum(i * step for i, step in zip(at, target, strict=True)) + byte,
            sum(i * step for i, step in zip(at, source, strict=True)) + byte,
        )
        for at in np.ndindex(*shape)
        for byte in range(itemsize)
    }


@st.composite
def tiles(draw):
    """Shape and strides of a target whose elements lie apart, strides of any source, and a width."""
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    axes = draw(
        st.lists(
            st.tuples(st.integers(1, 9), st.integers(0, 2), st.booleans(), st.integers(-5, 40)),
            min_size=1,
            max_size=4,
        )
    )
    strides, reach = [], itemsize
    for extent, gap, backward, _ in axes:
        strides.append(-reach if backward else reach)
        reach *= extent + gap
    layout = [(n, t, itemsize * s) for (n, _, _, s), t in zip(axes, strides, strict=True)]
    draw(st.randoms()).shuffle(layout)
    return (*(tuple(axis[k] for axis in layout) for k in range(3)), itemsize)


@settings(deadline=None, max_examples=150)
@given(tile=tiles(), ordered=st.booleans(), aligned=st.booleans())
def test_every_byte_is_reached_by_its_own_source(tile, ordered, aligned):
    expected = meant(*tile)
    plan = copy_plan(*tile)
    assert accesses(plan) == expected
    added = add_plan(*tile, ordered=ordered, aligned=aligned)
    # A contiguous row of an addition is counted in elements.
    assert accesses(added) == expected
    low, high = zip(
        *((min(side), max(side) + 1) for side in zip(*expected, strict=True)), strict=True
    )
    for each in (plan, added):
        words = each.words
        assert (words[plans.TARGET_LOW], words[plans.SOURCE_LOW]) == low
        assert (words[plans.TARGET_HIGH], words[plans.SOURCE_HIGH]) == high
        assert each.address == words.ctypes.data


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_forms_of_well_known_layouts(itemsize):
    size = 64 * itemsize
    dense, across = (size, itemsize), (itemsize, size)
    assert copy_plan((64, 64), dense, dense, itemsize).dense
    assert copy_plan((64, 64), dense, across, itemsize).words[plans.FORM] == TRANSPOSED
    assert copy_plan((64, 64), dense, across, itemsize).crossed
    part = copy_plan((64, 48), dense, dense, itemsize)
    assert (part.words[plans.FORM] == CONTIGUOUS) == (
        48 * itemsize > 64
    )  # shorter rows are wide elements
    assert not part.dense
