"""What a message shows of a value that a loop reads, given its bits."""

from __future__ import annotations

import struct

import pytest

from emu.tile.cpu.run.spins import _value

FORMATS = {
    "i1": ("?", True),
    "i8": ("b", -3),
    "u8": ("B", 253),
    "i16": ("h", -300),
    "u16": ("H", 65000),
    "i32": ("i", -70000),
    "u32": ("I", 4_000_000_000),
    "i64": ("q", -(1 << 40)),
    "u64": ("Q", 1 << 63),
    "f16": ("e", 1.5),
    "f32": ("f", 0.1),
    "f64": ("d", 0.1),
}


@pytest.mark.parametrize("dtype", FORMATS)
def test_numbers_are_shown_as_python_has_them(dtype: str) -> None:
    form, number = FORMATS[dtype]
    packed = struct.pack(form, number).ljust(8, b"\0")
    (bits,) = struct.unpack("q", packed)
    assert _value(dtype, bits) == str(struct.unpack_from(form, packed)[0])


@pytest.mark.parametrize("dtype", ["", "bf16", "f8e5m2"])
def test_pointers_and_what_python_has_no_number_for_are_shown_by_their_bits(dtype: str) -> None:
    assert _value(dtype, 0x3F80) == "0x3f80"
    assert _value(dtype, -1) == "0xffffffffffffffff"
