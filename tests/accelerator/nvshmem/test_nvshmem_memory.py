"""Tensors, buffers and arrays in symmetric memory: made, reached at other PEs, freed, and what goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from emulated_devices import refused
from nvshmem_start import start

import emu
from emu.accelerator.errors import NotEmulatedError

pytest.importorskip("torch")

from emu.accelerator.nvshmem.errors import NvshmemError


def run_tensors() -> None:
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    right = (me + 1) % n
    x = nv.tensor((4, 6), dtype=torch.bfloat16)
    assert (x.shape, x.dtype, x.is_contiguous()) == ((4, 6), torch.bfloat16, True)
    assert x.device == torch.device("cuda", me)
    x.fill_(me)
    nv.barrier_all()
    there = nv.get_peer_tensor(x, right)
    assert (there.device, there.shape) == (x.device, x.shape)
    assert there.eq(right).all()
    nv.barrier_all()
    part = nv.get_peer_tensor(x[1:3, ::2], right)  # a view's place and strides are kept
    assert part.stride() == (6, 2)
    part.copy_(torch.full((2, 3), 10.0 + me, device=x.device))
    nv.barrier_all()
    expected = np.full((4, 6), me, np.float32)
    expected[1:3, ::2] = 10 + (me - 1) % n
    np.testing.assert_array_equal(x.float().cpu().numpy(), expected)
    assert nv.get_peer_tensor(x, me).data_ptr() == x.data_ptr()
    assert nv.tensor(5).dtype == torch.float32
    assert nv.tensor((0, 3)).numel() == 0
    assert nv.tensor(()).shape == ()
    raw = nv.bytetensor((2, 3), torch.float32)
    assert (raw.shape, raw.dtype) == ((24,), torch.uint8)
    assert nv.interop.torch.empty((2,), torch.int64).shape == (2,)
    nv.free_tensor(x)
    nv.finalize()


def run_buffers() -> None:
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    right = (me + 1) % n
    buffer = nv.buffer(64)
    assert (buffer.size, buffer.device_id, buffer._mnff.ptr) == (64, me, buffer.handle)
    torch.as_tensor(buffer, device=f"cuda:{me}").fill_(me + 1)
    nv.barrier_all()
    there = nv.get_peer_buffer(buffer, right)
    assert torch.as_tensor(there).eq(right + 1).all()
    nv.barrier_all()
    x = nv.tensor((2, 8))
    found, nbytes, name = nv.tensor_get_buffer(x[1])
    assert (found.handle, found.size, nbytes, name) == (x[1].data_ptr(), 32, 32, "float32")
    again = nv.Buffer.from_handle(ptr=found.handle, size=16, mr=found.memory_resource)
    x.fill_(me)
    nv.barrier_all()
    out = torch.zeros(4, device="cuda")
    nv.get(out, again, right)
    assert out.eq(right).all()
    nv.free(there)  # another PE's memory is let be
    nv.put(buffer, buffer, me)
    nv.free(buffer)
    refused(lambda: nv.free(buffer), nv.NvshmemInvalid, "which was")
    nv.finalize()


def run_arrays() -> None:
    _, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    right = (me + 1) % n
    a, b = nv.array((3, 4), dtype="float32"), nv.array((3, 4))
    assert isinstance(a, np.ndarray)
    a[:] = me
    nv.barrier_all()
    nv.put(b, a, right)
    nv.barrier_all()
    assert (b == (me - 1) % n).all()
    assert (nv.get_peer_array(a[1:], right) == right).all()
    assert nv.array_get_buffer(a)[1:] == (48, "float32")
    assert nv.interop.cupy.bytearray((2,), "int64").shape == (16,)
    nv.barrier_all()
    nv.free_array(a)
    refused(lambda: nv.free_array(a), nv.NvshmemInvalid, "array must lie in allocated")
    refused(lambda: nv.put(b, np.zeros((3, 4), np.float32), 0), nv.NvshmemInvalid, "that is not")
    refused(lambda: nv.put(b[:, 1], b[:, 1], 0), nv.NvshmemInvalid, "must be contiguous")
    refused(lambda: nv.array(2, "complex64"), nv.NvshmemInvalid, "dtype must be one of")
    refused(lambda: nv.array(-2), nv.NvshmemInvalid, "must not be negative")
    refused(lambda: nv.array(2, order="F"), nv.NvshmemInvalid, "order must be 'C'")
    nv.finalize()


def run_errors() -> None:
    torch, nv = start()
    me, n = nv.my_pe(), nv.n_pes()
    x, gone = nv.tensor((4, 4)), nv.tensor(4)
    peer = nv.get_peer_tensor(gone, (me + 1) % n)
    nv.free_tensor(gone)
    own = torch.zeros(4, device="cuda")
    for call, text in (
        (lambda: nv.free_tensor(gone), r"free_tensor: tensor must be in memory that was not freed"),
        (lambda: nv.free_tensor(peer), "tensor must be in memory that was not freed"),
        (lambda: nv.put(gone, own, 0), "dst must be in memory that was not freed, but got nvshmem"),
        (lambda: nv.get_peer_tensor(gone, 0), "tensor must be in memory that was not freed"),
        (lambda: nv.free_tensor(own), r"tensor must be one of nvshmem.core.tensor\(\), but got"),
        (lambda: nv.free_tensor(x[1:]), "but got a view that begins 16 bytes into nvshmem tensor"),
        (lambda: nv.free_tensor(5), "tensor must be a tensor, but got 5"),
        (lambda: nv.get_peer_tensor(x, n), f"peer_pe must be in .*{n}.*, but got {n}"),
        (lambda: nv.get_peer_tensor(x, -1), "peer_pe must be"),
        (lambda: nv.get_peer_tensor(own, 0), "that is not"),
        (lambda: nv.tensor_get_buffer(own), "that is not"),
        (lambda: nv.tensor_get_buffer(x.t()), "tensor must be contiguous"),
        (lambda: nv.tensor((2, -1)), r"shape must not be negative, but got \(2, -1\)"),
        (lambda: nv.tensor("ab"), "shape must be integers"),
        (lambda: nv.tensor(2, dtype="float32"), "dtype must be a dtype of torch"),
        (lambda: nv.buffer(0), "size must be at least 1"),
        (lambda: nv.buffer(2.5), "size must be an integer"),
        (
            lambda: nv.put(x, torch.zeros((4, 4), dtype=torch.complex64, device="cuda").conj(), 0),
            "lazy",
        ),
        (lambda: nv.put(nv.Buffer(None, 4, None), x, 0), "dst must be a tensor, a Buffer"),
        (lambda: nv.put(nv.Buffer("a", 4, None), x, 0), "dst must have an address and a size"),
        (lambda: nv.Buffer.from_handle("a", 4), "ptr and size must be integers"),
        (lambda: nv.get_peer_buffer(own, 0), "buffer must be in symmetric memory"),
        (lambda: nv.free(7), "buffer must be a tensor, a Buffer or an array"),
        (lambda: nv.free(nv.tensor_get_buffer(x[1])[0]), "buffer must be one that"),
        (lambda: nv.get_peer_buffer(nv.tensor_get_buffer(x)[0], n), "pe must be"),
        (lambda: nv.utils.get_size((2,), "float99"), "dtype must be a dtype"),
    ):
        refused(call, nv.NvshmemInvalid, text)
    assert nv.utils.get_size((2, 3), torch.float16) == 12
    for call in (
        lambda: nv.get_multicast_buffer(0, nv.tensor_get_buffer(x)[0]),
        lambda: nv.get_multicast_tensor(0, x),
        lambda: nv.get_multicast_array(0, x),
    ):
        refused(call, NotEmulatedError, "there is no multicast memory here")
    refused(lambda: nv.tensor(1 << 40, torch.uint8), nv.NvshmemError, "tensor: the symmetric heap")
    nv.barrier_all()
    nv.finalize()


def run_different_sizes() -> None:
    _, nv = start()
    nv.tensor(8 + nv.my_pe())


def test_sizes_must_be_the_same_on_every_pe() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        emu.launch(run_different_sizes, 2, preload=["torch"])
    assert caught.group_contains(
        NvshmemError, match="nvshmem.core.tensor: symmetric allocation .* must be the same"
    )


@pytest.mark.parametrize(
    ("run", "n"),
    [(run_tensors, 2), (run_tensors, 3), (run_buffers, 2), (run_arrays, 3), (run_errors, 2)],
)
def test_symmetric_memory(run: Callable[[], None], n: int) -> None:
    emu.launch(run, n, preload=["torch"])
