"""Masked loads and stores some of whose lanes the compiler knows, run with each number of known lanes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from emu.tile.cpu import constant_masks, native

LANES = 32
TYPES = {"float": "f32", "i32": "i32", "double": "f64", "i64": "i64", "i16": "i16", "i8": "i8"}
DTYPES = {
    "float": "float32",
    "i32": "int32",
    "double": "float64",
    "i64": "int64",
    "i16": "int16",
    "i8": "int8",
}


def program(name: str, type_: str, code: str, known: np.ndarray, lanes: int) -> str:
    """Return LLVM IR: ``name(p, q, n)`` copies the lanes of ``p`` that are known or have ``n < 12`` (``code``: both, or either)."""
    vector, mask = f"<{lanes} x {type_}>", f"<{lanes} x i1>"
    called = f"v{lanes}{TYPES[type_]}.p0"
    size = np.dtype(DTYPES[type_]).itemsize
    ones = ", ".join(f"i1 {str(bool(lane)).lower()}" for lane in known)
    return f"""
        declare {vector} @llvm.masked.load.{called}(ptr, i32, {mask}, {vector})
        declare void @llvm.masked.store.{called}({vector}, ptr, i32, {mask})
        define void @{name}(ptr %p, ptr %q, i32 %n) {{
          %x = icmp slt i32 %n, 12
          %one = insertelement {mask} poison, i1 %x, i32 0
          %all = shufflevector {mask} %one, {mask} poison, <{lanes} x i32> zeroinitializer
          %m = {code} {mask} %all, <{ones}>
          %v = call {vector} @llvm.masked.load.{called}(ptr %p, i32 {size}, {mask} %m, {vector} zeroinitializer)
          store {vector} %v, ptr %q, align {size}
          %r = getelementptr i8, ptr %q, i64 {lanes * size}
          call void @llvm.masked.store.{called}({vector} %v, ptr %r, i32 {size}, {mask} %m)
          ret void
        }}
    """


def compiled(text: str, name: str, effort: native.Effort) -> Callable[..., None]:
    address = native.load(native.to_object(text, effort=effort), name)
    function: Callable[..., None] = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32
    )(address)
    return function


def check(type_: str, code: str, known: np.ndarray, effort: native.Effort) -> None:
    lanes = len(known)
    name = native.new_name("masked")
    copy = compiled(program(name, type_, code, known, lanes), name, effort)
    source = np.arange(1, lanes + 1).astype(DTYPES[type_])
    combine = np.logical_and if code == "and" else np.logical_or
    for n in (11, 12):
        inside = combine(known, n < 12)
        found = np.full((2, lanes), 99, source.dtype)
        copy(source.ctypes.data, found.ctypes.data, n)
        assert found[0].tolist() == np.where(inside, source, 0).tolist(), (known, n)
        assert found[1].tolist() == np.where(inside, source, 99).tolist(), (known, n)


@pytest.mark.parametrize("type_", ["float", "i32", "double"])
def test_a_row_that_ends_at_a_known_column(type_: str) -> None:
    for end in (1, 2, 4, 7, 8, 9, 17, 20, 23, 31):
        check(type_, "and", np.arange(LANES) < end, native.Effort.FULL)


@pytest.mark.parametrize("effort", native.Effort)
def test_each_effort(effort: native.Effort) -> None:
    for end in (4, 20):
        check("float", "and", np.arange(LANES) < end, effort)


@pytest.mark.parametrize("lanes", [8, 16, 32])
def test_lanes_that_are_true_in_any_case(lanes: int) -> None:
    for end in {1, lanes // 4, lanes // 2, lanes - 3}:
        check("float", "or", np.arange(lanes) < end, native.Effort.FULL)


@pytest.mark.slow
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("code", ["and", "or"])
@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
def test_random_lanes(type_: str, code: str, lanes: int) -> None:
    generator = np.random.default_rng(lanes)
    for _ in range(12):
        known = generator.random(lanes) < generator.random()
        check(type_, code, known, native.Effort.FULL)


def test_only_masks_are_changed() -> None:
    assert (
        constant_masks.hide("%m = and <4 x i1> %a, <i1 true, i1 false, i1 true, i1 true>") is None
    )
    assert constant_masks.hide("declare void @llvm.masked.load()\n%m = and i1 %a, true") is None
    text = constant_masks.hide(
        "; @llvm.masked.load\n"
        "  %m = and <2 x i1> %a, <i1 true, i1 undef>\n"
        "  %k = or <2 x i1> <i1 true, i1 false>, %b\n"
    )
    assert text is not None
    assert text.count("@emu.lanes.0 ") == text.count("@emu.lanes.0,") - 1 == 1
    assert "<2 x i8> <i8 1, i8 0>" in text
    assert "<i1" not in text
