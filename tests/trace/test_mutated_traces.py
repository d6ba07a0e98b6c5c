"""Damaged traces are converted, summed up and shown, or refused by one error: nothing else happens."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from traces import bytes_of, training_loop

from emu.trace.converting import convert
from emu.trace.errors import TraceError, TraceFileError
from emu.trace.events import EVENT, LATEST
from emu.trace.format import HEADER, OPENING, Chunk
from emu.trace.page.html import to_html
from emu.trace.reading import read_trace
from emu.trace.statistics.summary import statistics_of

CAMPAIGN = int(os.environ.get("EMU_CAMPAIGN", "1"))
WHOLE = bytes_of(training_loop(3, 2))
Parts = list[tuple[int, int, bytes]]

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1 << 70, 1e308, float("nan"), float("inf"), "", "x" * 1000, "\ud800"),
    *([], {}, [1], {"a": 1}, "<script>", [-1, -1], "\x00", [[]]),
)


def parts_of(data: bytes) -> Parts:
    """Kind, PE and payload of each chunk."""
    parts, at = [], OPENING.size
    while at < len(data):
        kind, pe, size = HEADER.unpack_from(data, at)
        at += HEADER.size
        parts.append((kind, pe, data[at : at + size]))
        at += size
    return parts


def whole_of(parts: Parts) -> bytes:
    """The file of chunks."""
    packed = (HEADER.pack(kind, pe, len(data)) + data for kind, pe, data in parts)
    return WHOLE[: OPENING.size] + b"".join(packed)


def cut(rng: random.Random) -> bytes:
    return WHOLE[: rng.randrange(len(WHOLE))]


def flip(rng: random.Random) -> bytes:
    data = bytearray(WHOLE)
    for _ in range(rng.choice([1, 1, 2, 8, 64])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def shuffle(rng: random.Random) -> bytes:
    parts = parts_of(WHOLE)
    rng.shuffle(parts)
    return whole_of(parts)


def drop(rng: random.Random) -> bytes:
    parts = parts_of(WHOLE)
    del parts[rng.randrange(len(parts))]
    return whole_of(parts)


def repeat(rng: random.Random) -> bytes:
    parts = parts_of(WHOLE)
    parts.insert(rng.randrange(len(parts)), rng.choice(parts))
    return whole_of(parts)


def change_text(rng: random.Random) -> bytes:
    """Put another value somewhere into a chunk of JSON."""
    parts = parts_of(WHOLE)
    number = rng.choice([i for i, part in enumerate(parts) if part[0] != Chunk.EVENTS])
    kind, pe, data = parts[number]
    value = json.loads(data)
    for _ in range(rng.choice([1, 1, 3])):
        value = _changed(value, rng)
    parts[number] = kind, pe, json.dumps(value).encode()
    return whole_of(parts)


def _changed(value: Any, rng: random.Random) -> Any:
    place: tuple[Any, Any] | None = None
    at = value
    while isinstance(at, (list, dict)) and at and rng.random() < 0.8:
        key: Any = rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        place, at = (at, key), at[key]
    new = copy.deepcopy(rng.choice(VALUES))
    if place is None:
        return new
    place[0][place[1]] = new
    return value


def change_event(rng: random.Random) -> bytes:
    """Put extreme numbers into events."""
    parts = parts_of(WHOLE)
    number = rng.choice([i for i, part in enumerate(parts) if part[0] == Chunk.EVENTS])
    kind, pe, data = parts[number]
    events = np.frombuffer(data, EVENT).copy()
    for _ in range(rng.choice([1, 1, 5])):
        name = rng.choice(EVENT.names or ())
        bounds = np.iinfo(events.dtype[name])
        extremes = [0, 1, 5, bounds.max, bounds.min, bounds.max - 1, bounds.max >> 1]
        events[name][rng.randrange(len(events))] = rng.choice(extremes)
    parts[number] = kind, pe, events.tobytes()
    return whole_of(parts)


MUTATIONS = (cut, flip, shuffle, drop, repeat, change_text, change_text, change_event, change_event)


def to_json(path: Path) -> None:
    out = path.with_suffix(".json")
    convert(path, out)
    json.loads(out.read_text("utf-8"), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def to_perfetto(path: Path) -> None:
    convert(path, path.with_suffix(".pftrace"))


def to_figures(path: Path) -> None:
    json.dumps(statistics_of(read_trace(path)).to_json())


def to_page(path: Path) -> None:
    to_html(statistics_of(read_trace(path)), title="a").encode()


READERS = (to_json, to_perfetto, to_figures, to_page)


def check(path: Path, data: bytes, readers: tuple[Callable[[Path], None], ...]) -> int:
    """Give a file to readers; return how many refused it."""
    path.write_bytes(data)
    refusals = []
    for reader in readers:
        try:
            reader(path)
        except TraceError as error:
            refusals.append(str(error))
    assert all(len(text) < 1000 and "\n" not in text for text in refusals)
    return len(refusals)


def run(path: Path, seeds: range, readers: tuple[Callable[[Path], None], ...]) -> None:
    refused = 0
    for seed in seeds:
        rng = random.Random(seed)
        refused += check(path, rng.choice(MUTATIONS)(rng), readers)
    assert 0 < refused < len(seeds) * len(readers)


def test_mutated_traces_are_converted_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    run(tmp_path / "a.emutrace", range(60), (to_json, to_perfetto))


@pytest.mark.slow
def test_mutated_traces_are_read_or_refused_by_every_reader(tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    run(tmp_path / "a.emutrace", range(1000, 1000 + 400 * CAMPAIGN), READERS)


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"{}", WHOLE[:3], b"\x00" * 100, b"\x1f\x8b" * 50, WHOLE[::-1]]
)
def test_what_is_no_trace_is_refused_by_every_reader(data: bytes, tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    assert check(tmp_path / "a.emutrace", data, READERS) == len(READERS)


def changed_meta(**fields: Any) -> bytes:
    (kind, pe, data), *rest = parts_of(WHOLE)
    return whole_of([(kind, pe, json.dumps({**json.loads(data), **fields}).encode()), *rest])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("command", 1.5, "command of META must be a list of words, but got 1.5"),
        ("command", [1], "command of META must be a list of words"),
        ("clock", -1, r"clock of META must be in 0\.\."),
        ("clock", 1 << 62, r"clock of META must be in 0\.\."),
        ("started", float("inf"), "started of META must be seconds since 1970"),
        ("host", 3, "host of META must be a text"),
        ("pes_per_host", 0, r"pes_per_host of META must be in 1\.\."),
        ("link", [float("nan"), 0], r"link of META must be \[bytes a second, seconds\]"),
    ],
)
def test_a_description_that_no_run_has_is_refused(
    name: str, value: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.emutrace"
    path.write_bytes(changed_meta(**{name: value}))
    with pytest.raises(TraceFileError, match=message):
        read_trace(path)


@pytest.mark.parametrize(
    ("name", "value"), [("start", -1), ("start", LATEST), ("duration", LATEST)]
)
def test_times_that_no_clock_shows_are_refused(name: str, value: int, tmp_path: Path) -> None:
    parts = parts_of(WHOLE)
    number = next(i for i, part in enumerate(parts) if part[0] == Chunk.EVENTS)
    kind, pe, data = parts[number]
    events = np.frombuffer(data, EVENT).copy()
    events[name][1] = value
    parts[number] = kind, pe, events.tobytes()
    path = tmp_path / "a.emutrace"
    path.write_bytes(whole_of(parts))
    with pytest.raises(TraceFileError, match=rf"{name} of an event must be in 0\.\..*, but got"):
        read_trace(path)


def test_a_link_without_bounds_and_half_characters_become_json(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    path.write_bytes(changed_meta(link=[float("inf"), 1e-6], host="a\ud800b"))
    to_json(path)
    meta = json.loads(path.with_suffix(".json").read_text("utf-8"))["emu"]
    assert meta["link"] == ["Infinity", 1e-6]
    assert meta["host"] == "a\ufffdb"
