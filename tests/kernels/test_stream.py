"""Copies past the caches, at any alignment and length."""

from __future__ import annotations

import numpy as np

from emu.kernels.stream import stream_bytes, stream_bytes_twice

PLACES = ((0, 0, 0), (1, 3, 100), (5, 0, 4000), (63, 9, 777), (64, 1, 191))
"""Starts of target and source, and bytes."""


def test_stream_copies_what_it_should() -> None:
    rng = np.random.default_rng(0)
    source = rng.integers(0, 255, 5000, np.uint8)
    for start, skip, count in PLACES:
        target = np.zeros(5000, np.uint8)
        stream_bytes(target.ctypes.data + start, source.ctypes.data + skip, count)
        expected = np.zeros(5000, np.uint8)
        expected[start : start + count] = source[skip : skip + count]
        assert target.tobytes() == expected.tobytes()


def test_a_copy_that_is_kept_is_the_same() -> None:
    source = np.random.default_rng(1).integers(0, 255, 5000, np.uint8)
    for start, skip, count in PLACES:
        target, kept = np.zeros((2, 5000), np.uint8)
        addresses = (target.ctypes.data + start, kept.ctypes.data + 7)
        stream_bytes_twice(*addresses, source.ctypes.data + skip, count)
        wanted = source[skip : skip + count]
        for found, at in ((target, start), (kept, 7)):
            assert found[at : at + count].tobytes() == wanted.tobytes()
            assert not found[:at].any()
            assert not found[at + count :].any()
