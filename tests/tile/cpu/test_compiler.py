"""The CPU compiler does what the reference interpreter does."""

from __future__ import annotations

import copy
import ctypes
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from tile_cases import CASES
from tile_harness import Kernel, Program
from tile_programs import programs

from emu.tile import cpu, reference
from emu.tile.ir import Module
from emu.tile.ops import Code
from emu.tile.types import F16, F32, I8, I32, Pointer


def run(
    module: Module, arguments: Sequence[bool | int | float], grid: tuple[int, int, int]
) -> None:
    kernel = cpu.compile(copy.deepcopy(module))
    formats = kernel.format.replace("4x", "")
    given = [int(a) if f in "qQ" else a for a, f in zip(arguments, formats, strict=True)]
    packed = ctypes.create_string_buffer(
        struct.pack(f"<{kernel.format}", *given), 8 * len(given) + 8
    )
    kernel.launch(ctypes.addressof(packed), *grid)


@pytest.mark.parametrize("program", CASES, ids=str)
def test_compiled_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)


@settings(deadline=None)
@given(program=programs())
def test_compiled_random_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)


def test_compiled_programs_print_what_the_reference_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    k = Kernel()
    b = k.builder
    pointer = k.argument(Pointer(F32), 4096)
    b.print_("here", [])
    b.print_("x:", [b.arange(5, 7)])
    b.print_("both", [b.program_id(0), k.number(1.5, F16)])
    b.print_("bits", [k.number(-1, I8), k.number(1, F32)], hex_=True)
    b.print_("true", [b.compare(Code.LT, b.arange(0, 3), k.number(1, I32, (3,)))])
    b.print_("at", [pointer])
    with b.for_(k.number(0), k.number(2), k.number(1), []) as loop:
        b.print_("turn", [loop.index])
        b.yield_()
    module = k.program("p").module
    expected: list[str] = []
    reference.run(module, [4096], (2, 1, 1), write=expected.append)
    run(module, [4096], (2, 1, 1))
    assert capsys.readouterr().out == "".join(expected)
    assert "pid (1, 0, 0) idx (2) true 0\n" in expected
