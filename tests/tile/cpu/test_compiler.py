"""The CPU compiler does what the reference interpreter does."""

from __future__ import annotations

import copy
import ctypes
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from tile_cases import CASES
from tile_harness import Program
from tile_programs import programs

from emu.tile import cpu
from emu.tile.cpu.kernel import scratch
from emu.tile.ir import Module


def run(
    module: Module, arguments: Sequence[bool | int | float], grid: tuple[int, int, int]
) -> None:
    kernel = cpu.compile(copy.deepcopy(module))
    formats = kernel.format.replace("4x", "")
    given = [int(a) if f in "qQ" else a for a, f in zip(arguments, formats, strict=True)]
    packed = ctypes.create_string_buffer(
        struct.pack(f"<{kernel.format}", *given), 8 * len(given) + 8
    )
    if kernel.scratch_bytes:  # what earlier programs left there must not matter
        ctypes.memset(scratch(kernel.scratch_bytes), 0, kernel.scratch_bytes)
    kernel.launch(ctypes.addressof(packed), *grid)


@pytest.mark.parametrize("program", CASES, ids=str)
def test_compiled_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)


@settings(deadline=None)
@given(program=programs())
def test_compiled_random_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)
