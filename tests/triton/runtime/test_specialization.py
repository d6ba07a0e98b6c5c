"""What of an argument launches look at, as programs ask for it."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

import emu.triton.language as tl
from emu import triton
from emu.triton.backends.compiler import BaseBackend
from emu.triton.runtime.jit import mangle_type, native_specialize_impl
from emu.triton.tools.tensor_descriptor import TensorDescriptor

Strides = namedtuple("Strides", ["x", "y"])


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (None, ("constexpr", None)),
        (True, ("u1", None)),
        (np.bool_(False), ("u1", None)),
        (1, ("constexpr", 1)),
        (0, ("i32", "D")),
        (16, ("i32", "D")),
        (17, ("i32", "")),
        (-(2**31), ("i32", "D")),
        (2**31, ("i64", "D")),
        (2**63 - 1, ("i64", "")),
        (2**64 - 1, ("u64", "")),
        (1.5, ("fp32", None)),
        (np.float64(1.5), ("fp32", None)),
        ((1, True), (("constexpr", "u1"), (1, None))),
        (Strides(2, 16), (("i32", "i32"), ("", "D"))),
    ],
)
def test_numbers_and_tuples(value: Any, meaning: Any) -> None:
    assert native_specialize_impl(BaseBackend, value, False, True, True) == meaning
    assert type(native_specialize_impl(BaseBackend, value, False, True, True)[0]) is type(
        meaning[0]
    ) or isinstance(value, Strides)


def test_tensors() -> None:
    x = torch.zeros(64, dtype=torch.float16)
    assert native_specialize_impl(BaseBackend, x, False, True, True) == ("*fp16", "D")
    assert native_specialize_impl(BaseBackend, x[1:], True, True, True) == ("*kfp16", "")
    assert native_specialize_impl(BaseBackend, x, False, False, True) == ("*fp16", None)
    descriptor = TensorDescriptor.from_tensor(x.reshape(8, 8), [4, 8])
    assert native_specialize_impl(BaseBackend, descriptor, False, True, True) == (
        "tensordesc<fp16[4, 8]>",
        None,
    )
    assert mangle_type(torch.zeros(1, dtype=torch.bool)) == "*u1"


def test_names_of_types() -> None:
    assert mangle_type(1) == "i32"
    assert mangle_type(1, specialize=True) == "constexpr"
    assert mangle_type(triton.jit(test_names_of_types)) == "constexpr"
    assert mangle_type(tl.constexpr(3)) == "constexpr"


def test_what_cannot_be_passed() -> None:
    with pytest.raises(TypeError, match="arg must be what a kernel takes, but got 'a'"):
        mangle_type("a")
    with pytest.raises(OverflowError, match="must fit into 64 bits"):
        mangle_type(2**64)
