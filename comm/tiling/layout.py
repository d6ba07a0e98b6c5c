"""The layout of a struct of tiling data: the places of its fields.

Fields follow in the order of declaration. Before each, zero bytes pad to a multiple of its alignment:
the size of a scalar, the size of one element of an array, always 8 for a nested struct. The whole
struct is padded to a multiple of 8. The padding before a field ``f`` is called ``fPH``, that at the
end of a struct ``S`` is called ``SPH``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from emu.comm.errors import ArgumentError
from emu.comm.tiling.scalars import Array, Scalar

if TYPE_CHECKING:
    import numpy as np

Buffer = bytes | bytearray | memoryview
STRUCT_ALIGNMENT = 8


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field and its place."""

    name: str
    type: Scalar | Array | Layout
    """A scalar, an array of scalars, or the layout of a nested struct."""
    offset: int
    """Bytes from the start of the struct."""
    padding: int
    """Zero bytes before it."""

    @property
    def size(self) -> int:
        """Bytes that it takes, without padding."""
        return self.type.size

    @property
    def placeholder(self) -> str:
        """Name of the padding before it."""
        return f"{self.name}PH"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a printed table: a scalar, an array, or padding."""

    offset: int
    size: int
    type: str
    """As in C; of padding ``padding``."""
    name: str
    """With the names of the structs around it: ``msg.commAlg``."""
    owner: Layout = field(repr=False)
    """The struct that declares it."""
    value: Any = None
    """None for padding, and where the table is one of a layout only."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The bytes of a struct. Two are equal when their fields are; the structs' names don't matter."""

    name: str = field(compare=False)
    fields: tuple[Field, ...]
    size: int
    """Bytes of the whole struct, padding included."""
    tail: int
    """Zero bytes behind the last field."""
    pack: int = STRUCT_ALIGNMENT
    """Largest alignment of a field; 8 but for what was declared as packed."""

    @functools.cached_property
    def by_name(self) -> dict[str, Field]:
        """The fields by name, in order."""
        return {item.name: item for item in self.fields}

    def __str__(self) -> str:
        return self.name

    def offsets(self) -> dict[str, int]:
        """Return the offset of each scalar and array; those of nested structs are named ``mm.mmVar``."""
        return {row.name: row.offset for row in self.rows() if row.type != "padding"}

    def dtype(self) -> np.dtype[np.generic]:
        """Return the NumPy structured dtype with exactly these offsets and this size."""
        import numpy as np

        formats = []
        for item in self.fields:
            kind = item.type
            if isinstance(kind, Layout):
                formats.append(kind.dtype())
            elif isinstance(kind, Scalar):
                formats.append(np.dtype(kind.numpy_name))
            elif kind.element.name == "char":
                formats.append(np.dtype(f"S{kind.count}"))
            else:
                formats.append(np.dtype((kind.element.numpy_name, (kind.count,))))
        return np.dtype(
            {
                "names": [item.name for item in self.fields],
                "formats": formats,
                "offsets": [item.offset for item in self.fields],
                "itemsize": self.size,
            }
        )

    def rows(self, memory: memoryview | None = None) -> Iterator[Row]:
        """Yield the scalars, arrays and paddings in the order of their bytes.

        Args:
            memory: The bytes of a struct, for the values. Default: no values.
        """
        yield from self._rows(memory, 0, "")

    def _rows(self, memory: memoryview | None, base: int, prefix: str) -> Iterator[Row]:
        for item in self.fields:
            start, name = base + item.offset, prefix + item.name
            if item.padding:
                yield self._padding(start - item.padding, item.padding, prefix + item.placeholder)
            if isinstance(item.type, Layout):
                yield from item.type._rows(memory, start, f"{name}.")
                continue
            value = None if memory is None else item.type.read(memory, start, name)
            yield Row(
                offset=start,
                size=item.size,
                type=str(item.type),
                name=name,
                owner=self,
                value=value,
            )
        if self.tail:
            yield self._padding(base + self.size - self.tail, self.tail, f"{prefix}{self.name}PH")

    def _padding(self, offset: int, size: int, name: str) -> Row:
        return Row(offset=offset, size=size, type="padding", name=name, owner=self)

    def table(self, memory: memoryview | None = None) -> str:
        """Return ``rows`` as lines of text under a headline with name and size."""
        head = ("offset", "size", "type", "field", "" if memory is None else "value")
        lines: list[tuple[str, ...]] = [head]
        for row in self.rows(memory):
            value = "" if row.value is None else str(row.value)
            lines.append((str(row.offset), str(row.size), row.type, row.name, value))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        body = [
            f"{a:>{widths[0]}}  {b:>{widths[1]}}  {c:<{widths[2]}}  {d:<{widths[3]}}  {e}".rstrip()
            for a, b, c, d, e in lines
        ]
        return "\n".join([f"{self.name}: {self.size} bytes", *body])

    @functools.cached_property
    def paddings(self) -> tuple[tuple[int, int, str], ...]:
        """Tuples (offset, size, name) of every padding, also in nested structs."""
        return tuple(
            (row.offset, row.size, row.name) for row in self.rows() if row.type == "padding"
        )

    def dirty_padding(self, data: Buffer) -> tuple[tuple[int, int, str], ...]:
        """Return those of ``paddings`` that are not zero in ``data``."""
        return tuple(
            (offset, size, name)
            for offset, size, name in self.paddings
            if any(data[offset : offset + size])
        )


def place(
    name: str,
    members: Iterable[tuple[str, Scalar | Array | Layout]],
    pack: int = STRUCT_ALIGNMENT,
) -> Layout:
    """Make the layout of a struct from its fields.

    Args:
        name: Of the struct.
        members: (name, type) of each field, in order.
        pack: Largest alignment of a field and of the struct.

    Returns:
        The layout.

    Raises:
        ArgumentError: Two fields of one name, or a nested struct without fields.
    """
    fields: list[Field] = []
    end = 0
    for member, kind in members:
        if any(member == other.name for other in fields):
            raise ArgumentError(f"fields of {name} must have different names, but got two {member}")
        if kind.size == 0:
            raise ArgumentError(f"struct of field {name}.{member} must have fields, but has none")
        # `-end % alignment` bytes lead from `end` to the next multiple of the alignment.
        padding = -end % min(_alignment(kind), pack)
        fields.append(Field(name=member, type=kind, offset=end + padding, padding=padding))
        end += padding + kind.size
    tail = -end % min(STRUCT_ALIGNMENT, pack)
    return Layout(name=name, fields=tuple(fields), size=end + tail, tail=tail, pack=pack)


def _alignment(kind: Scalar | Array | Layout) -> int:
    # The macros' rule, not C's: a nested struct starts and ends at a multiple of 8, whatever its fields are.
    if isinstance(kind, Layout):
        return STRUCT_ALIGNMENT
    return kind.element.size if isinstance(kind, Array) else kind.size
