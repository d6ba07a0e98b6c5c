"""A fit finds the numbers that times were made with; measured times that are none are refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.trace.prediction.calibration.fit import EFFICIENCIES, PARAMETERS, fit
from emu.trace.prediction.calibration.nnls import nnls
from emu.trace.prediction.calibration.suite import cases
from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.devices.files import load_device, parse_device, to_toml
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import kernel_time

H100 = load_device("h100")
SUITE = cases(H100)
TRUTH = {
    "launch.latency": "4.5us",
    "program.start": "0.7us",
    "program.op": "0.55us",
    "efficiency.dot": "0.72",
    "efficiency.vector": "0.9",
    "efficiency.special": "0.61",
    "efficiency.hbm": "0.88",
    "efficiency.l2": "0.5",
}


def timed(device: Device, noise: float = 0.0) -> dict[str, float]:
    draws = random.Random(1)
    return {
        case.name: kernel_time(case.work, device).seconds * (1 + noise * draws.uniform(-1, 1))
        for case in SUITE
    }


def test_there_are_62_micro_kernels_with_names_of_their_own() -> None:
    assert len({case.name for case in SUITE}) == len(SUITE) == 62
    assert {case.family for case in SUITE} == {
        "empty",
        "copy",
        "reread",
        "fma",
        "exp",
        "dot",
        "chain",
    }


def test_a_fit_finds_the_numbers_that_times_were_made_with() -> None:
    truth = H100.changed([f"{key}={value}" for key, value in TRUTH.items()])
    found = fit(H100, SUITE, timed(truth), date="2026-11-27", source="made up")
    assert found.unseen == ()
    assert found.error < 1e-6
    for key in PARAMETERS:
        assert found.device[key] == pytest.approx(truth[key], rel=1e-4), key
    assert found.device.calibrated
    assert found.device.numbers["efficiency.hbm"].source == "made up"


def test_noise_of_a_few_percent_moves_the_numbers_by_a_few_percent() -> None:
    truth = H100.changed([f"{key}={value}" for key, value in TRUTH.items()])
    found = fit(H100, SUITE, timed(truth, noise=0.03), date="2026-11-27", source="made up")
    assert found.error < 0.03
    for key in EFFICIENCIES:
        assert found.device[key] == pytest.approx(truth[key], rel=0.05), key


@settings(max_examples=12, deadline=None)
@given(
    values=st.lists(st.floats(0.2, 1.0), min_size=5, max_size=5),
    latency=st.floats(1e-6, 2e-5),
    op=st.floats(1e-8, 1e-6),
)
def test_other_numbers_are_found_too(values: list[float], latency: float, op: float) -> None:
    settings_ = [f"{key}={value!r}" for key, value in zip(EFFICIENCIES, values, strict=True)]
    truth = H100.changed([*settings_, f"launch.latency={latency!r}", f"program.op={op!r}"])
    found = fit(H100, SUITE, timed(truth), date="2026-11-27", source="made up")
    assert found.error < 0.01


def test_what_no_case_depends_on_stays_uncalibrated() -> None:
    measured = {
        name: seconds for name, seconds in timed(H100).items() if not name.startswith("exp")
    }
    found = fit(H100, SUITE, measured, date="2026-11-27", source="made up")
    assert found.unseen == ("efficiency.special",)
    assert not found.device.numbers["efficiency.special"].calibrated
    assert not found.device.calibrated


def test_a_calibrated_device_is_written_and_read() -> None:
    found = fit(H100, SUITE, timed(H100), date="2026-11-27", source="emu calibrate on a GPU")
    again = parse_device(to_toml(found.device).encode(), "x.toml")
    assert again.numbers == found.device.numbers
    assert again.status == "calibrated"


def test_too_few_times_or_impossible_ones_are_refused() -> None:
    with pytest.raises(
        PredictionError,
        match="measured must have times of at least 8 of the 62 micro-kernels, but has 0",
    ):
        fit(H100, SUITE, {"other": 1.0}, date="", source="x")
    for wrong in (0.0, -1.0, float("nan"), float("inf"), "1", True, None):
        with pytest.raises(
            PredictionError, match=r"measured\['copy f32 256 x 1'\] must be more than 0 seconds"
        ):
            fit(H100, SUITE, {**timed(H100), "copy f32 256 x 1": wrong}, date="", source="x")  # type: ignore[dict-item]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 12), columns=st.integers(1, 6))
def test_non_negative_least_squares_are_where_no_direction_helps(
    seed: int, rows: int, columns: int
) -> None:
    draws = np.random.default_rng(seed)
    a, b = draws.normal(size=(rows, columns)), draws.normal(size=rows)
    x = nnls(a, b)
    gradient = a.T @ (b - a @ x)
    assert (x >= 0).all()
    assert (gradient <= 1e-7).all()  # nothing that is bound wants to grow
    assert np.abs(gradient[x > 1e-12]).max(initial=0.0) < 1e-7  # nothing that is free wants to move
