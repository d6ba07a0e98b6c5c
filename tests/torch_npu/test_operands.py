"""Tensors of one operator call, targets, and unsupported arguments."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu
from emu.comm.errors import ArgumentError
from emu.torch_npu.operands import TensorArguments, as_local, check_supported, check_target


@settings(deadline=None, max_examples=200)
@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    strides=st.lists(st.integers(0, 12), min_size=3, max_size=3),
)
def test_a_target_is_refused_unless_its_elements_lie_apart(
    shape: list[int], strides: list[int]
) -> None:
    memory = np.zeros(64, np.int32)
    steps = [4 * step for step in strides[: len(shape)]]
    view = np.lib.stride_tricks.as_strided(memory, shape, steps)
    places = [
        sum(i * step for i, step in zip(index, steps, strict=True)) for index in np.ndindex(*shape)
    ]
    refusal = ""
    try:
        assert check_target("x", view) is view
    except ArgumentError as error:
        refusal = str(error)
    # The check looks at the axes one by one: it may refuse more than what overlaps, never less.
    if refusal:
        assert refusal.startswith("x must have elements that share no memory")
        assert view.size
    else:
        assert len(set(places)) == len(places)


def test_a_target_must_be_a_writable_tensor() -> None:
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match="x must be writable, but got a read-only array"):
        check_target("x", fixed)
    with pytest.raises(ArgumentError, match="x must be a NumPy array or a torch tensor"):
        check_target("x", [1, 2])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, "1.0"),
        (np.float32(1), "np.float32(1.0)"),
        (None, "None"),
        ([1], "list"),
        (np.ones((2, 2)), "ndarray"),
    ],
)
def test_values_that_only_resemble_a_supported_one_are_refused(value: Any, shown: str) -> None:
    message = f"^a must be 1 or 'one', since it is so, but got {re.escape(shown)}$"
    with pytest.raises(ArgumentError, match=message):
        check_supported("it is so", a=(value, 1, "one"))


def test_an_integer_of_any_type_is_a_supported_value() -> None:
    check_supported("", a=(np.int64(2), 0, 2), b=(True, 1), c=(None, "", None), d=("", ""))


def test_tensors_of_three_axes_are_taken_as_matrices() -> None:
    x, bias = np.arange(24.0).reshape(2, 3, 4), np.zeros((2, 3, 5))
    given_ = TensorArguments({"x": x}, bias=bias, scale=None)
    rows = given_.as_rows("x")
    assert rows.shape == (6, 4)
    assert np.shares_memory(rows, x)
    assert given_.as_rows("bias", "x").shape == (6, 5)
    assert given_["scale"] is given_.as_rows("scale", "x") is None
    assert given_.result(x) is x
    assert given_.result(None) is None
    with pytest.raises(ArgumentError, match=r"x must have the axes of y but the last, \(2, 2\)"):
        TensorArguments({"x": x, "y": np.zeros((2, 2, 4))}).as_rows("x", "y")


def run_symmetric() -> None:
    array = emu.world().alloc((2, 3, 4), np.float32)
    array.local[...] = 7
    given_ = TensorArguments({"x": array})
    assert given_["x"] is array
    assert as_local(array).base is array.local.base
    assert as_local(3) == 3
    assert given_.as_rows("x").shape == (6, 4)
    result = given_.result(array)
    assert isinstance(result, np.ndarray)
    assert (result == 7).all()
    check_target("x", array)[...] = 8
    assert (array.local == 8).all()


def test_symmetric_arrays_stay_what_they_are_until_their_rows_or_memory_are_needed() -> None:
    emu.launch(run_symmetric, 1, preload=["torch"])
