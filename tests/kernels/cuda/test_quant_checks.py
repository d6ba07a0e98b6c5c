"""Which updates of a quantised scatter may run together; decided on the host."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.cuda.quant_checks import runs_apart


@settings(deadline=None, max_examples=200)
@given(
    places=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12)), min_size=1, max_size=12),
    length=st.integers(1, 5),
)
def test_updates_that_overlap_never_run_together(places, length):
    runs = runs_apart(np.array(places), (2, 12 + length, 1), length, 1, "last")
    assert [i for start, end in runs for i in range(start, end)] == list(range(len(places)))

    def collide(i, j):
        return places[i][0] == places[j][0] and abs(places[i][1] - places[j][1]) < length

    for start, end in runs:
        assert not any(collide(i, j) for i in range(start, end) for j in range(start, i))
        # And a run ends only where the next update collides with it.
        assert end == len(places) or any(collide(i, end) for i in range(start, end))
