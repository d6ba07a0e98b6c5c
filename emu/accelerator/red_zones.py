"""Red zones around the memory of torch's tensors: a write just outside one becomes a report.

torch takes host memory, where emulated tensors lie, from one allocator object, which can be replaced. The one here
asks torch's own for a little more, and hands out the middle. Its functions are native code, since operators
allocate in threads that do not run Python. An interface of C++ is rebuilt here word by word: what does not
look as expected leaves torch as it is.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import sys
from pathlib import Path

import torch

from emu.accelerator.patches import record
from emu.accelerator.wrappers import is_wrapper
from emu.kernels.core import environment
from emu.tile.cpu import native
from emu.tile.cpu.run import red_zones
from emu.tile.cpu.run.live_blocks import BEFORE

_GET, _SET = "_ZN3c1015GetCPUAllocatorEv", "_ZN3c1015SetCPUAllocatorEPNS_9AllocatorEh"
_ALLOCATE, _RAW_DELETER, _SLOTS = 2, 4, 6
"""Places in the table of an allocator's virtual functions: two destructors, allocate, is_simple_data_ptr,
raw_deleter, copy_data."""
_LARGEST = 1 << 40
"""Larger requests go to torch's allocator as they are: they fail, and its error names the size."""


def install() -> None:
    """Give torch the allocator with red zones, where that is possible: Linux, and a torch whose interface is known."""
    library = _library()
    if library is None or not environment.red_zones():
        return
    original = getattr(library, _GET)
    original.restype = ctypes.c_void_p
    change = getattr(library, _SET)
    change.argtypes = (ctypes.c_void_p, ctypes.c_ubyte)
    before = original()
    allocator = _allocator(before)
    if not allocator or before == allocator:
        return
    change(allocator, 0)
    atexit.register(report_all)

    def undo() -> None:
        change(before, 0)
        atexit.unregister(report_all)

    record("torch's CPU allocator", "writes just outside a tensor's memory are found", undo)


def report_all() -> None:
    """Report what was written around memory that was freed, and around that of the tensors that are alive."""
    zones = red_zones.loaded()
    if zones is None:
        return
    red_zones.report_freed()
    seen = set()
    with torch._C.DisableTorchFunction():
        for value in gc.get_objects():
            if not issubclass(type(value), torch.Tensor) or is_wrapper(value):
                continue
            try:
                address = value.untyped_storage().data_ptr()
            except (RuntimeError, NotImplementedError):  # a tensor without memory
                continue
            if not address or address in seen:
                continue
            seen.add(address)
            for damage in zones.find_damage(address):
                red_zones.report_tensor(str(value.dtype), tuple(value.shape), damage)


def _library() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    except OSError:
        return None
    return library if hasattr(library, _GET) and hasattr(library, _SET) else None


@functools.cache
def _allocator(original: int) -> int:
    """Return the address of an allocator over ``original``; 0 if that one does not look as expected."""
    zones = red_zones.load()
    name = native.new_name("emu.red_zones.torch")
    text = _text(name, original, zones.mark_address, zones.release_check_address)
    code = native.to_object(text, effort=native.Effort.QUICK)
    set_up = ctypes.CFUNCTYPE(ctypes.c_void_p)(native.load(code, name))
    return set_up() or 0


def _text(name: str, original: int, mark: int, check: int) -> str:
    """Return the LLVM IR of an allocator, and of the function that makes it and returns its address."""
    return "\n".join(
        (
            _STATE,
            red_zones.TAIL,
            _release(check),
            _allocate(original, mark),
            _probe(original),
            _MAKE,
        )
    ).replace("@make", f'@"{name}"')


_STATE = f"""\
@deleter = internal global ptr null
@vtable = internal global [{_SLOTS} x ptr] zeroinitializer
@object = internal global [8 x ptr] zeroinitializer
@context_at = internal global i64 0
@deleter_at = internal global i64 0
@allocate_before = internal global ptr null
"""


def _release(check: int) -> str:
    """Return the LLVM IR of what frees memory: it looks at the zones first."""
    return f"""\
define internal void @release(ptr %memory) uwtable {{
entry:
  %none = icmp eq ptr %memory, null
  br i1 %none, label %out, label %some
some:
  %p = ptrtoint ptr %memory to i64
  %check = inttoptr i64 {check} to ptr
  call void %check(i64 %p)
  %base = getelementptr i8, ptr %memory, i64 {-BEFORE}
  %given = load ptr, ptr @deleter
  call void %given(ptr %base)
  br label %out
out:
  ret void
}}
define internal ptr @raw_deleter(ptr %this) {{
  ret ptr @release
}}
"""


def _allocate(original: int, mark: int) -> str:
    """Return the LLVM IR of what allocates: it asks for more, and hands out the middle."""
    return f"""\
define internal void @allocate(ptr sret([32 x i8]) %out, ptr %this, i64 %size) uwtable {{
entry:
  %original = inttoptr i64 {original} to ptr
  %function = load ptr, ptr @allocate_before
  %before = add i64 %size, -1
  %odd = icmp uge i64 %before, {_LARGEST}
  br i1 %odd, label %plain, label %guarded
plain:
  call void %function(ptr sret([32 x i8]) %out, ptr %original, i64 %size)
  ret void
guarded:
  %tail = call i64 @tail(i64 %size)
  %more = add i64 %tail, {BEFORE}
  %total = add i64 %size, %more
  call void %function(ptr sret([32 x i8]) %out, ptr %original, i64 %total)
  %base = load ptr, ptr %out
  %memory = getelementptr i8, ptr %base, i64 {BEFORE}
  %p = ptrtoint ptr %memory to i64
  %mark = inttoptr i64 {mark} to ptr
  call void %mark(i64 %p, i64 %size)
  store ptr %memory, ptr %out
  %context = load i64, ptr @context_at
  %context.at = getelementptr ptr, ptr %out, i64 %context
  store ptr %memory, ptr %context.at
  %place = load i64, ptr @deleter_at
  %place.at = getelementptr ptr, ptr %out, i64 %place
  store ptr @release, ptr %place.at
  ret void
}}
"""


def _probe(original: int) -> str:
    """Return the LLVM IR that learns how torch's allocator answers; false if not in a known way."""
    return f"""\
define internal i1 @probe() uwtable {{
entry:
  %out = alloca [64 x i8], align 16
  %original = inttoptr i64 {original} to ptr
  %functions = load ptr, ptr %original
  %allocate.at = getelementptr ptr, ptr %functions, i64 {_ALLOCATE}
  %allocate = load ptr, ptr %allocate.at
  %raw.at = getelementptr ptr, ptr %functions, i64 {_RAW_DELETER}
  %raw = load ptr, ptr %raw.at
  %deleter = call ptr %raw(ptr %original)
  %none = icmp eq ptr %deleter, null
  br i1 %none, label %unknown, label %try
try:
  call void %allocate(ptr sret([32 x i8]) %out, ptr %original, i64 64)
  %memory = load ptr, ptr %out
  %one.at = getelementptr ptr, ptr %out, i64 1
  %one = load ptr, ptr %one.at
  %two.at = getelementptr ptr, ptr %out, i64 2
  %two = load ptr, ptr %two.at
  call void %deleter(ptr %memory)
  %a = icmp eq ptr %one, %deleter
  %b = icmp eq ptr %two, %memory
  %c = icmp eq ptr %one, %memory
  %d = icmp eq ptr %two, %deleter
  %first = and i1 %a, %b
  %second = and i1 %c, %d
  %known = or i1 %first, %second
  %context = select i1 %first, i64 2, i64 1
  %place = select i1 %first, i64 1, i64 2
  store i64 %context, ptr @context_at
  store i64 %place, ptr @deleter_at
  store ptr %deleter, ptr @deleter
  store ptr %allocate, ptr @allocate_before
  %all = load [{_SLOTS} x ptr], ptr %functions
  store [{_SLOTS} x ptr] %all, ptr @vtable
  ret i1 %known
unknown:
  ret i1 false
}}
"""


_MAKE = f"""\
define ptr @make() uwtable {{
entry:
  %known = call i1 @probe()
  br i1 %known, label %fill, label %unknown
fill:
  %mine = getelementptr ptr, ptr @vtable, i64 {_ALLOCATE}
  store ptr @allocate, ptr %mine
  %mine2 = getelementptr ptr, ptr @vtable, i64 {_RAW_DELETER}
  store ptr @raw_deleter, ptr %mine2
  store ptr @vtable, ptr @object
  ret ptr @object
unknown:
  ret ptr null
}}
"""
