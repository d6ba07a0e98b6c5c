"""Checks of device arrays, which need no device: the arrays here have no memory."""

from __future__ import annotations

import numpy as np
import pytest

from emu.kernels.cuda.arrays import DeviceArray
from emu.kernels.cuda.checks import check_aligned, check_apart, check_tile, check_written
from emu.kernels.errors import ArgumentError


def array(address=4096, shape=(4, 6), strides=(24, 4), dtype=np.float32, **options):
    return DeviceArray(address, shape, strides, np.dtype(dtype), None, **options)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (array(8192, (6, 4)), r"source must have target's shape \(4, 6\)"),
        (array(8192, dtype=np.int32), "source must have target's dtype float32"),
        (array(8194), "source must have an address and strides that are multiples"),
        (array(4100), "source must share no memory with target"),
    ],
)
def test_a_source_that_does_not_fit_its_target_is_refused(source, message):
    with pytest.raises(ArgumentError, match=message):
        check_tile(array(), source)


def test_a_target_must_be_writable_and_apart_from_itself():
    with pytest.raises(ArgumentError, match="out must be writable"):
        check_written(array(read_only=True), "out")
    with pytest.raises(ArgumentError, match="out must not overlap itself"):
        check_written(array(strides=(4, 4)), "out")
    with pytest.raises(ArgumentError, match="target must have rank 1 to 8"):
        check_tile(array(shape=(), strides=()), array(shape=(), strides=()))
    check_written(array(strides=(-24, -4)), "out")


def test_what_lies_between_the_elements_is_no_overlap():
    target = array(4096, (4, 3), (24, 8))
    check_apart(target, array(4100, (4, 3), (24, 8)), "source")
    check_tile(target, array(4100, (4, 3), (24, 8)))
    check_apart(target, array(4096, (0, 3), (24, 8)), "source")
    # The stride of an axis of one element means nothing.
    check_aligned(array(4096, (1, 6), (3, 4)), "x")


def test_eight_bit_floats_are_set_and_not_added():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    tiles = [array(at, strides=(6, 1), dtype=ml_dtypes.float8_e5m2) for at in (4096, 8192)]
    check_tile(*tiles)
    with pytest.raises(ArgumentError, match="target must have dtype"):
        check_tile(*tiles, sums=True)
