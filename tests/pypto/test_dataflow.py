"""Ordering between PEs is dataflow and nothing else; signals, slots, barriers and views."""

from __future__ import annotations

import time

import numpy as np
import pytest

import emu
import emu.pypto as p
from emu.comm.errors import DeadlockError

d = p.distributed
ADD = p.AtomicType.ADD
FP32 = p.DT_FP32


def deadlock_of(function, n_pes=2, **kwargs) -> str:
    """Launch what must hang; return the report."""
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(function, n_pes, timeout=1.0, **kwargs)
    found = caught.value.split(DeadlockError)[0]
    assert found is not None
    return str(caught.value)


@p.frontend.jit
def wait_first(x, out):
    me, n = d.my_symbolic_pe("tp"), 2
    data = d.create_shmem_tensor("tp", n, x.dtype, list(x.shape))
    p.set_vec_tile_shapes(4, 4)
    # In program order everyone would wait here for a signal that nobody has sent.
    arrived = d.shmem_wait_until(data, 1 - me, 1)
    out[:, :] = d.shmem_get(data, me, pred=[arrived])
    stored = d.shmem_put(x, [0, 0], data, 1 - me)
    d.shmem_signal(data, me, 1, target_pe=1 - me, pred=[stored])


def run_wait_first(seeds) -> None:
    me = emu.world().my_pe
    for seed in seeds:
        with p.set_schedule("random" if seed else "program", seed or 0):
            out = np.zeros((8, 4), np.float32)
            wait_first(np.full((8, 4), me + 1, np.float32), out)
            assert (out == 2 - me).all()


def test_a_blocked_wait_does_not_hold_back_later_ops():
    emu.launch(run_wait_first, 2, args=(range(8),), timeout=10)


def run_over_link() -> tuple[int, int]:
    world = emu.world()
    x, out = np.full((8, 4), world.my_pe + 1, np.float32), np.zeros((8, 4), np.float32)
    begin = time.monotonic_ns()
    world.barrier()
    wait_first(x, out)
    assert (out == 2 - world.my_pe).all()
    return begin, time.monotonic_ns()


def test_stores_over_an_emulated_link_take_their_time():
    times = emu.launch(run_over_link, 2, link=emu.Link(bandwidth=1e4, latency=1e-3))
    # 128 bytes, one latency for the data and one for the signal
    assert min(end for _, end in times) - max(begin for begin, _ in times) >= 14_800_000


def wait_in_order() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_signal("tp", 2)
    # A scalar read is control: nothing after it exists before its value does.
    token = d.shmem_wait_until(data, 1 - me, 1)
    assert token[0, 0] == 0
    d.shmem_signal(data, me, 1, target_pe=1 - me)


def test_a_scalar_read_does_hold_back_what_follows():
    report = deadlock_of(wait_in_order)
    assert "shmem_wait_until" in report


def slow() -> None:
    time.sleep(0.02)


def announce(x, out, with_pred) -> None:
    """PE 0 stores and signals amid other work; PE 1 waits and fetches."""
    from emu.pypto.tensor import run_op

    me = d.my_symbolic_pe("tp")
    data = d.create_shmem_tensor("tp", 2, x.dtype, list(x.shape))
    p.set_vec_tile_shapes(4, 4)
    if me == 0:
        for _ in range(3):
            run_op("work", slow)
        stored = d.shmem_put(x, [0, 0], data, 1)
        d.shmem_signal(data, 0, 1, target_pe=1, pred=[stored] if with_pred else None)
        for _ in range(3):
            run_op("work", slow)
    else:
        out[:, :] = d.shmem_get(data, 1, pred=[d.shmem_wait_until(data, 0, 1)])


def run_announce(with_pred, seeds) -> int:
    wrong = 0
    for seed in seeds:
        schedule = "program" if seed is None else "random"
        kernel = p.frontend.jit(schedule=schedule, seed=seed or 0)(announce)
        out = np.zeros((4, 4), np.float32)
        kernel(np.ones((4, 4), np.float32), out, with_pred)
        if emu.world().my_pe == 1:
            wrong += not out.all()
        emu.world().barrier()
    return wrong


def test_program_order_hides_a_missing_pred():
    assert emu.launch(run_announce, 2, args=(False, [None] * 5), timeout=10) == [0, 0]


def test_a_random_schedule_exposes_a_missing_pred():
    assert emu.launch(run_announce, 2, args=(False, range(12)), timeout=10)[1] > 0


def test_with_its_pred_the_program_is_right_under_any_seed():
    assert emu.launch(run_announce, 2, args=(True, range(12)), timeout=10) == [0, 0]


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


def other_tiles(signal_tile, wait_tile, signal_view, wait_view) -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, FP32, [8, 8])
    p.set_vec_tile_shapes(*signal_tile)
    d.shmem_signal(data, me, 1, *signal_view, target_pe=1 - me)
    p.set_vec_tile_shapes(*wait_tile)
    d.shmem_wait_until(data, 1 - me, 1, *wait_view)
    p.synchronize()


WHOLE, TOP = ([8, 8], [0, 0]), ([4, 8], [0, 0])


@pytest.mark.parametrize(
    "arguments", [((4, 8), (8, 8), WHOLE, WHOLE), ((4, 8), (4, 8), TOP, WHOLE)]
)
def test_other_tiles_or_views_are_other_slots(arguments):
    deadlock_of(other_tiles, args=arguments)


def test_the_same_view_however_written_is_the_same_slots():
    emu.launch(other_tiles, 2, args=((4, 8), (4, 8), (), WHOLE), timeout=10)


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


def views_of_views() -> None:
    me = emu.world().my_pe
    data = d.create_shmem_tensor("tp", 2, p.DT_INT32, [2, 4, 6])
    p.set_vec_tile_shapes(1, 2, 2)
    values = np.arange(48, dtype=np.int32).reshape(2, 4, 6)
    d.shmem_put(p.from_numpy(values), [0, 0, 0], data, me)
    inner = d.shmem_view(d.shmem_view(data, [2, 3, 4], [0, 1, 2]), [1, 2, 2], [1, 1, 1])
    np.testing.assert_array_equal(d.shmem_get(inner, me).numpy(), values[1:2, 2:4, 3:5])
    d.shmem_put(p.full([1, 1, 1], -1, p.DT_INT32), [0, 1, 0], inner, me)
    assert data.memory.data.local[1, 3, 3] == -1
    with pytest.raises(p.ArgumentError, match="offsets"):
        d.shmem_put(p.full([1, 1, 2], -1, p.DT_INT32), [0, 1, 1], inner, me)


def test_views_of_views():
    emu.launch(views_of_views, 2, timeout=10)


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


def kernels_give_memory_back(times) -> int:

    kept = []

    @p.frontend.jit
    def kernel(x):
        me, n = d.my_symbolic_pe("tp"), emu.world().n_pes
        data = d.create_shmem_tensor("tp", n, x.dtype, list(x.shape))
        signals = d.create_shmem_signal("tp", n)
        p.set_vec_tile_shapes(2, 2)
        # Each pair of neighbours has slots of its own, which the other PEs never hear of.
        right, left = (me + 1) % n, (me - 1) % n
        d.shmem_signal(data, 0, 1, [1, 4], [me, 0], target_pe=right)
        d.shmem_wait_until(data, 0, 1, [1, 4], [left, 0])
        d.shmem_barrier_all(signals)
        kept[:] = [data, signals]

    world = emu.world()
    for _ in range(times):
        kernel(np.ones((4, 4), np.float32))
    for used in (
        lambda: d.shmem_get(kept[0], 0),
        lambda: d.shmem_signal(kept[0], 0, 1, target_pe=0),
        lambda: d.shmem_signal(kept[1], 0, 1, target_pe=0),
        lambda: d.shmem_barrier_all(kept[1]),
    ):
        with pytest.raises(p.ArgumentError, match="freed at the end of the kernel"):
            used()
    world.barrier()
    for _ in range(3):
        # What is left over goes with a later create, once all have drained.
        d.create_shmem_signal("tp", world.n_pes)
        world.barrier()
    return int((world.segment.allocations["used"] == 1).sum())


def test_symmetric_memory_goes_back_with_its_kernel():
    few = emu.launch(kernels_give_memory_back, 3, args=(1,), timeout=10)
    assert emu.launch(kernels_give_memory_back, 3, args=(25,), timeout=10) == few
    assert set(few) == {4}  # the three creates above, and the word that says who has drained


def failing_kernel() -> None:
    me = emu.world().my_pe
    signals = d.create_shmem_signal("tp", 2)

    @p.frontend.jit
    def kernel(out):
        d.shmem_wait_until(signals, 0, 99)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        kernel(np.zeros((2, 2), np.float32))
    # The wait that could never end went with its kernel; others run as before.
    run_wait_first([None])
    assert me == d.my_symbolic_pe("tp")


def test_a_failing_kernel_takes_its_ops_with_it():
    emu.launch(failing_kernel, 2, timeout=10)


def fail_once() -> None:
    good, bad = p.zeros([2, 2]), p.from_numpy(np.full((2, 2), 9, np.int32))
    with p.set_schedule("random", 3):
        wrong = p.gather(good, 0, bad)
        behind = p.add(wrong, 1.0)
        right = p.add(good, 1.0)
        with pytest.raises(p.ArgumentError, match="index must be at least 0 and below 2"):
            p.synchronize()
        p.synchronize()  # it does not raise again
        assert (right.numpy() == 1).all()
        assert behind.shape == (2, 2)


def test_an_op_that_fails_raises_once_and_holds_nothing_else_back():
    fail_once()


def fail_and_give_back() -> list[int]:
    world, used = emu.world(), []

    @p.frontend.jit
    def kernel(out):
        d.create_shmem_tensor("tp", 2, FP32, [64, 64])
        d.create_shmem_signal("tp", 2)
        raise KeyError("mine")

    for _ in range(4):
        with pytest.raises(KeyError, match="mine"):
            kernel(np.zeros((2, 2), np.float32))
        world.barrier()
        used.append(int((world.segment.allocations["used"] == 1).sum()))
        world.barrier()
    return used


def test_a_failing_kernel_gives_its_memory_back():
    for used in emu.launch(fail_and_give_back, 2, timeout=20):
        assert used == [used[0]] * 4
