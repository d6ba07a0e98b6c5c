"""Red zones: bytes before and behind an allocation, which nothing may write.

An allocator that wants its memory watched (:mod:`emu.accelerator.red_zones` makes torch's) lets the native code here
write the zones: 64 bytes before the memory, and an eighth of its size behind it, 64 to 4096 bytes. They are compared
when the memory is freed, and after each launch of a kernel for the arguments that point to such memory.

A pointer to the first byte of such memory is recognised by a table (``live_blocks``); the zone before it holds
its size and a check word. So an argument costs a launch some nanoseconds, and an address that is none costs no crash.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emu.tile.cpu import call, native
from emu.tile.cpu.run import crash, live_blocks
from emu.tile.cpu.run.crash_text import word as _word
from emu.tile.cpu.run.live_blocks import BEFORE

CANARY = 0xCB
LEAST, MOST = 64, 4096
"""Bounds of the zone behind the memory, in bytes."""
DAMAGED = -(1 << 61)
"""Status of a launch after which a zone is not as it was; no kernel returns it."""

_HEADER = 16
_RECORDS = 64
_WORDS = 6
_SHOWN = 16

_Entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


@dataclass(frozen=True)
class Damage:
    """Bytes of a zone that something wrote.

    Attributes:
        address: Of the memory that the zone belongs to.
        size: Of that memory, in bytes.
        first: Of the first byte that was written, counted from the memory's first byte: negative before it.
        last: Of the last one.
        written: What was found there, at most 16 bytes.
    """

    address: int
    size: int
    first: int
    last: int
    written: bytes

    def __str__(self) -> str:
        count = self.last - self.first + 1
        if self.first < 0:
            where = f"from {-self.first} bytes before its beginning"
        else:
            where = f"from {self.first - self.size} bytes behind its end"
        dots = " .." if count > len(self.written) else ""
        return f"{count} bytes {where} hold {self.written.hex(' ')}{dots}"


class Zones:
    """Native code of the zones, loaded into this process.

    Attributes:
        entry: Function that runs a kernel and looks at the zones of its arguments.
        look: The same without the kernel.
    """

    def __init__(self) -> None:
        name = native.new_name("emu.red_zones")
        code = native.to_object(_text(name), effort=native.Effort.FULL)
        addresses = (ctypes.c_int64 * 8).from_address(
            ctypes.CFUNCTYPE(ctypes.c_void_p)(native.load(code, name))()
        )
        entry, look, find, self.mark_address, self.release_check_address, records, count, _ = (
            addresses
        )
        self.entry: Callable[[int], int] = _Entry(entry)
        self.look: Callable[[int], int] = _Entry(look)
        self._find = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(find)
        self._records = (ctypes.c_int64 * (_RECORDS * _WORDS)).from_address(records)
        self._count = ctypes.c_int64.from_address(count)

    def size_of(self, address: int) -> int | None:
        """Return the size of the memory that begins at ``address``; None if it has no zones."""
        size = self._find(address)
        return None if size < 0 else size

    def find_damage(self, address: int) -> list[Damage]:
        """Return what was written around the memory at ``address``, and make its zones whole again."""
        size = self.size_of(address)
        if size is None:
            return []
        found = []
        zones = ((_HEADER - BEFORE, BEFORE - _HEADER), (size, zone_behind(size)))
        for offset, length in zones:
            held = ctypes.string_at(address + offset, length)
            wrong = [i for i, byte in enumerate(held) if byte != CANARY]
            if wrong:
                first, last = wrong[0], wrong[-1]
                written = held[first : last + 1][:_SHOWN]
                found.append(Damage(address, size, offset + first, offset + last, written))
                ctypes.memset(address + offset, CANARY, length)
        return found

    def take_freed(self) -> list[Damage]:
        """Return the damages that were found when memory was freed, and forget them."""
        count, self._count.value = self._count.value, 0
        found = []
        for at in range(0, min(count, _RECORDS) * _WORDS, _WORDS):
            address, size, first, last, low, high = self._records[at : at + _WORDS]
            written = ctypes.string_at((ctypes.c_int64 * 2)(low, high), _SHOWN)
            found.append(Damage(address, size, first, last, written[: last - first + 1]))
        return found


def zone_behind(size: int) -> int:
    """Return the bytes of the zone behind memory of ``size`` bytes."""
    return min(max(size >> 3 & ~63, LEAST), MOST)


_zones: Zones | None = None


def load() -> Zones:
    """Load the native code; kernels that are made ready from now on look at zones."""
    global _zones
    if _zones is None:
        _zones = Zones()
    return _zones


def loaded() -> Zones | None:
    """Return the native code if it was loaded."""
    return _zones


def report_launch(name: str, place: str, parameters: Sequence[tuple[str, str]], first: int) -> None:
    """Write to stderr what a launch, or one before it in other ways, wrote outside memory.

    Args:
        name: The kernel's.
        place: Its file and line.
        parameters: Name and type of each argument.
        first: Address of the packed arguments.
    """
    if _zones is None:
        return
    report_freed()
    values = (ctypes.c_int64 * len(parameters)).from_address(first)
    for (argument, type_), value in zip(parameters, values, strict=True):
        if not type_.startswith("ptr"):
            continue
        for damage in _zones.find_damage(value):
            at = f" ({place})" if place else ""
            _say(
                f"kernel {name}{at} wrote outside the memory of {argument or 'an argument'} "
                f"({type_}, {damage.size} bytes at {damage.address:#x}): {damage}"
            )


def report_freed() -> None:
    """Write to stderr what was found wrong when memory was freed."""
    if _zones is None:
        return
    for damage in _zones.take_freed():
        _say(
            f"memory of {damage.size} bytes at {damage.address:#x}, freed meanwhile, was written outside "
            f"its bounds: {damage}"
        )


def report_tensor(dtype: str, shape: tuple[int, ...], damage: Damage) -> None:
    """Write to stderr what was written around the memory of a tensor that is alive."""
    _say(
        f"something wrote outside the memory of a tensor of {dtype}, shape {shape} ({damage.size} bytes at "
        f"{damage.address:#x}): {damage}"
    )


_ADVICE = (
    "  Run it again with EMU_CHECK=bounds, or emu run --check bounds: that names the line, the lane and the "
    "tensor."
)


_reports: deque[str] = deque(maxlen=_RECORDS)


def take_reports() -> list[str]:
    """Return what was reported since this was called last, at most the last 64, each in one line without the advice."""
    found = list(_reports)
    _reports.clear()
    return found


def _say(text: str) -> None:
    _reports.append(text)
    sys.stderr.write(f"emu: {text}\n{_ADVICE}\n")
    sys.stderr.flush()


@functools.cache
def pointers(parameters: tuple[tuple[str, str], ...]) -> ctypes.Array[ctypes.c_int64]:
    """Return the numbers of the arguments that are pointers, behind their count."""
    numbers = [n for n, (_, type_) in enumerate(parameters) if type_.startswith("ptr")]
    return (ctypes.c_int64 * (len(numbers) + 1))(len(numbers), *numbers)


def _text(name: str) -> str:
    """Return the LLVM IR: a function that returns the addresses of the others."""
    table = ("entry", "look", "find", "mark", "release_check", "records", "count", "count")
    refs = ", ".join(f"ptr @{item}" for item in table)
    return f"""\
@records = internal global [{_RECORDS * _WORDS} x i64] zeroinitializer
@count = internal global i64 0
@table = internal global [8 x ptr] [{refs}]
define ptr @"{name}"() {{
  ret ptr @table
}}
{live_blocks.FIND}
{live_blocks.CHANGE}
{TAIL}
{_SCAN}
{_MARK}
{_release_check()}
{_look()}
{_entry()}
"""


TAIL = f"""\
; The bytes of the zone behind %size bytes.
define internal i64 @tail(i64 %size) alwaysinline {{
  %eighth = lshr i64 %size, 3
  %whole = and i64 %eighth, -64
  %small = icmp ult i64 %whole, {LEAST}
  %atleast = select i1 %small, i64 {LEAST}, i64 %whole
  %large = icmp ugt i64 %atleast, {MOST}
  %bytes = select i1 %large, i64 {MOST}, i64 %atleast
  ret i64 %bytes
}}
"""

_BYTES = "<64 x i8>"
_ALL = f"<{', '.join([f'i8 {CANARY - 256}'] * 64)}>"

_SCAN = f"""\
declare i64 @llvm.cttz.i64(i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
; Which of 64 bytes are not the canary.
define internal i64 @wrong(ptr %at) alwaysinline {{
  %held = load {_BYTES}, ptr %at, align 1
  %differ = icmp ne {_BYTES} %held, {_ALL}
  %mask = bitcast <64 x i1> %differ to i64
  ret i64 %mask
}}
"""

_MARK = f"""\
; Write the zones of %size bytes at %p.
define internal void @mark(i64 %p, i64 %size) {{
  %header = sub i64 %p, {BEFORE}
  %at = inttoptr i64 %header to ptr
  call void @llvm.memset.p0.i64(ptr %at, i8 {CANARY - 256}, i64 {BEFORE}, i1 false)
  store i64 %size, ptr %at, align 8
  %word = call i64 @check_word(i64 %p, i64 %size)
  %word.at = getelementptr i64, ptr %at, i64 1
  store i64 %word, ptr %word.at, align 8
  %end = add i64 %p, %size
  %behind = inttoptr i64 %end to ptr
  %bytes = call i64 @tail(i64 %size)
  call void @llvm.memset.p0.i64(ptr %behind, i8 {CANARY - 256}, i64 %bytes, i1 false)
  call void @add_block(i64 %p)
  ret void
}}
; Whether a byte of the zones of %size bytes at %p was written.
define internal i1 @is_damaged(i64 %p, i64 %size) alwaysinline {{
entry:
  %header = sub i64 %p, {BEFORE}
  %at = inttoptr i64 %header to ptr
  %all = call i64 @wrong(ptr %at)
  %front = and i64 %all, -65536
  %end = add i64 %p, %size
  %bytes = call i64 @tail(i64 %size)
  %stop = add i64 %end, %bytes
  br label %next
next:
  %place = phi i64 [ %end, %entry ], [ %further, %next ]
  %sum = phi i64 [ %front, %entry ], [ %more, %next ]
  %pointer = inttoptr i64 %place to ptr
  %mask = call i64 @wrong(ptr %pointer)
  %more = or i64 %sum, %mask
  %further = add i64 %place, 64
  %again = icmp ult i64 %further, %stop
  br i1 %again, label %next, label %done
done:
  %damaged = icmp ne i64 %more, 0
  ret i1 %damaged
}}
"""


_SCAN_ZONE = f"""\
; The first and the last byte from %from to before %stop, counted from %p, that was written; %from > last: none.
define internal {{ i64, i64 }} @written(i64 %p, i64 %from, i64 %stop) {{
entry:
  br label %next
next:
  %i = phi i64 [ %from, %entry ], [ %following, %next ]
  %first = phi i64 [ %stop, %entry ], [ %first1, %next ]
  %last = phi i64 [ {-(1 << 50)}, %entry ], [ %last1, %next ]
  %place = add i64 %p, %i
  %at = inttoptr i64 %place to ptr
  %byte = load i8, ptr %at
  %wrong = icmp ne i8 %byte, {CANARY - 256}
  %fresh = icmp eq i64 %first, %stop
  %sets = and i1 %wrong, %fresh
  %first1 = select i1 %sets, i64 %i, i64 %first
  %last1 = select i1 %wrong, i64 %i, i64 %last
  %following = add i64 %i, 1
  %more = icmp slt i64 %following, %stop
  br i1 %more, label %next, label %done
done:
  %one = insertvalue {{ i64, i64 }} poison, i64 %first1, 0
  %both = insertvalue {{ i64, i64 }} %one, i64 %last1, 1
  ret {{ i64, i64 }} %both
}}
; The {_SHOWN} bytes at %i, none of them from behind %stop.
define internal i128 @shown(i64 %p, i64 %i, i64 %stop) {{
  %near = sub i64 %stop, {_SHOWN}
  %late = icmp sgt i64 %i, %near
  %from = select i1 %late, i64 %near, i64 %i
  %source = add i64 %p, %from
  %source.at = inttoptr i64 %source to ptr
  %held = load i128, ptr %source.at, align 1
  %ahead = sub i64 %i, %from
  %bits = mul i64 %ahead, 8
  %wide = zext i64 %bits to i128
  %moved = lshr i128 %held, %wide
  ret i128 %moved
}}
"""

_RECORD = f"""\
define internal void @record(i64 %p, i64 %size, i64 %from, i64 %stop) {{
entry:
  %both = call {{ i64, i64 }} @written(i64 %p, i64 %from, i64 %stop)
  %first = extractvalue {{ i64, i64 }} %both, 0
  %last = extractvalue {{ i64, i64 }} %both, 1
  %none = icmp slt i64 %last, %from
  br i1 %none, label %out, label %keep
keep:
  %number = atomicrmw add ptr @count, i64 1 monotonic
  %room = icmp ult i64 %number, {_RECORDS}
  br i1 %room, label %store, label %out
store:
  %index = mul i64 %number, {_WORDS}
  %row = getelementptr i64, ptr @records, i64 %index
  %row1 = getelementptr i64, ptr %row, i64 1
  %row2 = getelementptr i64, ptr %row, i64 2
  %row3 = getelementptr i64, ptr %row, i64 3
  %row4 = getelementptr i64, ptr %row, i64 4
  %shown = call i128 @shown(i64 %p, i64 %first, i64 %stop)
  store i64 %p, ptr %row
  store i64 %size, ptr %row1
  store i64 %first, ptr %row2
  store i64 %last, ptr %row3
  store i128 %shown, ptr %row4, align 8
  br label %out
out:
  ret void
}}
"""


def _release_check() -> str:
    """Return the LLVM IR of what looks at memory that will be freed, and records what is wrong."""
    return f"""\
{_SCAN_ZONE}
{_RECORD}
define internal void @release_check(i64 %p) {{
entry:
  call void @remove_block(i64 %p)
  %header = sub i64 %p, {BEFORE}
  %at = inttoptr i64 %header to ptr
{_word("size", "at", 0)}
{_word("word", "at", 1)}
  %right = call i64 @check_word(i64 %p, i64 %size)
  %same = icmp eq i64 %right, %word
  br i1 %same, label %known, label %unknown
known:
  %damaged = call i1 @is_damaged(i64 %p, i64 %size)
  store i64 0, ptr %word.at, align 8
  br i1 %damaged, label %tell, label %out
tell:
  call void @record(i64 %p, i64 %size, i64 {_HEADER - BEFORE}, i64 0)
  %bytes = call i64 @tail(i64 %size)
  %stop = add i64 %size, %bytes
  call void @record(i64 %p, i64 %size, i64 %size, i64 %stop)
  ret void
unknown:
  call void @record(i64 %p, i64 0, i64 {-BEFORE}, i64 0)
  ret void
out:
  ret void
}}
"""


def _look() -> str:
    """Return the LLVM IR of the function that looks at the zones around what a launch was given."""
    return f"""\
define internal i64 @look(ptr %table) {{
entry:
{_word("facts_address", "table", call.FACTS)}
{_word("arguments_address", "table", call.ARGUMENTS)}
  %facts = inttoptr i64 %facts_address to ptr
  %arguments = inttoptr i64 %arguments_address to ptr
{_word("numbers_address", "facts", call.POINTERS)}
  %numbers = inttoptr i64 %numbers_address to ptr
  %pending = load atomic i64, ptr @count monotonic, align 8
  %found = icmp ne i64 %pending, 0
  %count = load i64, ptr %numbers
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %continue ]
  %sum = phi i1 [ %found, %entry ], [ %sum1, %continue ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %i1 = add i64 %i, 1
  %number.at = getelementptr i64, ptr %numbers, i64 %i1
  %number = load i64, ptr %number.at
  %value.at = getelementptr i64, ptr %arguments, i64 %number
  %p = load i64, ptr %value.at
  %size = call i64 @find(i64 %p)
  %plain = icmp slt i64 %size, 0
  br i1 %plain, label %continue, label %zones
zones:
  %damaged = call i1 @is_damaged(i64 %p, i64 %size)
  br label %continue
continue:
  %hit = phi i1 [ false, %one ], [ %damaged, %zones ]
  %sum1 = or i1 %sum, %hit
  br label %next
done:
  %status = select i1 %sum, i64 {DAMAGED}, i64 0
  ret i64 %status
}}
"""


def _run() -> str:
    """Return the LLVM IR that runs the kernel, and comes back after a fault where that is possible."""
    entry = crash.entry()
    if entry:
        return f"  %run = inttoptr i64 {entry} to ptr\n  %status = call i64 %run(ptr %table)"
    return f"""\
{_word("facts_address", "table", call.FACTS)}
  %facts = inttoptr i64 %facts_address to ptr
{_word("code", "facts", call.CODE)}
  %run = inttoptr i64 %code to ptr
  %status = call i64 %run(ptr %table)"""


def _entry() -> str:
    """Return the LLVM IR of the entry point of launches."""
    return f"""\
define internal i64 @entry(ptr %table) {{
entry:
{_run()}
  %failed = icmp ne i64 %status, 0
  br i1 %failed, label %out, label %zones
zones:
  %seen = call i64 @look(ptr %table)
  ret i64 %seen
out:
  ret i64 %status
}}
"""
