"""Random kernels: compiled, checked, and as Python they give the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import triton_programs
from campaigns import shares


def _compare(seeds: range, folder: Path) -> None:
    for seed in seeds:
        program = triton_programs.make(seed)
        kernel = triton_programs.load(program, folder / f"program_{seed}.py")
        found = []
        for mode in ({}, {"interpret": True}, {"check": "bounds"}):
            outputs = [o.copy() for o in program.outputs]
            inputs = [x.copy() for x in program.inputs]
            kernel[(program.grid,)](*inputs, *outputs, *program.scalars, **mode)
            found.append(outputs)
        compiled, *others = found
        for mode, outputs in zip(("interpreted", "checked"), others, strict=True):
            for number, (want, got) in enumerate(zip(compiled, outputs, strict=True)):
                said = f"seed {seed}, y{number} {mode}:\n{program.source}"
                np.testing.assert_array_equal(
                    triton_programs.bits(got), triton_programs.bits(want), err_msg=said
                )


def test_random_programs_give_the_same_bits(tmp_path: Path) -> None:
    _compare(range(4), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(2))
def test_many_random_programs_give_the_same_bits(share: int, tmp_path: Path) -> None:
    first = 1000 + 8 * share
    _compare(range(first, first + 8), tmp_path)
