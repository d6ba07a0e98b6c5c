"""Random programs, one operation after the other, against the definition: the same first race, or none."""

from __future__ import annotations

import random

import pytest
from campaigns import shares
from race_programs import Run


def compare(seed: int, *, distinct: bool) -> int:
    """Run a program up to its first race; return whether it had one."""
    chosen = random.Random(seed)
    run = Run(chosen.choice([2, 2, 3, 4]), chosen, distinct=distinct)
    try:
        for number in range(60):
            run.step()
            raced, told = bool(run.program.races), bool(run.found)
            assert raced == told, (
                f"seed {seed}, operation {number}: the definition has {run.program.races[:3]}, the "
                f"checker {'has told of a race' if told else 'is silent'}"
            )
            if raced:
                return 1
    finally:
        run.close()
    return 0


@pytest.mark.timeout(400)  # the first to come compiles the listener's kernels
@pytest.mark.parametrize("distinct", [True, False], ids=["lines", "one line"])
def test_the_first_race_is_found_and_nothing_else(distinct: bool) -> None:
    races = sum(compare(seed, distinct=distinct) for seed in range(150))
    assert 20 < races < 150  # programs with and without


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", shares(20))
def test_many_programs(share: int) -> None:
    for seed in range(1000 * (share + 1), 1000 * (share + 1) + 1000):
        compare(seed, distinct=seed % 2 == 0)
