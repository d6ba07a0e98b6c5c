"""Report of a crash in a kernel: kernel, source, program, signal, arguments.

A signal's handler may neither call Python nor allocate memory. So the handler is native code, and each kernel
has a text with gaps prepared, which the handler fills from the thread's call table. It writes the text to stderr
and passes the signal on to the previous handler: of faulthandler, the program, or the system.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import signal
import sys
import threading

from emu.tile.cpu import call, native
from emu.tile.cpu.run import red_zones
from emu.tile.cpu.run.thread import KEY

SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)

_HEX, _DECIMAL, _DISTANCE, _SIZE = 1, 2, 3, 4
"""First byte of a gap: the base in which a value is written, 16 or 10, or that its distance to the address of the
fault is written instead, or the size of the memory that begins there; the next byte says which value."""

_ADDRESS, _NUMBER_X, _NUMBER_Y, _NUMBER_Z, _X, _Y, _Z, _NAME = range(0xF0, 0xF8)
"""Values besides the arguments, whose numbers are below."""

_MOST_ARGUMENTS = 100
_MOST_TEXT = 8192
_ROOM = 16384

_ACTION_WORDS = 19
"""Size of glibc's ``struct sigaction`` on 64-bit Linux: the handler, 128 bytes of mask, flags, the restorer."""

_FLAGS = 17
_SA_SIGINFO, _SA_ONSTACK, _SA_NODEFER = 4, 0x08000000, 0x40000000

_lock = threading.Lock()
_kept: list[object] = []


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


def install() -> None:
    """Handle the signals of crashes in this process, where that is known to work: Linux, 64 bits."""
    known = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
    if _kept or not known or KEY is None:
        return
    with _lock:
        if not _kept:
            _install()


def _install() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    before = (ctypes.c_int64 * (_ACTION_WORDS * len(SIGNALS)))()
    code = native.to_object(_text(ctypes.addressof(before)), effort=native.Effort.NONE)
    handler = native.load(code, _symbol())
    for n, number in enumerate(SIGNALS):
        action = (ctypes.c_int64 * _ACTION_WORDS)()
        action[0], action[_FLAGS] = handler, _SA_SIGINFO | _SA_ONSTACK | _SA_NODEFER
        place = ctypes.byref(before, 8 * _ACTION_WORDS * n)
        libc.sigaction(int(number), None, place)  # what a signal finds that comes now
        libc.sigaction(int(number), ctypes.byref(action), place)
    _kept.append(before)


@functools.cache
def _symbol() -> str:
    return native.new_name("emu.crash")


def _text(before: int) -> str:
    """Return the LLVM IR of the handler."""
    return "\n".join(
        (_DECLARATIONS, red_zones.FIND, _PUT, _value(), _fill(), _chain(before), _handler())
    )


_DECLARATIONS = f"""\
@buffer = internal global [{_ROOM} x i8] zeroinitializer
@SIGSEGV = internal constant [7 x i8] c"SIGSEGV"
@SIGBUS = internal constant [6 x i8] c"SIGBUS"
@SIGFPE = internal constant [6 x i8] c"SIGFPE"
@SIGILL = internal constant [6 x i8] c"SIGILL"
declare i64 @write(i32, ptr, i64)
declare i32 @raise(i32)
declare i32 @sigaction(i32, ptr, ptr)
declare ptr @pthread_getspecific(i32)
"""

_PUT = """\
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
  %byte = getelementptr i8, ptr @buffer, i64 %place
  store i8 %c, ptr %byte
  %again = icmp ugt i64 %place, %at
  br i1 %again, label %digit, label %done
done:
  ret i64 %end
}
define internal i64 @put_signed(i64 %at, i64 %value) {
  %negative = icmp slt i64 %value, 0
  br i1 %negative, label %below, label %above
below:
  %byte = getelementptr i8, ptr @buffer, i64 %at
  store i8 45, ptr %byte
  %next = add i64 %at, 1
  %size = sub i64 0, %value
  %end = call i64 @put(i64 %next, i64 %size, i64 10)
  ret i64 %end
above:
  %same = call i64 @put(i64 %at, i64 %value, i64 10)
  ret i64 %same
}
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
  %byte = getelementptr i8, ptr @buffer, i64 %place
  store i8 %c, ptr %byte
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %copy, label %done
done:
  %end = add i64 %at, %count
  ret i64 %end
}
"""


def _word(name: str, base: str, number: int) -> str:
    return f"""\
  %{name}.at = getelementptr i64, ptr %{base}, i64 {number}
  %{name} = load i64, ptr %{name}.at
"""


def _value() -> str:
    """Return the LLVM IR of the function that computes the value of a gap."""
    return f"""\
define internal i64 @value(i32 %which, ptr %table, ptr %info) {{
entry:
{_word("number", "table", call.NUMBER)}
{_word("x", "table", call.X)}
{_word("y", "table", call.Y)}
{_word("z", "table", call.Z)}
{_word("address", "info", 2)}
{_word("arguments", "table", call.ARGUMENTS)}
  %row = udiv i64 %number, %x
  %number_x = urem i64 %number, %x
  %number_y = urem i64 %row, %y
  %number_z = udiv i64 %row, %y
  switch i32 %which, label %argument [
    i32 {_ADDRESS}, label %a
    i32 {_NUMBER_X}, label %b
    i32 {_NUMBER_Y}, label %c
    i32 {_NUMBER_Z}, label %d
    i32 {_X}, label %e
    i32 {_Y}, label %f
    i32 {_Z}, label %g
  ]
a:
  ret i64 %address
b:
  ret i64 %number_x
c:
  ret i64 %number_y
d:
  ret i64 %number_z
e:
  ret i64 %x
f:
  ret i64 %y
g:
  ret i64 %z
argument:
  %first = inttoptr i64 %arguments to ptr
  %place = getelementptr i64, ptr %first, i32 %which
  %given = load i64, ptr %place
  ret i64 %given
}}
"""


def _fill() -> str:
    """Return the LLVM IR of the function that fills a text into the buffer and returns its length."""
    return f"""\
define internal i64 @fill(ptr %text, i64 %count, i32 %signal, ptr %info, ptr %table) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i1, %plain ], [ %i2, %name ],
    [ %i2, %hex ], [ %i2, %decimal ], [ %i2, %unknown ], [ %i2, %sized ]
  %at = phi i64 [ 0, %entry ], [ %at1, %plain ], [ %at2, %name ],
    [ %at3, %hex ], [ %at4, %decimal ], [ %at5, %unknown ], [ %at6, %sized ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %source = getelementptr i8, ptr %text, i64 %i
  %c = load i8, ptr %source
  %i1 = add i64 %i, 1
  %i2 = add i64 %i, 2
  %gap = icmp ule i8 %c, {_SIZE}
  br i1 %gap, label %fill, label %plain
plain:
  %byte = getelementptr i8, ptr @buffer, i64 %at
  store i8 %c, ptr %byte
  %at1 = add i64 %at, 1
  br label %next
fill:
  %which.at = getelementptr i8, ptr %text, i64 %i1
  %which.byte = load i8, ptr %which.at
  %which = zext i8 %which.byte to i32
  %is_name = icmp eq i32 %which, {_NAME}
  br i1 %is_name, label %name, label %number
name:
  %at2 = call i64 @put_name(i64 %at, i32 %signal)
  br label %next
number:
  %is_plain_address = icmp eq i32 %which, {_ADDRESS}
  %is_distance = icmp eq i8 %c, {_DISTANCE}
  %is_address = or i1 %is_plain_address, %is_distance
  %code.at = getelementptr i32, ptr %info, i64 2
  %code = load i32, ptr %code.at
  %sent = icmp sle i32 %code, 0
  %no_address = and i1 %is_address, %sent
  br i1 %no_address, label %unknown, label %known
unknown:
  %mark = getelementptr i8, ptr @buffer, i64 %at
  store i8 63, ptr %mark
  %at5 = add i64 %at, 1
  br label %next
known:
  %plain_value = call i64 @value(i32 %which, ptr %table, ptr %info)
  %fault = call i64 @value(i32 {_ADDRESS}, ptr %table, ptr %info)
  %distance = sub i64 %fault, %plain_value
  %value = select i1 %is_distance, i64 %distance, i64 %plain_value
  %is_size = icmp eq i8 %c, {_SIZE}
  br i1 %is_size, label %map, label %written
map:
  %mapped = call i1 @is_mapped(i64 %plain_value)
  br i1 %mapped, label %measure, label %unknown
measure:
  %size = call i64 @find(i64 %plain_value)
  %no_size = icmp slt i64 %size, 0
  br i1 %no_size, label %unknown, label %sized
sized:
  %at6 = call i64 @put_signed(i64 %at, i64 %size)
  br label %next
written:
  %is_hex = icmp eq i8 %c, {_HEX}
  br i1 %is_hex, label %hex, label %decimal
hex:
  %at3 = call i64 @put(i64 %at, i64 %value, i64 16)
  br label %next
decimal:
  %at4 = call i64 @put_signed(i64 %at, i64 %value)
  br label %next
done:
  ret i64 %at
}}
"""


def _chain(before: int) -> str:
    """Return the LLVM IR of the function that passes a signal on."""
    cases = " ".join(f"i32 {int(number)}, label %case{n}" for n, number in enumerate(SIGNALS))
    labels = "\n".join(f"case{n}:\n  br label %found" for n in range(len(SIGNALS)))
    offsets = ", ".join(f"[ {8 * _ACTION_WORDS * n}, %case{n} ]" for n in range(len(SIGNALS)))
    return f"""\
define internal void @chain(i32 %signal, ptr %info, ptr %context) {{
entry:
  switch i32 %signal, label %nothing [ {cases} ]
{labels}
found:
  %offset = phi i64 {offsets}
  %address = add i64 %offset, {before}
  %action = inttoptr i64 %address to ptr
{_word("function", "action", 0)}
{_word("flags", "action", _FLAGS)}
  %none = icmp ule i64 %function, 1
  br i1 %none, label %default, label %handled
handled:
  %pointer = inttoptr i64 %function to ptr
  %three = and i64 %flags, {_SA_SIGINFO}
  %informed = icmp ne i64 %three, 0
  br i1 %informed, label %inform, label %plain
inform:
  call void %pointer(i32 %signal, ptr %info, ptr %context)
  ret void
plain:
  call void %pointer(i32 %signal)
  ret void
default:
  %set = call i32 @sigaction(i32 %signal, ptr %action, ptr null)
  %code.at = getelementptr i32, ptr %info, i64 2
  %code = load i32, ptr %code.at
  %sent = icmp sle i32 %code, 0
  br i1 %sent, label %again, label %nothing
again:
  %raised = call i32 @raise(i32 %signal)
  ret void
nothing:
  ret void
}}
"""


def _handler() -> str:
    return f"""\
define void @"{_symbol()}"(i32 %signal, ptr %info, ptr %context) {{
entry:
  %table = call ptr @pthread_getspecific(i32 {KEY})
  %none = icmp eq ptr %table, null
  br i1 %none, label %pass, label %look
look:
{_word("active", "table", call.ACTIVE)}
  %idle = icmp eq i64 %active, 0
  br i1 %idle, label %pass, label %say
say:
  store i64 0, ptr %active.at
{_word("facts_address", "table", call.FACTS)}
  %facts = inttoptr i64 %facts_address to ptr
{_word("note", "facts", call.NOTE)}
{_word("count", "facts", call.NOTE_BYTES)}
  %text = inttoptr i64 %note to ptr
  %filled = call i64 @fill(ptr %text, i64 %count, i32 %signal, ptr %info, ptr %table)
  %written = call i64 @write(i32 2, ptr @buffer, i64 %filled)
  br label %pass
pass:
  call void @chain(i32 %signal, ptr %info, ptr %context)
  ret void
}}
"""
