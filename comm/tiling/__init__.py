"""Tiling data: structs whose bytes are those of the C++ macros."""

from emu.comm.tiling.ctext import MacroError
from emu.comm.tiling.headers import c_header, cpp_header, macro_text
from emu.comm.tiling.layout import Field, Layout, Row
from emu.comm.tiling.macros import MacroText, Unread, read_macros
from emu.comm.tiling.scalars import (
    Array,
    Scalar,
    boolean,
    char,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from emu.comm.tiling.struct import TilingData, UnknownFieldError, layout_of, structs_of

__all__ = [
    "Array",
    "Field",
    "Layout",
    "MacroError",
    "MacroText",
    "Row",
    "Scalar",
    "TilingData",
    "UnknownFieldError",
    "Unread",
    "boolean",
    "c_header",
    "char",
    "cpp_header",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "layout_of",
    "macro_text",
    "read_macros",
    "structs_of",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]
