"""Errors of what kernels do not have say what to write instead; names that are wrong, what was meant."""

from __future__ import annotations

import contextlib
import pdb  # noqa: T100 - it is what a kernel must not call
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton


@triton.jit
def breaks(x, n):
    for i in range(n):
        if i == 3:
            break


@triton.jit
def continues(x, n):
    for _ in range(n):
        continue


@triton.jit
def lists(x, n):
    xs = []
    xs.append(n)


@triton.jit
def nested(x, n):
    def inner(a):
        return a

    tl.store(x, n)


@triton.jit
def a_dict(x, n):
    d = {"a": n}


@triton.jit
def imports(x, n):
    import math  # noqa: F401 - what is refused

    tl.store(x, n)


@triton.jit
def imports_pdb(x, n):
    import pdb  # noqa: F401, T100 - what is refused

    tl.store(x, n)


@triton.jit
def calls_pdb(x, n):
    pdb.set_trace()  # noqa: T100 - the same


@triton.jit
def stops(x, n):
    breakpoint()  # noqa: T100 - the same


@triton.jit
def arranges(x, n):
    tl.store(x + tl.arrange(0, 4), n)


@triton.jit
def wrong_name(x, count):
    tl.store(x, cuont)  # noqa: F821 - what is tested


@triton.jit
def wrong_method(x, n):
    tl.store(x, tl.arange(0, 4).summ(axis=0))


@triton.jit
def wrong_keyword(x, n):
    tl.store(x, n, maks=n > 0)


@triton.jit
def too_many(x, n):
    tl.program_id(0, 1)


@triton.jit
def too_few(x, n):
    tl.store(x)


@triton.jit
def run_time_range(x, n):
    tl.store(x + tl.arange(0, n), n)


@triton.jit
def if_of_a_tensor(x, n):
    v = tl.load(x + tl.arange(0, 4))
    if v > 0:
        tl.store(x, n)


@triton.jit
def withs(x, n):
    with contextlib.nullcontext():
        tl.store(x, n)


@triton.jit
def raises(x, n):
    if n > 3:
        raise ValueError


@triton.jit
def a_lambda(x, n):
    f = lambda v: v + 1  # noqa: E731 - what is tested
    tl.store(x, f(n))


CASES = [
    (breaks, "`break` is not supported in kernels", "use `while` with a condition"),
    (continues, "`continue` is not supported", "under an `if`"),
    (lists, "has no attribute 'append'", "lists are tuples in kernels and cannot be changed"),
    (nested, "nested function is not supported", "with @triton.jit at the level of the module"),
    (a_dict, "a dict is not supported", "use a tuple, a NamedTuple"),
    (imports, "`import` is not supported", "import at the level of the module"),
    (imports_pdb, "`import` is not supported", "emu run --interpret"),
    (calls_pdb, "a debugger would stop in the compiler", "emu run --interpret"),
    (stops, "breakpoint is not defined", "emu run --interpret"),
    (arranges, "has no 'arrange'", "did you mean tl.arange?"),
    (wrong_name, "cuont is not defined", "did you mean count?"),
    (wrong_method, "has no attribute 'summ'", "did you mean tl.arange(0, 4).sum?"),
    (wrong_keyword, "tl.store() got an unexpected keyword argument 'maks'", "did you mean mask?"),
    (too_many, "tl.program_id() takes 1 positional argument (axis)", "but 2 were given"),
    (too_few, "tl.store() missing 1 required argument: 'value'", ""),
    (run_time_range, "end of arange must be an int known at compile time", "tl.constexpr"),
    (if_of_a_tensor, "Boolean value of Tensor with more than one value", "tl.where chooses"),
    (withs, "`with` is not supported", "context managers"),
    (raises, "`raise` is not supported", "tl.device_assert"),
    (a_lambda, "`lambda` is not supported", "define a function with @triton.jit"),
]


@pytest.mark.parametrize(("kernel", "said", "hint"), CASES, ids=[c[0].__name__ for c in CASES])
def test_an_error_says_what_to_write(kernel: Any, said: str, hint: str) -> None:
    with pytest.raises(triton.CompilationError) as caught:
        kernel[(1,)](np.zeros(8, np.int32), 5)
    text = str(caught.value)
    assert said in text.splitlines()[-1]
    assert hint in text.splitlines()[-1]
    assert text.startswith(f"{__file__}:")
    assert text.splitlines()[2].strip() == "^"


@triton.jit
def fine(x_ptr, n_elements, BLOCK: tl.constexpr):
    pass


@pytest.mark.parametrize(
    ("positional", "keywords", "said"),
    [
        ((1,), {"n_elemets": 2, "BLOCK": 4}, r"fine\(\) got an unexpected keyword argument 'n_elemets'; did you mean n_elements\?"),
        ((1, 2), {"BLOCK": 4, "num_warp": 4}, r"'num_warp'; did you mean num_warps\?"),
        ((1, 2, 3, 4), {}, r"fine\(\) takes 3 positional arguments \(x_ptr, n_elements, BLOCK\), but 4 were given"),
        ((1,), {}, r"fine\(\) missing 2 required arguments: 'n_elements', 'BLOCK'"),
        ((1, 2, 3), {"zzz": 1}, "'zzz': it must be a parameter of the kernel or an option"),
    ],
)  # fmt: skip
def test_a_launch_names_what_does_not_fit(positional: Any, keywords: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        fine[(1,)](*positional, **keywords)


@triton.jit
def takes_nothing():
    pass


def test_a_kernel_without_parameters_counts_too() -> None:
    with pytest.raises(
        TypeError, match=r"takes_nothing\(\) takes 0 positional arguments, but 1 was given"
    ):
        takes_nothing[(1,)](5)


def test_no_frame_of_the_compiler_is_in_a_cause() -> None:
    with pytest.raises(triton.CompilationError) as caught:
        arranges[(1,)](np.zeros(8, np.int32), 5)
    at = caught.value.__cause__.__traceback__ if caught.value.__cause__ else None
    while at is not None:
        assert "codegen" not in at.tb_frame.f_code.co_filename
        at = at.tb_next
