"""The check's answers to the situations of Triton's GSan tests, in kernels of our own, each with the pairs of lines at fault.

Left out of what GSan's tests have: Gluon's asynchronous copies and warp specialisation, which emu does not run; the
layout of its shadow memory, which is not ours; and memory of several devices, which is a matter of PEs.
"""

from __future__ import annotations

from typing import Any

import pytest
from grid_race_cases import as_parameters, judge

from tests.check.gsan import atomics, once, order, places
from tests.check.gsan.cases import CASES

MODULES = {atomics, once, order, places}
LONG = "more_releases_than_16_bits_count"


@pytest.mark.parametrize("case", as_parameters(CASES.values()))
def test_the_pairs_of_lines_at_fault_are_reported_and_no_others(case: Any) -> None:
    judge(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", as_parameters(c for c in CASES.values() if c.name != LONG))
def test_the_reference_interpreter_tells_of_the_same_pairs(case: Any) -> None:
    judge(case, backend="reference")


def test_there_are_as_many_cases_as_were_promised() -> None:
    assert {kernel.fn.__module__ for c in CASES.values() for kernel, _ in c.launches} == {
        module.__name__ for module in MODULES
    }
    judged = [c for c in CASES.values() if not c.missed]
    assert len(judged) >= 200
    assert sum(c.is_clean for c in judged) >= 80
    assert sum(bool(c.races or c.lanes) for c in judged) >= 80
    assert len(CASES) - len(judged) <= 5  # what the check cannot do does not grow
