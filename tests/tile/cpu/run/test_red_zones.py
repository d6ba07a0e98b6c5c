"""Native code of red zones: what it writes around memory, and what it finds there later."""

import ctypes

import pytest

from emu.tile.cpu.run import red_zones
from emu.tile.cpu.run.red_zones import BEFORE, CANARY, LEAST, MOST, zone_behind

MARK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
CHECK = ctypes.CFUNCTYPE(None, ctypes.c_int64)


class Block:
    """Memory with zones, in a larger buffer."""

    def __init__(self, size: int) -> None:
        self.buffer = ctypes.create_string_buffer(size + 2 * BEFORE + MOST + 64)
        self.address = (ctypes.addressof(self.buffer) + BEFORE + 63) & ~63
        self.size = size
        self.zones = red_zones.load()
        MARK(self.zones.mark_address)(self.address, size)

    def write(self, offset: int, data: bytes) -> None:
        ctypes.memmove(self.address + offset, data, len(data))

    def free(self) -> list[red_zones.Damage]:
        CHECK(self.zones.release_check_address)(self.address)
        return self.zones.take_freed()


@pytest.mark.parametrize("size", [1, 7, 64, 511, 512, 513, 4000, 32767, 32768, 100_000])
def test_memory_that_nothing_overran(size):
    block = Block(size)
    block.write(0, b"\x01" * size)
    assert block.zones.size_of(block.address) == size
    assert block.zones.find_damage(block.address) == []
    assert block.free() == []
    assert block.zones.size_of(block.address) is None


@pytest.mark.parametrize("size", [1, 64, 4000, 100_000])
@pytest.mark.parametrize("count", [1, 3, 16, 40])
def test_each_place_of_a_zone(size, count):
    behind = zone_behind(size)
    assert LEAST <= behind <= MOST
    for offset in (-48, -40, -count, size, size + 1, size + behind - count):
        if offset < 0 < offset + count:
            continue
        for find in (Block.free, lambda block: block.zones.find_damage(block.address)):
            block = Block(size)
            block.write(offset, b"\x5a" * count)
            (damage,) = find(block)
            assert (damage.address, damage.size) == (block.address, size)
            assert (damage.first, damage.last) == (offset, offset + count - 1)
            assert damage.written == b"\x5a" * min(count, 16)


def test_damage_is_found_once():
    block = Block(100)
    block.write(100, b"ab")
    assert len(block.zones.find_damage(block.address)) == 1
    assert block.zones.find_damage(block.address) == []
    assert block.free() == []


def test_both_zones():
    block = Block(100)
    block.write(-1, b"a")
    block.write(100, b"b")
    assert [d.first for d in block.free()] == [-1, 100]


def test_a_size_that_was_overwritten():
    block = Block(100)
    block.write(-64, b"\0" * 64)
    assert block.zones.size_of(block.address) is None
    (damage,) = block.free()
    assert damage.address == block.address
    assert damage.first == -64


def test_more_than_are_kept():
    found = []
    blocks = [Block(10) for _ in range(100)]
    for block in blocks:
        block.write(10, b"x")
        CHECK(block.zones.release_check_address)(block.address)
    found = blocks[0].zones.take_freed()
    assert len(found) == 64
    assert blocks[0].zones.take_freed() == []


@pytest.mark.parametrize("address", [0, 1, 65, 4096, 2**47 - 4096, 2**63 - 4096])
def test_addresses_of_nothing(address):
    assert red_zones.load().size_of(address) is None


def test_text():
    damage = red_zones.Damage(4096, 100, 104, 111, bytes([CANARY - 1]) * 8)
    assert str(damage) == "8 bytes from 4 bytes behind its end hold " + "ca " * 7 + "ca"
    assert "from 3 bytes before its beginning" in str(red_zones.Damage(4096, 100, -3, -2, b"ab"))
