"""The reference interpreter runs every hand-written program; what they give is laid down elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tile_cases import CASES, QUICK
from tile_harness import Program
from tile_programs import programs
from variants import thorough

from emu.tile.ops import Code


@pytest.mark.parametrize("program", thorough(CASES, *QUICK), ids=str)
def test_the_same_program_gives_the_same_results_twice(program: Program) -> None:
    program.compare(program.run_reference(), program.run_reference())


def test_the_cases_have_every_operation_but_print() -> None:
    functions = [f for p in CASES for f in p.module.functions.values()]
    found = {operation.code for f in functions for operation in f.body.walk()}
    machine = {Code.MACHINE_WORD, Code.MACHINE_CALL}  # they run in a PE only
    assert set(Code) - found == {Code.PRINT, Code.OBSERVE} | machine


@settings(max_examples=150, deadline=None)
@given(programs())
def test_random_programs_run_and_are_deterministic(program: Program) -> None:
    program.compare(program.run_reference(), program.run_reference())
