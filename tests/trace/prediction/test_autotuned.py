"""Kernels that are autotuned in a recorded run: what the trace has of their configurations, and the order that is predicted of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_programs import TraceMaker

from emu.commands.main import main
from emu.trace.events import Kind
from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.prediction import predict
from emu.trace.prediction.rank import rank
from emu.trace.reading import Trace, read_trace

PROGRAM = """
import numpy as np
import emu.triton as triton
import emu.triton.language as tl
from emu.trace.counting import collect


def shared(a, b, c, size, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    side = size // BLOCK
    first = pid // (GROUP * side) * GROUP
    rows = tl.minimum(side - first, GROUP)
    within = pid % (GROUP * side)
    i = (first + within % rows) * BLOCK + tl.arange(0, BLOCK)
    j = within // rows * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, 64, 32):
        kk = k + tl.arange(0, 32)
        acc += tl.dot(tl.load(a + i[:, None] * 64 + kk), tl.load(b + kk[:, None] * size + j))
    tl.store(c + i[:, None] * size + j, acc)


configs = [
    triton.Config({"GROUP": 1, "BLOCK": 16}, num_warps=4),
    triton.Config({"GROUP": 8, "BLOCK": 16}, num_warps=4),
    triton.Config({"GROUP": 8, "BLOCK": 16}, num_warps=8),
]
tuned = triton.autotune(configs, key=["size"])(triton.jit(shared))
a, b, c = np.ones((512, 64), np.float32), np.ones((64, 512), np.float32), np.zeros((512, 512), np.float32)
with collect() as found:
    tuned[(1024,)](a, b, c, 512)
assert (c == 64).all()
assert len(found) == 1  # that of the program
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("autotuned")
    script, trace = folder / "program.py", folder / "run.emutrace"
    script.write_text(PROGRAM)
    options = ["-n", "1", "--autotune", "full", "--count", "--trace", str(trace)]
    assert main(["run", *options, str(script)]) == 0
    return trace


def sites_of(trace: Trace, kind: Kind) -> list[Any]:
    events = trace.events[0][trace.events[0]["kind"] == kind]
    return [trace.sites[0][number] for number in events["site"].tolist()]


def test_each_configuration_is_an_event_that_has_been_counted_and_no_launch(
    recorded: Path,
) -> None:
    trace = read_trace(recorded)
    tuned = sites_of(trace, Kind.TUNE)
    settings = [site.details["configuration"] for site in tuned]
    assert [(s["GROUP"], s["num_warps"]) for s in settings] == [(1, 4), (8, 4), (8, 8)]
    assert [site.details["num_warps"] for site in tuned] == [4, 4, 8]
    assert [site.details["counts"]["programs"] for site in tuned] == [1024] * 3
    # The third has the second's code, and was not measured.
    assert ["measured_s" in site.details for site in tuned] == [True, True, False]
    assert all(site.details["measured_s"] > 0 for site in tuned[:2])
    assert {site.line for site in tuned} == {
        PROGRAM.split("\n").index("    tuned[(1024,)](a, b, c, 512)") + 1
    }
    assert len(sites_of(trace, Kind.LAUNCH)) == 1


def test_measuring_takes_no_time_on_a_device(recorded: Path) -> None:
    found = predict(read_trace(recorded), load_device("h100"))
    assert [(row.name, row.count) for row in found.rows] == [("shared", 1)]
    assert not any("no counts" in note for note in found.notes)


def test_the_order_of_programs_decides_where_memory_is_slow(
    recorded: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    slow = ["--set", "hbm=0.01x", "--set", "l2_size=64KiB", "--set", "sms=16"]
    arguments = ["predict", str(recorded), "--device", "h100", "--rank", "shared", *slow]
    assert main(arguments) == 0
    text = capfd.readouterr().out
    assert text.index("GROUP=8") < text.index("GROUP=1 ")
    assert "num_warps=8" in text
    assert main([*arguments, "--json"]) == 0
    rows = json.loads(capfd.readouterr().out)["configurations"]
    by_group = {(r["settings"]["GROUP"], r["settings"]["num_warps"]): r for r in rows}
    assert len(by_group) == 3
    assert by_group[1, 4]["seconds"] > 1.2 * by_group[8, 4]["seconds"]
    assert by_group[1, 4]["recorded_seconds"] > 0
    assert by_group[8, 8]["recorded_seconds"] is None


def test_a_configuration_that_cannot_be_is_refused() -> None:
    counts = {
        "version": 1, "launches": 1, "programs": 4, "operations": 4, "work": {}, "dots": [], "tensors": [], "atomics": {}, "by_program": [],
    }  # fmt: skip
    for wrong, message in (
        ({"configuration": 3}, "a configuration of 'k' must be names and values, but got 3"),
        ({"configuration": {}, "measured_s": "1"}, "measured_s must have finite numbers"),
    ):
        maker = TraceMaker(1)
        maker.then(0, Kind.TUNE, 10, name="k", details={"counts": counts, **wrong})
        with pytest.raises(PredictionError, match=message):
            rank(maker.trace(), "k", load_device("h100"))
