"""Walks of values that have scales along an axis: every value meets its own scale."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.elementwise.quant_rows import as_fp32, scaled_walk
from emu.kernels.strided.operands import plane_offset


@settings(deadline=None, max_examples=80)
@given(
    extents=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    order=st.randoms(),
    data=st.data(),
)
def test_every_element_meets_its_scale(extents, order, data):
    places = list(range(len(extents)))
    order.shuffle(places)
    memory = np.zeros(extents, np.int8).transpose(places)
    source = np.zeros(memory.shape, np.float32)
    axis = data.draw(st.one_of(st.none(), st.integers(0, memory.ndim - 1)))
    (copies, period, inner, rows, planes), table = scaled_walk(
        memory.shape, memory.strides, source.strides, axis
    )
    visited = []
    for plane in range(planes.total):
        base = [plane_offset(planes, plane, 3, k) for k in range(3)]
        for row in range(rows[0]):
            for i in range(inner[0]):
                target, value, scale = (
                    base[k] + row * rows[1 + k] + i * inner[1 + k] for k in range(3)
                )
                # Where rows were joined, the scales repeat after a period.
                visited.append((target, value, scale % (4 * period) if copies > 1 else scale))
    steps = [4 if i == axis else 0 for i in range(memory.ndim)]
    meant = [
        tuple(
            sum(i * step for i, step in zip(at, strides, strict=True))
            for strides in (memory.strides, source.strides, steps)
        )
        for at in np.ndindex(*memory.shape)
    ]
    joined = period != inner[0]
    visited = [(t, s, p % (4 * period) if joined and inner[3] else p) for t, s, p in visited]
    assert sorted(visited) == sorted(meant)
    assert copies >= 1
    del table


def test_scales_of_any_dtype_become_fp32():
    dense = np.arange(5, dtype=np.float32)
    assert np.shares_memory(as_fp32(dense), dense)  # nothing is copied
    for dtype in (np.float16, ml_dtypes.bfloat16, np.int8, np.int32):
        found = as_fp32(np.arange(10).astype(dtype)[::2])
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, [0, 2, 4, 6, 8])
