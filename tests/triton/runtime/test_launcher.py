"""The generated launcher: its header, binding, grids, watched globals, and the errors of its arguments."""

import inspect
import re

import numpy as np
import pytest
from triton_kernels import copy, number

import emu.triton.language as tl
from emu import triton
from emu.triton.runtime import launcher


@triton.jit
def three(a, b: tl.int32, c, SIZE: tl.constexpr):
    tl.store(a, b)
    tl.store(c, SIZE)


def test_the_header_names_every_variable_of_the_generated_text():
    source = inspect.getsource(launcher)
    header = "\n".join(line for line in source.splitlines() if line.startswith("#"))
    text = launcher._TENSOR + launcher._CONSTANT + launcher._ANNOTATED + launcher._BODY
    used = {name.removesuffix("{i}") for name in re.findall(r"_emu_\w+(?:\{i\})?", text)}
    missing = {"_emu_error"} | {n for n in used if not re.search(rf"{n}(?![a-z])", header)}
    assert missing == {"_emu_error"}  # bound by ``except``


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((object(), 1, object(), 8), TypeError, "a of kernel three: an argument of a kernel"),
        ((np.zeros(1), 2**40, object(), 8), OverflowError, "b of kernel three: b must fit"),
        ((np.zeros(1), 1, object(), []), TypeError, "c of kernel three: an argument of a kernel"),
        ((np.zeros(1), 1, 2**70, 8), OverflowError, "c of kernel three: an integer argument"),
        ((np.zeros(1), 1, np.zeros(1), {}), TypeError, "SIZE of kernel three: a constexpr"),
    ],
)
def test_an_error_names_the_first_argument_at_fault(arguments, error, message):
    with pytest.raises(error, match=message):
        three[(1,)](*arguments)


def test_a_compiled_kernel_is_what_the_table_holds():
    a, c = np.zeros(1), np.zeros(1)
    kernel = three[(1,)](a, 3, c, 8)
    assert three[(1,)](a, 4, c, 8) is kernel
    assert (a[0], c[0]) == (4, 8)
    assert kernel in three._table.values()


def test_arguments_are_bound_as_python_does():
    x, y = np.arange(4.0), np.zeros(4)
    copy[(1,)](n=4, y_ptr=y, x_ptr=x)
    assert y.tolist() == x.tolist()
    with pytest.raises(TypeError, match=r"copy\(\) missing 1 required argument: 'n'"):
        copy[(1,)](x, y)
    with pytest.raises(TypeError, match="multiple values for argument 'x_ptr'"):
        copy[(1,)](x, y, 4, x_ptr=x)
    with pytest.raises(
        TypeError, match=r"copy\(\) got an unexpected keyword argument 'BLCK'; did you mean BLOCK\?"
    ):
        copy[(1,)](x, y, 4, BLCK=64)


@pytest.mark.parametrize(
    ("grid", "count"),
    [(4, 4), ((4,), 4), ([4], 4), ((np.int64(2), 3), 6), ((2, 2, 2), 8), (lambda m: (3, 1), 3)],
    ids=["int", "one", "list", "numpy", "three", "callable"],
)
def test_every_program_of_a_grid_runs_once(grid, count):
    y = np.full(16, -1, np.int32)
    number[grid](y)
    assert (y[:count] >= 0).all()
    assert (y[count:] == -1).all()
    assert len(set(y[:count].tolist())) == count


@pytest.mark.parametrize("grid", [0, (0,), (3, 0), (1, 1, 0)])
def test_an_empty_grid_runs_nothing(grid):
    y = np.full(4, -1, np.int32)
    number[grid](y)
    assert (y == -1).all()


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        ((1, 2, 3, 4), ValueError, "one to three extents"),
        ((), ValueError, "one to three extents"),
        ((-1,), ValueError, r"in \[0, 2\*\*31\)"),
        ((2**31,), ValueError, r"in \[0, 2\*\*31\)"),
        ((1.5,), TypeError, "one to three integers"),
        ("4", TypeError, "one to three integers"),
        (None, TypeError, "grid must be"),
    ],
    ids=str,
)
def test_a_bad_grid_is_refused(grid, error, message):
    with pytest.raises(error, match=message):
        number[grid](np.zeros(4, np.int32))


def test_a_grid_function_sees_arguments_defaults_and_constants():
    seen = {}

    def grid(meta):
        seen.update(meta)
        return (1,)

    x, y = np.arange(4.0), np.zeros(4)
    copy[grid](x, y, n=4)
    assert list(seen) == ["x_ptr", "y_ptr", "n", "BLOCK"]
    assert seen["x_ptr"] is x
    assert seen["BLOCK"] == 64


FACTOR: tl.constexpr = tl.constexpr(3)
OTHER: tl.constexpr = tl.constexpr(4)


@triton.jit
def inner(x):
    return x * OTHER


@triton.jit
def scaled(y_ptr, x):
    tl.store(y_ptr, inner(x) * FACTOR)


@pytest.mark.parametrize("name", ["FACTOR", "OTHER"])
def test_a_global_must_not_change_after_it_was_compiled_in(name, monkeypatch):
    y = np.zeros(1, np.int32)
    scaled[(1,)](y, 5)
    assert y[0] == 60
    monkeypatch.setitem(globals(), name, tl.constexpr(globals()[name].value))
    scaled[(1,)](y, 6)
    assert y[0] == 72
    monkeypatch.setitem(globals(), name, tl.constexpr(7))
    with pytest.raises(
        RuntimeError, match=rf"Global variable {name} has changed .* to constexpr\[7\]"
    ):
        scaled[(1,)](y, 7)
    assert y[0] == 72
