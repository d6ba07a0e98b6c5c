"""Tables that explain the bytes of tiling data: each field's place, value and meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.comm.errors import ArgumentError
from emu.comm.tiling.enums import label
from emu.comm.tiling.layout import Layout, Row
from emu.comm.tiling.mc2msg import MEANINGS, is_part_of_message
from emu.comm.tiling.struct import TilingData, as_bytes, layout_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

_BYTES_SHOWN = 8
_TEXT_SHOWN = 48


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the table; all text except for offset and size."""

    offset: int
    """From the start of the struct."""
    size: int
    type: str
    """As in C; ``padding`` for padding."""
    name: str
    """With the names of the structs around it."""
    value: str
    """Empty for padding, and where there are no bytes."""
    meaning: str
    """Name of an enumeration's value, or a note on an odd one; mostly empty."""
    bytes: str
    """The first bytes in hexadecimal."""
    is_zero: bool
    """Whether all of its bytes are zero, or there are none."""


def annotate(
    struct: type[TilingData] | TilingData | Layout, buffer: Buffer | None = None
) -> list[Line]:
    """Explain the bytes of a struct.

    Args:
        struct: An instance, a struct or a layout.
        buffer: The bytes, which begin with the struct; padding is shown as it is there. Default: those
            of the instance; of a struct or a layout none, and the lines are without values.

    Returns:
        The scalars, arrays and paddings in the order of their bytes.

    Raises:
        ArgumentError: The buffer is too short.
    """
    layout = struct if isinstance(struct, Layout) else layout_of(struct)
    if buffer is None:
        if not isinstance(struct, TilingData):
            return [_line(row, None) for row in layout.rows()]
        data = memoryview(TilingData.to_bytes(struct))
    else:
        data = as_bytes(buffer)
        _check(layout, data)
    return [_line(row, data) for row in layout.rows(data)]


def _check(layout: Layout, data: memoryview) -> None:
    if len(data) < layout.size:
        raise ArgumentError(
            f"buffer must hold the {layout.size} bytes of {layout.name}, but got {len(data)}"
        )


def _line(row: Row, data: memoryview | None) -> Line:
    piece = b"" if data is None else bytes(data[row.offset : row.offset + row.size])
    is_padding = row.type == "padding"
    return Line(
        offset=row.offset,
        size=row.size,
        type=row.type,
        name=row.name,
        value="" if is_padding or data is None else _shortened(row.value),
        meaning="" if data is None else _meaning(row, any(piece)),
        bytes=piece[:_BYTES_SHOWN].hex(" ") + (" …" if len(piece) > _BYTES_SHOWN else ""),
        is_zero=not any(piece),
    )


def _shortened(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, bytes) and not any(value):
        return f"{len(value)} zeros"
    text = str(value)
    return text if len(text) <= _TEXT_SHOWN else f"{text[: _TEXT_SHOWN - 1]}…"


def _meaning(row: Row, is_set: bool) -> str:
    if row.type == "padding":
        return "not zero: ignored" if is_set else ""
    # Other structs may have a field of that name which means something else.
    names = MEANINGS.get(row.name.rpartition(".")[2])
    if names is None or not is_part_of_message(row.owner):
        return ""
    for member in names:
        if member == row.value:
            return label(member)
    return "unknown" if is_set else ""
