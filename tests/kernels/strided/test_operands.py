"""Operands of element-wise kernels: the order in which they are walked, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.errors import ArgumentError
from emu.kernels.strided.operands import check_operand, check_target, output, plane_offset, walk


@settings(deadline=None, max_examples=60)
@given(
    axes=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2), st.integers(-9, 9)), max_size=6),
    order=st.randoms(),
)
def test_a_walk_visits_every_element_of_both_operands(axes, order):
    layout, reach = [], 4
    for extent, gap, other in axes:
        layout.append((extent, reach, 2 * other))
        reach *= extent + gap
    order.shuffle(layout)
    shape, target, source = (tuple(axis[k] for axis in layout) for k in range(3))
    found = walk(shape, target, source)
    visited = [
        tuple(
            plane_offset(found.planes, plane, 2, k)
            + row * found.rows[1 + k]
            + i * found.inner[1 + k]
            for k in range(2)
        )
        for plane in range(found.planes.total)
        for row in range(found.rows[0])
        for i in range(found.inner[0])
    ]
    meant = [
        tuple(
            sum(i * step for i, step in zip(at, steps, strict=True)) for steps in (target, source)
        )
        for at in itertools.product(*map(range, shape))
    ]
    assert sorted(visited) == sorted(meant)


def test_a_target_must_be_writable_and_apart_from_itself_and_from_sources():
    memory = np.zeros(20, np.float32)
    with pytest.raises(ArgumentError, match="out must not overlap itself"):
        check_target("out", np.lib.stride_tricks.as_strided(memory, (3, 3), (4, 4)), {})
    with pytest.raises(ArgumentError, match="out must not share memory with x"):
        check_target("out", memory[:10], {"x": memory[5:15]})
    with pytest.raises(ArgumentError, match="out must be writable"):
        check_target("out", np.broadcast_to(np.float32(0), 3), {})
    odd = np.zeros(9, np.uint8)[1:].view(np.float32)
    with pytest.raises(ArgumentError, match="x must have aligned elements"):
        check_operand("x", odd)
    view = memory[::2]
    assert check_target("out", view, {"x": memory[1::2]}) is view
    assert check_target("out", view, {"x": view}, like=view) is view  # element by element


def test_a_result_is_made_in_the_order_of_its_model():
    model = np.zeros((4, 3), np.float16).T
    made = output("out", None, (3, 4), np.dtype(np.float32), {}, model)
    assert made.strides == (4, 12)
    with pytest.raises(ArgumentError, match=r"out must have shape \(3, 4\)"):
        output("out", model.T, (3, 4), np.dtype(np.float16), {}, None)
    with pytest.raises(ArgumentError, match="out must have dtype float32"):
        output("out", model, (3, 4), np.dtype(np.float32), {}, None)
