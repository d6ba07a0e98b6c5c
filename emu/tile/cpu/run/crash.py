"""Faults in kernels: a launch comes back from them, or the process says which kernel it was and ends.

Launches enter their kernel through native code that first keeps the state of the thread (``setjmp``). The handler of
SIGSEGV, SIGBUS and SIGFPE notes address, instruction and some of the stack in the thread's call table, and goes back to that
state; the launch then returns a status, and Python raises an error (see ``faults``). A kernel holds nothing
that must be given back but the count of threads that run one, and the mark of the thread that updates without locks.

A signal that someone has sent, an illegal instruction, and a crash in Python that a kernel has called take the other way: the handler
writes a text to stderr (see ``crash_text``) and passes the signal on to the previous handler: of faulthandler, the program, or
the system. It does so, too, if the report in Python crashes.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import signal
import threading

from emu.kernels.core import system
from emu.tile.cpu import call, native
from emu.tile.cpu.reports import CODE_BITS, FAULT
from emu.tile.cpu.run import crash_text
from emu.tile.cpu.run.crash_text import word
from emu.tile.cpu.run.thread import KEY

SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)

_ACTION_WORDS = 19
"""Size of glibc's ``struct sigaction`` on 64-bit Linux: the handler, 128 bytes of mask, flags, the restorer."""

_FLAGS = 17
_SA_SIGINFO, _SA_ONSTACK, _SA_NODEFER = 4, 0x08000000, 0x40000000

_STATE_WORDS = 64
"""Room for what ``setjmp`` keeps: glibc's is 25 words on x86-64, 39 on aarch64."""

_CONTEXT = {"x86_64": (160, 168, 192, None), "aarch64": (432, 440, None, 424)}
"""Where Linux's ``ucontext_t`` has the stack pointer, the instruction, the error code and the return address."""

_lock = threading.Lock()
_kept: list[object] = []


def install() -> None:
    """Handle the signals of crashes in this process, where that is known to work: Linux, 64 bits."""
    if _kept or not _is_known():
        return
    with _lock:
        if not _kept:
            _install()


def _is_known() -> bool:
    return system.LINUX and platform.machine() in _CONTEXT and KEY is not None


def _install() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    before = _before()
    handler = _addresses()[1]
    for n, number in enumerate(SIGNALS):
        action = (ctypes.c_int64 * _ACTION_WORDS)()
        action[0], action[_FLAGS] = handler, _SA_SIGINFO | _SA_ONSTACK | _SA_NODEFER
        place = ctypes.byref(before, 8 * _ACTION_WORDS * n)
        libc.sigaction(int(number), None, place)  # what a signal finds that comes now
        libc.sigaction(int(number), ctypes.byref(action), place)
    _kept.append(before)


def entry() -> int:
    """Return the address of the function that runs the kernel of a call table; 0 where faults are not handled."""
    return _addresses()[0] if _is_known() else 0


def tells_writes() -> bool:
    """Return whether the error code of a fault says whether it was a write."""
    return platform.machine() == "x86_64"


def end_report() -> None:
    """Forget the text that the handler would write if Python crashed now."""
    if _is_known():
        ctypes.c_int64.from_address(_addresses()[2]).value = 0


@functools.cache
def _before() -> ctypes.Array[ctypes.c_int64]:
    """Return where the handlers are kept that were installed before."""
    return (ctypes.c_int64 * (_ACTION_WORDS * len(SIGNALS)))()


@functools.cache
def _addresses() -> tuple[int, ...]:
    """Return the addresses of the entry of launches, of the handler, and of the length of the prepared text."""
    symbol = native.new_name("emu.crash")
    code = native.to_object(_text(symbol), effort=native.Effort.NONE)
    table = ctypes.CFUNCTYPE(ctypes.c_void_p)(native.load(code, symbol))()
    return tuple((ctypes.c_int64 * 3).from_address(table or 0))


def _text(symbol: str) -> str:
    """Return the LLVM IR: a function that returns the addresses of the others."""
    mine = f"""\
@table = internal global [3 x ptr] [ptr @enter, ptr @handle, ptr @pending]
define ptr @"{symbol}"() {{
  ret ptr @table
}}
"""
    before = ctypes.addressof(_before())
    parts = (
        _DECLARATIONS,
        crash_text.text(),
        _chain(before),
        _GIVE_UP,
        _enter(),
        _keep(),
        _handler(),
        mine,
    )
    return "\n".join(parts)


_DECLARATIONS = """\
@pending = internal global i64 0
declare i64 @write(i32, ptr, i64)
declare i32 @raise(i32)
declare i32 @sigaction(i32, ptr, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def _enter() -> str:
    """Return the LLVM IR of the function that runs a kernel, and returns a status if it touches what is not there."""
    return f"""\
define internal i64 @enter(ptr %table) returns_twice {{
entry:
  %state = alloca [{_STATE_WORDS} x i64], align 16
  %recovery = getelementptr i64, ptr %table, i64 {call.RECOVERY}
{word("facts_address", "table", call.FACTS)}
  %facts = inttoptr i64 %facts_address to ptr
{word("code", "facts", call.CODE)}
  %kernel = inttoptr i64 %code to ptr
  %before = call ptr @pthread_getspecific(i32 {KEY})
  %is_own = icmp eq ptr %before, %table
  br i1 %is_own, label %keep, label %other
other:
  ; A handler of another signal, in the middle of a launch.
  %set = call i32 @pthread_setspecific(i32 {KEY}, ptr %table)
  br label %keep
keep:
  %back = call i32 @_setjmp(ptr %state) returns_twice
  %is_back = icmp ne i32 %back, 0
  br i1 %is_back, label %fault, label %run
run:
  store ptr %state, ptr %recovery
  %status = call i64 %kernel(ptr %table)
  br label %out
fault:
  %gone = call i64 @give_up(ptr %table, ptr %facts)
  br label %out
out:
  %result = phi i64 [ %status, %run ], [ %gone, %fault ]
  store ptr null, ptr %recovery
  br i1 %is_own, label %end, label %restore
restore:
  %reset = call i32 @pthread_setspecific(i32 {KEY}, ptr %before)
  br label %end
end:
  ret i64 %result
}}
"""


_GIVE_UP = f"""\
; Count this thread no more among those that run a kernel; return the status of the launch.
define internal i64 @give_up(ptr %table, ptr %facts) noinline {{
{word("launches_address", "facts", call.LAUNCHES)}
{word("number", "table", call.NUMBER)}
  %launches = inttoptr i64 %launches_address to ptr
  %mine = ptrtoint ptr %table to i64
  %alone = getelementptr i64, ptr %launches, i64 {call.ALONE}
  %running = getelementptr i64, ptr %launches, i64 {call.RUNNING}
  %freed = cmpxchg ptr %alone, i64 %mine, i64 0 seq_cst seq_cst
  %fewer = atomicrmw sub ptr %running, i64 1 seq_cst
  %program = shl i64 %number, {CODE_BITS}
  %status = or i64 %program, {FAULT}
  ret i64 %status
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
{word("function", "action", 0)}
{word("flags", "action", _FLAGS)}
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


def _from_context(name: str, offset: int | None) -> str:
    if offset is None:
        return f"  %{name} = add i64 0, 0"
    at = f"  %{name}.at = getelementptr i8, ptr %context, i64 {offset}"
    return f"{at}\n  %{name} = load i64, ptr %{name}.at"


def _to_table(name: str, number: int) -> str:
    at = f"  %{name}.word = getelementptr i64, ptr %table, i64 {number}"
    return f"{at}\n  store i64 %{name}, ptr %{name}.word"


def _keep() -> str:
    """Return the LLVM IR of the function that notes in a call table what is known of a fault."""
    stack, place, error, link = _CONTEXT[platform.machine()]
    return f"""\
define internal void @keep(ptr %table, i32 %signal, ptr %info, ptr %context, i64 %state) {{
entry:
  %code.at = getelementptr i32, ptr %info, i64 2
  %code.short = load i32, ptr %code.at
  %number = sext i32 %signal to i64
  %code = sext i32 %code.short to i64
{word("address", "info", 2)}
{_from_context("place", place)}
{_from_context("error", error)}
{_from_context("link", link)}
{_from_context("stack", stack)}
{_to_table("number", call.FAULT_SIGNAL)}
{_to_table("code", call.FAULT_CODE)}
{_to_table("address", call.FAULT_ADDRESS)}
{_to_table("error", call.FAULT_ERROR)}
{_to_table("place", call.FAULT_PLACE)}
{_to_table("link", call.FAULT_STACK)}
  ; What lies between the stack pointer and the state, which the launch keeps further up.
  %depth = sub i64 %state, %stack
  %deep = icmp ugt i64 %depth, {8 * (call.STACK_WORDS - 1)}
  %count = select i1 %deep, i64 {8 * (call.STACK_WORDS - 1)}, i64 %depth
  %from = inttoptr i64 %stack to ptr
  %to = getelementptr i64, ptr %table, i64 {call.FAULT_STACK + 1}
  %rest = getelementptr i8, ptr %to, i64 %count
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)
  br i1 %deep, label %done, label %end
end:
  store i64 0, ptr %rest
  br label %done
done:
  ret void
}}
"""


def _handler() -> str:
    return f"""\
define internal void @handle(i32 %signal, ptr %info, ptr %context) {{
entry:
  %table = call ptr @pthread_getspecific(i32 {KEY})
  %none = icmp eq ptr %table, null
  br i1 %none, label %pass, label %look
look:
{word("active", "table", call.ACTIVE)}
  %idle = icmp eq i64 %active, 0
  br i1 %idle, label %pass, label %say
say:
  store i64 0, ptr %active.at
{word("facts_address", "table", call.FACTS)}
  %facts = inttoptr i64 %facts_address to ptr
{word("note", "facts", call.NOTE)}
{word("count", "facts", call.NOTE_BYTES)}
  %text = inttoptr i64 %note to ptr
  %filled = call i64 @fill(ptr %text, i64 %count, i32 %signal, ptr %info, ptr %table)
  %waiting = atomicrmw xchg ptr @pending, i64 %filled seq_cst
{word("state", "table", call.RECOVERY)}
  %code.at = getelementptr i32, ptr %info, i64 2
  %code = load i32, ptr %code.at
  %real = icmp sgt i32 %code, 0
  %kept = icmp ne i64 %state, 0
  %legal = icmp ne i32 %signal, {int(signal.SIGILL)}
  %some = and i1 %real, %kept
  %returns = and i1 %some, %legal
  br i1 %returns, label %recover, label %pass
recover:
  call void @keep(ptr %table, i32 %signal, ptr %info, ptr %context, i64 %state)
  %where = inttoptr i64 %state to ptr
  call void @longjmp(ptr %where, i32 1)
  unreachable
pass:
  %length = atomicrmw xchg ptr @pending, i64 0 seq_cst
  %silent = icmp eq i64 %length, 0
  br i1 %silent, label %on, label %tell
tell:
  %written = call i64 @write(i32 2, ptr @buffer, i64 %length)
  br label %on
on:
  call void @chain(i32 %signal, ptr %info, ptr %context)
  ret void
}}
"""
