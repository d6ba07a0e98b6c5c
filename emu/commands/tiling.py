"""``emu tiling``: the bytes of tiling data, field by field."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from emu.comm.errors import ArgumentError
from emu.comm.tiling.detection import detect
from emu.comm.tiling.headers import c_header, cpp_header, macro_text
from emu.comm.tiling.macros import MacroText, read_macros
from emu.comm.tiling.mc2msg import version_of
from emu.comm.tiling.struct import TilingData, as_bytes, layout_of
from emu.comm.tiling.table import Line, annotate

if TYPE_CHECKING:
    from rich.console import Console

_EMIT = {"c": c_header, "cpp": cpp_header, "macros": macro_text}
_MACRO = b"TILING_DATA_DEF"
_WIDTH = 120
_REST_SHOWN = 32


def explain(
    file: str | None,
    *,
    hexadecimal: str | None = None,
    version: str | None = None,
    struct: Path | None = None,
    name: str | None = None,
    offset: int = 0,
    emit: str | None = None,
    console: Console | None = None,
) -> None:
    """Print what bytes are, or what a text with macros declares.

    Args:
        file: A file of bytes or of text with macros; ``-`` is standard input.
        hexadecimal: The bytes instead of a file.
        version: Of the message that the bytes begin with. Default: found out.
        struct: A file with macros that declare what the bytes are, instead of a message.
        name: Which of the structs, or variables, that a text declares. Default: of a text that is to
            be explained all, of ``struct`` the last one.
        offset: Where the struct starts in the bytes.
        emit: Print the struct as ``c``, ``cpp`` or ``macros`` instead of the table. Default: no.
        console: Where to. Default: standard output.

    Raises:
        ArgumentError: The bytes can't be read as that, or the text has a mistake.
        OSError: A file can't be read.
    """
    data = (
        _bytes_of(hexadecimal) if hexadecimal is not None else _read("-" if file is None else file)
    )
    text = None if hexadecimal is not None else _macros(data)
    if text is not None:
        if version is not None or struct is not None or offset:
            raise ArgumentError(
                "version, struct and offset must be given for bytes, but the file is text with macros"
            )
        _explain_text(read_macros(text), name, emit, console)
        return
    if struct is None and name is not None:
        raise ArgumentError(f"name must be one in macros, but there are none for {name!r}")
    kind, headline = _detected(data, version, offset) if struct is None else _declared(struct, name)
    size = layout_of(kind).size
    part = as_bytes(data, offset)
    lines = annotate(kind, part)
    if emit is not None:
        sys.stdout.write(_EMIT[emit](kind))
        return
    console = console or _console()
    _print_table(console, headline, lines, offset)
    _print_rest(console, bytes(part[size:]), offset + size)


def _explain_text(
    found: MacroText, name: str | None, emit: str | None, console: Console | None
) -> None:
    if emit is None:
        _print_macros(console or _console(), found, name)
        return
    chosen = [_named(found, name)] if name or not found.structs else list(found.structs.values())
    sys.stdout.write(_EMIT[emit](*chosen))


def _declared(struct: Path, name: str | None) -> tuple[type[TilingData], str]:
    """Return the struct that a file declares, and a headline."""
    text = _macros(struct.read_bytes())
    if text is None:
        raise ArgumentError(f"struct must be a text with TILING_DATA_DEF macros, but got {struct}")
    kind = _named(read_macros(text), name)
    return kind, f"{layout_of(kind).name}: {layout_of(kind).size} bytes"


def _detected(data: bytes, version: str | None, offset: int) -> tuple[type[TilingData], str]:
    """Return the struct of the message that the bytes begin with, and a headline."""
    found = detect(data, offset=offset, expected=version)
    name = layout_of(found.struct).name
    evidence = "; ".join(found.evidence)
    return found.struct, f"{name}: version {found.version.value}, {found.size} bytes ({evidence})"


def _read(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _bytes_of(text: str) -> bytes:
    digits = re.sub(r"0[xX]|[\s,:;_]", "", text)
    try:
        return bytes.fromhex(digits)
    except ValueError:
        bad = re.search(r"[^0-9A-Fa-f]", digits)
        got = repr(bad[0]) if bad else f"{len(digits)} digits"
        raise ArgumentError(f"hex must be pairs of hexadecimal digits, but got {got}") from None


def _macros(data: bytes) -> str | None:
    """Return the text, where the bytes are text that holds macros."""
    if _MACRO not in data or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ArgumentError(f"text with macros must be UTF-8, but {error}") from None


def _named(found: MacroText, name: str | None) -> type[TilingData]:
    if not found.structs:
        raise ArgumentError("struct must be declared by TILING_DATA_DEF macros, but there are none")
    if name is None:
        return list(found.structs.values())[-1]
    if name in found.instances:
        return type(found.instances[name])
    if name not in found.structs:
        names = ", ".join([*found.structs, *found.instances])
        raise ArgumentError(f"name must be one of {names}, but got {name!r}")
    return found.structs[name]


def _print_macros(console: Console, found: MacroText, name: str | None) -> None:
    if name is not None:
        _named(found, name)
    for kind, struct in found.structs.items():
        if name in {None, kind}:
            layout = layout_of(struct)
            known = _version(struct)
            of = ", ".join(op for op, other in found.registered.items() if other is struct)
            headline = f"{kind}: {layout.size} bytes"
            headline += f", the message's version {known}" if known else ""
            _print_table(
                console, headline + (f", of operator {of}" if of else ""), annotate(struct)
            )
    for variable, value in found.instances.items():
        if name in {None, variable}:
            headline = f"{variable}: {layout_of(value).name}, {layout_of(value).size} bytes"
            _print_table(console, headline, annotate(value))
    for item in found.unread:
        if name is None or name in found.instances:
            console.print(f"line {item.line} has no constant value: {item.text}", markup=False)


def _version(struct: type[TilingData]) -> str:
    try:
        return version_of(struct()).value
    except ArgumentError:
        return ""


def _print_table(console: Console, headline: str, lines: list[Line], start: int = 0) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    with_values = any(line.bytes for line in lines)
    for column in ("offset", "size"):
        table.add_column(column, justify="right", no_wrap=True)
    columns = ("type", "field", "value", "meaning", "bytes") if with_values else ("type", "field")
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        style = "" if not with_values or not line.is_zero else "dim"
        cells = (line.type, line.name, line.value, line.meaning, line.bytes)
        texts = [Text(cell) for cell in cells[: len(columns)]]
        table.add_row(str(start + line.offset), str(line.size), *texts, style=style)
    console.print(headline, markup=False, soft_wrap=True)
    console.print(table)
    console.print()


def _print_rest(console: Console, rest: bytes, start: int) -> None:
    if rest:
        shown = rest[:_REST_SHOWN].hex(" ") + (" …" if len(rest) > _REST_SHOWN else "")
        console.print(f"{len(rest)} bytes follow at {start}: {shown}", markup=False)


def _console() -> Console:
    from rich.console import Console

    # Into a file or a pipe no line should be folded at 80 columns.
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH
    return Console(highlight=False, width=wide)
