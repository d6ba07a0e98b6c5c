"""Sums of integers side by side in a machine word, against NumPy's sums of each."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.cuda import lanes

add_int = getattr(lanes.add_int, "py_func", lanes.add_int)


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_no_carry_reaches_the_neighbour(itemsize):
    rng = np.random.default_rng(itemsize)
    kind = f"u{itemsize}"
    words = rng.integers(0, 2**64 - 1, (2, 500), np.uint64, endpoint=True)
    words[:, :4] = [
        [0, 2**64 - 1, 2**64 - 1, 0x8000800080008000],
        [0, 1, 2**64 - 1, 0x8000800080008000],
    ]
    mask = lanes.int_mask(itemsize)
    with np.errstate(over="ignore"):
        found = np.array([add_int(a, b, mask) for a, b in words.T], np.uint64)
        expected = (words[0].view(kind) + words[1].view(kind)).view(np.uint64)
    np.testing.assert_array_equal(found, expected)
