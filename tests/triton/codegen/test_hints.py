"""Errors about Python that kernels do not have say what to write instead, at the place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.compiler import CompilationError

SIZE = 7


def host_function(x: Any) -> Any:
    return x + 1


@triton.jit
def helper(a, b):
    return a + b


@triton.jit
def part_of_a_tensor(x, n):
    a = tl.arange(0, 8)
    a[0:4]


@triton.jit
def element_of_a_pointer(x, n):
    x[0]


@triton.jit
def shape_of_a_pointer(x, n):
    x.shape[0]


@triton.jit
def size_of_a_pointer(x, n):
    x.size(0)


@triton.jit
def stride_of_a_pointer(x, n):
    x.stride(0)


@triton.jit
def length_of_a_pointer(x, n):
    len(x)


@triton.jit
def set_an_element(x, n):
    x[0] = 1


@triton.jit
def set_an_attribute(x, n):
    x.value = 1


@triton.jit
def python_math(x, n):
    math.exp(tl.load(x))


@triton.jit
def numpy_function(x, n):
    np.exp(tl.load(x))


@triton.jit
def numpy_array(x, n):
    tl.load(x + np.arange(8))


@triton.jit
def no_such_function(x, n):
    tl.mean(tl.load(x + tl.arange(0, 8)))


@triton.jit
def library_function(x, n):
    tl.tanh(tl.load(x))


@triton.jit
def no_module(x, n):
    zeros((8,), tl.float32)  # noqa: F821 - the mistake


@triton.jit
def sum_of_python(x, n):
    sum(tl.arange(0, 8))


@triton.jit
def enumerated(x, n):
    for i, j in enumerate((1, 2)):
        tl.store(x + i, j)


@triton.jit
def function_of_the_host(x, n):
    host_function(tl.load(x))


@triton.jit
def astype(x, n):
    tl.arange(0, 8).astype(tl.float32)


@triton.jit
def dtype_of_numpy(x, n):
    tl.zeros((8,), np.float32)


@triton.jit
def dtype_of_python(x, n):
    tl.arange(0, 8).to(float)


@triton.jit
def runtime_extent(x, n):
    tl.zeros((n, 4), tl.float32)


@triton.jit
def runtime_end(x, n):
    tl.arange(0, n)


@triton.jit
def lacking_axis(x, n):
    rows = tl.arange(0, 4)
    tl.load(x + rows[:, None] * 4 + tl.arange(0, 8)[None, :], mask=rows < n)


@triton.jit
def scalar_pointer(x, n):
    tl.load(x, mask=tl.arange(0, 8) < n)


@triton.jit
def number_for_a_pointer(x, n):
    tl.store(n + tl.arange(0, 8), 1)


@triton.jit
def pointer_for_a_value(x, n):
    tl.store(x, x)


@triton.jit
def dim_for_axis(x, n):
    tl.sum(tl.arange(0, 8), dim=0)


@triton.jit
def other_dtype_in_a_loop(x, n):
    total = 0
    for i in range(n):
        total += i * 0.5


@triton.jit
def other_shape_in_a_loop(x, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x + i + tl.arange(0, 8))


@triton.jit
def over_a_list(x, n):
    for i in [1, 2]:
        tl.store(x, i)


@triton.jit
def else_of_a_loop(x, n):
    for i in range(n):
        tl.store(x, i)
    else:  # noqa: PLW0120 - the mistake
        tl.store(x, 0)


@triton.jit
def return_in_a_loop(x, n):
    for i in range(n):
        if i == 3:
            return


@triton.jit
def matrices(x, n):
    a = tl.zeros((16, 16), tl.float32)
    a @ a


@triton.jit
def contained(x, n):
    if n in (1, 2):
        tl.store(x, 1)


@triton.jit
def text_of_a_tensor(x, n):
    print(f"n is {n}")


@triton.jit
def comprehension(x, n):
    [i + 1 for i in range(4)]


@triton.jit
def counted_comprehension(x, n):
    [i + 1 for i in range(n)]


@triton.jit
def maximum_of_one(x, n):
    max(tl.arange(0, 8))


@triton.jit
def global_of_the_host(x, n):
    tl.store(x, SIZE)


CASES = [
    (
        part_of_a_tensor,
        "a[0:4]",
        "a part of a tensor cannot be taken: load that part, or choose by tl.where",
    ),
    (element_of_a_pointer, "x[0]", r"x is an address: tl.load(x + offset) reads an element"),
    (shape_of_a_pointer, "x.shape[0]", "x is no block: pass extents of memory as arguments"),
    (size_of_a_pointer, "x.size", "x is an address: pass size as an argument of the kernel"),
    (stride_of_a_pointer, "x.stride", "x is an address: pass stride as an argument of the kernel"),
    (length_of_a_pointer, "len(x)", "got an address; pass the length as an argument"),
    (set_an_element, "x[0]", "tl.store(pointer + offset, value) writes to memory"),
    (
        set_an_attribute,
        "x.value",
        "Attribute assignment is not supported in triton; use a variable",
    ),
    (
        python_math,
        "math.exp",
        "math.exp is Python's, and runs when the kernel is compiled; it cannot take fp32[]; write tl.exp",
    ),
    (numpy_function, "np.exp", "it cannot take fp32[]; write tl.exp"),
    (numpy_array, "x + np", "an array is no value of a kernel: pass it as an argument"),
    (no_such_function, "tl.mean", "has no 'mean'; write tl.sum(x, axis) / n"),
    (library_function, "tl.tanh", "did you mean tl.extra.libdevice.tanh?"),
    (no_module, "zeros", "zeros is not defined; did you mean tl.zeros?"),
    (sum_of_python, "sum(", "sum is not defined; write tl.sum(x, axis)"),
    (enumerated, "enumerate", "write `for i in tl.static_range(len(xs))` and xs[i]"),
    (function_of_the_host, "host_function", "It is of type function: decorate it with @triton.jit"),
    (astype, "tl.arange(0, 8).astype", "write tl.arange(0, 8).to(dtype)"),
    (dtype_of_numpy, "tl.zeros", "got float32; write tl.float32"),
    (dtype_of_python, "tl.arange(0, 8).to", "got float; write tl.float32"),
    (runtime_extent, "tl.zeros", "declare it `n: tl.constexpr`"),
    (runtime_end, "tl.arange", "declare it `n: tl.constexpr` and mask what is too many"),
    (lacking_axis, "tl.load", "x[:, None] or x[None, :] gives a tensor another axis"),
    (scalar_pointer, "tl.load", "pointer + tl.arange(...) is a tensor of pointers"),
    (
        number_for_a_pointer,
        "tl.store",
        "but got int32[8]; an array or a tensor that is passed to a kernel becomes a pointer",
    ),
    (pointer_for_a_value, "tl.store", "tl.load(pointer) what is there"),
    (dim_for_axis, "tl.sum", "unexpected keyword argument 'dim'; did you mean axis?"),
    (other_dtype_in_a_loop, "for i", "Before the loop write total = tl.full([], 0, tl.float32)."),
    (other_shape_in_a_loop, "for i", "Before the loop write total = tl.zeros([8], tl.float32)."),
    (over_a_list, "[1, 2]", "a tuple's items are xs[i] for i in tl.static_range(len(xs))"),
    (else_of_a_loop, "tl.store(x, 0)", "write the statements behind the loop"),
    (return_in_a_loop, "if i", "Use a `while` whose condition ends the loop"),
    (matrices, "a @ a", "Write tl.dot(a, b)."),
    (contained, "n in", "Compare with == and join by `or`."),
    (text_of_a_tensor, "{n}", 'tl.device_print("prefix: ", x) prints values'),
    (comprehension, "[i + 1 for", "only tuple comprehensions are supported"),
    (counted_comprehension, "range(n)", "only a `for` statement counts to a run-time value"),
    (maximum_of_one, "max(", "tl.max(x, axis) reduces one"),
    (global_of_the_host, "SIZE", "instantiated as constexpr"),
]


@pytest.mark.parametrize(("kernel", "at", "said"), CASES, ids=[k.__name__ for k, _, _ in CASES])
def test_mistakes_are_answered_at_their_place(kernel: Any, at: str, said: str) -> None:
    x = np.zeros(64, np.float32)
    with pytest.raises(CompilationError) as caught:
        kernel[(1,)](x, 5)
    head, line, caret, *message = str(caught.value).split("\n")
    assert f"in {kernel.__name__}, at " in head
    assert line[len(caret) - 1 :].startswith(at) or (at in line and at == "{n}")
    assert said in " ".join(message)
    assert not x.any()


def test_functions_of_python_still_compute_with_what_is_known() -> None:
    @triton.jit
    def kernel(x, N: tl.constexpr):
        tl.store(x, math.sqrt(N))

    x = np.zeros(1, np.float32)
    kernel[(1,)](x, 16)
    assert x[0] == 4
