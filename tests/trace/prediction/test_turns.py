"""MC2's operators on a device: more turns hide more and cost more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.turns import OPERATORS, turns_of

A2, A3 = load_device("a2"), load_device("a3")


@settings(max_examples=20, deadline=None)
@given(
    operator=st.sampled_from(OPERATORS),
    m=st.integers(1, 20000),
    k=st.integers(1, 20000),
    n=st.integers(1, 20000),
    members=st.integers(2, 32),
)
def test_each_number_of_turns_takes_at_least_its_products_and_its_communication(
    operator, m, k, n, members
) -> None:
    found = turns_of(operator, m, k, n, members, A2)
    assert sorted(each.turns for each in found) == list(range(1, min(m, 16) + 1))
    assert [each.seconds for each in found] == sorted(each.seconds for each in found)
    for each in found:
        assert max(each.compute, each.link) <= each.seconds * (1 + 1e-9)
        assert each.seconds <= (each.compute + each.link) * (1 + 1e-9)
        assert 0 <= each.hidden <= 1


def test_one_turn_hides_only_what_needs_no_communication() -> None:
    one = next(
        each
        for each in turns_of("matmul_reduce_scatter", 4096, 8192, 8192, 8, A2)
        if each.turns == 1
    )
    assert one.hidden == 0
    gather = next(
        each for each in turns_of("all_gather_matmul", 4096, 8192, 8192, 8, A2) if each.turns == 1
    )
    assert 0 < gather.hidden < 1  # the device's own rows


def test_large_shapes_are_best_in_several_turns_and_small_ones_in_one() -> None:
    assert turns_of("matmul_all_reduce", 16384, 8192, 8192, 8, A2)[0].turns > 2
    assert turns_of("matmul_all_reduce", 64, 256, 256, 8, A2)[0].turns == 1


def test_a_link_without_limits_makes_turns_useless() -> None:
    free = A3.changed(
        ["link=inf", "link.latency=0", "collective.simple.base=0", "collective.simple.step=0"]
    )
    best = turns_of("matmul_reduce_scatter", 4096, 4096, 4096, 8, free)[0]
    assert best.link == 0
    assert best.seconds == pytest.approx(best.compute)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(
        PredictionError, match=r"mc2 must be one of all_gather_matmul, .*, but got 'gather'"
    ):
        turns_of("gather", 1, 1, 1, 2, A2)
    with pytest.raises(PredictionError, match=r"pes must be in \[2, 65536\], but got 1"):
        turns_of("matmul_all_reduce", 1, 1, 1, 1, A2)
    with pytest.raises(PredictionError, match=r"m must be in \[1, "):
        turns_of("matmul_all_reduce", 0, 1, 1, 2, A2)
    with pytest.raises(PredictionError, match="dtype must be one of"):
        turns_of("matmul_all_reduce", 8, 8, 8, 2, A2, "f15")
