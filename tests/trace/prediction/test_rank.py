"""Kendall's tau, and the order of a kernel's configurations."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_programs import TraceMaker

from emu.trace.events import Kind
from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.prediction import predict
from emu.trace.prediction.pricing import Options
from emu.trace.prediction.rank import kendall_tau, rank

TIMES = st.lists(st.integers(0, 6), min_size=2, max_size=12)


def test_the_same_order_is_1_and_the_opposite_one_minus_1() -> None:
    assert kendall_tau([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert kendall_tau([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert kendall_tau([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert math.isnan(kendall_tau([1, 1, 1], [1, 2, 3]))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), first=TIMES)
def test_it_is_what_pairs_say(data: st.DataObject, first: list[int]) -> None:
    second = data.draw(st.lists(st.integers(0, 6), min_size=len(first), max_size=len(first)))
    tau = kendall_tau(first, second)
    pairs = list(combinations(range(len(first)), 2))
    agree = sum((first[i] - first[j]) * (second[i] - second[j]) > 0 for i, j in pairs)
    differ = sum((first[i] - first[j]) * (second[i] - second[j]) < 0 for i, j in pairs)
    x = sum(first[i] != first[j] for i, j in pairs)
    y = sum(second[i] != second[j] for i, j in pairs)
    if not x or not y:
        assert math.isnan(tau)
    else:
        assert tau == pytest.approx((agree - differ) / math.sqrt(x * y))
        assert kendall_tau(second, first) == pytest.approx(tau)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1], [1], "at least 2 times, but got 1 and 1"),
        ([1, 2], [1, 2, 3], "but got 2 and 3"),
        ("12", [1, 2], "first must be a sequence of times"),
        ([1, 2], 3, "second must be a sequence of times"),
        ([1, math.nan], [1, 2], "first must have finite numbers, but got nan"),
        ([1, 2], [1, "2"], "second must have finite numbers, but got '2'"),
        ([True, 2], [1, 2], "first must have finite numbers, but got True"),
    ],
)
def test_what_is_no_list_of_times_is_refused(first: object, second: object, message: str) -> None:
    with pytest.raises(PredictionError, match=message):
        kendall_tau(first, second)  # type: ignore[arg-type]


def test_a_launch_whose_kernels_are_events_of_their_own_has_no_configuration() -> None:
    maker = TraceMaker(1)
    maker.then(0, Kind.LAUNCH, 0, name="layer", details={"counts": []})
    trace = maker.trace()
    with pytest.raises(PredictionError, match=r"counted \(there is none\), but got 'layer'"):
        rank(trace, "layer", load_device("h100"))
    with pytest.raises(PredictionError, match="programs must name a kernel of the trace"):
        predict(trace, load_device("h100"), Options(programs={"layer": 2}))
    alone = predict(trace, load_device("h100"))
    assert alone.rows == ()
    assert alone.seconds == pytest.approx(load_device("h100")["launch.latency"])
