"""Arrays outside of a program: what is taken for one, and handles that are no NumPy arrays."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import emu.sdy
from emu.sdy.execution.arrays import DeviceArray, to_array
from emu.sdy.execution.errors import ExecutionError

TEXT = "func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
X = np.array([1, 2], np.float32)


def handle() -> DeviceArray:
    (found,) = emu.sdy.compile(emu.sdy.parse(TEXT))(X, gather=False)
    return found


def test_a_mask_is_not_dropped_silently() -> None:
    with pytest.raises(ExecutionError, match=r"input 0 must be an array without a mask.*filled"):
        to_array("input 0", np.ma.masked_array(X, [True, False]))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_there_is_one_handle_for_one_result(duplicate) -> None:
    with pytest.raises(ExecutionError, match="cannot be copied or pickled: its numpy"):
        duplicate(handle())


def test_numpy_gets_copies_only() -> None:
    found = handle()
    np.testing.assert_array_equal(np.asarray(found, np.float64), X)
    with pytest.raises(ValueError, match="copy must be True or None"):
        found.__array__(copy=False)


def test_a_donated_handle_is_named_as_the_input_that_it_is() -> None:
    found = handle()
    assert not found.is_donated
    found.donate()
    assert found.is_donated
    with pytest.raises(ExecutionError, match=r"input 0 is DeviceArray.* was donated to a call"):
        emu.sdy.run(emu.sdy.parse(TEXT), found)
    with pytest.raises(ExecutionError, match="input 0: shard 1 must be an array of numbers"):
        emu.sdy.run(emu.sdy.parse(TEXT), [X, None])
