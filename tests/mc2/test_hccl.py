"""Hccl against its reference, and its rules."""

from __future__ import annotations

import os
import re
import signal
import time

import ml_dtypes
import numpy as np
import pytest
from mc2_reference_hccl import ReferenceHccl
from variants import thorough

import emu
from emu.comm.errors import ArgumentError, ServerError, TaskMismatchError
from emu.comm.tiling.enums import HcclDataType, HcclReduceOp
from emu.mc2 import Hccl

ALL = [
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, ml_dtypes.bfloat16,
]  # fmt: skip
REDUCED = [np.int8, np.int16, np.int32, np.float16, np.float32, ml_dtypes.bfloat16]


def noise(rng, count, dtype):
    return rng.integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8).view(dtype)


def same_bits(one, other):
    """Compare bits; NaN of any kind is NaN."""
    if one.dtype.kind in "fV":
        both = np.isnan(one) & np.isnan(other)
        one, other = np.where(both, 0, one), np.where(both, 0, other)
    return one.tobytes() == other.tobytes()


class Sample:
    """A random task: the same sizes on every rank, other data."""

    def __init__(self, shared, rng, group):
        n = group.n_pes
        self.kind = shared.choice(
            ["AllReduce", "AllGather", "ReduceScatter", "AlltoAll", "AlltoAllV"]
        )
        reduces = self.kind in ("AllReduce", "ReduceScatter")
        dtypes = REDUCED if reduces else ALL
        self.dtype = np.dtype(dtypes[shared.integers(len(dtypes))])
        self.repeat = int(shared.integers(1, 5))
        self.count = int(shared.choice([0, 1, 7, 33, 1000]))
        self.op = int(shared.choice([0, 2, 3]))
        turns = self.count * self.repeat
        stride = turns + int(shared.integers(0, 9))
        if self.repeat == 1 and shared.integers(2):
            stride = 0
        self.stride = stride
        spread = (n - 1) * (stride or self.count) + turns
        sizes = {
            "AllReduce": (turns, turns),
            "AllGather": (turns, spread),
            "ReduceScatter": (spread, turns),
            "AlltoAll": (spread, spread),
        }
        if self.kind == "AlltoAllV":
            matrix = shared.integers(0, 40, (n, n)) * shared.integers(0, 2, (n, n))
            me = group.my_pe
            self.counts = [matrix[me].tolist(), matrix[:, me].tolist()]
            gap = int(shared.integers(0, 3))
            self.displs = [
                np.concatenate([[0], np.cumsum(np.array(c) * self.repeat + gap)])[:-1].tolist()
                for c in self.counts
            ]
            sizes["AlltoAllV"] = tuple(sum(c) * self.repeat + gap * n for c in self.counts)
        sent, received = sizes[self.kind]
        self.send = noise(rng, sent, self.dtype)
        self.recv = noise(rng, received, self.dtype)
        in_heap = rng.integers(0, 2, 2)  # each rank as it likes
        most = [max(s, 40 * n * self.repeat + 3 * n) for s in (sent, received)]
        self.kept = [group.alloc(m + 3, self.dtype) for m in most]
        self.mine = []
        for kept, heap, data in zip(self.kept, in_heap, (self.send, self.recv), strict=True):
            array = kept.local[3 : 3 + data.size] if heap else data.copy()
            array[...] = data
            self.mine.append(array)

    def prepare(self, hccl, send, recv, commit):
        how = {"repeat": self.repeat, "commit": commit}
        if self.kind == "AlltoAllV":
            (sc, rc), (sd, rd) = self.counts, self.displs
            return hccl.AlltoAllV(send, sc, sd, self.dtype, recv, rc, rd, **how)
        if self.kind == "AllReduce":
            return hccl.AllReduce(send, recv, self.count, self.dtype, self.op, **how)
        how["strideCount"] = self.stride
        if self.kind == "ReduceScatter":
            return hccl.ReduceScatter(send, recv, self.count, None, self.op, **how)
        return getattr(hccl, self.kind)(send, recv, self.count, **how)


def random_kernels(seed, rounds):
    group = emu.world()
    shared = np.random.default_rng(seed)
    rng = np.random.default_rng([seed, group.my_pe])
    reference = ReferenceHccl
    wrong = []
    for number in range(rounds):
        samples = [Sample(shared, rng, group) for _ in range(shared.integers(1, 5))]
        at_once = [bool(shared.integers(2)) for _ in samples]
        with np.errstate(all="ignore"), reference(group) as hccl:
            for sample in samples:
                sample.prepare(hccl, sample.send, sample.recv, True)
        with Hccl(group) as hccl:
            handles = [s.prepare(hccl, *s.mine, c) for s, c in zip(samples, at_once, strict=True)]
            for handle, sample, committed in zip(handles, samples, at_once, strict=True):
                for _ in range(0 if committed else sample.repeat):
                    hccl.Commit(handle)
                for turn in range(sample.repeat):
                    assert hccl.Wait(handle) == 0
                    assert hccl.Query(handle) > turn
                assert hccl.Wait(handle) == -1
                if not same_bits(sample.mine[1], sample.recv):
                    wrong.append((number, sample.kind, str(sample.dtype), sample.count))
                if not same_bits(sample.mine[0], sample.send):
                    wrong.append((number, "send was changed", sample.kind))
        for sample in samples:
            for kept in sample.kept:
                kept.free()
    return wrong


@pytest.mark.parametrize(
    ("n_pes", "rounds"), thorough([(1, 30), (2, 40), (3, 25), (4, 25), (8, 12)], (1, 30), (3, 25))
)
def test_random_kernels_do_what_the_reference_does(n_pes, rounds):
    assert emu.launch(random_kernels, n_pes, args=(n_pes, rounds)) == [[]] * n_pes


def test_the_same_through_an_emulated_link():
    link = emu.Link(bandwidth=1e8, latency=1e-5)
    assert emu.launch(random_kernels, 3, args=(77, 6), link=link) == [[]] * 3


def takes_its_time(kind):
    group = emu.world()
    count = 10_000
    x, out = np.ones(count, np.int8), np.ones(3 * count, np.int8)
    group.barrier()
    start = time.monotonic()
    with Hccl() as hccl:
        how = {"repeat": 2, "commit": True}
        if kind == "AllReduce":
            hccl.AllReduce(x, out, count // 2, **how)
        else:
            hccl.AllGather(x, out, count // 2, strideCount=count, **how)
    rows = [row for row in hccl.Turns() if row.rank == group.my_pe]
    return time.monotonic() - start, [1e-9 * row.end_ns - start for row in rows]


@pytest.mark.parametrize(("kind", "phases"), [("AllGather", 1), ("AllReduce", 2)])
def test_a_turn_takes_at_least_what_the_link_models(kind, phases):
    """5000 bytes a turn over each pair, or twice a third of them, at 1 MB/s, and 1 ms a phase.

    Both turns are released at once: the second sets out before the first has arrived.
    """
    link = emu.Link(bandwidth=1e6, latency=1e-3)
    nbytes = 5000 if kind == "AllGather" else 2 * 1600  # slices end at cache lines: at least this
    for total, ends in emu.launch(takes_its_time, 3, args=(kind,), link=link):
        assert len(ends) == 2
        assert ends[0] >= nbytes / 1e6 + phases * 1e-3
        assert ends[1] >= 2 * nbytes / 1e6 + phases * 1e-3
        assert total >= ends[1]


def in_place():
    group = emu.world()
    n, r = group.n_pes, group.my_pe
    gathered = group.alloc((n, 6), np.float32)
    gathered.local[...] = -1
    gathered.local[r] = np.arange(6) + 10 * r
    total = np.full(100, r + 1, np.int32)
    with Hccl() as hccl:
        part = gathered.local[r]
        hccl.AllGather(part, gathered, 3, strideCount=6, repeat=2, commit=True)
        hccl.AllReduce(total, total, 50, repeat=2, commit=True)
    assert (gathered.local == np.arange(6) + 10 * np.arange(n)[:, None]).all()
    assert (total == n * (n + 1) // 2).all()


def test_input_may_be_the_own_part_of_the_output():
    emu.launch(in_place, 4)


def large_turns():
    """Larger than the staging memory of the first task, and past the caches."""
    group = emu.world()
    n, r = group.n_pes, group.my_pe
    for count in (100, 3 << 20, 1 << 20):
        mine = np.full(count, r + 1, np.float32)
        out, everyone = np.empty(count, np.float32), np.empty((n, count), np.float32)
        with Hccl() as hccl:
            hccl.AllReduce(mine, out, count, commit=True)
            hccl.AllGather(mine, everyone, count, commit=True)
        assert (out == n * (n + 1) / 2).all()
        assert (everyone == np.arange(1, n + 1)[:, None]).all()


def test_turns_of_any_size_are_staged():
    emu.launch(large_turns, 2)


def groups():
    world = emu.world()
    low = world.my_pe < 2
    pair = world.group("low" if low else "high", [0, 1] if low else [2, 3])
    out, everyone = np.zeros(2, np.int32), np.zeros(4, np.int32)
    mine = np.array([world.my_pe], np.int32)
    with Hccl(pair) as inner, Hccl(world) as outer:  # each has a server of its own
        far = outer.AllGather(mine, everyone, 1)
        near = inner.AllGather(mine, out, 1, commit=True)
        inner.Wait(near)
        outer.Commit(far)
    return out.tolist(), everyone.tolist(), inner.GetRankId(), inner.GetRankDim()


def test_communicators_do_not_wait_for_each_other():
    results = emu.launch(groups, 4)
    assert [r[0] for r in results] == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert [r[1] for r in results] == [[0, 1, 2, 3]] * 4
    assert [r[2:] for r in results] == [(0, 2), (1, 2), (0, 2), (1, 2)]


def really_at_the_same_time():
    """The server moves turns while the compute side does nothing but look."""
    hccl = Hccl()
    out = np.zeros(2 * 1000, np.float32)
    handle = hccl.AllGather(np.ones(1000, np.float32), out, 100, strideCount=1000, repeat=10)
    seen = [hccl.Query(handle)]
    for turn in range(10):
        hccl.Commit(handle)
        end = time.monotonic() + 60
        while hccl.Query(handle) == turn and time.monotonic() < end:
            time.sleep(0)
        seen.append(hccl.Query(handle))
    hccl.Finalize()
    rows = hccl.Turns()
    assert sorted({row.rank for row in rows}) == [0, 1]
    assert [row.turn for row in rows if row.rank == 0] == list(range(10))
    assert all(row.start_ns <= row.end_ns for row in rows)
    return seen


def test_turns_are_executed_beside_the_compute_side():
    assert emu.launch(really_at_the_same_time, 2) == [list(range(11))] * 2


def windows():
    hccl = Hccl(window_bytes=1 << 20)
    me, n = hccl.GetRankId(), hccl.GetRankDim()
    for rank in range(n):
        hccl.GetWindowsInAddr(rank)[me] = me + 1
        hccl.GetWindowsOutAddr(rank)[me] = me + 11
    emu.world().barrier()
    assert hccl.GetWindowsInAddr(me).size == 1 << 20
    mine = [hccl.GetWindowsInAddr(me)[:n].tolist(), hccl.GetWindowsOutAddr(me)[:n].tolist()]
    hccl.Finalize()
    return mine


def test_windows_are_memory_that_all_ranks_share():
    assert emu.launch(windows, 2) == [[[1, 2], [11, 12]]] * 2


def versions_of_kernels():
    random_kernels(5, 4)
    from emu.comm.server.server import _KERNELS

    return {kernel.__name__: len(kernel.overloads) for kernel, _ in _KERNELS}


def test_no_call_compiles_a_kernel_a_second_time():
    for versions in emu.launch(versions_of_kernels, 2):
        assert set(versions.values()) == {1}, versions


# --- rules ------------------------------------------------------------------------------------


def rules():
    """Every rule that one rank alone can break, without harm to the kernel that goes on."""
    x, out = np.zeros(8, np.float32), np.zeros(16, np.float32)
    hccl = Hccl()

    def refused(text, call, *args, **how):
        with pytest.raises(ArgumentError, match=re.escape(text)):
            call(*args, **how)

    refused("sendCount of AllGather must be in [0, ", hccl.AllGather, x, out, -1)
    refused("sendCount of AllGather must be an integer", hccl.AllGather, x, out, 1.5)
    refused("repeat of AllGather must be in [1, 255]", hccl.AllGather, x, out, 1, repeat=256)
    refused("repeat of AllReduce must be in [1, 255]", hccl.AllReduce, x, x, 1, repeat=0)
    refused("send of AllGather must have at least 9", hccl.AllGather, x, out, 9)
    refused("recv of AllGather must have at least 10", hccl.AllGather, x, out[:9], 5)
    refused("strideCount of AllGather must be at least 4", hccl.AllGather, x, out, 2, repeat=2)
    refused(
        "strideCount of AlltoAll must be at least 4, the elements of all 2 turns, but got 3",
        hccl.AlltoAll, x, out, 2, repeat=2, strideCount=3,
    )  # fmt: skip
    refused("recv must have the dtype of send", hccl.AllGather, x, out.astype(int), 1)
    refused("dtype must be that of send", hccl.AllGather, x, out, 1, HcclDataType.FP16)
    refused("dtype must be in [0, 11]", hccl.AllGather, x, out, 1, 12)
    refused("dtype must be one of", hccl.AllGather, x, out, 1, "complex64")
    refused("op of AllReduce must be", hccl.AllReduce, x, out, 1, op=HcclReduceOp.PROD)
    refused("op of ReduceScatter must be", hccl.ReduceScatter, x, out, 1, op="sum")
    wide = np.zeros(8)
    refused("must have one of the dtypes", hccl.AllReduce, wide, np.zeros(8), 1)
    refused("send of AllGather must be dense", hccl.AllGather, x[::2], out, 1)
    refused("send of AllGather must be an ndarray", hccl.AllGather, [1.0], out, 1)
    refused("must not overlap", hccl.AlltoAll, x, x, 4)
    refused("must not overlap", hccl.ReduceScatter, x, x[2:], 4)
    refused("must not overlap", hccl.AllReduce, x[:4], x[1:], 4)
    frozen = np.zeros(16, np.float32)
    frozen.flags.writeable = False
    refused("recv must be writable", hccl.AllGather, x, frozen, 1)
    two = [2, 2]
    refused("sendCounts must have 2", hccl.AlltoAllV, x, [1], [0], None, out, two, [0, 2])
    refused("rdispls must keep", hccl.AlltoAllV, x, two, [0, 2], None, out, two, [0, 1])
    refused("recvCounts[1] must be in", hccl.AlltoAllV, x, two, two, None, out, [2, -1], two)
    refused("send of AlltoAllV must have at least 9", hccl.AlltoAllV,
            x, two, [0, 7], None, out, two, [0, 2])  # fmt: skip
    refused("recvDtype must be", hccl.AlltoAllV,
            x, two, [0, 2], HcclDataType.FP32, out, two, [0, 2], HcclDataType.INT8)  # fmt: skip
    refused("handle must be in [0, 0)", hccl.Commit, 0)
    first = hccl.AllGather(x, out, 2, strideCount=8, repeat=2)
    second = hccl.AllGather(x[4:], out[4:], 2)
    assert hccl.Wait(first) == -1
    hccl.Commit(first)
    hccl.Commit(first)
    refused("must be committed at most 2 times", hccl.Commit, first)
    hccl.Commit(second)
    assert hccl.Wait(second) == 0
    refused("in the order of preparation", hccl.Wait, first)
    for _ in range(61):
        hccl.AllGather(x, out, 2, commit=True)
    refused("at most 63 tasks", hccl.AllGather, x, out, 2)
    with pytest.raises(ServerError, match="must be finalised before it is used again"):
        Hccl()
    hccl.Finalize()
    hccl.Finalize()
    refused("must not be used after Finalize", hccl.Query, first)
    with Hccl() as again:
        again.AllGather(x, out, 2, commit=True)


def test_bad_calls_are_refused_before_anything_happens():
    emu.launch(rules, 2)


def uncommitted():
    hccl = Hccl()
    x, out = np.zeros(8, np.float32), np.zeros(16, np.float32)
    done = hccl.AllGather(x, out, 2, commit=True)
    hccl.Wait(done)
    hccl.AllGather(x, out, 2, strideCount=8, repeat=3)
    hccl.Commit(1)
    with pytest.raises(
        ServerError, match=re.escape("handle 1 (AllGather) has 3 turns, but only 1")
    ):
        hccl.Finalize()
    with pytest.raises(ServerError, match="cannot be used any more"):
        Hccl()


def test_uncommitted_work_is_an_error_that_names_the_handle():
    emu.launch(uncommitted, 2)


def prepare_differently(hccl, what):
    odd = hccl.GetRankId() == 1
    x, out = np.zeros(64, np.float32), np.zeros(256, np.float32)
    if what == "count":
        hccl.AllGather(x, out, 12 if odd else 10, commit=True)
    elif what == "dtype":
        kind = np.float16 if odd else np.float32
        hccl.AllGather(x.astype(kind), out.astype(kind), 10, commit=True)
    elif what == "op":
        op = HcclReduceOp.MAX if odd else HcclReduceOp.SUM
        hccl.AllReduce(x, out, 10, op=op, commit=True)
    elif what == "repeat":
        hccl.AllGather(x, out, 4, strideCount=64, repeat=2 + odd, commit=True)
    elif what == "command":
        call = hccl.AlltoAll if odd else hccl.AllGather
        call(x, out, 4, commit=True)
    elif what == "counts":
        n = hccl.GetRankDim()
        rows = [3 if odd and r == 0 else 2 for r in range(n)]
        starts = [8 * r for r in range(n)]
        hccl.AlltoAllV(x, rows, starts, None, out, [2] * n, starts, commit=True)


def mismatched(what):
    with pytest.raises(TaskMismatchError) as caught, Hccl() as hccl:
        prepare_differently(hccl, what)
    return str(caught.value)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("count", ["count must be the same on every rank", "rank 0: AllGather(count=10",
                   "rank 1: AllGather(count=12", "rank 2: AllGather(count=10"]),
        ("dtype", ["dtype must be", "rank 0: AllGather(count=10, dtype=FP32", "dtype=FP16"]),
        ("op", ["op must be", "rank 0: AllReduce(count=10, dtype=FP32, op=SUM", "op=MAX"]),
        ("repeat", ["repeat must be", "repeat=2)", "repeat=3)"]),
        ("command", ["command must be", "rank 1: AlltoAll(", "rank 2: AllGather("]),
        ("counts", ["sendCounts[0] of rank 1 must be recvCounts[1] of rank 0, but they are 3 and 2"]),
    ],
)  # fmt: skip
def test_tasks_that_differ_are_reported_rank_by_rank(what, words):
    for text in emu.launch(mismatched, 3, args=(what,)):
        for word in words:
            assert word in text


def one_rank_never_prepares():
    x, out = np.zeros(8, np.float32), np.zeros(24, np.float32)
    if emu.world().my_pe == 2:
        emu.world().barrier()  # which nobody else comes to
    with Hccl() as hccl:
        handle = hccl.AllGather(x, out, 2, commit=True)
        hccl.Wait(handle)


def test_a_rank_that_never_comes_is_named_in_the_deadlock_report():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(one_rank_never_prepares, 3, timeout=1)
    text = caught.value.message
    assert "PE 0 waits in Hccl.Wait(0) of AllGather, turn 0 of 1, for ranks [2] to prepare" in text


def one_rank_never_commits():
    x, out = np.zeros(8, np.float32), np.zeros(16, np.float32)
    hccl = Hccl()
    handle = hccl.AllGather(x, out, 2)
    if emu.world().my_pe == 0:
        hccl.Commit(handle)
        hccl.Wait(handle)
    else:
        emu.world().barrier()


def test_a_turn_that_is_not_released_is_named_in_the_deadlock_report():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(one_rank_never_commits, 2, timeout=1)
    assert "for ranks [1] to release turn 0" in caught.value.message


def computes_while_the_server_idles():
    with Hccl() as hccl:
        x, out = np.zeros(8, np.float32), np.zeros(16, np.float32)
        hccl.Wait(hccl.AllGather(x, out, 2, commit=True))
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            sum(range(1000))


def test_an_idle_server_is_no_deadlock():
    emu.launch(computes_while_the_server_idles, 2, timeout=1)


def dies_in_the_middle():
    x, out = np.zeros(8, np.float32), np.zeros(16, np.float32)
    with Hccl() as hccl:
        handle = hccl.AllGather(x, out, 2)
        if emu.world().my_pe == 1:
            raise RuntimeError("rank 1 has had enough")
        hccl.Commit(handle)
        hccl.Wait(handle)


def test_a_rank_that_raises_stops_the_others():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(dies_in_the_middle, 2)
    assert [str(e) for e in caught.value.exceptions] == ["rank 1 has had enough"]


def is_killed_in_the_middle():
    x, out = np.zeros(8, np.float32), np.zeros(16, np.float32)
    with Hccl() as hccl:
        handle = hccl.AllGather(x, out, 2, strideCount=8, repeat=2)
        hccl.Commit(handle)
        hccl.Wait(handle)
        if emu.world().my_pe == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        hccl.Commit(handle)
        hccl.Wait(handle)


@pytest.mark.slow
def test_a_rank_that_is_killed_is_reported():
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(is_killed_in_the_middle, 2)
    (error,) = caught.value.exceptions
    assert isinstance(error, emu.PEDiedError)
    assert error.pe == 1
