"""Conversions: PyPTO programs get the bits of the kernels."""

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.cast import cast
from emu.pypto.dtypes import DT_BF16, DT_FP16, DT_FP32, DT_FP64, convert

FLOATS = (DT_FP16, DT_BF16, DT_FP32, DT_FP64)
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def awkward_values(dtype):
    """Return every value of a half, or values at and around the ties of halves."""
    halves = np.arange(2**16, dtype=np.uint16)
    if dtype.itemsize == 2:
        return halves.view(dtype.np_dtype)
    with np.errstate(all="ignore"):
        every = [halves.view(d).astype(dtype.np_dtype) for d in (np.float16, ml_dtypes.bfloat16)]
        ties = [x * dtype.np_dtype.type(1 + 2.0**-k) for x in every for k in (8, 9, 11, 12)]
        return np.concatenate(
            [f(x) for x in ties for f in (np.asarray, lambda x: np.nextafter(x, 0))]
        )


@pytest.mark.parametrize("target", FLOATS, ids=repr)
@pytest.mark.parametrize("source", FLOATS, ids=repr)
def test_floats_have_the_bits_of_the_kernels(source, target):
    values = awkward_values(source)
    with np.errstate(all="ignore"):
        found = convert(values, target)
    wanted = cast(values, target.np_dtype)
    bits = BITS[target.itemsize]
    assert (found.view(bits) == wanted.view(bits)).all()


def test_a_double_is_rounded_once_to_bfloat16():
    # By way of fp32 it would become a tie, and round down to even.
    above_a_tie = np.array([1 + 2.0**-8 + 2.0**-40])
    assert convert(above_a_tie, DT_BF16).astype(float)[0] == 1 + 2.0**-7


def test_unaligned_elements_are_converted():
    memory = np.zeros(17, np.uint8)
    values = memory[1:].view(np.float32)
    values[:] = 1.5
    assert not values.flags.aligned
    assert (convert(values, DT_FP16) == 1.5).all()


def test_an_array_of_the_same_type_is_returned_as_it_is():
    values = np.ones(3, np.float32)
    assert convert(values, DT_FP32) is values
    assert convert(values, DT_FP64) is not values
