"""The blocks of memory with red zones that are allocated now: where they begin, known to native code.

Addresses lie in buckets of eight words, a cache line each; a block whose bucket is full is not in the table. So a look-up
reads one line, whatever the address is that it is asked about, and no lock is needed: a thread that adds a block takes an
empty word by one compare-and-swap. What stands before the block itself is read only if the table has it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

import numpy as np

BEFORE = 64
"""Bytes before the memory: its size, the check word, and the canary."""

_BUCKETS = 1 << 15
_WORDS = 8
_MAGIC = 0x5ED2_0E5A_91C4_37B6

_memory = mmap.mmap(-1, 8 * _WORDS * _BUCKETS, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
_words = (ctypes.c_uint64 * (_WORDS * _BUCKETS)).from_buffer(_memory)
_ADDRESS = ctypes.addressof(_words)

_BUCKET = f"""\
; The bucket of an address.
define internal ptr @bucket(i64 %p) alwaysinline {{
  %spread = mul i64 %p, -7046029254386353131
  %number = lshr i64 %spread, 49
  %offset = mul i64 %number, {8 * _WORDS}
  %place = add i64 %offset, {_ADDRESS}
  %at = inttoptr i64 %place to ptr
  ret ptr %at
}}
; Which words of a bucket hold a value, as bits.
define internal i8 @matches(ptr %bucket, i64 %value) alwaysinline {{
  %words = load <{_WORDS} x i64>, ptr %bucket, align 64
  %one = insertelement <{_WORDS} x i64> poison, i64 %value, i64 0
  %all = shufflevector <{_WORDS} x i64> %one, <{_WORDS} x i64> poison, <{_WORDS} x i32> zeroinitializer
  %same = icmp eq <{_WORDS} x i64> %words, %all
  %bits = bitcast <{_WORDS} x i1> %same to i8
  ret i8 %bits
}}
define internal i1 @is_live(i64 %p) alwaysinline {{
  %bucket = call ptr @bucket(i64 %p)
  %bits = call i8 @matches(ptr %bucket, i64 %p)
  %known = icmp ne i8 %bits, 0
  %real = icmp ne i64 %p, 0
  %live = and i1 %known, %real
  ret i1 %live
}}
"""

CHANGE = """\
declare i8 @llvm.cttz.i8(i8, i1)
; Take an empty word of its bucket for %p, if there is one.
define internal void @add_block(i64 %p) {
entry:
  %bucket = call ptr @bucket(i64 %p)
  br label %try
try:
  %empty = call i8 @matches(ptr %bucket, i64 0)
  %full = icmp eq i8 %empty, 0
  br i1 %full, label %out, label %take
take:
  %first = call i8 @llvm.cttz.i8(i8 %empty, i1 true)
  %at = getelementptr i64, ptr %bucket, i8 %first
  %pair = cmpxchg ptr %at, i64 0, i64 %p acq_rel monotonic
  %done = extractvalue { i64, i1 } %pair, 1
  br i1 %done, label %out, label %try
out:
  ret void
}
define internal void @remove_block(i64 %p) {
entry:
  %bucket = call ptr @bucket(i64 %p)
  %bits = call i8 @matches(ptr %bucket, i64 %p)
  %none = icmp eq i8 %bits, 0
  br i1 %none, label %out, label %clear
clear:
  %first = call i8 @llvm.cttz.i8(i8 %bits, i1 true)
  %at = getelementptr i64, ptr %bucket, i8 %first
  store atomic i64 0, ptr %at release, align 8
  br label %out
out:
  ret void
}
"""

FIND = f"""\
{_BUCKET}
define internal i64 @check_word(i64 %p, i64 %size) alwaysinline {{
  %a = xor i64 %p, {_MAGIC}
  %b = mul i64 %size, -7046029254386353131
  %c = xor i64 %a, %b
  ret i64 %c
}}
; The size of the live block that begins at %p, or -1.
define internal i64 @find(i64 %p) alwaysinline {{
entry:
  %live = call i1 @is_live(i64 %p)
  br i1 %live, label %look, label %no
look:
  %header = sub i64 %p, {BEFORE}
  %at = inttoptr i64 %header to ptr
  %size = load i64, ptr %at, align 8
  %word.at = getelementptr i64, ptr %at, i64 1
  %word = load i64, ptr %word.at, align 8
  %right = call i64 @check_word(i64 %p, i64 %size)
  %same = icmp eq i64 %right, %word
  br i1 %same, label %yes, label %no
yes:
  ret i64 %size
no:
  ret i64 -1
}}
"""


def addresses() -> Iterator[int]:
    """Return where the live blocks begin, in no order."""
    words = np.frombuffer(_memory, np.uint64)
    return iter(words[words != 0].tolist())


def find_containing(address: int) -> tuple[int, int] | None:
    """Return the live block that an address is in: its first address, and the one behind it."""
    start = max((a for a in addresses() if a <= address), default=0)
    size = size_at(start) if start else None
    return None if size is None or address >= start + size else (start, start + size)


def size_at(address: int) -> int | None:
    """Return the size that stands before a live block; None if that was overwritten."""
    size, word = (ctypes.c_uint64 * 2).from_address(address - BEFORE)
    right = (address ^ _MAGIC ^ (size * (-7046029254386353131 % (1 << 64)))) % (1 << 64)
    return int(size) if word == right else None
