"""Layout of packed kernel arguments: 8 bytes each, in order."""

from __future__ import annotations

from emu.tile.ir import TileError
from emu.tile.types import F32, F64, Pointer, Tile, Token, Type


def slot(type_: Type) -> str:
    """Return the format of an argument in its 8 bytes."""
    if isinstance(type_, Pointer):
        return "Q"
    if isinstance(type_, (Tile, Token)):
        raise TileError(f"an argument of a kernel must be a scalar or a pointer, but got {type_}")
    if type_.is_float:
        if type_ not in (F32, F64):
            raise TileError(f"a float argument of a kernel must be f32 or f64, but got {type_}")
        return "f4x" if type_ == F32 else "d"
    return "q" if not type_.is_integer or type_.is_signed else "Q"
