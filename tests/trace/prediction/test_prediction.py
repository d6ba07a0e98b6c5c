"""A whole prediction: rows, where time goes, what-ifs, and the predicted trace as a trace."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_programs import TraceMaker, random_trace
from trace_samples import sample

from emu.trace.events import EVENT, Kind, Site
from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import kernel_time
from emu.trace.prediction.prediction import Prediction, predict
from emu.trace.prediction.pricing import Options, Pricer
from emu.trace.prediction.rank import rank
from emu.trace.prediction.writing import write_prediction
from emu.trace.reading import Trace, read_trace

H100 = load_device("h100")
TRACE = sample().trace()


@pytest.fixture(scope="module")
def prediction() -> Prediction:
    return predict(TRACE, H100)


def test_each_kernel_and_each_kind_of_communication_has_a_row(prediction: Prediction) -> None:
    rows = {row.name: row for row in prediction.rows}
    assert set(rows) == {
        "matmul",
        "put",
        "rms_norm",
        "without counts",
        "all_reduce",
        "put_signal",
        "wait_until",
        "barrier",
    }
    product = rows["matmul"]
    assert (product.bound, product.unit, product.count, product.counted) == (
        "compute",
        "dot f16",
        2,
        True,
    )
    pricer = Pricer(TRACE, H100, Options())
    work = pricer.work(0, int(TRACE.events[0]["site"][TRACE.events[0]["kind"] == Kind.LAUNCH][0]))
    assert work is not None
    assert product.predicted == pytest.approx(2 * kernel_time(work, H100).execution, rel=1e-4)
    assert product.flops == 2 * 2 * 4096**3
    assert (rows["rms_norm"].bound, rows["rms_norm"].unit) == ("memory", "hbm")
    assert rows["all_reduce"].bound in ("link", "wait")
    assert rows["wait_until"].bound == "wait"


def test_a_kernel_without_counts_is_scaled_as_the_counted_ones_and_marked(
    prediction: Prediction,
) -> None:
    rows = {row.name: row for row in prediction.rows}
    counted = [rows["matmul"], rows["rms_norm"]]
    factor = sum(r.predicted for r in counted) / sum(r.recorded for r in counted)
    scaled = rows["without counts"]
    assert not scaled.counted
    assert scaled.predicted == pytest.approx(scaled.recorded * factor, rel=1e-3)
    assert any(
        "2 events have no counts" in note and "counted kernels of this trace" in note
        for note in prediction.notes
    )
    given_ = predict(TRACE, H100, Options(uncounted=0.5))
    assert {r.name: r for r in given_.rows}["without counts"].predicted == pytest.approx(
        1e-3, rel=1e-6
    )


def test_time_goes_to_computing_communicating_waiting_and_nothing(prediction: Prediction) -> None:
    assert prediction.recorded == pytest.approx(0.120001)
    for pe in prediction.pes:
        assert pe.total == pytest.approx(pe.compute + pe.link - pe.both + pe.wait + pe.idle)
        assert min(pe.compute, pe.link, pe.both, pe.wait, pe.idle) >= 0
        assert 0 < pe.overlap < 1  # the put is hidden behind the product, the all-reduce is not
    assert prediction.seconds == max(pe.total for pe in prediction.pes)
    assert prediction.bound == "compute"


def test_a_what_if_is_another_device() -> None:
    slow = predict(TRACE, H100.changed(["link=0.01x"]))
    assert slow.bound == "link"
    assert slow.seconds > predict(TRACE, H100).seconds
    assert "changed: link=0.01x" in slow.to_data()["status"]


def test_other_numbers_of_programs_are_another_grid() -> None:
    rows = {r.name: r for r in predict(TRACE, H100, Options(programs={"matmul": 133})).rows}
    assert rows["matmul"].waves == 2
    assert rows["matmul"].tail == pytest.approx(133 / 264)
    with pytest.raises(
        PredictionError,
        match=r"programs must name a kernel of the trace \(matmul, rms_norm, without counts\), but got 'x'",
    ):
        predict(TRACE, H100, Options(programs={"x": 1}))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"host": -1}, r"host must be a number in \[0, 1e6\], but got -1"),
        ({"host": float("nan")}, "host must be a number"),
        ({"host": "1"}, "host must be a number"),
        ({"uncounted": True}, "uncounted must be a number"),
        ({"programs": {"matmul": 0}}, r"programs of 'matmul' must be in \[1, "),
        ({"programs": {"matmul": 1.5}}, r"programs of 'matmul' must be in"),
    ],
)
def test_wrong_options_are_refused(how: dict[str, object], message: str) -> None:
    with pytest.raises(PredictionError, match=message):
        Options(**how)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**9),
    n_pes=st.integers(1, 4),
    length=st.integers(0, 30),
    name=st.sampled_from(["h100", "a2"]),
)
def test_any_run_is_predicted_and_the_sums_are_those_of_time(
    seed: int, n_pes: int, length: int, name: str
) -> None:
    prediction = predict(random_trace(seed, n_pes, length), load_device(name))
    for pe in prediction.pes:
        assert pe.total == pytest.approx(
            pe.compute + pe.link - pe.both + pe.wait + pe.idle, abs=1e-12
        )
        assert min(pe.compute, pe.link, pe.both, pe.wait, pe.idle) >= -1e-15
    json.dumps(prediction.to_data(), allow_nan=False)


def test_a_longer_memory_of_the_host_never_shortens_a_run() -> None:
    totals = [predict(TRACE, H100, Options(host=host)).seconds for host in (0, 0.01, 0.1, 1)]
    assert totals == sorted(totals)


# The predicted trace


@pytest.mark.parametrize("beside", [False, True])
def test_the_predicted_timeline_is_a_trace(
    tmp_path: Path, prediction: Prediction, beside: bool
) -> None:
    path = tmp_path / "p.emutrace"
    write_prediction(path, prediction, beside=beside)
    trace = read_trace(path)
    shift = 2 if beside else 0
    assert trace.n_pes == 2 + shift
    assert trace.status == "ok"
    assert trace.meta["predicted"]["device"] == H100.name
    assert "uncalibrated" in trace.meta["predicted"]["status"]
    for pe in range(2):
        events = trace.events[pe + shift]
        assert len(events) == len(TRACE.events[pe])
        assert int((events["start"] + events["duration"]).max()) <= prediction.replayed.total
        assert sorted(events["kind"]) == sorted(TRACE.events[pe]["kind"])
        site = next(
            s
            for s in trace.sites[pe + shift]
            if s.name == "matmul" and s.details and "grid" in s.details
        )
        assert site.details["bound"] == "compute (dot f16)"
        assert set(events["peer"][events["peer"] >= 0]) <= {shift, shift + 1}
    if beside:
        flows = [set(e["flow"][e["flow"] > 0].tolist()) for e in trace.events]
        assert not (flows[0] | flows[1]) & (flows[2] | flows[3])
        assert trace.events[0]["start"].min() == 0


def test_what_lies_within_a_collective_keeps_its_place(tmp_path: Path) -> None:
    maker = TraceMaker(1)
    maker.add(0, Kind.COLLECTIVE, 0, 1000, size=1 << 20, flow=1, name="all_reduce")
    maker.add(0, Kind.PUT, 500, 100, size=8)
    trace = maker.trace()
    replayed = predict(trace, H100).replayed
    assert (
        replayed.begin[0][1]
        == replayed.begin[0][0] + (replayed.end[0][0] - replayed.begin[0][0]) // 2
    )


def test_an_unwritable_file_is_refused(tmp_path: Path, prediction: Prediction) -> None:
    from emu.trace.errors import TraceFileError

    with pytest.raises(TraceFileError, match="cannot be written"):
        write_prediction(tmp_path / "none" / "p.emutrace", prediction)


# Configurations


def test_configurations_of_a_kernel_are_ordered() -> None:
    maker = TraceMaker(1)
    from trace_counts import counts_json

    for number, programs in enumerate((8, 64, 512)):
        details = {
            "grid": [programs, 1, 1],
            "counts": counts_json(
                programs=programs, dot={"f16": 1 << 36}, tensors=[(1 << 24, 1 << 24)]
            ),
        }
        site = maker.site(0, f"k{number}", details)
        maker.sites[0][site] = maker.sites[0][site]._replace(name="k")
        maker.then(0, Kind.LAUNCH, 1000 - programs, name=f"k{number}")
    ranked = rank(maker.trace(), "k", H100)
    assert [each.work.programs for each in ranked] == [512, 64, 8]
    assert [each.place for each in ranked] == [2, 1, 0]
    assert np.isclose(ranked[0].recorded, (1000 - 512) * 1e-9)
    with pytest.raises(
        PredictionError, match=r"kernel must be one that was counted \(k\), but got 'x'"
    ):
        rank(maker.trace(), "x", H100)


# What no run has recorded


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**9), n_pes=st.integers(1, 3), length=st.integers(0, 12))
def test_a_trace_of_no_run_is_predicted_or_refused(seed: int, n_pes: int, length: int) -> None:
    draws = np.random.default_rng(seed)
    tables, arrays = [], []
    for _ in range(n_pes):
        events = np.zeros(length, EVENT)
        far = draws.integers(-(2**62), 2**62, length)
        events["start"] = np.where(
            draws.random(length) < 0.9, draws.integers(0, 30, length), far // 4
        )
        events["duration"] = np.where(
            draws.random(length) < 0.9, draws.integers(0, 20, length), abs(far) // 4
        )
        events["size"] = np.where(draws.random(length) < 0.8, draws.integers(0, 99, length), far)
        events["flow"] = draws.integers(0, 4, length)
        events["kind"] = draws.integers(1, max(Kind) + 1, length)
        events["thread"] = draws.integers(0, 4, length)
        events["peer"] = draws.integers(-3, 6, length)
        arrays.append(events[np.lexsort((-events["duration"], events["start"]))])
        tables.append((Site("x", details={"turn": int(draws.integers(0, 3)), "members": 5}),))
    trace = Trace({"n_pes": n_pes}, tuple(tables), tuple(arrays), None, (0,) * n_pes)
    with contextlib.suppress(PredictionError):
        json.dumps(predict(trace, H100).to_data(), allow_nan=False)
