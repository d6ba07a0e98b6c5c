"""Memory instructions of PTX."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from language_harness import Pointer, evaluate

import emu.triton.language as tl


def _on(array: Any, text: str, constraints: str = "=r,l", native: bool = True) -> Any:
    def body(p: Any) -> Any:
        at = p + tl.arange(0, array.size)
        return tl.inline_asm_elementwise(text, constraints, [at], tl.int32, False, 1)

    return evaluate(body, Pointer(array), native=native)


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("add.u32", lambda x: x + 5),
        ("min.s32", lambda x: np.minimum(x, 5)),
        ("max.s32", lambda x: np.maximum(x, 5)),
        ("or.b32", lambda x: x | 5),
        ("and.b32", lambda x: x & 5),
        ("xor.b32", lambda x: x ^ 5),
        ("exch.b32", lambda x: x * 0 + 5),
    ],
)
def test_atomic_operations_return_what_was_there(name: str, function: Any, native: bool) -> None:
    x = np.arange(-8, 8, dtype=np.int32)
    array = x.copy()
    before = _on(array, f"atom.global.gpu.acq_rel.{name} $0, [$1], 5;", native=native)
    np.testing.assert_array_equal(before, x)
    np.testing.assert_array_equal(array, function(x))
    if not name.startswith("exch"):
        again = x.copy()
        _on(again, f"red.global.{name} [$1], 5; mov.b32 $0, 0;", native=native)
        np.testing.assert_array_equal(again, function(x))


@pytest.mark.parametrize("native", [False, True])
def test_a_predicate_guards_memory(native: bool) -> None:
    array = np.arange(-8, 8, dtype=np.int32)
    x = array.copy()
    text = """{ .reg .pred p; .reg .b32 v;
        ld.global.b32 v, [$1];
        setp.lt.s32 p, v, 0;
        @p st.global.b32 [$1], 100;
        @!p atom.global.add.u32 v, [$1], 1000;
        mov.b32 $0, v; }"""
    np.testing.assert_array_equal(_on(array, text, native=native), x)
    np.testing.assert_array_equal(array, np.where(x < 0, 100, x + 1000))
    swapped = x.copy()
    text = """{ .reg .pred p; setp.eq.s32 p, 0, 1; mov.b32 $0, 0;
        @p atom.global.cas.b32 $0, [$1], 0, 9; }"""
    _on(swapped, text, native=native)
    np.testing.assert_array_equal(swapped, x)


def test_vectors_are_read_and_written() -> None:
    array = np.arange(64, dtype=np.int32)

    def body(p: Any) -> Any:
        at = p + 4 * tl.arange(0, 16)
        text = """{ .reg .b32 v<4>; ld.global.v4.b32 {v0, v1, v2, v3}, [$1];
            st.global.v2.b32 [$1+4], {v3, v0}; add.s32 $0, v1, v2; }"""
        return tl.inline_asm_elementwise(text, "=r,l", [at], tl.int32, False, 1)

    got = evaluate(body, Pointer(array), native=True)
    first = 4 * np.arange(16)
    np.testing.assert_array_equal(got, 2 * first + 3)
    wanted = np.stack([first, first + 3, first, first + 3], axis=1).ravel()
    np.testing.assert_array_equal(array, wanted)


def test_a_loop_of_loads_sees_what_others_write() -> None:
    flags = np.zeros(4, np.int32)
    text = """{ .reg .u32 %seen<1>; .reg .pred %p<1>;
        wait:
            ld.global.acquire.sys.u32 %seen0, [$1];
            setp.eq.u32 %p0, %seen0, 7;
            @!%p0 bra wait;
        bar.sync 0;
        mov.u32 $0, %seen0; }"""

    def signal() -> None:
        for place in range(4):
            time.sleep(0.05)
            flags[place] = 7

    thread = threading.Thread(target=signal)
    thread.start()
    np.testing.assert_array_equal(_on(flags, text), [7, 7, 7, 7])
    thread.join()
