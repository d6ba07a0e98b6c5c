"""Tests for shared memory, against the addresses of all bytes."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from emu.kernels.strided.overlap import lies_apart, shares_memory


@settings(deadline=None, max_examples=300)
@given(
    axes=st.lists(st.tuples(st.integers(0, 5), st.integers(-20, 20)), max_size=3),
    itemsize=st.sampled_from([1, 2, 4, 8]),
)
def test_elements_lie_apart_where_no_byte_belongs_to_two(axes, itemsize):
    shape, strides = tuple(n for n, _ in axes), tuple(step for _, step in axes)
    starts = [
        sum(i * step for i, step in zip(at, strides, strict=True))
        for at in itertools.product(*map(range, shape))
    ]
    touched = [start + byte for start in starts for byte in range(itemsize)]
    apart = len(set(touched)) == len(touched)
    assert lies_apart(shape, strides, itemsize, at_most=1000) is apart
    # Without looking at single elements the answer may be unknown, but is never wrong.
    assert lies_apart(shape, strides, itemsize, at_most=0) in (apart, None)


def test_a_comparison_that_would_take_too_long_is_given_up():
    memory = np.zeros(100_000, np.int8)
    one = as_strided(memory, (90, 90, 90), (7, 101, 997))
    other = as_strided(memory[3:], (90, 90, 90), (11, 103, 991))
    assert shares_memory(one, other, work=1) is None
    assert shares_memory(memory[:10], memory[10:]) is False
    assert shares_memory(memory[:10:2], memory[1:10:2]) is False
    assert shares_memory(memory[:11], memory[10:]) is True
