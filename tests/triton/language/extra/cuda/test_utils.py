"""What CUDA's programs ask about the GPU."""

from __future__ import annotations

import pytest
from language_harness import emit, evaluate

from emu.triton.language.extra import cuda


def test_a_program_is_one_thread() -> None:
    assert cuda.num_threads().value == cuda.num_warps().value == 1
    assert evaluate(cuda.smid) == 0
    for function in (cuda.gdc_wait, cuda.gdc_launch_dependents):
        result, module = emit(function)
        assert result is None
        assert not module.kernel.body.operations


def test_a_kernel_has_no_clock() -> None:
    with pytest.raises(NotImplementedError, match="time the launch from outside"):
        emit(cuda.globaltimer)
