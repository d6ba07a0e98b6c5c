"""Wrong arguments of what a program calls are refused by name, whether it is recorded or not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import Fuzzer, Target

import emu.trace
from emu.comm.world import recording
from emu.trace.converting import convert
from emu.trace.format import TraceWriter

CALLS = int(os.environ.get("EMU_FUZZ_CALLS", "400"))


class Nothing:
    """Takes events, and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def here(self, *_: object, **__: object) -> int:
        return 1

    site = here

    def write(self, *_: object) -> None:
        self.count += 1

    write_span = write


@pytest.fixture(params=[False, True], ids=["not recorded", "recorded"])
def state(request: pytest.FixtureRequest) -> Iterator[Any]:
    recorder: Any = Nothing() if request.param else None
    before, recording.active = recording.active, recorder
    yield lambda: recorder and recorder.count
    recording.active = before


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "a.emutrace"
    with TraceWriter(path, {"n_pes": 1}) as writer:
        writer.end("ok", 1, [0])
    return path


def enter(name: str) -> None:
    with emu.trace.range(name):
        pass


def test_wrong_arguments_are_named_and_record_nothing(state: Any, trace: Path) -> None:
    targets = [
        Target(name="range", function=enter, arguments=lambda: {"name": "step"}),
        Target(
            name="instant",
            function=emu.trace.instant,
            arguments=lambda: {"name": "here", "text": "what"},
            positional=("name",),
        ),
        Target(
            name="counter",
            function=emu.trace.counter,
            arguments=lambda: {"name": "tokens", "value": 4, "unit": "pieces"},
            positional=("name", "value"),
        ),
        Target(
            name="read_trace",
            function=emu.trace.read_trace,
            arguments=lambda: {"path": str(trace)},
            positional=("path",),
            also={"path": ("the trace",)},
        ),
    ]
    Fuzzer(targets, (emu.trace.TraceError,), seed=20261128, state=state).run(CALLS).check()


@pytest.mark.parametrize("value", [1.5, "1", None, 1 << 63, -(1 << 63) - 1, np.float32(1), [1]])
def test_a_counter_takes_integers_of_64_bits(value: Any) -> None:
    with pytest.raises(emu.trace.TraceError, match=r"value must be an integer of at most 64 bits"):
        emu.trace.counter("items", value)


@pytest.mark.parametrize("value", [np.int8(-3), True, (1 << 63) - 1, -(1 << 63)])
def test_any_integer_will_do(value: Any) -> None:
    emu.trace.counter("items", value)


@pytest.mark.parametrize("path", [3, None, ["a"], b"a", "a\0b"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(emu.trace.TraceError, match=r"path must be|the trace .* cannot be read"):
        emu.trace.read_trace(path)


def test_a_folder_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(emu.trace.TraceFileError, match="cannot be read: Is a directory"):
        emu.trace.read_trace(tmp_path)
    with pytest.raises(emu.trace.TraceFileError, match="cannot be read"):
        convert(tmp_path, tmp_path / "b.json")
