"""How communication kernels end badly: left by an error, never finalised, used by threads, met by a collective."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest

import emu
from emu import mc2
from emu.comm.errors import ArgumentError, CommError, DeadlockError, ServerError
from emu.mc2 import Hccl

pytestmark = pytest.mark.slow

BF16 = np.dtype(ml_dtypes.bfloat16)


class Trap(list):
    """A trace whose first entry is an error: an operator then raises in its midst."""

    def append(self, span):
        raise RuntimeError(f"this rank stops after {span.name!r}")


def operands(group):
    """x1 of ones; every sum is the inner extent."""
    return np.ones((8 * group.n_pes, 6), np.float16), np.ones((6, 4 * group.n_pes), np.float16)


DENSE = [
    "all_gather_matmul",
    "all_to_all_matmul",
    "matmul_all_reduce",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
]


def call(name, group, **more):
    x1, x2 = operands(group)
    if name == "all_to_all_matmul":
        x2 = np.concatenate([x2] * group.n_pes)
    result = getattr(mc2, name)(x1, x2, group=group, comm_turn=2, **more)
    return result[0] if isinstance(result, tuple) else result


def one_rank_raises_in_the_midst(name):
    world = emu.world()
    group = world.group("fragile", range(world.n_pes))
    assert (call(name, group) > 0).all()
    if world.my_pe == 1:
        with pytest.raises(RuntimeError, match="this rank stops after"):
            call(name, group, trace=Trap())
        with pytest.raises(ServerError, match="this rank left a task unfinished; make a new group"):
            call(name, group)
    else:
        with pytest.raises(
            ServerError, match="cannot be used any more: rank 1 failed in a task, or"
        ):
            call(name, group)
    again = world.group("again", range(world.n_pes))
    assert (call(name, again) > 0).all()
    world.barrier()


@pytest.mark.parametrize("name", ["matmul_all_to_all", "matmul_all_reduce"])
def test_a_rank_that_raises_in_an_operator_and_goes_on_keeps_nobody_waiting(name):
    emu.launch(one_rank_raises_in_the_midst, 2, args=(name,), timeout=60)


def raises_and_ends(name):
    call(name, emu.world(), trace=Trap() if emu.world().my_pe == 1 else None)


@pytest.mark.parametrize("name", ["all_to_all_matmul", "matmul_reduce_scatter"])
def test_an_error_in_an_operator_is_the_cause_that_is_told(name):
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(raises_and_ends, 3, args=(name,), timeout=60)
    assert [type(error) for error in caught.value.exceptions] == [RuntimeError]
    assert "this rank stops after" in str(caught.value.exceptions[0])


def leaves_early():
    """Rank 1 leaves with a task that waits for rank 0; then nothing may write to its arrays."""
    world = emu.world()
    x, out = np.full(8, world.my_pe + 1, np.float32), np.zeros(16, np.float32)
    hccl = Hccl()
    handle = hccl.AllGather(x, out, 8, commit=world.my_pe == 1)
    world.barrier()
    if world.my_pe == 1:
        hccl.__exit__(KeyError, KeyError(), None)
        world.barrier()
        world.barrier()
        return bool(out[:8].any())
    world.barrier()
    hccl.Commit(handle)
    with pytest.raises(ServerError, match="rank 1 failed in a task, or left it unfinished"):
        hccl.Wait(handle)
    hccl.__exit__(KeyError, KeyError(), None)
    world.barrier()
    return False


def test_a_server_writes_nothing_once_its_kernel_has_been_left():
    assert emu.launch(leaves_early, 2, timeout=60) == [False, False]


def never_finalised(wait):
    world = emu.world()
    hccl = Hccl()
    handle = hccl.AllReduce(np.ones(4, np.float32), np.zeros(4, np.float32), 4, commit=True)
    if wait:
        hccl.Wait(handle)
    if world.my_pe == 1:
        hccl.Finalize()


@pytest.mark.parametrize("wait", [True, False])
def test_a_kernel_that_is_never_finalised_is_an_error(wait):
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(never_finalised, 2, args=(wait,), timeout=60)
    error = caught.value.exceptions[0]
    assert error.pe == 0
    assert "Hccl of communicator 'world' must be finalised before its PE ends" in str(error)


def never_waits():
    x = np.full(4, emu.world().my_pe, np.int32)
    with Hccl() as hccl:
        for _ in range(5):
            hccl.AllReduce(x, x, 4, op=2, commit=True)
    assert (x == 1).all()
    for method in ("Commit", "Wait", "Query"):
        with pytest.raises(ArgumentError, match="must not be used after Finalize"):
            getattr(hccl, method)(0)
    with pytest.raises(ArgumentError, match="must not be used after Finalize"):
        hccl.AllReduce(x, x, 4)
    hccl.Finalize()


def test_finalize_waits_for_what_nobody_waited_for():
    emu.launch(never_waits, 2, timeout=60)


@pytest.mark.parametrize(
    "make", [Hccl, lambda: mc2.matmul_all_reduce(np.ones((2, 2)), np.ones((2, 2)))]
)
def test_outside_of_a_pe_it_says_how_to_start_one(make):
    with pytest.raises(CommError, match="emu run -n N"):
        make()


def alone():
    world = emu.world()
    group = world.group(f"only {world.my_pe}", [world.my_pe])
    for name in DENSE:
        assert (call(name, group) == 6).all()
    ids = np.array([[0, 1], [1, 0]], np.int32)
    sent = mc2.moe_distribute_dispatch(np.ones((2, 3), BF16), ids, group=group, moe_expert_num=2)
    back = mc2.moe_distribute_combine(
        sent.expand_x, ids, sent.expand_idx, sent.ep_recv_counts, np.ones((2, 2), np.float32),
        group=group, moe_expert_num=2,
    )  # fmt: skip
    assert (back == 2).all()


def test_a_group_of_one_pe_does_all_alone():
    emu.launch(alone, 3, timeout=60)


def two_threads(rounds):
    """Each thread calls operators in a group of its own, all the time."""
    world = emu.world()
    groups = [world.group(f"thread {i}", range(world.n_pes)) for i in range(2)]
    wrong = []

    def work(number):
        rng = np.random.default_rng(number)
        for _ in range(rounds):
            rows, k = int(rng.integers(1, 40)), int(rng.integers(1, 90))
            x1 = np.full((rows, k), number + 1, np.float16)
            x2 = np.ones((k, 5), np.float16)
            y, gathered = mc2.all_gather_matmul(x1, x2, group=groups[number], is_gather_out=False)
            z = mc2.matmul_all_reduce(x1, x2, group=groups[number])
            if (y != k * (number + 1)).any() or (z != world.n_pes * k * (number + 1)).any():
                wrong.append((number, rows, k))
            assert gathered is None

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_two_threads_use_two_groups():
    assert emu.launch(two_threads, 2, args=(60,), timeout=60) == [[], []]


def a_thread_too_many():
    world = emu.world()
    x = np.ones(4, np.float32)
    said = []

    def use():
        try:
            call("matmul_all_reduce", world)
        except ServerError as error:
            said.append(str(error))

    with Hccl() as hccl:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
        hccl.AllReduce(x, x, 4, commit=True)
    assert (x == 2).all()
    assert (call("matmul_all_reduce", world) > 0).all()
    return said


def test_a_communicator_that_another_thread_uses_is_refused():
    for said in emu.launch(a_thread_too_many, 2, timeout=60):
        assert len(said) == 1
        assert "communicator 'world' must be finalised before it is used again" in said[0]


def operator_meets_collective():
    world = emu.world()
    if world.my_pe == 0:
        call("all_gather_matmul", world)
    else:
        world.all_reduce(np.ones(4))


def test_an_operator_here_and_a_collective_there_is_a_deadlock_that_names_both():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(operator_meets_collective, 2, timeout=3)
    assert all(isinstance(error, DeadlockError) for error in caught.value.exceptions)
    text = str(caught.value)
    assert "PE 0 waits in Hccl.Wait(0) of AllGather, turn 0 of 2, for ranks [1] to prepare" in text
    assert "PE 1 waits in" in text
    assert "all_reduce" in text
