"""Enumerations of a message: their numbers, and the data types' NumPy dtypes."""

import ml_dtypes
import numpy as np
import pytest

from emu.comm.errors import ArgumentError
from emu.comm.tiling import (
    HcclCommand,
    HcclDataType,
    HcclReduceOp,
    UseBufferType,
)
from emu.kernels.core.dtypes import ALL, BY_NAME


@pytest.mark.parametrize(
    ("member", "dtype"),
    [
        (HcclDataType.INT8, np.int8), (HcclDataType.INT16, np.int16), (HcclDataType.INT32, np.int32),
        (HcclDataType.FP16, np.float16), (HcclDataType.FP32, np.float32),
        (HcclDataType.INT64, np.int64), (HcclDataType.UINT64, np.uint64),
        (HcclDataType.UINT8, np.uint8), (HcclDataType.UINT16, np.uint16),
        (HcclDataType.UINT32, np.uint32), (HcclDataType.FP64, np.float64),
        (HcclDataType.BF16, ml_dtypes.bfloat16),
    ],
)  # fmt: skip
def test_data_types_are_those_of_numpy(member, dtype):
    assert member.numpy == np.dtype(dtype)
    assert HcclDataType.from_numpy(dtype) is member
    assert member.itemsize == np.dtype(dtype).itemsize


@pytest.mark.parametrize("dtype", [np.bool_, np.complex64, ">f4", ml_dtypes.float8_e5m2, "S4"])
def test_other_data_types_are_refused(dtype):
    with pytest.raises(ArgumentError, match=r"dtype must be one of int8, .* bfloat16, but got"):
        HcclDataType.from_numpy(dtype)


def test_enumerations_have_the_numbers_of_the_table():
    assert [command.value for command in HcclCommand] == [*range(1, 14), 16, 17]
    assert (HcclCommand.ALLGATHER, HcclCommand.ALLTOALL) == (6, 10)
    assert [op.name for op in HcclReduceOp] == ["SUM", "PROD", "MAX", "MIN"]
    assert [int(op) for op in HcclReduceOp] == [0, 1, 2, 3]
    assert [int(kind) for kind in HcclDataType] == list(range(12))
    assert (UseBufferType.WINDOW_IN, UseBufferType.COMM_OUT) == (2, 6)


def test_data_types_are_those_that_the_kernels_describe():
    """The package loads no NumPy and so derives names and sizes itself; there is one table of dtypes."""
    assert {d.hccl for d in ALL if d.hccl is not None} == set(HcclDataType.__members__)
    for kind in HcclDataType:
        described = BY_NAME[kind.numpy.name]
        assert (described.hccl, described.bits) == (kind.name, 8 * kind.itemsize)
