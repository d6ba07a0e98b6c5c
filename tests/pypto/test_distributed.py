"""Communication ops: signals, waits, clears, barriers, puts and gets."""

from __future__ import annotations

import numpy as np
import pytest
from pypto_kernels import FP32, d, deadlock_of

import emu
import emu.pypto as p

ADD = p.AtomicType.ADD


# --- signals ----------------------------------------------------------------------------------------


def ping_pong() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [8, 8])
    p.set_vec_tile_shapes(4, 4)
    for turn in range(6):
        if turn % 2 == me:
            src = p.full([8, 8], float(turn + 1))
            stored = d.shmem_put(src, [0, 0], data, 1 - me)
            d.shmem_signal(data, me, 1, target_pe=1 - me, pred=[stored])
        else:
            # The same value each time: without clearing the second wait would match at once.
            arrived = d.shmem_wait_until(data, 1 - me, 1, clear_signal=True)
            got = d.shmem_get(data, me, pred=[arrived]).numpy()
            assert (got == turn + 1).all()
    words, _ = data.slots(None, None, "test")
    p.synchronize()
    assert not words.local.any()


def test_clear_signal_makes_a_slot_reusable():
    emu.launch(ping_pong, 2, timeout=10)


def overshoot() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_signal("tp", 2)
    first = d.shmem_signal(data, 0, 1, target_pe=1 - me, sig_op=ADD)
    second = d.shmem_signal(data, 0, 1, target_pe=1 - me, sig_op=ADD, pred=[first])
    d.shmem_barrier_all(data, pred=[second])
    p.synchronize()
    d.shmem_wait_until(data, 0, 1)


def test_a_value_that_has_passed_never_matches():
    # The wait is still pending when the function returns: it is not forgotten.
    report = deadlock_of(overshoot)
    assert "== 1" in report


def overshoot_with_ge() -> None:
    data = d.create_shmem_signal("tp", 2)
    for _ in range(2):
        d.shmem_signal(data, 0, 1, target_pe=-1, sig_op=ADD)
    for cmp, value in ((p.OpType.GE, 1), (p.OpType.NE, 0), (p.OpType.GT, 0), (p.OpType.EQ, 4)):
        d.shmem_wait_until(data, 0, value, cmp=cmp)
    p.synchronize()
    d.shmem_wait_until(data, 0, 3, cmp=p.OpType.GT, clear_signal=True)
    d.shmem_wait_until(data, 0, 1, cmp=p.OpType.LT)
    d.shmem_wait_until(data, 0, 0, cmp=p.OpType.LE)
    p.synchronize()


def test_the_other_comparisons_are_an_extension():
    emu.launch(overshoot_with_ge, 2, timeout=10)


def coarser_signals() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [32, 8])
    p.set_vec_tile_shapes(16, 8)
    stored = d.shmem_put(p.full([32, 8], me + 1.0), [0, 0], data, 1 - me)
    p.set_vec_tile_shapes(32, 8)
    d.shmem_signal(data, me, 1, target_pe=1 - me, pred=[stored])
    arrived = d.shmem_wait_until(data, 1 - me, 1)
    assert (d.shmem_get(data, me, pred=[arrived]).numpy() == 2 - me).all()


def test_a_signal_tile_may_cover_several_put_tiles():
    emu.launch(coarser_signals, 2, timeout=10)


def tiles_latch() -> None:
    """Each tile matches at its own time, and what happens to it afterwards does not matter."""
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [8, 4])
    p.set_vec_tile_shapes(4, 4)
    words, n_tiles = data.slots(None, None, "test")
    assert n_tiles == 2
    if me == 0:
        done = d.shmem_wait_until(data, 1, 5)
        words.group.signal_op(words, 5, 0, index=2)
        assert not done.node.wait.poll()
        words.group.signal_op(words, 6, 0, index=2)
        words.group.signal_op(words, 5, 0, index=3)
        p.synchronize()
        assert words.local.tolist() == [[0, 0], [6, 5]]


def test_tiles_of_a_wait_latch():
    emu.launch(tiles_latch, 2, timeout=10)


def clear_unseen() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [8, 8])
    p.set_vec_tile_shapes(2, 8)
    # PE 1 has never used this slot set itself.
    told = d.shmem_signal(data, 0, 7, [4, 8], [4, 0], target_pe=1) if me == 0 else None
    met = d.shmem_barrier_all(data, pred=[] if told is None else [told])
    if me == 1:
        cleared = d.shmem_clear_signal(data, pred=[met])
        d.shmem_wait_until(data, 0, 0, [4, 8], [4, 0], pred=[cleared])
    p.synchronize()


def test_clear_signal_reaches_slots_that_only_others_have_used():
    emu.launch(clear_unseen, 2, timeout=10)


def clear_rectangle() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [4, 4])
    p.set_vec_tile_shapes(4, 4)
    put = d.shmem_put(p.ones([4, 4]), [0, 0], data, me)
    view = d.shmem_view(data, [3, 3], [1, 1])
    cleared = d.shmem_clear_data(view, [2, 2], [0, 1], pred=[put])
    expected = np.ones((4, 4), np.float32)
    expected[1:3, 2:4] = 0
    np.testing.assert_array_equal(d.shmem_get(data, me, pred=[cleared]).numpy(), expected)


def test_clear_data_clears_a_rectangle():
    emu.launch(clear_rectangle, 2, timeout=10)


def many_barriers(rounds) -> None:
    world = emu.world()
    n, me = world.n_pes, world.my_pe
    data = d.create_shmem_tensor("tp", n, p.DT_INT32, [n, 1])
    p.set_vec_tile_shapes(n, 1)
    met = None
    for turn in range(1, rounds + 1):
        src = p.full([1, 1], turn, p.DT_INT32)
        stored = [
            d.shmem_put(src, [me, 0], data, pe, pred=[] if met is None else [met])
            for pe in range(n)
        ]
        met = d.shmem_barrier_all(data, pred=stored)
        if turn % n == me:
            # Those who don't look run ahead, up to the next barrier that needs this PE.
            seen = d.shmem_get(data, me, pred=[met]).numpy()
            assert (seen >= turn).all()
            assert (seen <= turn + 1).all()
    p.synchronize()
    world.barrier()
    assert data.memory.barrier_word().local.tolist() == [0]


@pytest.mark.parametrize("n_pes", [2, 4])
def test_barriers_in_a_row(n_pes):
    emu.launch(many_barriers, n_pes, args=(40,), timeout=10)


# --- data -------------------------------------------------------------------------------------------


def ragged() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [8, 8])
    p.set_vec_tile_shapes(2, 3)
    x = p.view(p.ones([6, 8]), [6, 8], [0, 0], valid_shape=[3, 5])
    none = p.view(p.ones([6, 8]), [6, 8], [0, 0], valid_shape=[0, 8])
    stored = [d.shmem_put(x, [2, 0], data, me), d.shmem_put(none, [0, 0], data, me)]
    expected = np.zeros((8, 8), np.float32)
    expected[2:5, :5] = 1
    np.testing.assert_array_equal(d.shmem_get(data, me, pred=stored).numpy(), expected)
    part = d.shmem_get(data, me, [4, 8], [4, 0], valid_shape=[1, 2])
    assert part.valid_shape == (1, 2)
    assert part.numpy().sum() == 2
    view = d.shmem_view(data, [8, 8], [4, 0], valid_shape=[1, 8])
    assert d.shmem_get(view, me).numpy().sum() == 5
    assert (
        d.shmem_get(d.shmem_view(data, [8, 8], [8, 0], valid_shape=[0, 8]), me).numpy().sum() == 0
    )


def test_only_what_is_valid_is_stored_and_fetched():
    emu.launch(ragged, 2, timeout=10)


def mixed_add() -> None:
    me = emu.world().my_pe
    p.set_vec_tile_shapes(2, 4)

    @p.frontend.jit(allow_mixed_add=True)
    def kernel(x, out):
        data = d.create_shmem_tensor("tp", 2, FP32, [4, 4])
        added = [d.shmem_put(x, [0, 0], data, me, put_op=ADD) for _ in range(3)]
        out[:, :] = d.shmem_get(data, me, pred=added)

    for dtype in (p.DT_BF16, p.DT_FP16):
        out = np.zeros((4, 4), np.float32)
        kernel(np.full((4, 4), 1 / 3).astype(dtype.np_dtype), out)
        third = np.float32(np.float64(1 / 3).astype(dtype.np_dtype))
        np.testing.assert_allclose(out, 3 * third, rtol=1e-6)
    data = d.create_shmem_tensor("tp", 2, FP32, [4, 4])
    half = p.tensor([4, 4], p.DT_BF16)
    with p.set_options(allow_mixed_add=True):
        d.shmem_put(half, [0, 0], data, me, put_op=ADD)
        with pytest.raises(p.DTypeError):
            d.shmem_put(half, [0, 0], data, me)
    with pytest.raises(p.DTypeError, match="allow_mixed_add"):
        d.shmem_put(half, [0, 0], data, me, put_op=ADD)


def test_mixed_add_is_an_option():
    emu.launch(mixed_add, 2, timeout=10)
