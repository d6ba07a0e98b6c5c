"""Tensors over memory that an object describes by ``__cuda_array_interface__``."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import emu.accelerator

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def devices() -> Iterator[None]:
    emu.accelerator.install()
    yield
    emu.accelerator.uninstall()


class Described:
    """Memory of another library."""

    def __init__(self, array: np.ndarray[Any, Any], **fields: object) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "data": (array.ctypes.data, False),
            "shape": array.shape,
            "typestr": array.dtype.str,
            "version": 3,
            **fields,
        }


@pytest.mark.parametrize("make", ["as_tensor", "asarray"])
def test_the_tensor_is_on_the_device_and_shares_the_memory(make: str) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = getattr(torch, make)(Described(array), device="cuda")
    assert tensor.device == torch.device("cuda", 0)
    tensor += 1
    assert array.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_strides_are_kept() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    tensor = torch.as_tensor(Described(array.T, strides=array.T.strides), device="cuda")
    assert tensor.tolist() == array.T.tolist()


def test_the_object_lives_as_long_as_the_tensor() -> None:
    owner = Described(np.ones(4, np.int64))
    alive = weakref.ref(owner)
    tensor = torch.as_tensor(owner, device="cuda")[1:]
    del owner
    gc.collect()
    assert alive() is not None
    del tensor
    gc.collect()
    assert alive() is None


def test_a_copy_is_one() -> None:
    array = np.zeros(3, np.float32)
    for copy in (
        torch.tensor(Described(array), device="cuda"),
        torch.as_tensor(Described(array), device="cpu"),
    ):
        array += 1
        assert copy.tolist() != array.tolist()
    assert not copy.is_cuda


def test_what_lacks_is_named() -> None:
    owner = Described(np.zeros(3, np.float32))
    del owner.__cuda_array_interface__["typestr"]
    with pytest.raises(TypeError, match="must have 'typestr'"):
        torch.as_tensor(owner, device="cuda")


def test_other_sources_are_torchs() -> None:
    assert torch.as_tensor([1, 2]).tolist() == [1, 2]
    assert torch.as_tensor(np.ones(2), device="cuda").is_cuda
    assert torch.tensor([1.0], pin_memory=True).is_pinned()
