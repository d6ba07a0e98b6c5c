"""Read a trace.

Internal: names may change in any release.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.trace.errors import TraceError, TraceFileError
from emu.trace.events import EVENT, LATEST, Kind, Site, Thread
from emu.trace.format import HEADER, MAGIC, OPENING, VERSION, Chunk


@dataclass(frozen=True)
class Trace:
    """The events of a run.

    Attributes:
        meta: What META says (:mod:`emu.trace.format`).
        sites: A table for each PE.
        events: An array (dtype ``EVENT``) for each PE, by start; of those that start together the longer one first, so that what contains others stands before them.
        status: "ok", or what ended the run; None: the trace stops before the run ended.
        lost: Events for which a PE's ring had no room.
    """

    meta: dict[str, Any]
    sites: tuple[tuple[Site, ...], ...]
    events: tuple[npt.NDArray[Any], ...]
    status: str | None
    lost: tuple[int, ...]

    @property
    def n_pes(self) -> int:
        """Number of PEs."""
        return len(self.events)


def read_trace(path: Path | str) -> Trace:
    """Read a trace.

    Args:
        path: A file that ``emu run --trace FILE.emutrace`` has written.

    Raises:
        TraceError: ``path`` is no path.
        TraceFileError: The file cannot be read, is no trace, is cut off within a chunk, or holds what no trace can.
    """
    if not isinstance(path, (str, Path)):
        raise TraceError(f"path must be a string or a Path, but got {path!r:.80}")
    path = Path(path)
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise TraceFileError(f"the trace {str(path)!r:.400} cannot be read: {why}") from None
    return parse_trace(path, data)


def parse_trace(path: Path, data: bytes) -> Trace:
    """Read a trace from what a file has.

    Args:
        path: What errors call it.
        data: The bytes.

    Raises:
        TraceFileError: It is no trace, is cut off within a chunk, or holds what no trace can.
    """
    return _Reader(path, data).trace()


class _Reader:
    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._data = data

    def trace(self) -> Trace:
        meta: dict[str, Any] | None = None
        end: dict[str, Any] | None = None
        sites: list[list[Site]] = []
        events: list[list[npt.NDArray[Any]]] = []
        for kind, pe, start, size in self._chunks():
            if meta is None:
                if kind != Chunk.META:
                    raise self._damaged(start, "the first chunk must be META")
                meta = self._meta(start, size)
                sites = [[] for _ in range(meta["n_pes"])]
                events = [[] for _ in range(meta["n_pes"])]
            elif end is not None:
                raise self._damaged(start, "nothing may follow END")
            elif kind == Chunk.END:
                end = self._end(start, size, len(events))
            elif kind not in (Chunk.SITES, Chunk.EVENTS):
                raise self._damaged(start, f"{kind} is no kind of chunk")
            elif not 0 <= pe < len(events):
                raise self._damaged(start, f"PE must be in 0..{len(events) - 1}, but got {pe}")
            elif kind == Chunk.SITES:
                sites[pe] += self._sites(start, size)
            else:
                events[pe].append(self._events(start, size, len(sites[pe])))
        if meta is None:
            raise self._damaged(OPENING.size, "META is missing")
        return Trace(
            meta=meta,
            sites=tuple(tuple(table) for table in sites),
            events=tuple(_in_order(parts) for parts in events),
            status=None if end is None else end["status"],
            lost=(0,) * len(events) if end is None else tuple(end["lost"]),
        )

    def _chunks(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield kind, PE, and where the payload lies."""
        data, length = self._data, len(self._data)
        if length < OPENING.size or data[: len(MAGIC)] != MAGIC:
            raise TraceFileError(
                f"{self._path} is no trace of emu: it does not begin with {MAGIC.decode()}"
            )
        _, version, _ = OPENING.unpack_from(data)
        if version != VERSION:
            raise TraceFileError(
                f"{self._path}: the version of a trace must be {VERSION}, but got {version}"
            )
        at = OPENING.size
        while at < length:
            if at + HEADER.size > length:
                raise self._damaged(at, "it is cut off within the header of a chunk")
            kind, pe, size = HEADER.unpack_from(data, at)
            at += HEADER.size
            if size > length - at:
                raise self._damaged(
                    at, f"it is cut off: a chunk has {size} bytes, of which {length - at} are there"
                )
            yield kind, pe, at, size
            at += size

    def _meta(self, start: int, size: int) -> dict[str, Any]:
        meta = self._json(start, size)
        if not isinstance(meta, dict):
            raise self._damaged(start, "META must be an object")
        n_pes = meta.get("n_pes")
        if not isinstance(n_pes, int) or isinstance(n_pes, bool) or not 1 <= n_pes < 2**15:
            raise self._damaged(
                start, f"n_pes of META must be in 1..{2**15 - 1}, but got {n_pes!r:.80}"
            )
        for name, fits, what in _META:
            given = meta.get(name)
            if given is not None and not fits(given):
                raise self._damaged(start, f"{name} of META must be {what}, but got {given!r:.80}")
        return meta

    def _end(self, start: int, size: int, n_pes: int) -> dict[str, Any]:
        end = self._json(start, size)
        whole = isinstance(end, dict) and isinstance(end.get("status"), str)
        lost = end.get("lost") if whole else None
        if not isinstance(lost, list) or len(lost) != n_pes or not all(_is_whole(n) for n in lost):
            raise self._damaged(start, f"END must have a status, and `lost` of {n_pes} PEs")
        return dict(end)

    def _sites(self, start: int, size: int) -> list[Site]:
        table = self._json(start, size)
        if not isinstance(table, list):
            raise self._damaged(start, "SITES must be a list")
        sites = []
        for entry in table:
            match entry:
                case [str(name), str(file), int(line), None | {} as details] if 0 <= line < _LINES:
                    sites.append(Site(name, file, line, details))
                case _:
                    raise self._damaged(
                        start, f"a site must be [name, file, line, details], but got {entry!r:.80}"
                    )
        return sites

    def _events(self, start: int, size: int, n_sites: int) -> npt.NDArray[Any]:
        if size % EVENT.itemsize:
            raise self._damaged(
                start, f"bytes of events must be a multiple of {EVENT.itemsize}, but got {size}"
            )
        events = np.frombuffer(self._data, EVENT, size // EVENT.itemsize, start)
        for field, bad, bound in (
            ("site", events["site"] >= n_sites, f"below {n_sites}"),
            (
                "kind",
                (events["kind"] < min(Kind)) | (events["kind"] > max(Kind)),
                f"in 1..{max(Kind)}",
            ),
            ("thread", events["thread"] > max(Thread), f"in 0..{max(Thread)}"),
            *(
                (name, (events[name] < 0) | (events[name] >= LATEST), f"in 0..{LATEST - 1}")
                for name in ("start", "duration")
            ),
        ):
            if bad.any():
                first = int(bad.argmax())
                got = int(events[field][first])
                raise self._damaged(
                    start + first * EVENT.itemsize,
                    f"{field} of an event must be {bound}, but got {got}",
                )
        return events

    def _json(self, start: int, size: int) -> Any:
        data = self._data[start : start + size]
        try:
            found = json.loads(data)
            return _as_text(found) if _SURROGATE in data else found
        except (ValueError, RecursionError) as error:
            raise self._damaged(start, f"it has no JSON there ({error})") from None

    def _damaged(self, at: int, why: str) -> TraceFileError:
        return TraceFileError(f"the trace {self._path} is damaged at byte {at}: {why}")


_LINES = 1 << 31
_SURROGATE = b"\\ud"
"""With this the half of a character may begin that JSON has and no text may."""


def _as_text(value: Any) -> Any:
    """Return a value of JSON whose texts can be encoded: half a character, which names of programs may have, is replaced."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    if isinstance(value, dict):
        return {_as_text(name): _as_text(each) for name, each in value.items()}
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LATEST


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _is_link(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and all(_is_number(n) and n >= 0 for n in value)
    )


_META: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("command", _is_words, "a list of words"),
    ("started", lambda value: _is_number(value) and 0 <= value < LATEST, "seconds since 1970"),
    ("clock", _is_whole, f"in 0..{LATEST - 1}"),
    ("host", lambda value: isinstance(value, str), "a text"),
    ("version", lambda value: isinstance(value, str), "a text"),
    ("pes_per_host", lambda value: _is_whole(value) and value > 0, f"in 1..{LATEST - 1}"),
    ("link", _is_link, "[bytes a second, seconds]"),
)
"""What else META may say: name, test, what it must be."""


def _in_order(parts: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return events by start, the longer one first; of those that are alike in both, the one that was written first."""
    if not parts:
        return np.empty(0, EVENT)
    events = parts[0] if len(parts) == 1 else np.concatenate(parts)
    start = np.ascontiguousarray(events["start"])
    # Events were written as they ended, so that long stretches are in order: a stable sort merges those.
    order = np.argsort(start, kind="stable")
    _order_ties(order, start, events["duration"])
    return np.take(events, order)


def _order_ties(
    order: npt.NDArray[np.intp], start: npt.NDArray[np.int64], duration: npt.NDArray[np.int64]
) -> None:
    """Put the longer one first among those that start together."""
    sorted_start = start[order]
    same = sorted_start[1:] == sorted_start[:-1]
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    among = np.flatnonzero(tied)
    events = order[among]
    order[among] = events[np.lexsort((-duration[events], start[events]))]
