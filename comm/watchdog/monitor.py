"""The state of each PE of a running world, and its description for reports."""

from __future__ import annotations

import json
import struct
import time
from dataclasses import dataclass

import numpy as np

from emu.comm.layout import (
    B_ANSWERS,
    B_CALL_KIND,
    B_CALL_OFFSET,
    B_CALL_PE,
    B_CALL_SEEN,
    B_CALLS,
    B_POLLS,
    B_SAME,
    B_STATE,
    B_WAITING,
    B_WAITS,
    B_WORKS,
    DEAD,
    FINISHED,
    H_RECOVERED,
    H_RECOVERED_FROM,
    LEAVING,
    NOT_STARTED,
    RETURNED,
)
from emu.comm.memory.segment import Segment
from emu.comm.watchdog.compiling import is_compiling, is_reading_input
from emu.comm.watchdog.writers import last_written
from emu.comm.world.details import Description
from emu.kernels.core.dtype_table import DTYPES

_FIRST_DESCRIPTION_S = 0.15
_MANY = 1000
"""Number of calls in a row that changed nothing from which a report mentions them."""
CALLS = {0: "fetch", 2: "fetch_add", 3: "swap", 4: "compare_swap", 15: "get"}
"""Calls that may change nothing, by the operations that :func:`emu.comm.sync.signals.note_read` notes."""


@dataclass(frozen=True)
class PEState:
    """One PE at one moment."""

    pe: int
    state: int
    waiting: bool
    polls: int
    works: tuple[int, int]
    """Waits that ended, calls that changed memory."""
    reads: int
    """Number of calls in a row that changed nothing."""
    same: int
    """Number of times in a row that it was seen in the same loop that only reads."""
    answers: int
    """Number of answers to the launcher's queries."""
    description: Description


def read_state(segment: Segment, pe: int) -> PEState:
    """Read PE ``pe``'s status from its block."""
    block = segment.block(pe)
    waiting, polls = int(block[B_WAITING]) > 0, int(block[B_POLLS])
    description: Description = {}
    if waiting or polls:
        try:
            description = json.loads(segment.read_text(pe) or "{}")
        except ValueError:  # read while it was being written
            description = {}
    return PEState(
        pe,
        int(block[B_STATE]),
        waiting,
        polls,
        (int(block[B_WAITS]), int(block[B_WORKS])),
        int(block[B_CALLS]),
        int(block[B_SAME]),
        int(block[B_ANSWERS]),
        description,
    )


def describe(segment: Segment, pe: int) -> str:
    """Describe in one line what PE ``pe`` does; for a wait also the value that is there and its last writer."""
    return _describe(segment, pe, {})


def _describe(segment: Segment, pe: int, states: dict[int, PEState]) -> str:
    """Describe a PE; ``states`` keeps those that were read for one description for the next."""
    seen = _state_of(segment, pe, states)
    if seen.state == FINISHED:
        place = returned_from(segment, pe)
        return f"PE {pe} has finished" + (f" (it returned at {place})" if place else "")
    if seen.state == DEAD:
        return f"PE {pe} is dead"
    if seen.state == NOT_STARTED:
        return f"PE {pe} is starting"
    if is_compiling(segment, pe) and not (seen.waiting and seen.description):
        return f"PE {pe} is compiling a kernel"
    if is_reading_input(segment, pe):
        return f"PE {pe} reads standard input"
    if seen.state == LEAVING:
        return f"PE {pe} has returned, but waits for its {segment.read_place(pe)}"
    if not seen.waiting:
        return _describe_running(segment, seen, states)
    return _describe_wait(segment, seen, states)


def _state_of(segment: Segment, pe: int, states: dict[int, PEState]) -> PEState:
    if pe not in states:
        states[pe] = read_state(segment, pe)
    return states[pe]


def returned_from(segment: Segment, pe: int) -> str:
    """Return the place from which the function of a PE returned; empty if that is not known."""
    place = segment.read_place(pe)
    return place.removeprefix(RETURNED) if place.startswith(RETURNED) else ""


def _describe_running(segment: Segment, seen: PEState, states: dict[int, PEState]) -> str:
    pe, where = seen.pe, f"; it is in the loop at {segment.read_place(seen.pe)}"
    if not seen.same:
        where = ""
    if seen.polls and seen.description:
        return _describe_wait(segment, seen, states) + where
    if seen.reads and (seen.same or seen.reads >= _MANY):
        return f"PE {pe} polls {_describe_call(segment, seen)}{where}"
    if seen.same:
        return f"PE {pe} polls its symmetric memory{where}"
    return f"PE {pe} is running (not waiting)"


def _describe_call(segment: Segment, seen: PEState) -> str:
    """Describe what a PE reads again and again by a call of this package."""
    block = segment.block(seen.pe)
    pe, offset, kind = (int(block[i]) for i in (B_CALL_PE, B_CALL_OFFSET, B_CALL_KIND))
    call, size = CALLS.get(kind >> 4, "a call"), kind & 15
    what = f"{name_of(segment, offset)} on PE {pe} with {call}"
    if size:
        there = int(block[B_CALL_SEEN])
        what += f" (there: {there}, last writer: {last_writer(segment, pe, offset)})"
    return f"{what}: {seen.reads} calls in a row changed nothing"


def name_of(segment: Segment, offset: int) -> str:
    """Name the element at a byte offset of the heaps: ``flags[2]``."""
    table = segment.allocations
    inside = (table["offset"] <= offset) & (offset < table["offset"] + table["nbytes"])
    found = np.flatnonzero((table["used"] == 1) & inside)
    if not found.size:
        return f"byte {offset} of the heap"
    entry = table[int(found[0])]
    dtype = DTYPES[entry["dtype"]]
    shape = "x".join(str(int(n)) for n in entry["shape"][: entry["rank"]]) or "scalar"
    label = entry["name"].decode(errors="replace") or f"<{shape} {dtype}>"
    return f"{label}[{(offset - int(entry['offset'])) // dtype.itemsize}]"


def _describe_wait(segment: Segment, seen: PEState, states: dict[int, PEState]) -> str:
    pe = seen.pe
    call = seen.description.get("call")
    if call is None:
        return f"PE {pe} waits (just begun)"
    if "generation" in seen.description:
        return _describe_barrier(segment, pe, seen.description, states)
    if "text" in seen.description:
        return f"PE {pe} waits in {call} for {seen.description['text']}"
    slots = [_describe_slot(segment, pe, slot) for slot in seen.description.get("slots", [])]
    if seen.description.get("more"):
        slots.append(f"… and {seen.description['more']} more words")
    return f"PE {pe} waits in {call} for " + "; ".join(slots)


def _describe_barrier(
    segment: Segment, pe: int, description: Description, states: dict[int, PEState]
) -> str:
    entry = segment.group_entry(description["index"])
    members = segment.members(description["index"])
    missing, elsewhere = [], []
    for member in members:
        other = _state_of(segment, member, states)
        here = other.waiting and other.description.get("index") == description["index"]
        if not here:
            missing.append(member)
            if segment.layout.port_bytes and other.state == NOT_STARTED:
                elsewhere.append(member)
    # Of those on other hosts only the number that has come is known here, each host's all together.
    come = max(0, int(entry["arrived"]) - (len(members) - len(missing)))
    if come and come == len(elsewhere):
        missing = [pe for pe in missing if pe not in elsewhere]
    some = f" but for {come} of other hosts" if 0 < come < len(elsewhere) else ""
    inside = "" if description["call"] == "barrier" else f"{description['call']}, in "
    return (
        f"PE {pe} waits in {inside}barrier of group {description['group']!r}: {int(entry['arrived'])} of "
        f"{len(members)} have arrived, missing PEs {missing}{some}"
    )


def _describe_slot(segment: Segment, pe: int, slot: Description) -> str:
    layout = segment.layout
    size = abs(slot["size"])
    start = layout.heaps + pe * layout.stride + slot["offset"]
    form = {4: "<i", 8: "<q", -4: "<I", -8: "<Q"}[slot["size"]]
    there = struct.unpack(form, bytes(segment.bytes[start : start + size]))[0]
    writer = last_writer(segment, pe, slot["offset"])
    return (
        f"{slot['name']}[{slot['index']}] {slot['cmp']} {slot['value']} (there: {there}, "
        f"last writer: {writer})"
    )


def _details(seen: PEState) -> list[str]:
    """Return the lines that a PE has published about its wait (:mod:`emu.comm.world.details`)."""
    return [f"    {line}" for line in seen.description.get("details", [])]


def last_writer(segment: Segment, pe: int, offset: int) -> str:
    """Name the PE that last wrote a word by a signal, an atomic or a small put, as far as is known."""
    written = last_written(segment, pe, offset)
    return "nobody" if written is None else str(written.last)


def describe_all(segment: Segment, leave_out: frozenset[int] = frozenset()) -> str:
    """Describe every PE, one line each.

    A PE publishes what it waits for after its first slice: those that have just begun get that long.
    """
    end = time.monotonic() + _FIRST_DESCRIPTION_S
    while time.monotonic() < end and any(
        seen.waiting and not seen.description
        for seen in (read_state(segment, pe) for pe in range(segment.layout.n_pes))
    ):
        time.sleep(0.005)
    lines: list[str] = []
    states: dict[int, PEState] = {}
    for pe in range(segment.layout.n_pes):
        if pe not in leave_out:
            lines += [f"  {_describe(segment, pe, states)}", *_details(states[pe])]
    recovered = int(segment.header[H_RECOVERED])
    if recovered:
        owner = int(segment.header[H_RECOVERED_FROM]) - 1
        lines.append(
            f"  {recovered} lock(s) were recovered from dead PEs, the last from PE {owner}; what "
            "they protected may be half written"
        )
    return "\n".join(lines)
