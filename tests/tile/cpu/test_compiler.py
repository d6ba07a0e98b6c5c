"""The CPU compiler does what the reference interpreter does."""

from __future__ import annotations

import pytest
from cpu_runner import run
from hypothesis import given, settings
from tile_cases import CASES
from tile_harness import Program
from tile_programs import programs


@pytest.mark.parametrize("program", CASES, ids=str)
def test_compiled_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)


@settings(deadline=None, max_examples=60)
@given(program=programs())
def test_compiled_random_programs_do_what_the_reference_does(program: Program) -> None:
    program.check(run)
