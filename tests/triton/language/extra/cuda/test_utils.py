"""What CUDA's programs ask about the GPU."""

from __future__ import annotations

import numpy as np
import pytest
from language_harness import emit, evaluate

import emu.triton.language as tl
from emu import triton
from emu.triton.language.extra import cuda


@triton.jit
def warps_and_threads(y_ptr):
    warps: tl.constexpr = tl.extra.cuda.num_warps()
    tl.store(y_ptr, warps)
    tl.store(y_ptr + 1, cuda.num_threads())


@triton.jit
def calls_it(y_ptr):
    warps_and_threads(y_ptr)


@triton.jit
def does_not_ask(y_ptr):
    tl.store(y_ptr, 1)


@triton.jit
def passes_it(y_ptr, function: tl.constexpr):
    function(y_ptr)


@triton.jit
def stores_what_it_is_given(y_ptr, function: tl.constexpr):
    tl.store(y_ptr, function())


@pytest.mark.parametrize("kernel", [warps_and_threads, calls_it])
@pytest.mark.parametrize("options", [{}, {"interpret": True}, {"backend": "reference"}])
def test_a_kernel_learns_the_number_of_warps_of_its_launch(kernel, options) -> None:
    for given, warps in (({"num_warps": 8}, 8), ({}, 4), ({"num_warps": 2}, 2)):
        y = np.zeros(2, np.int32)
        kernel[(1,)](y, **given, **options)
        assert y.tolist() == [warps, 32 * warps]


def test_a_function_passed_as_a_constant_learns_it_too() -> None:
    for warps in (1, 16):
        y = np.zeros(2, np.int32)
        passes_it[(1,)](y, warps_and_threads, num_warps=warps)
        assert y[0] == warps


def test_only_kernels_that_ask_are_compiled_for_each_number() -> None:
    y = np.zeros(2, np.int32)
    for kernel, count in ((calls_it, 2), (does_not_ask, 1)):
        codes = {kernel[(1,)](y, num_warps=warps).hash for warps in (1, 16)}
        assert len(codes) == count


def test_a_kernel_that_asks_without_naming_the_function_is_refused() -> None:
    with pytest.raises(triton.CompilationError, match="num_warps must be called by its name"):
        stores_what_it_is_given[(1,)](np.zeros(1, np.int32), cuda.num_warps)


def test_a_program_has_no_place_and_waits_for_nothing() -> None:
    assert evaluate(cuda.smid) == 0
    for function in (cuda.gdc_wait, cuda.gdc_launch_dependents):
        result, module = emit(function)
        assert result is None
        assert not module.kernel.body.operations


def test_a_kernel_has_no_clock() -> None:
    with pytest.raises(NotImplementedError, match="time the launch from outside"):
        emit(cuda.globaltimer)
