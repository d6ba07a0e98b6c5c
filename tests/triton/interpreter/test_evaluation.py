"""Operations that are evaluated when they are appended: combine functions behave as in compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.tile.reference.interpreter import ExecutionError
from emu.triton import InterpreterError


@triton.jit
def printing(a, b):
    tl.device_print("a", a)
    return a + b


@triton.jit
def python_printing(a, b):
    print("a", a)
    return a + b


@triton.jit
def adding(a, b):
    tl.atomic_add(tl.cast(0, tl.pointer_type(tl.float32)), a)
    return a + b


@triton.jit
def storing(a, b):
    tl.store(tl.cast(0, tl.pointer_type(tl.float32)), a)
    return a + b


@triton.jit
def combining(x_ptr, out_ptr, FUNCTION: tl.constexpr, REDUCES: tl.constexpr):
    i = tl.arange(0, 64)
    x = tl.load(x_ptr + i)
    if REDUCES:
        tl.store(out_ptr, tl.reduce(x, 0, FUNCTION))
    else:
        tl.store(out_ptr + i, tl.associative_scan(x, 0, FUNCTION))


@pytest.mark.parametrize("reduces", [True, False])
@pytest.mark.parametrize(
    ("function", "effect"),
    [(printing, "print"), (adding, "have atomic operations"), (storing, "store to memory")],
)
def test_effects_in_combine_functions_are_refused_as_in_compiled_kernels(function, effect, reduces):
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    what = "a reduction" if reduces else "a scan"
    said = f"the combine function of {what} must not {effect}"
    for interpret, error in ((True, InterpreterError), (False, triton.CompilationError)):
        with pytest.raises(error, match=said):
            combining[(1,)](x, out, function, reduces, interpret=interpret)
    assert not out.any()


def test_prints_of_python_show_what_an_interpreted_combine_function_gets(capsys):
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    combining[(1,)](x, out, python_printing, True, interpret=True)
    assert out[0] == 64
    assert capsys.readouterr().out.startswith("a [1. 1. ")


@triton.jit
def asserting(a, b):
    assert a < 10, "a is too large"
    tl.device_assert(b < 10, "b is too large")
    return tl.maximum(a, b)


@pytest.mark.parametrize("reduces", [True, False])
@pytest.mark.parametrize(
    "mode", [{"interpret": True}, {"debug": True}, {"debug": True, "backend": "reference"}], ids=str
)
def test_assertions_in_combine_functions_are_checked(reduces, mode):
    x, out = np.arange(64, dtype=np.float32) % 8, np.zeros(64, np.float32)
    combining[(1,)](x, out, asserting, reduces, **mode)
    wanted, out = out, np.zeros(64, np.float32)
    combining[(1,)](x, out, asserting, reduces, **{**mode, "debug": False})
    np.testing.assert_array_equal(out, wanted)
    x[37] = 11
    with pytest.raises((AssertionError, ExecutionError), match="is too large"):
        combining[(1,)](x, out, asserting, reduces, **mode)
    combining[(1,)](x, out, asserting, reduces, **{**mode, "debug": False})
    assert out.max() == 11


@triton.jit
def asserting_in_a_branch(a, b):
    if a > 5:
        tl.device_assert(b < 10)
    return tl.maximum(a, b)


def test_an_assertion_in_a_branch_of_a_combine_function_is_refused_where_it_would_count():
    x, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    with pytest.raises(triton.CompilationError, match="must not assert inside an `if`"):
        combining[(1,)](x, out, asserting_in_a_branch, True, debug=True)
    combining[(1,)](x, out, asserting_in_a_branch, True)
    assert out[0] == 1


@triton.jit
def asserting_of_pairs(a, i, b, j):
    tl.device_assert(i != j)
    return tl.where(a > b, a, b), tl.where(a > b, i, j)


@triton.jit
def largest(x_ptr, place_ptr, out_ptr):
    i = tl.arange(0, 16)[:, None] * 4 + tl.arange(0, 4)[None, :]
    _, place = tl.reduce((tl.load(x_ptr + i), tl.load(place_ptr + i)), 1, asserting_of_pairs)
    tl.store(out_ptr + tl.arange(0, 16), place)


@pytest.mark.parametrize("mode", [{"interpret": True}, {"debug": True}], ids=str)
def test_an_assertion_about_several_tensors_names_the_row_that_fails(mode):
    x = np.random.default_rng(1).permutation(64).astype(np.float32).reshape(16, 4)
    places = np.tile(np.arange(4, dtype=np.int32), (16, 1))
    out = np.zeros(16, np.int32)
    largest[(1,)](x, places, out, **mode)
    np.testing.assert_array_equal(out, x.argmax(1))
    places[5] = 3
    with pytest.raises(AssertionError, match="combine function of a reduction failed") as caught:
        largest[(1,)](x, places, out, **mode)
    assert "1 of 16 lanes fails, first lane 5 of (16,)" in str(caught.value)


@triton.jit
def wrapping(a, b):
    return a * 31 + b * 31


def test_integers_may_wrap_around_in_combine_functions_where_overflow_is_an_error():
    x, out = np.full(64, 2**30, np.int32), np.zeros(64, np.int32)
    combining[(1,)](x, out, wrapping, True, interpret=True, debug=True)
    found = out[0]
    combining[(1,)](x, out, wrapping, True, debug=True)
    assert out[0] == found


SUM_OF_NUMBERS = """{
    .reg .pred p; .reg .u32 t;
    mov.u32 $0, 0; mov.u32 t, $1;
again:
    add.u32 $0, $0, t; sub.u32 t, t, 1; setp.ne.u32 p, t, 0;
    @p bra again;
}"""


@triton.jit
def assembling(x_ptr, out_ptr, TEXT: tl.constexpr):
    i = tl.arange(0, 32)
    x = tl.load(x_ptr + i)
    tl.store(out_ptr + i, tl.inline_asm_elementwise(TEXT, "=r,r", [x], tl.int32, True, 1))


def test_a_loop_of_inline_assembly_ends_when_no_element_is_in_it():
    x, out = np.arange(1, 33, dtype=np.int32), np.zeros(32, np.int32)
    assembling[(1,)](x, out, SUM_OF_NUMBERS, interpret=True)
    np.testing.assert_array_equal(out, x * (x + 1) // 2)
