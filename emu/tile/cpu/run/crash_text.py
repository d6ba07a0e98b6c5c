"""Text about a crash, written by native code: a signal's handler may neither call Python nor allocate memory.

Each kernel has a text with gaps prepared. A gap is two bytes: what is written there, and of which value.
"""

from __future__ import annotations

from emu.tile.cpu import call
from emu.tile.cpu.run import live_blocks

_HEX, _DECIMAL, _DISTANCE, _SIZE = 1, 2, 3, 4
"""First byte of a gap: the base in which a value is written, 16 or 10, or that its distance to the address of the
fault is written instead, or the size of the memory that begins there; the next byte says which value."""

_ADDRESS, _NUMBER_X, _NUMBER_Y, _NUMBER_Z, _X, _Y, _Z, _NAME = range(0xF0, 0xF8)
"""Values besides the arguments, whose numbers are below."""

_MOST_ARGUMENTS = 100
_MOST_TEXT = 8192
_ROOM = 16384


def note(name: str, place: str, parameters: tuple[tuple[str, str], ...]) -> bytes:
    """Return the text about a kernel, with gaps."""

    def gap(which: int, base: int = _DECIMAL) -> bytes:
        return bytes([base, which])

    program = b", ".join(map(gap, (_NUMBER_X, _NUMBER_Y, _NUMBER_Z)))
    grid = b", ".join(map(gap, (_X, _Y, _Z)))
    at = f" ({place})" if place else ""
    text = b"emu: " + gap(_NAME) + b" at address 0x" + gap(_ADDRESS, _HEX)
    text += f" in kernel {name}{at}, program (".encode() + program + b") of (" + grid + b")\n"
    for number, (argument, type_) in enumerate(parameters[:_MOST_ARGUMENTS]):
        integer = type_.startswith(("i", "u"))
        value = gap(number) if integer else b"0x" + gap(number, _HEX)
        if type_.startswith("ptr"):
            value += b", from which the address is " + gap(number, _DISTANCE) + b" bytes away"
            value += b" (size of its memory: " + gap(number, _SIZE) + b" bytes)"
        text += f"  {argument or number}: {type_} = ".encode() + value + b"\n"
        if len(text) > _MOST_TEXT:
            break
    if parameters:
        text += b"  (pointers and the bits of floats are hexadecimal)\n"
    text += b"  Run it again with EMU_CHECK=bounds, or emu run --check bounds: that names the line, the lane and the "
    text += b"tensor.\n"
    return text


def word(name: str, base: str, number: int) -> str:
    """Return LLVM IR that loads a word of a table as ``%name``; ``%name.at`` is where it lies."""
    return f"""\
  %{name}.at = getelementptr i64, ptr %{base}, i64 {number}
  %{name} = load i64, ptr %{name}.at
"""


def text() -> str:
    """Return the LLVM IR of ``@fill``, which fills a text into ``@buffer`` and returns its length."""
    parts = (_BUFFER, live_blocks.FIND, _PUT, _PUT_NAME, _value(), _gap(), _FILL)
    return "\n".join(parts)


_BUFFER = f"""\
@buffer = internal global [{_ROOM} x i8] zeroinitializer
@SIGSEGV = internal constant [7 x i8] c"SIGSEGV"
@SIGBUS = internal constant [6 x i8] c"SIGBUS"
@SIGFPE = internal constant [6 x i8] c"SIGFPE"
@SIGILL = internal constant [6 x i8] c"SIGILL"
"""

_PUT = """\
define internal void @put_byte(i64 %at, i8 %c) {
  %byte = getelementptr i8, ptr @buffer, i64 %at
  store i8 %c, ptr %byte
  ret void
}
define internal i64 @put(i64 %at, i64 %value, i64 %base) {
entry:
  br label %count
count:
  %n = phi i64 [ 1, %entry ], [ %longer, %more ]
  %rest = phi i64 [ %value, %entry ], [ %left, %more ]
  %left = udiv i64 %rest, %base
  %has_more = icmp ne i64 %left, 0
  br i1 %has_more, label %more, label %begin
more:
  %longer = add i64 %n, 1
  br label %count
begin:
  %end = add i64 %at, %n
  br label %digit
digit:
  %v = phi i64 [ %value, %begin ], [ %higher, %digit ]
  %behind = phi i64 [ %end, %begin ], [ %place, %digit ]
  %higher = udiv i64 %v, %base
  %remainder = urem i64 %v, %base
  %place = sub i64 %behind, 1
  %d = trunc i64 %remainder to i8
  %letter = icmp ugt i8 %d, 9
  %from = select i1 %letter, i8 87, i8 48
  %c = add i8 %d, %from
  call void @put_byte(i64 %place, i8 %c)
  %again = icmp ugt i64 %place, %at
  br i1 %again, label %digit, label %done
done:
  ret i64 %end
}
define internal i64 @put_signed(i64 %at, i64 %value) {
  %negative = icmp slt i64 %value, 0
  br i1 %negative, label %below, label %above
below:
  call void @put_byte(i64 %at, i8 45)
  %next = add i64 %at, 1
  %size = sub i64 0, %value
  %end = call i64 @put(i64 %next, i64 %size, i64 10)
  ret i64 %end
above:
  %same = call i64 @put(i64 %at, i64 %value, i64 10)
  ret i64 %same
}
define internal i64 @put_unknown(i64 %at) {
  call void @put_byte(i64 %at, i8 63)
  %end = add i64 %at, 1
  ret i64 %end
}
"""

_PUT_NAME = """\
define internal i64 @put_name(i64 %at, i32 %signal) {
entry:
  switch i32 %signal, label %put [ i32 7, label %bus i32 8, label %fpe i32 4, label %ill ]
bus:
  br label %put
fpe:
  br label %put
ill:
  br label %put
put:
  %from = phi ptr [ @SIGSEGV, %entry ], [ @SIGBUS, %bus ], [ @SIGFPE, %fpe ], [ @SIGILL, %ill ]
  %count = phi i64 [ 7, %entry ], [ 6, %bus ], [ 6, %fpe ], [ 6, %ill ]
  br label %copy
copy:
  %i = phi i64 [ 0, %put ], [ %next, %copy ]
  %source = getelementptr i8, ptr %from, i64 %i
  %c = load i8, ptr %source
  %place = add i64 %at, %i
  call void @put_byte(i64 %place, i8 %c)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %copy, label %done
done:
  %end = add i64 %at, %count
  ret i64 %end
}
"""


def _value() -> str:
    """Return the LLVM IR of the function that computes the value of a gap."""
    return f"""\
define internal i64 @value(i32 %which, ptr %table, ptr %info) {{
entry:
{word("number", "table", call.NUMBER)}
{word("x", "table", call.X)}
{word("y", "table", call.Y)}
{word("z", "table", call.Z)}
{word("address", "info", 2)}
{word("arguments", "table", call.ARGUMENTS)}
  %row = udiv i64 %number, %x
  %number_x = urem i64 %number, %x
  %number_y = urem i64 %row, %y
  %number_z = udiv i64 %row, %y
  switch i32 %which, label %argument [
    i32 {_ADDRESS}, label %known
    i32 {_NUMBER_X}, label %b
    i32 {_NUMBER_Y}, label %c
    i32 {_NUMBER_Z}, label %d
    i32 {_X}, label %e
    i32 {_Y}, label %f
    i32 {_Z}, label %g
  ]
b:
  br label %known
c:
  br label %known
d:
  br label %known
e:
  br label %known
f:
  br label %known
g:
  br label %known
known:
  %fact = phi i64 [ %address, %entry ], [ %number_x, %b ], [ %number_y, %c ], [ %number_z, %d ],
    [ %x, %e ], [ %y, %f ], [ %z, %g ]
  ret i64 %fact
argument:
  %first = inttoptr i64 %arguments to ptr
  %place = getelementptr i64, ptr %first, i32 %which
  %given = load i64, ptr %place
  ret i64 %given
}}
"""


def _gap() -> str:
    """Return the LLVM IR of the function that fills one gap and returns where the text goes on."""
    return f"""\
define internal i64 @gap(i64 %at, i8 %kind, i8 %which.byte, i32 %signal, ptr %info, ptr %table) {{
entry:
  %which = zext i8 %which.byte to i32
  %is_name = icmp eq i32 %which, {_NAME}
  br i1 %is_name, label %name, label %number
name:
  %named = call i64 @put_name(i64 %at, i32 %signal)
  ret i64 %named
number:
  %is_plain_address = icmp eq i32 %which, {_ADDRESS}
  %is_distance = icmp eq i8 %kind, {_DISTANCE}
  %is_address = or i1 %is_plain_address, %is_distance
  %code.at = getelementptr i32, ptr %info, i64 2
  %code = load i32, ptr %code.at
  %sent = icmp sle i32 %code, 0
  %no_address = and i1 %is_address, %sent
  br i1 %no_address, label %unknown, label %known
unknown:
  %mark = call i64 @put_unknown(i64 %at)
  ret i64 %mark
known:
  %plain = call i64 @value(i32 %which, ptr %table, ptr %info)
  %fault = call i64 @value(i32 {_ADDRESS}, ptr %table, ptr %info)
  switch i8 %kind, label %decimal [ i8 {_HEX}, label %hex i8 {_DISTANCE}, label %far i8 {_SIZE}, label %size ]
decimal:
  %written = call i64 @put_signed(i64 %at, i64 %plain)
  ret i64 %written
hex:
  %digits = call i64 @put(i64 %at, i64 %plain, i64 16)
  ret i64 %digits
far:
  %distance = sub i64 %fault, %plain
  %away = call i64 @put_signed(i64 %at, i64 %distance)
  ret i64 %away
size:
  %bytes = call i64 @find(i64 %plain)
  %no_size = icmp slt i64 %bytes, 0
  br i1 %no_size, label %unknown, label %sized
sized:
  %told = call i64 @put_signed(i64 %at, i64 %bytes)
  ret i64 %told
}}
"""


_FILL = f"""\
define internal i64 @fill(ptr %text, i64 %count, i32 %signal, ptr %info, ptr %table) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %plain ], [ %i2, %fill ]
  %at = phi i64 [ 0, %entry ], [ %at1, %plain ], [ %at2, %fill ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %source = getelementptr i8, ptr %text, i64 %i
  %c = load i8, ptr %source
  %i1 = add i64 %i, 1
  %i2 = add i64 %i, 2
  %is_gap = icmp ule i8 %c, {_SIZE}
  br i1 %is_gap, label %fill, label %plain
plain:
  call void @put_byte(i64 %at, i8 %c)
  %at1 = add i64 %at, 1
  br label %next
fill:
  %which.at = getelementptr i8, ptr %text, i64 %i1
  %which = load i8, ptr %which.at
  %at2 = call i64 @gap(i64 %at, i8 %c, i8 %which, i32 %signal, ptr %info, ptr %table)
  br label %next
done:
  ret i64 %at
}}
"""
