"""A trace's file: what is written is read, and what is damaged is refused with the byte."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from emu.trace.errors import TraceFileError
from emu.trace.events import EVENT, Kind, Site
from emu.trace.format import HEADER, OPENING, Chunk, TraceWriter
from emu.trace.reading import read_trace

META = {"n_pes": 2, "command": ["emu", "run"], "started": 1.5, "clock": 7}


def events(*rows: tuple[int, int, int]) -> np.ndarray:
    """Events of (start, duration, site)."""
    made = np.zeros(len(rows), EVENT)
    made["kind"], made["peer"] = Kind.PUT, -1
    for row, (start, duration, site) in zip(made, rows, strict=True):
        row["start"], row["duration"], row["site"] = start, duration, site
    return made


def write(path: Path, *, end: bool = True) -> None:
    with TraceWriter(path, META) as writer:
        writer.sites(0, [Site("put", "a.py", 3), Site("range", details={"text": "x"})])
        writer.events(0, events((20, 1, 0), (10, 5, 0), (10, 30, 1)))
        writer.sites(0, [Site("late")])
        writer.events(0, events((50, 0, 2)))
        writer.sites(1, [Site("other")])
        if end:
            writer.end("ok", 99, [0, 4])


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    write(path)
    trace = read_trace(path)
    assert trace.meta == META
    assert (trace.n_pes, trace.status, trace.lost) == (2, "ok", (0, 4))
    assert trace.sites[0] == (
        Site("put", "a.py", 3),
        Site("range", "", 0, {"text": "x"}),
        Site("late"),
    )
    assert trace.events[0]["start"].tolist() == [10, 10, 20, 50]
    assert trace.events[0]["duration"].tolist() == [30, 5, 1, 0]  # what contains others comes first
    assert len(trace.events[1]) == 0


def test_a_run_that_died_leaves_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    write(path, end=False)
    trace = read_trace(path)
    assert trace.status is None
    assert len(trace.events[0]) == 4


def test_a_file_that_is_cut_off_is_refused_but_between_chunks(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    write(path)
    whole = path.read_bytes()
    between, at = set(), OPENING.size
    while at < len(whole):
        at += HEADER.size + HEADER.unpack_from(whole, at)[2]
        between.add(at)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size in between:
            read_trace(path)
        else:
            with pytest.raises(TraceFileError, match=r"cut off|no trace of emu|META is missing"):
                read_trace(path)


def test_damaged_bytes_are_refused_or_read_but_never_crash(tmp_path: Path) -> None:
    path = tmp_path / "a.emutrace"
    write(path)
    whole = bytearray(path.read_bytes())
    random = np.random.default_rng(5)
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole)
        damaged[random.integers(len(whole))] = random.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(TraceFileError):
            read_trace(path)
            continue
        refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("kind", "pe", "payload", "message"),
    [
        (Chunk.EVENTS, 2, b"", r"PE must be in 0..1, but got 2"),
        (Chunk.EVENTS, 0, bytes(39), "multiple of 40, but got 39"),
        (
            Chunk.EVENTS,
            0,
            events((0, 0, 9)).tobytes(),
            "site of an event must be below 3, but got 9",
        ),
        (Chunk.EVENTS, 0, bytes(40), "kind of an event must be in 1..18, but got 0"),
        (
            Chunk.EVENTS,
            0,
            events((0, -1, 0)).tobytes(),
            r"duration of an event must be in 0\.\.\d+, but got -1",
        ),
        (Chunk.SITES, 0, b'[["a"]]', "a site must be"),
        (Chunk.SITES, 0, b"[", "no JSON"),
        (9, 0, b"", "9 is no kind of chunk"),
        (Chunk.END, 0, b'{"status": "ok"}', "END must have"),
    ],
)
def test_a_chunk_that_no_trace_has_is_refused(
    tmp_path: Path, kind: int, pe: int, payload: bytes, message: str
) -> None:
    path = tmp_path / "a.emutrace"
    write(path, end=False)
    path.write_bytes(path.read_bytes() + HEADER.pack(kind, pe, len(payload)) + payload)
    with pytest.raises(TraceFileError, match=message):
        read_trace(path)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match="cannot be read"):
        read_trace(tmp_path / "none")
    with pytest.raises(TraceFileError, match="cannot be written"):
        TraceWriter(tmp_path / "no" / "folder", META)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(TraceFileError, match="no trace of emu"):
        read_trace(tmp_path / "text")
