"""Tensors that are views of NumPy arrays: checks of addresses know all of the array."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton import OutOfBoundsError
from emu.triton.runtime.numpy_memory import keepers

torch = pytest.importorskip("torch")


@triton.jit
def shift(x_ptr, by, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i + by, i.to(tl.float32))


LENDERS = {
    "array": lambda a: a,
    "from_numpy": torch.from_numpy,
    "frombuffer": lambda a: torch.frombuffer(a, dtype=torch.float32),
    "from_dlpack": torch.from_dlpack,
}


@pytest.mark.parametrize("make", LENDERS.values(), ids=LENDERS)
def test_bounds_are_those_of_the_array(make):
    base = np.zeros(64, np.float32)
    x = make(base[20:40])
    for by, good in ((0, True), (-20, True), (28, True), (-21, False), (29, False)):
        base[:] = -1
        if good:
            shift[(1,)](x, by, BLOCK=16, check="bounds")
            assert base[20 + by : 36 + by].tolist() == list(range(16))
        else:
            with pytest.raises(OutOfBoundsError, match="256 bytes"):
                shift[(1,)](x, by, BLOCK=16, check="bounds")


def test_what_a_storage_keeps():
    found = keepers(torch)
    array = np.zeros(10, np.float32)
    assert found.find(torch.from_numpy(array).untyped_storage()) is array
    buffer = bytearray(40)
    kept = found.find(torch.frombuffer(buffer, dtype=torch.float32).untyped_storage())
    assert kept is buffer
    for tensor in (torch.zeros(3), torch.zeros(0), torch.from_dlpack(torch.zeros(3))):
        assert found.find(tensor.untyped_storage()) is None


def test_looking_keeps_nothing_alive():
    array = np.zeros(10, np.float32)
    gone = weakref.ref(array)
    tensor = torch.from_numpy(array)
    assert keepers(torch).find(tensor.untyped_storage()) is array
    del array
    gc.collect()
    assert gone() is not None
    del tensor
    gc.collect()
    assert gone() is None
