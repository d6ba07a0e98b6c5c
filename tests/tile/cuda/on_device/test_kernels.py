"""Kernels as in Triton, random programs, and what only CUDA's compiler promises."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tile_cuda_launches import check, run
from tile_harness import Kernel, Program
from tile_kernels import KERNELS, checked
from tile_programs import Generator

from emu.tile.cuda import compile_kernel
from emu.tile.types import DTYPES, F32


@pytest.mark.parametrize("threads", [4, 16])
@pytest.mark.parametrize("name", [n for n in KERNELS if n != "large_tiles"])
def test_kernels_do_what_the_reference_does(name: str, threads: int) -> None:
    check(KERNELS[name], threads)


def test_tiles_too_large_for_shared_memory_lie_in_global_memory() -> None:
    kernel = check(KERNELS["large_tiles"], 16)
    assert kernel.scratch_bytes > 0
    assert kernel.shared_bytes <= 48 << 10


class Apart(Generator):
    """Makes programs whose lanes do not meet at an address, where their order would be open."""

    def offsets(self, shape: tuple[int, ...], distinct: bool = False) -> Any:
        return super().offsets(shape, distinct=True)


@st.composite
def apart(draw: st.DrawFn) -> Program:
    return Apart(draw, tuple(DTYPES.values())).program(6)


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(program=apart())
def test_random_programs_do_what_the_reference_does(program: Program) -> None:
    check(program)


def test_a_failed_assertion_ends_the_program_with_its_message() -> None:
    with pytest.raises(AssertionError, match="numbers must not be negative"):
        run(checked([1, 2, -3] * 5, "numbers must not be negative"))
    _, (_, out) = run(checked([7] * 15, "never"))
    assert (out == 7).all()


def test_after_a_failed_assertion_nothing_is_stored() -> None:
    program = checked([1, -1], "no")
    before = np.ones(2, np.int32)
    program = Program("one", program.module, (program.arguments[0], before))
    with pytest.raises(AssertionError):
        compile_kernel(program.module, threads=4).launch(program.arguments, (1,))
    assert (before == 1).all()


def test_values_are_printed_with_program_and_index() -> None:
    k = Kernel()
    k.builder.print_("x =", [k.number(2.5, F32), k.builder.arange(0, 3)])
    program = k.program("prints")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):  # one thread: lines of several may be mixed
        run(program, 1)
    lines = sorted(text.getvalue().splitlines())
    assert [" ".join(line.split()) for line in lines] == sorted(
        ["pid 0 0 0 x = 2.5", *(f"pid 0 0 0 idx {i} x = {i}" for i in range(3))]
    )
