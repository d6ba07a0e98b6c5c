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


def test_profiles_show_the_work_of_a_device() -> None:
    check_on_devices(profiles)
