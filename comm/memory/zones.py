"""Red zones of the symmetric heap: bytes around each array that nothing may write.

64 bytes before an array, and 64 behind it (1024 from a page on), hold a fixed byte in each member's heap. They
are compared when the last member frees the array, and by the launcher when all PEs have ended. They take none
of the memory that ``heap_size`` gives: the heaps are larger by them, in address space that only touched pages fill.

The launcher uses this module too, which is why nothing here loads Numba.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from emu.comm.layout import LINE, Layout, round_up, zone_behind
from emu.comm.memory.segment import Segment
from emu.comm.memory.table import Table

_CANARY = 0xCB
_WHOLE = bytes([_CANARY]) * (zone_behind(1 << 40) + LINE)
_SHOWN = 16
_ADVICE = "  EMU_RED_ZONES=0 switches these checks off."


@dataclass(frozen=True)
class Damage:
    """Bytes of a zone that something wrote.

    Attributes:
        array: Description of the array that the zone belongs to.
        pe: The PE in whose heap it is.
        where: Where the bytes are, seen from the array.
        written: What was found there, at most 16 bytes.
        count: From the first to the last byte that was written.
    """

    array: str
    pe: int
    where: str
    written: bytes
    count: int

    def __str__(self) -> str:
        dots = " .." if self.count > len(self.written) else ""
        return (
            f"something wrote outside symmetric array {self.array} on PE {self.pe}: {self.count} bytes "
            f"{self.where} hold {self.written.hex(' ')}{dots}"
        )


def extent(layout: Layout, offset: int, nbytes: int) -> tuple[int, int]:
    """Return where an array with its zones begins and ends in a heap."""
    if not nbytes or not layout.zones:
        return offset, offset + nbytes
    return offset - LINE, round_up(offset + nbytes + zone_behind(nbytes), LINE)


def write(segment: Segment, members: tuple[int, ...], offset: int, nbytes: int) -> None:
    """Write the zones of a new array on each member."""
    first, last = extent(segment.layout, offset, nbytes)
    for pe in members:
        heap = segment.layout.heaps + pe * segment.layout.stride
        segment.bytes[heap + first : heap + offset] = _CANARY
        segment.bytes[heap + offset + nbytes : heap + last] = _CANARY


def find_damage(
    segment: Segment, table: Table, members: tuple[int, ...], index: int
) -> Iterator[Damage]:
    """Return what was written around an array on each member."""
    entry = table.entries[index]
    offset, nbytes = int(entry["offset"]), int(entry["nbytes"])
    if not entry["zones"] or not nbytes:
        return
    first, last = extent(segment.layout, offset, nbytes)
    for pe in members:
        heap = segment.layout.heaps + pe * segment.layout.stride
        for start, end in ((first, offset), (offset + nbytes, last)):
            held = segment.bytes[heap + start : heap + end].tobytes()
            if held != _WHOLE[: end - start]:
                yield _describe(table, index, pe, start, held)


def _describe(table: Table, index: int, pe: int, start: int, held: bytes) -> Damage:
    entry = table.entries[index]
    offset, nbytes = int(entry["offset"]), int(entry["nbytes"])
    wrong = [i for i, byte in enumerate(held) if byte != _CANARY]
    first = start + wrong[0]
    count = wrong[-1] - wrong[0] + 1
    if first < offset:
        where = f"from {offset - first} bytes before its beginning"
    else:
        where = f"from {first - offset - nbytes} bytes past its end"
    text = table.describe_array(index)
    written = held[wrong[0] : wrong[-1] + 1][:_SHOWN]
    return Damage(text, pe, where, written, count)


def report(damages: list[Damage]) -> None:
    """Write to stderr what was found."""
    if damages:
        text = "".join(f"emu: {damage}\n" for damage in damages)
        sys.stderr.write(f"{text}{_ADVICE}\n")
        sys.stderr.flush()


def report_all(segment: Segment) -> None:
    """Report what was written around the arrays that are still allocated, when all PEs have ended."""
    if not segment.layout.zones:
        return
    table = Table(segment)
    found: list[Damage] = []
    for index in table.used():
        members = segment.members(int(table.entries["group"][index]))
        found += find_damage(segment, table, members, index)
    report(found)
