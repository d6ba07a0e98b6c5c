"""Profiles of emulated devices."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def profiles():
    from torch.profiler import ProfilerActivity, profile, record_function

    x = torch.randn(8, 8, device="cuda")
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    for given in (activities, activities[1:]):
        with profile(activities=given, profile_memory=True) as seen, record_function("mine"):
            x @ x
        assert "aten::mm" in seen.key_averages().table(sort_by="cuda_time_total")


def profiles_of_kernels():
    from torch.profiler import profile

    from emu import triton
    from emu.kernels.core.launch_count import Launches
    from emu.triton import language as tl

    @triton.jit
    def scale_rows(x, n: tl.constexpr):
        at = tl.arange(0, n)
        tl.store(x + at, tl.load(x + at) * 2)

    x = torch.ones(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    scale_rows[(1,)](x, 8)
    with torch.cuda.graph(graph):
        scale_rows[(1,)](x, 8)
    with profile() as seen:
        scale_rows[(1,)](x, 8)
        graph.replay()
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            pass
        scale_rows[(1,)](x, 8)
    assert {e.key: e.count for e in seen.key_averages()}["scale_rows"] == 3
    assert Launches.around is None
    scale_rows[(1,)](x, 8)
    assert x.eq(32).all()


def test_profiles_show_kernels_by_name() -> None:
    check_on_devices(profiles_of_kernels)


def test_profiles_show_the_work_of_a_device() -> None:
    check_on_devices(profiles)
