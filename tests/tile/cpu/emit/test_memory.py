"""Scratch: what is alive at once never overlaps, and what was freed is used again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emu.tile.cpu.emit.memory import Scratch, dense_strides


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 1000)), max_size=60))
def test_what_is_alive_at_once_does_not_overlap(steps: list[tuple[bool, int]]) -> None:
    scratch = Scratch()
    alive: list[tuple[int, int]] = []
    for frees, number in steps:
        if frees and alive:
            scratch.give_back(*alive.pop(number % len(alive)))
            continue
        offset, count = scratch.take(number)
        assert count >= number
        assert offset % 64 == 0
        assert offset + count <= scratch.size
        assert all(offset + count <= o or o + c <= offset for o, c in alive)
        alive.append((offset, count))
    for place in alive:
        scratch.give_back(*place)
    size = scratch.size
    if size:  # all of it is one stretch again
        assert scratch.take(size) == (0, size)
        assert scratch.size == size


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple))
def test_dense_strides_are_row_major(shape: tuple[int, ...]) -> None:
    strides = dense_strides(shape)
    assert strides[-1] == 1
    assert all(strides[a] == strides[a + 1] * shape[a + 1] for a in range(len(shape) - 1))
