"""The generated launcher: its header, and the errors of its arguments."""

import inspect
import re

import numpy as np
import pytest

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
