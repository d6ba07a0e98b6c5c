"""Random programs: collectives run as often, and with as many bytes, as predicted."""

from __future__ import annotations

from collections import Counter

import pytest
from sdy_counted_runs import counted_run
from sdy_programs import program

import emu.sdy
from emu.sdy.costs.analysis import Works, analyse
from emu.stablehlo.reference.errors import EvaluationError

SEEDS = 40
CHUNK = 10


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_random_programs_run_what_is_predicted(first: int) -> None:
    ended: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        text = program(seed)
        try:
            analysis = analyse(text)
        except emu.sdy.PassFailed:  # Shardy refuses some of them too
            ended["refused"] += 1
            continue
        collectives = analysis.collectives(analysis.runs(Works()))
        assert str(analysis.cost())
        try:
            devices = counted_run(analysis, text)
        except EvaluationError:  # a custom call that nobody knows
            ended["not run"] += 1
            continue
        ended["run"] += 1
        for op, predicted in collectives.items():
            for device in devices:
                calls = device.calls.get(op, [])
                if not predicted.uncertainty and predicted.kind != "collective_permute":
                    assert len(calls) == predicted.runs, (seed, predicted)
                for brought, _ in calls:
                    total = sum(value.nbytes for value, _ in brought)
                    assert total == predicted.payload_bytes, (seed, predicted)
        # What is not predicted stays within one device.
        for device in devices:
            for op in device.calls.keys() - collectives.keys():
                groups = {where for brought, _ in device.calls[op] for _, where in brought}
                assert all(len(group) == 1 for group in groups), (seed, op.name)
    assert ended["run"] >= CHUNK // 3, ended
