"""Tensors as flat arrays over their memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from emu.comm.errors import ArgumentError

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed")

from emu.accelerator.distributed import memory

NAMES = [
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
    *("uint16", "uint32", "uint64", "bfloat16"),
]


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_and_its_array_have_one_memory_and_dtype(name: str) -> None:
    tensor = torch.zeros(2, 3, dtype=getattr(torch, name))
    array = memory.as_flat_array(tensor)
    assert (array.dtype.name, array.shape) == (name, (6,))
    array[4] = 1
    assert tensor[1, 1] == 1
    assert memory.as_reducible_array(tensor).ctypes.data == array.ctypes.data


@pytest.mark.parametrize("name", ["complex64", "float8_e5m2"])
def test_dtypes_that_the_world_does_not_know_travel_as_bytes(name: str) -> None:
    tensor = torch.zeros(3, dtype=getattr(torch, name))
    array = memory.as_flat_array(tensor)
    assert (array.dtype, array.size) == (np.uint8, tensor.nbytes)
    with pytest.raises(TypeError, match=rf"not supported for a reduction: torch.{name}"):
        memory.as_reducible_array(tensor)


@pytest.mark.parametrize("axes", [2, 3])
def test_channels_last_tensors_are_taken_in_the_order_of_their_memory(axes: int) -> None:
    form = {2: torch.channels_last, 3: torch.channels_last_3d}[axes]
    shape = (2, 3, *[4] * axes)
    plain = torch.arange(float(np.prod(shape))).reshape(shape)
    tensor = plain.to(memory_format=form)
    array = memory.as_flat_array(tensor)
    assert array.ctypes.data == tensor.data_ptr()
    assert array.tolist() == plain.movedim(1, -1).flatten().tolist()


def test_memory_with_gaps_or_without_elements_in_place_is_refused() -> None:
    with pytest.raises(ValueError, match=r"contiguous, but got shape \(3,\) with strides \(4,\)"):
        memory.as_flat_array(torch.zeros(3, 4)[:, 0])
    with pytest.raises(ValueError, match=r"dense, but got layout torch.sparse_coo"):
        memory.as_flat_array(torch.zeros(3).to_sparse())
    with pytest.raises(ValueError, match=r"lazily conjugated"):
        memory.as_flat_array(torch.zeros(3, dtype=torch.complex64).conj())


def test_dtypes_and_sizes_that_differ_are_named() -> None:
    half, single = torch.zeros(4, dtype=torch.bfloat16), torch.zeros(4)
    memory.check_same_dtype(single, single)
    with pytest.raises(
        TypeError, match=r"identical type, but got torch.float32 and torch.bfloat16"
    ):
        memory.check_same_dtype(single, half)
    memory.check_element_count(half, 4, "output")
    with pytest.raises(ArgumentError, match=r"output must have 5 elements, but got 4"):
        memory.check_element_count(half, 5, "output")
    assert memory.as_flat_array(half).dtype == ml_dtypes.bfloat16
