"""The order of communication ops: waits, missing dependencies and schedules."""

from __future__ import annotations

import time

import numpy as np
import pytest
from pypto_kernels import d, deadlock_of

import emu
import emu.pypto as p


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


@pytest.mark.slow
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
    from emu.pypto.submission import run_op

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
