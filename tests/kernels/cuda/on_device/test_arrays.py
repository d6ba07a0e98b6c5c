"""Arrays in device memory: the same contents, layouts and views as on the host."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numba import cuda

from emu.kernels.core.dtypes import DTYPES
from emu.kernels.cuda.arrays import empty, place, to_device
from emu.kernels.errors import ArgumentError

EVERY = [*DTYPES, np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(np.complex64)]


def sample(shape, dtype, seed=0):
    n = int(np.prod(shape)) * dtype.itemsize
    bits = np.random.default_rng(seed).integers(0, 256, n, np.uint8)
    if dtype == bool:
        bits &= 1
    return bits.view(dtype).reshape(shape)


def bytes_of(array):
    return np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("dtype", EVERY, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (4, 5), (2, 1, 3)])
def test_contents_and_dtype_survive_the_way_there_and_back(dtype, shape):
    host = sample(shape, dtype)
    back = to_device(host).copy_to_host()
    assert (back.dtype, back.shape) == (host.dtype, host.shape)
    assert bytes_of(back) == bytes_of(host)


def test_any_layout_is_copied_to_the_device():
    host = np.arange(60).reshape(3, 4, 5).transpose(2, 0, 1)[::-1, :, ::2]
    assert np.array_equal(to_device(host).copy_to_host(), host)


@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_views_are_those_of_numpy(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=5))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    host = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    view = to_device(host)[index]
    expected = host[index]
    assert view.shape == np.shape(expected)
    assert np.array_equal(view.copy_to_host(), expected)
    assert np.array_equal(view.T.copy_to_host(), np.transpose(expected))


def test_a_view_keeps_its_memory_alive_and_shares_it():
    array = to_device(np.zeros((4, 4), np.float32))
    row = array[1:2]
    assert row.address == array.address + 16
    assert row.owner is array.owner
    assert np.array_equal(array.transpose(1, 0)[2].copy_to_host(), np.zeros(4))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_are_an_array_for_a_kernel(dtype):
    host = sample((3, 4), dtype)
    bits = to_device(host)[1:, ::2].bits
    known = dtype.kind in "iuf" and dtype not in (np.float16, ml_dtypes.bfloat16)
    assert bits.dtype == (dtype if known else f"u{dtype.itemsize}")
    assert bytes_of(bits.copy_to_host()) == bytes_of(host[1:, ::2])


@pytest.mark.parametrize("dtype", [np.float16, np.int64, ml_dtypes.bfloat16])
def test_numbas_arrays_are_taken_as_they_are(dtype):
    host = np.arange(12).reshape(3, 4).astype(dtype)
    theirs = cuda.to_device(host.view(f"u{host.itemsize}"))[1:, 1:3]
    ours = place(theirs, "x")
    assert np.array_equal(ours.copy_to_host(), host.view(f"u{host.itemsize}")[1:, 1:3])


class Foreign:
    def __init__(self, array, **change):
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, **change}


def test_the_cuda_array_interface_is_taken():
    array = to_device(np.arange(12, dtype=np.float16).reshape(3, 4))
    seen = place(Foreign(array[:, ::-1]), "x")
    assert seen.dtype == np.float16
    assert np.array_equal(seen.copy_to_host(), array.copy_to_host()[:, ::-1])
    dense = place(Foreign(array, strides=None), "x")
    assert dense.strides == (8, 2)
    assert place(Foreign(array, data=(array.address, True)), "x").read_only


def test_what_is_not_in_device_memory_is_refused():
    with pytest.raises(ArgumentError, match=r"^x must be in device memory .*numpy.ndarray"):
        place(np.zeros(3), "x")
    with pytest.raises(ArgumentError, match=r"^x must be without a mask"):
        place(Foreign(empty(3, np.int8), mask=object()), "x")
    with pytest.raises(ArgumentError, match=r"^array must be a NumPy array, but got list"):
        to_device([1, 2])


@pytest.mark.parametrize("index", [[0, 1], (0, [1]), True, 1.5])
def test_an_index_that_makes_no_view_is_refused(index):
    with pytest.raises(TypeError, match="an index must be"):
        empty((3, 3), np.int8)[index]
