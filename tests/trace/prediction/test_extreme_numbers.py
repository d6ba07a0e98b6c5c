"""Numbers of devices of any size, and counts that are none: a prediction, or one error that says what is wrong."""

from __future__ import annotations

import copy
import json
import os
import random
from typing import Any

import pytest
from trace_counts import counts_json
from trace_programs import TraceMaker
from trace_samples import sample

from emu.trace.errors import TraceError
from emu.trace.events import Kind
from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.devices.keys import KEYS
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.prediction import predict
from emu.trace.prediction.pricing import Options
from emu.trace.prediction.rank import rank
from emu.trace.reading import Trace

CAMPAIGN = int(os.environ.get("EMU_CAMPAIGN", "1"))
VALUES = ("0", "5e-324", "1e-300", "1e-30", "1e-9", "0.001", "1", "1.5", "65536", "1e30", "1e300")
WEIRD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 1.5, "", "x", [], {}, [[]], [None], {"version": 1}),
    *(1e308, -1e308, 10**30, 10**400, 2**63, float("nan"), float("inf")),
)


def library_counts(**more: Any) -> dict[str, Any]:
    """Return the counts of a call of a library."""
    dot = {"batch": 2, "m": 64, "n": 32, "k": 16, "a": "bf16", "b": "bf16", "accumulator": "f32"}
    found = counts_json(programs=0, tensors=[(4096, 4096)], vector={"f32": 100})
    return found | {"dots": [{**dot, "times": 3}], "by_program": [], "operations": 5} | more


def with_calls() -> TraceMaker:
    """Return the sample with operators, a batch of PyPTO and its launch behind it."""
    maker = sample()
    batch = {"counts": [library_counts(), library_counts(launches=2)], "launches": 0}
    for pe in range(2):
        maker.then(pe, Kind.OP, 1000, name="mm", details={"counts": library_counts()})
        maker.then(pe, Kind.LAUNCH, 0, name="layer", details={"counts": []})
        maker.then(pe, Kind.OP, 1000, name="matmul, add", details=batch)
        details = {"turn": 0, "counts": [library_counts()]}
        maker.then(pe, Kind.TURN, 1000, name="partial products", details=details)
    return maker


TRACE = with_calls().trace()


@pytest.mark.parametrize("key", KEYS)
def test_a_number_of_any_size_gives_finite_times_or_one_error(key: str) -> None:
    refused: list[str] = []
    for device in ("a2", "h100"):
        for value in (*VALUES, "inf", "1e-300x", "1e300x"):
            try:
                found = predict(TRACE, load_device(device).changed([f"{key}={value}"]))
                json.dumps(found.to_data(), allow_nan=False)
            except PredictionError as error:
                refused.append(str(error))
            else:
                assert 0 < found.seconds <= 1e9
    assert all("must be" in text or "has no" in text for text in refused), refused
    assert bool(refused) == (key != "l2_size")  # a cache may be of any size
    assert len(refused) < 2 * (len(VALUES) + 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["hbm=1", "l2=1"], "the predicted time of an event must be at most 1e\\+09 s, but got "),
        (["sms=1.5"], "set: sms must be a whole number, but got 1.5"),
        (["sms=0.3x"], "set: sms must be a whole number, but got 39.6"),
        (["dot.f16=0.5"], r"set: dot.f16 must be at least 1 \(FLOP/s\), but got 0.5"),
        (["efficiency.dot=1e-9"], "set: efficiency.dot must be at least 1e-06 and at most 1"),
    ],
)
def test_what_is_wrong_is_said(changes: list[str], message: str) -> None:
    huge = TraceMaker(1)
    counts = library_counts(tensors=counts_json(programs=1, tensors=[(10**15, 10**15)])["tensors"])
    huge.then(0, Kind.OP, 5, name="op", details={"counts": counts})
    with pytest.raises(PredictionError, match=message):
        predict(huge.trace(), load_device("h100").changed(changes))


def test_times_that_add_up_to_more_than_a_run_may_take_are_refused() -> None:
    maker = TraceMaker(1)
    for _ in range(3):
        maker.then(0, Kind.OP, 600_000_000_000, name="op")
    with pytest.raises(PredictionError, match="of a run must be at most 1e\\+09 s, but PE 0"):
        predict(maker.trace(), load_device("h100"), Options(uncounted=1e6))


def mutated(value: Any, rng: random.Random) -> Any:
    """Return details with other values in some places, and without some."""
    if rng.random() < 0.002:
        return copy.deepcopy(rng.choice(WEIRD))
    if isinstance(value, dict):
        found = {key: mutated(each, rng) for key, each in value.items()}
        if found and rng.random() < 0.003:
            del found[rng.choice(list(found))]
        return found
    return [mutated(each, rng) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("share", range(4))
def test_counts_that_are_none_are_refused_by_one_error(share: int) -> None:
    refused = 0
    for seed in range(50 * CAMPAIGN):
        rng = random.Random(f"{share} {seed}")
        sites = tuple(
            tuple(site._replace(details=_details(site.details, rng)) for site in table)
            for table in TRACE.sites
        )
        trace = Trace(TRACE.meta, sites, TRACE.events, TRACE.status, TRACE.lost)
        try:
            predict(trace, load_device("a2"))
            rank(trace, "matmul", load_device("h100"))
        except TraceError:
            refused += 1
    assert 0 < refused < 50 * CAMPAIGN


def _details(details: dict[str, Any] | None, rng: random.Random) -> dict[str, Any] | None:
    found = mutated(details, rng) if details else details
    return found if isinstance(found, dict) else None
