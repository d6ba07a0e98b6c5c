"""Sessions: what is measured, and the file that is written."""

import json

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton import profiler
from emu.triton.profiler import sessions


def told(grid, metadata, arguments):
    return {"name": "counted", "bytes": 8 * grid[0]}


@triton.jit(launch_metadata=told)
def kernel(x_ptr):
    tl.store(x_ptr + tl.program_id(0), 1.0)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert sessions._sessions == {}
    assert not triton.knobs.runtime.launch_enter_hook
    assert not triton.knobs.runtime.launch_exit_hook


def test_launches_are_counted_in_the_scope_that_they_ran_in(folder):
    x = np.zeros(2)
    session = profiler.start("run", hook="triton")
    kernel[(1,)](x)
    with profiler.scope("outer", {"flops": 10}):
        for _ in range(3):
            kernel[(2,)](x)
        profiler.deactivate(session)
        kernel[(2,)](x)
        profiler.activate(session)
    profiler.finalize(session)
    tree, device = json.loads((folder / "run.hatchet").read_text())
    assert set(device) == {"EMU"}
    first, outer = tree["children"]
    assert first["frame"]["name"] == "counted"
    assert first["metrics"]["count"] == 1
    assert outer["metrics"] == {"flops": 10}
    (inner,) = outer["children"]
    assert (inner["metrics"]["count"], inner["metrics"]["bytes"]) == (3, 48)
    assert inner["metrics"]["time (ns)"] > 0


def test_without_a_hook_launches_are_not_measured(folder):
    profiler.start("plain")
    kernel[(1,)](np.zeros(1))
    assert not triton.knobs.runtime.launch_enter_hook
    profiler.finalize()
    tree, _ = json.loads((folder / "plain.hatchet").read_text())
    assert tree["children"] == []


def test_sessions_are_independent(folder):
    first, second = profiler.start("a"), profiler.start("b")
    profiler.deactivate(first)
    with profiler.scope("part"):
        pass
    profiler.finalize(first)
    profiler.finalize(second)
    children = [json.loads((folder / f"{n}.hatchet").read_text())[0]["children"] for n in "ab"]
    assert [len(c) for c in children] == [0, 1]


def test_a_decorated_function_is_a_session(folder):
    @profiler.profile(name="whole")
    def work(x):
        with profiler.scope("in"):
            return x + 1

    assert work(1) == 2
    assert "in" in (folder / "whole.hatchet").read_text()


def test_wrong_arguments_are_refused(folder):
    with pytest.raises(ValueError, match="hook must be 'triton' or None in emu, but got 'gpu'"):
        profiler.start(hook="gpu")
    with pytest.raises(ValueError, match="data must be 'tree' or None in emu, but got 'trace'"):
        profiler.start(data="trace")
    for function in (profiler.activate, profiler.deactivate, profiler.finalize):
        with pytest.raises(ValueError, match=r"session must be one of \[\], but got 99"):
            function(99)
    with pytest.raises(ValueError, match="output_format must be one of"):
        profiler.finalize(output_format="chrome")


def test_profiling_can_be_switched_off(folder, monkeypatch):
    monkeypatch.setenv("TRITON_PROTON_DISABLE", "1")
    assert profiler.start() is None
    profiler.deactivate(0)
    profiler.activate(0)
    profiler.finalize()
    assert list(folder.iterdir()) == []
