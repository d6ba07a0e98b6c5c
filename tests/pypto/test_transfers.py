"""Rows that lie one behind the other move in one call, and as they do tile by tile."""

from __future__ import annotations

import numpy as np
import pytest

import emu
import emu.pypto as p
from emu.comm.world.one_sided import OneSided
from emu.pypto import distributed as dist
from emu.pypto import shmem
from emu.trace.events import Kind
from emu.trace.reading import read_trace

SHAPE, TILE = (12, 10), (4, 5)


def exchange(one_call):
    """Put and get rectangles of all kinds; return what came, and how many single tiles were moved."""
    if not one_call:
        shmem.moves_rows = lambda group: False
    moved, put, get = [], OneSided.put, OneSided.get

    def counted(function):
        def call(*args, **kwargs):
            moved.append(function.__name__)
            return function(*args, **kwargs)

        return call

    OneSided.put, OneSided.get = counted(put), counted(get)
    world = emu.world()
    pe, other = world.my_pe, 1 - world.my_pe
    data = dist.create_shmem_tensor("tp", 2, p.DT_FP32, list(SHAPE))
    p.set_vec_tile_shapes(*TILE)
    source = np.arange(120, dtype=np.float32).reshape(SHAPE) + 1000 * pe
    found = []

    def turn(tensor, offsets, op=p.AtomicType.SET):
        dist.shmem_put(tensor, offsets, data, other, put_op=op)
        world.barrier()
        found.append(dist.shmem_get(data, pe).numpy())
        found.append(dist.shmem_get(data, other, [5, 10], [3, 0]).numpy())
        found.append(dist.shmem_get(data, pe, [5, 3], [3, 4], valid_shape=[2, 3]).numpy())
        world.barrier()

    turn(p.from_numpy(source), [0, 0])
    turn(p.from_numpy(source[:3]), [7, 0])
    turn(p.from_numpy(source[:3, :4].copy()), [2, 6])
    turn(p.from_numpy(np.asfortranarray(source)), [0, 0])
    turn(p.from_numpy(source), [0, 0], p.AtomicType.ADD)
    turn(p.view(p.from_numpy(source), [6, 10], [0, 0], valid_shape=[0, 10]), [6, 0])
    return found, moved


def test_one_call_moves_what_single_tiles_do():
    fast, slow = (emu.launch(exchange, 2, args=(one,)) for one in (True, False))
    for (got, few), (expected, many) in zip(fast, slow, strict=True):
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(few) < len(many) / 2


def test_a_recorded_world_moves_rows_in_one_call_too(tmp_path):
    path = tmp_path / "a.emutrace"
    plain = emu.launch(exchange, 2, args=(False,))
    recorded = emu.launch(exchange, 2, args=(True,), trace=path)
    trace = read_trace(path)
    for pe, ((expected, many), (got, _)) in enumerate(zip(plain, recorded, strict=True)):
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        events = trace.events[pe]
        puts, gets = (events[events["kind"] == kind] for kind in (Kind.PUT, Kind.GET))
        assert len(puts) + len(gets) < len(many)
        whole = [row for row in puts if row["size"] == 4 * SHAPE[0] * SHAPE[1]]
        assert whole
        assert all(row["peer"] == 1 - pe and row["flow"] for row in whole)
        assert any(row["flow"] for row in gets)  # where its put was


def late_signal():
    """Wait before the other PE signals; return the signals' order of arrival."""
    world = emu.world()
    pe, other = world.my_pe, 1 - world.my_pe
    sent = dist.create_shmem_signal("tp", 2)
    arrived = dist.shmem_wait_until(sent, other, 1)
    pending = arrived.node is not None
    world.barrier()
    dist.shmem_signal(sent, pe, 1, target_pe=other)
    p.synchronize()
    again = dist.shmem_wait_until(sent, other, 1)
    return pending, again.node is None


@pytest.mark.parametrize("pes", [2])
def test_a_wait_whose_signal_has_come_makes_no_node(pes):
    for pending, is_complete in emu.launch(late_signal, pes):
        assert pending
        assert is_complete
