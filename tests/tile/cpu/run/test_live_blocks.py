"""The table of live blocks: look-ups of any address are safe, and it holds what is allocated."""

import ctypes
import mmap

import numpy as np
import pytest

from emu.tile.cpu.run import live_blocks, red_zones

_mark = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.fixture
def zones():
    found = red_zones.load()
    found.take_freed()
    return found


def block(size):
    memory = np.zeros(size + 8192, np.uint8)
    start = -(-memory.ctypes.data // 64) * 64 + 64
    return memory, start


@pytest.mark.parametrize("size", [1, 64, 1000, 40_000])
def test_a_block_is_known_while_it_lives(zones, size):
    memory, start = block(size)
    assert zones.size_of(start) is None
    _mark(zones.mark_address)(start, size)
    assert zones.size_of(start) == live_blocks.size_at(start) == size
    assert start in live_blocks.addresses()
    assert zones.size_of(start + 64) is None
    _release(zones.release_check_address)(start)
    assert zones.size_of(start) is None
    assert start not in live_blocks.addresses()
    assert zones.take_freed() == []
    assert memory.size


def test_addresses_without_memory(zones):
    gone = mmap.mmap(-1, 1 << 20)
    address = np.frombuffer(gone, np.uint8).ctypes.data
    gone.close()
    for invented in (0, 64, 128, 0x1240, address, address + 64, 1 << 46, (1 << 64) - 64):
        assert zones.size_of(invented) is None


def test_more_blocks_than_a_bucket_holds(zones):
    """Blocks that the table has no room for are not looked at, and are checked when they are freed."""
    memory = np.zeros(1 << 26, np.uint8)
    first = -(-memory.ctypes.data // 64) * 64
    wanted = _bucket(first + 256)
    starts = [a for a in range(first + 256, first + (1 << 26) - 256, 256) if _bucket(a) == wanted]
    starts = starts[:12]
    assert len(starts) > 6
    for start in starts:
        _mark(zones.mark_address)(start, 64)
    known = [s for s in starts if zones.size_of(s) == 64]
    assert len(known) >= min(len(starts), 8) - 1
    for start in starts:
        ctypes.memset(start + 64, 1, 1)
        _release(zones.release_check_address)(start)
    assert [d.address for d in zones.take_freed()] == starts
    assert not set(starts) & set(live_blocks.addresses())


def _bucket(address):
    return address * -7046029254386353131 % (1 << 64) >> 49
