"""Region locks: one that a dead PE left is taken over."""

from __future__ import annotations


def test_recovery_of_a_lock_word() -> None:
    """The lock of a PE that the launcher has declared dead is taken over, and counted."""
    from emu.comm.layout import B_STATE, DEAD, H_RECOVERED, H_RECOVERED_FROM, Layout
    from emu.comm.memory.heap import register
    from emu.comm.memory.segment import Segment
    from emu.comm.sync import locks

    segment = Segment.create(Layout(n_pes=2, heap_bytes=1 << 20))
    mine, other = register(segment, 0, 2), register(segment, 1, 2)
    address = locks.lock_address(mine, 0, 0)
    assert not locks.acquire(other, address)
    segment.block(1)[B_STATE] = DEAD
    assert locks.acquire(mine, address)
    assert segment.header[H_RECOVERED] == 1
    assert segment.header[H_RECOVERED_FROM] == 2  # owner words count from 1
    locks.release(address)
    assert not locks.acquire(mine, address)
    segment.close()
