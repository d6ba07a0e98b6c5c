"""Measuring run times."""

import time

import pytest

from emu.triton import testing
from emu.triton.runtime.timing import summarize_statistics


def busy(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_times_are_milliseconds():
    assert testing.do_bench(lambda: busy(2e-3), warmup=1, rep=10, return_mode="min") >= 2.0


def test_all_times_are_kept():
    times = testing.do_bench(lambda: busy(1e-3), warmup=0, rep=20, return_mode="all")
    assert isinstance(times, list)
    assert 1 <= len(times) <= 20
    assert min(times) >= 1.0


@pytest.mark.parametrize("bench", [testing.do_bench, testing.do_bench_cudagraph])
def test_quantiles_come_as_a_list_and_one_as_a_number(bench):
    low, high = bench(lambda: None, rep=1, quantiles=[0.2, 0.8])
    assert 0 < low <= high
    assert bench(lambda: None, rep=1, quantiles=[0.5]) > 0


def test_a_function_that_fails_is_not_hidden():
    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        testing.do_bench(fail)


def test_gradients_are_dropped_before_each_run():
    class Leaf:
        grad = 1

    leaf = Leaf()
    seen = []

    def step():
        seen.append(leaf.grad)
        leaf.grad = 1
        busy(1e-3)

    testing.do_bench(step, warmup=0, rep=5, grad_to_none=[leaf])
    assert seen[-1] is None


@pytest.mark.parametrize(
    ("mode", "expected"), [("min", 1.0), ("max", 5.0), ("mean", 3.0), ("median", 2.0)]
)
def test_modes_summarise(mode, expected):
    assert summarize_statistics([2.0, 5.0, 1.0, 2.0, 5.0], None, mode) == expected


def test_quantiles_are_interpolated():
    assert summarize_statistics([4.0, 1.0, 2.0], [0.0, 0.25, 0.5, 1.0], "mean") == [
        1.0,
        1.5,
        2.0,
        4.0,
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"return_mode": "best"}, "return_mode must be one of"),
        ({"quantiles": [1.5]}, r"quantiles must be in \[0, 1\], but got 1.5"),
        ({"rep": -1}, "rep must be a number of at least 0"),
    ],
)
def test_bad_arguments_are_refused_before_anything_runs(arguments, message):
    with pytest.raises(ValueError, match=message):
        testing.do_bench(lambda: pytest.fail("it ran"), **arguments)


def test_other_libraries_summarize_their_own_times():
    from emu.triton.testing import _summarize_statistics

    assert _summarize_statistics([1.0, 2.0, 6.0], None, "mean") == 3
    assert _summarize_statistics([1.0, 2.0, 6.0], [0.5], "mean") == 2
