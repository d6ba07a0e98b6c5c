"""Checks of operands, without PEs: what is accepted comes back as it is, what is not is named."""

from __future__ import annotations

import numpy as np
import pytest

from emu.comm.errors import ArgumentError
from emu.mc2 import arguments
from emu.mc2.arguments import BOOL, FLOAT16, FLOAT32, HALVES, INT8, INT32


@pytest.mark.parametrize(
    ("value", "number"), [(1, 1.0), (np.float16(0.5), 0.5), (True, 1.0), (-(2**70), -(2.0**70))]
)
def test_finite_numbers_become_floats(value, number):
    assert arguments.check_finite("epsilon", value) == number


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinity_and_nan_are_no_finite_numbers(value):
    with pytest.raises(ArgumentError, match="epsilon must be a finite number, but got"):
        arguments.check_finite("epsilon", value)


def test_memory_of_a_subclass_is_its_plain_array():
    given = np.zeros(3).view(np.recarray)
    local = arguments.local_memory("x1", given)
    assert type(local) is np.ndarray
    assert np.shares_memory(local, given)
    with pytest.raises(ArgumentError, match="x1 must be an array without a mask"):
        arguments.local_memory("x1", np.ma.zeros(3))


def test_shapes_are_checked_extent_by_extent_but_for_those_with_a_name():
    value = np.zeros((3, 5), np.float16)[:, ::2]
    assert arguments.check_array("x", value, ("rows", 3), HALVES) is value
    with pytest.raises(ArgumentError, match=r"x must have shape \[rows, 4\], but got \(3, 3\)"):
        arguments.check_array("x", value, ("rows", 4), HALVES)
    with pytest.raises(ArgumentError, match=r"x must have shape \[rows\], but got \(3, 3\)"):
        arguments.check_array("x", value, ("rows",), HALVES)
    with pytest.raises(ArgumentError, match="x must have one of the dtypes int8, bool, but got"):
        arguments.check_array("x", value, (3, 3), (INT8, BOOL))


@pytest.mark.parametrize("shape", [(4,), (4, 1), (1, 4)])
def test_a_second_axis_of_one_element_is_dropped_from_a_vector(shape):
    found = arguments.check_vector("bias", np.ones(shape, np.int32), (1, 4), (INT32,))
    assert found is not None
    assert found.shape == (4,)


def test_vectors_have_one_of_their_lengths():
    assert arguments.check_vector("bias", None, (4,), (INT32,)) is None
    for shape in ((3,), (2, 2), (), (4, 1, 1)):
        with pytest.raises(ArgumentError, match="bias must be a vector of 1 or 4 elements"):
            arguments.check_vector("bias", np.ones(shape, np.int32), (1, 4), (INT32,))


def test_results_are_made_or_taken_as_they_are():
    made = arguments.check_output("y", None, (2, 3), FLOAT16)
    assert (made.shape, made.dtype) == ((2, 3), FLOAT16)
    assert arguments.check_output("y", made, (2, 3), FLOAT16) is made
    frozen = made.copy()
    frozen.flags.writeable = False
    for given, text in (
        (made, r"y must have shape \(3, 2\), but got \(2, 3\)"),
        (np.zeros((3, 2), FLOAT32), "y must have dtype float16, but got float32"),
        (np.zeros((2, 3), FLOAT16).T, "y must be C-contiguous, but got strides"),
        (frozen.reshape(3, 2), "y must be writable, but got a read-only array"),
    ):
        with pytest.raises(ArgumentError, match=text):
            arguments.check_output("y", given, (3, 2), FLOAT16)


def test_results_share_memory_with_nothing_that_is_read_or_written():
    memory = np.zeros(8, np.float16)
    arguments.check_disjoint({"y": memory[:4], "out": None}, {"x1": memory[4:], "bias": None})
    with pytest.raises(ArgumentError, match="y must not share memory with x1"):
        arguments.check_disjoint({"y": memory[:5]}, {"x1": memory[4:]})
    with pytest.raises(ArgumentError, match="y must not share memory with out"):
        arguments.check_disjoint({"y": memory[:5], "out": memory[4:]}, {})


def test_extents_are_divided_without_a_rest():
    assert arguments.divide_evenly("m", 12, 4, "the rows of x1") == 3
    with pytest.raises(ArgumentError, match="m must be divisible by the group's size of 4, but got 13, the rows of x1"):  # fmt: skip
        arguments.divide_evenly("m", 13, 4, "the rows of x1")


@pytest.mark.parametrize("dtype", [None, "float16", FLOAT16])
def test_half_dtypes_are_named_in_any_way(dtype):
    assert arguments.check_half_dtype("y_dtype", dtype, FLOAT16) == FLOAT16


@pytest.mark.parametrize("dtype", ["float32", np.int16])
def test_other_dtypes_are_no_half_dtypes(dtype):
    with pytest.raises(ArgumentError, match="y_dtype must be float16 or bfloat16, but got"):
        arguments.check_half_dtype("y_dtype", dtype, FLOAT16)
