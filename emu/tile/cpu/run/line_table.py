"""The line table of an object file: which place an instruction comes from.

Read after a fault only. LLVM writes the table as DWARF; a "line" in it is the number of a place, see ``emit.located``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class _Section(NamedTuple):
    name: str
    offset: int
    size: int


class _Object:
    """The parts of an ELF file that are needed; ValueError if it is no such file of 64 bits."""

    def __init__(self, code: bytes) -> None:
        if code[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not an ELF file of 64 bits")
        self.code = code
        (headers,) = struct.unpack_from("<Q", code, 0x28)
        _, count, names = struct.unpack_from("<HHH", code, 0x3A)
        rows = [_SECTION.unpack_from(code, headers + _SECTION.size * n) for n in range(count)]
        text = rows[names][4]
        self.sections = [_Section(self._text(text + r[0]), r[4], r[5]) for r in rows]

    def _text(self, at: int) -> str:
        return self.code[at : self.code.index(b"\0", at)].decode("ascii", "replace")

    def find(self, name: str) -> _Section:
        """Return a section; an empty one if there is none of that name."""
        return next((s for s in self.sections if s.name == name), _Section(name, 0, 0))

    def symbols(self) -> dict[str, tuple[str, int]]:
        """Return section and offset of each symbol."""
        table, names = self.find(".symtab"), self.find(".strtab")
        found = {}
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, _, _, section, value, _ = _SYMBOL.unpack_from(self.code, at)
            if section < len(self.sections):
                found[self._text(names.offset + name)] = (self.sections[section].name, value)
        return found

    def addends(self, name: str) -> dict[int, int]:
        """Return what is added to the address of the text where a section is relocated, by offset."""
        table = self.find(f".rela{name}")
        rows = range(table.offset, table.offset + table.size, _RELOCATION.size)
        triples = (_RELOCATION.unpack_from(self.code, at) for at in rows)
        return {offset: addend for offset, _, addend in triples}


class _Row(NamedTuple):
    """From ``address`` on, counted in the text, instructions come from a place; 0: unknown. ``ends``: none do."""

    address: int
    place: int
    ends: bool = False


class LineTable:
    """The line table of an object file.

    Args:
        code: The object file.
        symbol: A function in it.
    """

    def __init__(self, code: bytes, symbol: str) -> None:
        parts = _Object(code)
        section, self._origin = parts.symbols().get(symbol, ("", 0))
        self._size = parts.find(section).size
        self._rows = sorted(_rows(parts), key=lambda row: (row.address, not row.ends))

    def has(self, distance: int) -> bool:
        """Return whether an address is in the code, given its distance from the function."""
        return 0 <= distance + self._origin < self._size

    def find(self, distance: int) -> int | None:
        """Return the number of the place that an instruction comes from; None if that is not known."""
        found = None
        for row in self._rows:
            if row.address > distance + self._origin:
                break
            found = row
        return found.place or None if found is not None and not found.ends else None


def _rows(parts: _Object) -> Iterator[_Row]:
    section = parts.find(".debug_line")
    addends = parts.addends(".debug_line")
    at, end = section.offset, section.offset + section.size
    while at < end:
        length, version = struct.unpack_from("<IH", parts.code, at)
        yield from _Program(parts.code, at, version, length + 4, addends, section.offset).rows()
        at += length + 4


class _Program:
    """A line number program of DWARF, version 2 to 5."""

    def __init__(
        self, code: bytes, at: int, version: int, size: int, addends: dict[int, int], base: int
    ) -> None:
        self._code, self._end, self._addends, self._base = code, at + size, addends, base
        at += 6 + 2 * (version >= 5)
        (header,) = struct.unpack_from("<I", code, at)
        self._at = at + 4 + header
        at += 4
        self._unit = code[at]
        at += 1 + (version >= 4)
        self._line_base, self._range, self._first = struct.unpack_from("<xbBB", code, at)
        self._lengths = code[at + 4 : at + 3 + self._first]
        self._address, self._line = 0, 1

    def rows(self) -> Iterator[_Row]:
        """Run the program."""
        while self._at < self._end:
            operation = self._byte()
            if operation >= self._first:
                steps, lines = divmod(operation - self._first, self._range)
                self._address += steps * self._unit
                self._line += self._line_base + lines
                yield _Row(self._address, self._line)
            elif operation == 0:
                yield from self._extended()
            elif operation == 1:
                yield _Row(self._address, self._line)
            else:
                self._standard(operation)

    def _standard(self, operation: int) -> None:
        if operation == 2:
            self._address += self._number() * self._unit
        elif operation == 3:
            self._line += self._number(signed=True)
        elif operation == 8:
            self._address += (255 - self._first) // self._range * self._unit
        elif operation == 9:
            self._address += struct.unpack_from("<H", self._code, self._at)[0]
            self._at += 2
        else:
            for _ in range(self._lengths[operation - 1]):
                self._number()

    def _extended(self) -> Iterator[_Row]:
        size = self._number()
        behind = self._at + size
        operation = self._byte()
        if operation == 1:
            yield _Row(self._address, 0, ends=True)
            self._address, self._line = 0, 1
        elif operation == 2:
            self._address = self._addends.get(self._at - self._base, 0)
        self._at = behind

    def _byte(self) -> int:
        self._at += 1
        return int(self._code[self._at - 1])

    def _number(self, signed: bool = False) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        return value - (1 << shift) if signed and byte & 64 else value
