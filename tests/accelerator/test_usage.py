"""Counters of the bytes that tensors hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from emu.accelerator.usage import HeldBytes, Usage


@given(
    st.lists(
        st.one_of(st.integers(0, 100), st.sampled_from(["free", "reset peaks", "reset totals"]))
    )
)
def test_counters_are_those_of_a_list_of_sizes(steps: list[int | str]) -> None:
    usage = Usage()
    held: list[HeldBytes] = []
    sizes: list[int] = []
    made, peak = [0, 0], [0, 0]  # numbers of storages and of bytes
    for step in steps:
        if isinstance(step, int):
            held.append(HeldBytes(usage, step))
            sizes.append(step)
            made = [made[0] + 1, made[1] + step]
        elif step == "free" and held:
            del held[0], sizes[0]
        elif step == "reset peaks":
            usage.reset_peaks()
            peak = [0, 0]
        elif step == "reset totals":
            usage.reset_totals()
            made = [len(sizes), sum(sizes)]
        now = [len(sizes), sum(sizes)]
        peak = [max(a, b) for a, b in zip(peak, now, strict=True)]
        assert [usage.now, usage.now_bytes] == now
        assert [usage.peak, usage.peak_bytes] == peak
        assert [usage.made, usage.made_bytes] == made
