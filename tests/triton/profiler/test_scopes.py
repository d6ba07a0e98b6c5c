"""Scopes: how they nest, and what they count."""

import numpy as np
import pytest

from emu.triton import profiler
from emu.triton.profiler import sessions


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    number = profiler.start()
    yield sessions._sessions[number].root
    profiler.finalize()


def test_scopes_nest_and_add_up(root):
    for n in (1, 2):
        with profiler.scope("outer", {"n": n}), profiler.state("inner"):
            pass
    assert root.to_json()["children"] == [
        {
            "frame": {"name": "outer", "type": "function"},
            "metrics": {"n": 3},
            "children": [
                {"frame": {"name": "inner", "type": "function"}, "metrics": {}, "children": []}
            ],
        }
    ]


def test_a_function_runs_in_a_scope(root):
    @profiler.scope("f", {"calls": np.int64(1)})
    def f(x):
        return 2 * x

    assert [f(1), f(2)] == [2, 4]
    assert root.children["f"].metrics == {"calls": 2}


def test_a_scope_can_measure_the_host(root):
    with profiler.cpu_timed_scope("timed"):
        pass
    assert root.children["timed"].metrics["cpu_time (ns)"] > 0


def test_scopes_are_closed_in_order(root):
    profiler.enter_scope("a")
    with pytest.raises(ValueError, match=r"innermost open scope \('a'\), but got 'b'"):
        profiler.exit_scope("b")
    profiler.exit_scope("a", {"n": 1})
    assert root.children["a"].metrics == {"n": 1}
    for function in (profiler.exit_scope, profiler.exit_state):
        with pytest.raises(ValueError, match=r"innermost open scope \(none\), but got None"):
            function()


def test_an_error_inside_closes_the_scope(root):
    with pytest.raises(KeyError), profiler.scope("a"), profiler.scope("b"):
        raise KeyError("x")
    with profiler.scope("c"):
        pass
    assert list(root.children) == ["a", "c"]


def test_metrics_are_numbers(root):
    with pytest.raises(TypeError, match="metrics must be numbers, but 'n' is str 'many'"):
        profiler.enter_scope("a", {"n": "many"})


def test_without_a_session_scopes_cost_nothing_and_do_nothing():
    with profiler.scope("alone", {"n": 1}):
        profiler.enter_state("s")
        profiler.exit_state()
