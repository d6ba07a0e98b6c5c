"""Arrays over the memory of torch tensors, and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emu.accelerator.arrays import as_array, as_dtype, as_type_of, check_together
from emu.comm.errors import ArgumentError

torch = pytest.importorskip("torch")

DTYPES = [
    "bool", "int8", "uint8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_an_array_and_its_tensor_share_memory_and_strides(name: str) -> None:
    base = torch.zeros(4, 6, dtype=getattr(torch, name))
    for tensor in (base, base.t(), base[1:, ::2], base[0, 0]):
        array = as_array("x", tensor)
        assert array.dtype.name == name
        assert array.shape == tuple(tensor.shape)
        assert tuple(s // array.itemsize for s in array.strides) == tensor.stride()
        again = as_type_of(array, tensor)
        assert again.dtype == tensor.dtype
        assert again.stride() == tensor.stride()
        assert again.data_ptr() == tensor.data_ptr()
    assert as_type_of(as_array("x", base[:0]), base).shape == (0, 6)
    as_array("x", base)[1, 2] = 1
    assert base.double().sum() == base[1, 2].double() == 1


def test_what_torch_cannot_hold_is_copied() -> None:
    source = torch.zeros(1)
    backwards = np.arange(4)[::-1]
    assert as_type_of(backwards, source).tolist() == [3, 2, 1, 0]
    fixed = np.arange(4)
    fixed.flags.writeable = False
    result = as_type_of(fixed, source)
    result[0] = 9
    assert fixed[0] == 0
    assert as_type_of(fixed, fixed) is fixed


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.zeros(3).to_sparse(),
        lambda: torch.zeros(3, device="meta"),
        lambda: torch.zeros(3, dtype=torch.complex64).conj(),
    ],
    ids=["sparse", "meta", "lazy conjugate"],
)
def test_tensors_without_plain_memory_are_refused(make: Any) -> None:
    with pytest.raises(ArgumentError, match="x must be a dense tensor in host memory"):
        as_array("x", make())


def test_dtypes_of_both_libraries_are_understood() -> None:
    assert as_dtype("d", torch.bfloat16) == ml_dtypes.bfloat16
    assert as_dtype("d", torch.float16) == as_dtype("d", np.float16) == np.float16
    quantised = [torch.qint8, torch.quint8, torch.qint32]
    assert [as_dtype("d", q).name for q in quantised] == ["int8", "uint8", "int32"]
    for wrong in (None, "nonsense", torch.strided):
        with pytest.raises(ArgumentError, match="d must be a dtype of NumPy or torch"):
            as_dtype("d", wrong)


def test_an_array_among_tensors_is_refused() -> None:
    with pytest.raises(ArgumentError, match="b must be a torch tensor as a is, but got a NumPy"):
        check_together(a=torch.zeros(1), b=np.zeros(1), c=None)
