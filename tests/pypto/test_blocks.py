"""Memory of large results is taken again once no array lies in it."""

from __future__ import annotations

import gc

import numpy as np

from emu.pypto import blocks
from emu.pypto.blocks import Blocks, size_of

FP32 = np.dtype(np.float32)
SHAPE = (256, 256)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_taken_again_when_nobody_has_it():
    kept = Blocks()
    first = kept.array(SHAPE, FP32)
    at = address(first)
    del first
    again = kept.array((128, 512), FP32)
    assert address(again) == at
    assert again.flags.c_contiguous
    assert at % 64 == 0


def test_memory_is_not_taken_while_a_view_of_a_view_is_there():
    kept = Blocks()
    view = kept.array(SHAPE, FP32)[3:][:, 5:].view(np.int32)
    view[:] = 7
    other = kept.array(SHAPE, FP32)
    other[:] = 1
    assert not np.may_share_memory(view, other)
    assert (view == 7).all()
    del view
    assert kept.nbytes == 2 * size_of(FP32.itemsize * 256 * 256)
    third = kept.array(SHAPE, FP32)
    assert not np.may_share_memory(third, other)
    assert kept.nbytes == 2 * size_of(FP32.itemsize * 256 * 256)


def test_sizes_that_differ_little_share_memory():
    for nbytes in (1 << 16, (1 << 16) + 1, 100_000, (1 << 25) - 1):
        assert nbytes <= size_of(nbytes) <= nbytes * 9 / 8 + 1
    assert size_of(1_000_000) == size_of(999_999)


def test_small_results_have_memory_of_their_own():
    kept = Blocks()
    kept.array((8, 8), FP32)
    assert kept.nbytes == 0


def test_there_is_a_bound(monkeypatch):
    monkeypatch.setattr(blocks, "MOST_BYTES", 3 << 20)
    kept = Blocks()
    arrays = [kept.array((1 << 18,), FP32) for _ in range(5)]
    assert kept.nbytes == 3 << 20
    assert len({address(array) for array in arrays}) == 5
    for number, array in enumerate(arrays):
        array[:] = number
    assert [int(array[0]) for array in arrays] == list(range(5))
    del arrays, array
    gc.collect()
    larger = kept.array((1 << 19,), FP32)  # free blocks of other sizes make room
    assert kept.nbytes == 3 << 20
    assert kept.array((1 << 20,), FP32).size == 1 << 20
    del larger
