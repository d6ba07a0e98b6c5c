"""Explanations of random programs hold together."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext

import pytest
from sdy_programs import program

import emu.sdy
from emu.mlir.ir import Value
from emu.sdy.dialect import axes
from emu.sdy.propagation.events import SeedEvent


@pytest.mark.parametrize("seed", range(700, 760))
def test_each_axis_has_a_path_from_a_seed(seed: int) -> None:
    explanation = emu.sdy.explain(program(seed))
    recorder = explanation.recorder
    for report in explanation:
        assert (report.after is None) == (report.axes == () and report.after is None)
        for dim, paths in enumerate(report.axes):
            assert [axis for axis, _ in paths] == list(report.after.dims[dim].axes)
            for axis, links in paths:
                check_path(recorder, report.value, dim, axis, links)
        for rejection in report.rejections:
            own = report.after.dims[rejection.dim].axes if report.after is not None else ()
            assert not any(axes.contains(each, rejection.axis) for each in own)


def check_path(recorder, value: Value, dim: int, axis, links) -> None:
    first, *steps = links
    assert links[-1].value == recorder.owner(value)
    assert links[-1].dim == dim
    if first.step is None:
        assert first.cause.startswith(("given", "priority", "group", "manual", "data-flow"))
    else:  # the axis came without a neighbour: as its priority's turn came
        assert isinstance(recorder.steps[first.step - 1], SeedEvent)
    numbers = [link.step for link in steps]
    assert numbers == sorted(set(numbers))
    for before, link in zip(links, steps, strict=False):
        event = recorder.steps[link.step - 1]
        owners = recorder.tensor_owners(event)
        assert link.value in owners
        if not isinstance(event, SeedEvent):
            assert before.value in owners
            had = event.before[owners.index(before.value)]
            assert any(axes.overlaps(own, axis) for own in had.dims[before.dim].axes)
            got = event.after[owners.index(link.value)]
            assert any(axes.overlaps(own, axis) for own in got.dims[link.dim].axes)


def test_what_is_explained_is_what_the_passes_give() -> None:
    for seed in range(760, 790):
        text = program(seed)
        module = emu.sdy.parse(text)
        explanation = emu.sdy.explain(text)
        expected: AbstractContextManager[object] = nullcontext()
        if explanation.failure is not None:  # some programs drop unreduced axes
            expected = pytest.raises(emu.sdy.PassFailed, match=re.escape(str(explanation.failure)))
        with expected:
            emu.sdy.run_passes(module, "sdy-propagation-pipeline", verify_each=False)
        assert str(explanation.module) == str(module)
