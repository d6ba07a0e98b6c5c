"""NVSHMEM's functions on addresses."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_devices import refused
from nvshmem_start import start

import emu

pytest.importorskip("torch")


def run_addresses() -> None:
    torch, nv = start()
    from nvshmem import bindings
    from nvshmem.bindings import nvshmem as b

    me, n = b.my_pe(), b.n_pes()
    right, left = (me + 1) % n, (me - 1) % n
    stream = torch.cuda.current_stream().cuda_stream
    assert bindings.init_status() == nv.InitStatus.STATUS_IS_INITIALIZED
    assert b.team_my_pe(nv.Teams.TEAM_NODE) == b.team_translate_pe(0, me, 2) == me
    assert b.team_n_pes(0) == n
    x, word = b.calloc(16, 4), b.align(64, 16)
    assert x % 64 == word % 64 == 0
    assert b.malloc(0) == 0
    b.free(0)
    own = torch.full((4,), me + 1.0, device="cuda")
    out = torch.zeros(4, device="cuda")
    b.cumodule_init(7)
    view = nv.Buffer.from_handle(word, 16)
    torch.as_tensor(view).zero_()
    b.barrier_all_on_stream(stream)
    b.putmem(x, own.data_ptr(), 16, right)
    b.barrier(0)
    b.getmem_on_stream(out.data_ptr(), x, 16, me, stream)
    assert out.eq(left + 1).all()
    b.sync_all()
    b.putmem_signal_on_stream(x + 16, own.data_ptr(), 16, word, 3, 9, right, stream)
    b.signal_wait_until_on_stream(word, 0, 3, stream)
    b.getmem(out.data_ptr(), x + 16, 16, me)
    assert out.eq(left + 1).all()
    b.putmem_nbi_on_stream(x + 32, own.data_ptr(), 16, right, stream)
    b.quiet_on_stream(stream)
    b.signal_op(word + 8, 1, 10, right)
    b.signal_wait_until(word + 8, 5, 1)
    b.getmem_nbi(out.data_ptr(), x + 32, 16, me)
    b.quiet()
    assert out.eq(left + 1).all()
    b.fence()
    there = b.ptr(x, right)
    assert (there == x) == (n == 1)
    peer = torch.as_tensor(nv.Buffer.from_handle(there, 16)).view(torch.float32)
    np.testing.assert_array_equal(peer.cpu().numpy(), np.full(4, me + 1, np.float32))
    assert b.mc_ptr(0, x) == 0
    b.barrier_all()
    for call, text in (
        (lambda: b.putmem(0, x, 4, 0), "putmem: dest must be an address, but got 0"),
        (lambda: b.putmem("x", x, 4, 0), "dest must be an integer"),
        (lambda: b.putmem(own.data_ptr(), x, 4, 0), r"dest must lie in PE \d's symmetric memory"),
        (lambda: b.putmem(there, x, 4, 0), "in that of PE"),
        (lambda: b.putmem(x, x, 65, 0), "dest must lie in allocated .* got 65 bytes"),
        (lambda: b.putmem(x, x, -1, 0), "nbytes must be at least 0"),
        (lambda: b.putmem(x, own.data_ptr(), 16, n), "pe must be in"),
        (lambda: b.getmem(own.data_ptr(), own.data_ptr(), 4, 0), "source must lie in PE"),
        (lambda: b.signal_op(word + 4, 1, 9, 0), "at a multiple of 8"),
        (lambda: b.free(x + 16), r"ptr must be one that malloc\(\) returned"),
        (lambda: b.ptr(x, n), "pe must be in"),
        (lambda: b.mc_ptr(77, x), "team must be one of Teams"),
        (lambda: b.malloc(-1), "size must be at least 0"),
        (lambda: b.align(3, 8), "alignment must be a power of 2"),
    ):
        refused(call, nv.NvshmemInvalid, text)
    b.free(x)
    refused(lambda: b.putmem(x, x, 4, 0), nv.NvshmemInvalid, "must lie in allocated")
    nv.finalize()
    refused(b.barrier_all, nv.NvshmemError, "barrier: nvshmem.core.init")


@pytest.mark.parametrize("n", [2, 3])
def test_functions_on_addresses(n: int) -> None:
    emu.launch(run_addresses, n, preload=["torch"])
