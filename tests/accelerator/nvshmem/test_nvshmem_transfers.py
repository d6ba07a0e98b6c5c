"""Puts, gets, signals and waits, streams and graphs, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulated_devices import refused
from nvshmem_start import start

import emu
from emu import CheckError, Checks, DeadlockError

pytest.importorskip("torch")

from emu.accelerator.nvshmem.errors import NvshmemInvalid


class Wrapper:
    """A stream as libraries hand it over."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.number


def run_puts() -> None:
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    right, left = (me + 1) % n, (me - 1) % n
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        x = nv.tensor((3, 5), dtype)
        x.zero_()
        nv.barrier_all()
        given = torch.full((5,), me, device="cuda").to(dtype)  # of this PE alone
        nv.put(x[1], given, remote_pe=right)
        nv.barrier_all()
        expected = torch.zeros(3, 5)
        expected[1] = left
        assert x.cpu().to(torch.float32).eq(expected.to(dtype).to(torch.float32)).all()
        out = torch.empty((3, 5), dtype=dtype, device="cuda")
        nv.get(out, x, remote_pe=right)
        assert out[1].eq(given).all()
        nv.barrier_all()
    flat = nv.tensor(15, torch.float8_e5m2)
    flat.copy_(torch.full((15,), me + 1.0))
    nv.barrier_all()
    out = torch.empty(15, dtype=torch.float8_e5m2, device="cuda")
    nv.get(out, flat, left)
    assert out.float().eq(left + 1).all()
    nv.put(x[:0], out[:0].to(x.dtype), right)  # nothing
    nv.barrier_all()
    nv.finalize()


def run_puts_again() -> None:
    """What is remembered of a tensor from its first put must hold for the next ones, and no longer than its memory."""
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    right, left = (me + 1) % n, (me - 1) % n
    x = nv.tensor((4, 6), torch.int32)
    peer = nv.get_peer_tensor(x[0], right)  # as long as x[0], but not this PE's
    own = torch.empty(6, dtype=torch.int32, device="cuda")
    for turn in range(3):
        x.zero_()
        nv.barrier_all()
        for row in range(4):  # views of one size, at different places
            nv.put(x[row], own.fill_(100 * turn + 10 * row + me), right)
        half = torch.full((3,), 1.0 + turn, device="cuda")
        nv.put(x[3, :3].view(torch.float32), half, right)  # one place, another dtype
        nv.barrier_all()
        expected = [[100 * turn + 10 * row + left] * 6 for row in range(4)]
        assert x[:3].tolist() == expected[:3]
        assert x[3, 3:].tolist() == expected[3][3:]
        assert x[3, :3].view(torch.float32).tolist() == [1.0 + turn] * 3
        refused(lambda: nv.put(x[:, 0], own[:4], right), NvshmemInvalid, "must be contiguous")
        refused(
            lambda: nv.put(peer, own, right), NvshmemInvalid, "name the memory by this PE's own"
        )
        nv.barrier_all()
    nv.free_tensor(x)
    refused(
        lambda: nv.put(x[0], own, right), NvshmemInvalid, "must be in memory that was not freed"
    )
    again = nv.tensor((4, 6), torch.int32)  # where x was
    again.zero_()
    nv.barrier_all()
    nv.put(again[1], own.fill_(me + 1), right)
    nv.barrier_all()
    assert again.tolist() == [[0] * 6, [left + 1] * 6, [0] * 6, [0] * 6]
    refused(
        lambda: nv.put(x[1], own, right), NvshmemInvalid, "must be in memory that was not freed"
    )
    nv.finalize()


def run_signals() -> None:
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    right, left = (me + 1) % n, (me - 1) % n
    x, word = nv.tensor(4), nv.tensor(2, torch.uint64)
    raw = nv.bytetensor((8,), torch.uint8)
    for each in (x, word.view(torch.int64), raw):
        each.zero_()
    nv.barrier_all()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    buffer, _, _ = nv.tensor_get_buffer(word[1:])
    with torch.cuda.stream(stream):
        given = torch.full((4,), me + 1.0, device="cuda")
    for given_stream in (stream, Wrapper(stream.cuda_stream)):
        nv.put_signal(x, given, buffer, 2, nv.SignalOp.SIGNAL_ADD, right, stream=given_stream)
    nv.signal_wait(buffer, 4, nv.ComparisonType.CMP_EQ, stream=stream)
    assert x.tolist() == [left + 1] * 4
    nv.signal_op(raw, (1 << 64) - 1, 9, remote_pe=right)
    nv.signal_wait(signal_var=raw, signal_val=1 << 63, signal_operation=nv.ComparisonType.CMP_GT)
    assert raw.eq(255).all()
    nv.signal_wait(word[:1], 0)
    for comparison, value in (("NE", 0), ("LE", 4), ("LT", 5), ("GE", 4)):
        nv.signal_wait(word[1:], value, nv.ComparisonType[f"CMP_{comparison}"])
    nv.fence()
    nv.quiet(stream=stream)
    nv.barrier_all(stream=stream)
    nv.finalize()


def run_graph() -> None:
    """While a graph is captured nothing is sent; each replay sends."""
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    x, word = nv.tensor(4), nv.tensor(1, torch.int64)
    given = torch.full((4,), me, device="cuda", dtype=torch.float32)
    x.zero_()
    word.zero_()
    nv.barrier_all()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        given.add_(10)
        nv.put_signal(x, given, word, 1, nv.SignalOp.SIGNAL_ADD, (me + 1) % n)
        nv.barrier_all()
    nv.barrier_all()
    assert (x.sum().item(), word.item(), given[0].item()) == (0, 0, me)
    nv.barrier_all()
    for count in (1, 2):
        graph.replay()
        assert word.item() == count
        assert x.tolist() == [(me - 1) % n + 10 * count] * 4
        nv.barrier_all()
    nv.finalize()


def run_errors() -> None:
    torch, nv = start()
    n = nv.n_pes()
    x, word = nv.tensor((4, 4)), nv.tensor(2, torch.int64)
    x.fill_(5)
    word.zero_()
    nv.barrier_all()
    own = torch.zeros((4, 4), device="cuda")
    host = torch.zeros((4, 4), device="cpu")
    peer = nv.get_peer_tensor(x, (nv.my_pe() + 1) % n)
    half = torch.zeros((4, 4), dtype=torch.float16, device="cuda")
    signal = (word, 1, nv.SignalOp.SIGNAL_SET, 0)
    raw = nv.buffer(64)
    odd = nv.Buffer.from_handle(raw.handle + 4, 8)
    for call, text in (
        (
            lambda: nv.put(own, x, 0),
            r"put: dst must lie in PE \d's symmetric memory, but got a tens",
        ),
        (lambda: nv.put(peer, own, 0), "in that of PE .: name the memory by this PE's own"),
        (lambda: nv.get(own, own, 0), r"get: src must lie in PE \d's symmetric memory"),
        (lambda: nv.put(x, host, 0), "src must be on the device, but got a tensor .* on cpu"),
        (lambda: nv.put(x, own.t(), 0), "src must be contiguous, but got .* with strides"),
        (lambda: nv.put(x[:, 1], own[0], 0), "dst must be contiguous"),
        (lambda: nv.put(x, own[0], 0), "dst must have as many bytes as src, 16, but got 64"),
        (lambda: nv.get(own[0], x, 0), "dst must have as many bytes as src, 64, but got 16"),
        (lambda: nv.put(x, half, 0), "dst must have the dtype of src, float16, but got float32"),
        (lambda: nv.put(x, own, n), f"remote_pe must be in .*{n} PEs, but got {n}"),
        (lambda: nv.put(x, own), "remote_pe must be in .*, but got -1"),
        (lambda: nv.put(x, own, "0"), "remote_pe must be an integer, but got '0'"),
        (lambda: nv.put(x, [1.0], 0), "src must be a tensor, a Buffer or an array"),
        (lambda: nv.put(x, own, 0, stream="s"), "put: stream must be a stream with"),
        (lambda: nv.put(x, own, 0, stream=True), "stream must be a stream"),
        (lambda: nv.put_signal(x, own, x, *signal[1:]), "signal_var must be of int64 or uint64"),
        (lambda: nv.put_signal(x, own, own, *signal[1:]), "signal_var must lie in PE"),
        (lambda: nv.put_signal(x, own[0], *signal), "must have as many bytes"),
        (lambda: nv.put_signal(x, own, word, -1, 9, 0), r"signal_val must be in \[0, .*got -1"),
        (lambda: nv.put_signal(x, own, word, 1, 3, 0), "signal_op must be one of SIGNAL_SET"),
        (lambda: nv.put_signal(x, own, word, 1, 9, n), "remote_pe must be"),
        (lambda: nv.signal_op(odd, 1, 9, 0), "signal_var must have a word of 8 bytes, at a mult"),
        (lambda: nv.signal_wait(word, 0, 6), "signal_operation must be one of CMP_EQ"),
        (lambda: nv.signal_wait(word, 0.5), "signal_val must be an integer"),
        (
            lambda: nv.put(nv.Buffer.from_handle(raw.handle + 32, 64), raw, 0),
            "dst must lie in allocated symmetric memory, but got 64 bytes .* 32 bytes are allocated",
        ),
    ):
        refused(call, nv.NvshmemInvalid, text)
    nv.barrier_all()
    assert x.eq(5).all()
    assert word.eq(0).all()
    nv.finalize()


def run_streams() -> None:
    torch, nv = start()
    from emu.accelerator import stream_check
    from emu.accelerator.stream_errors import StreamOrderError

    stream_check.start()
    me = nv.my_pe()
    x, y = nv.tensor(8), nv.tensor(8)
    side = torch.cuda.Stream()

    def reported(call: Callable[[], object]) -> tuple[str, str]:
        stream_check.forget_reports()
        with pytest.raises(StreamOrderError) as caught:
            call()
        (race,) = caught.value.races
        return race.first.what, race.second.what

    x.fill_(1)
    assert reported(lambda: nv.put(y, x, me, stream=side)) == ("fill_", "nvshmem.core.put")
    torch.cuda.synchronize()
    nv.put(y, x, me, stream=side)
    assert reported(lambda: x.fill_(2)) == ("nvshmem.core.put", "fill_")
    assert reported(lambda: y + 1) == ("nvshmem.core.put", "add")  # this PE was the target
    torch.cuda.synchronize()
    nv.get(x, y, me, stream=Wrapper(side.cuda_stream))
    assert reported(lambda: x + 1) == ("nvshmem.core.get", "add")
    torch.cuda.current_stream().wait_stream(side)
    x + 1
    torch.cuda.synchronize()
    nv.reduce(0, y, x, "sum", stream=side)
    assert reported(lambda: y + 1) == ("nvshmem.core.reduce", "add")
    torch.cuda.synchronize()
    y + 1
    nv.finalize()


@pytest.mark.parametrize(
    ("run", "n"),
    [
        (run_puts, 2),
        (run_puts, 3),
        (run_puts_again, 2),
        (run_signals, 3),
        (run_graph, 2),
        (run_errors, 2),
        (run_streams, 2),
    ],
)
def test_puts_and_signals(run: Callable[[], None], n: int) -> None:
    emu.launch(run, n, preload=["torch"])


def run_waits_in_vain() -> None:
    torch, nv = start()
    word = nv.tensor(1, torch.int64)
    word.zero_()
    if nv.my_pe() == 0:
        nv.barrier(nv.Teams.TEAM_NODE)
    else:
        nv.signal_wait(word, 1, nv.ComparisonType.CMP_EQ)


def test_a_wait_in_vain_is_reported() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(run_waits_in_vain, 2, preload=["torch"], timeout=20)
    assert caught.group_contains(DeadlockError)
    assert "waits in wait_until nvshmem tensor #0[0] EQ 1 at" in str(caught.value)
    assert "waits in barrier of group 'world' at" in str(caught.value)


def run_order(order: str) -> None:
    torch, nv = start()
    me = nv.my_pe()
    x, word = nv.tensor(16), nv.tensor(1, torch.int64)
    x.zero_()
    word.zero_()
    nv.barrier_all()
    nv.put(x, torch.ones(16, device="cuda"), 1 - me)
    if order == "quiet":
        nv.quiet()
    nv.signal_op(word, 1, nv.SignalOp.SIGNAL_SET, 1 - me)
    nv.signal_wait(word, 1)
    np.testing.assert_array_equal(x.sum().item(), 16)
    nv.finalize()


@pytest.mark.timeout(400)  # the first to come compiles the listener's kernels
def test_a_put_may_arrive_after_a_signal() -> None:
    emu.launch(run_order, 2, args=("quiet",), preload=["torch"], checks=Checks(race=True))
    with pytest.raises(CheckError, match=r"called neither fence\(\) nor quiet\(\)"):
        emu.launch(run_order, 2, args=("",), preload=["torch"], checks=Checks(race=True))
