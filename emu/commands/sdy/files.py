"""Access to files named on a command line, with errors that name them."""

from __future__ import annotations

import sys
from typing import TextIO

from emu.mlir.diagnostics import Diagnostic, FileLoc, MlirError, Severity
from emu.mlir.text.lexer import render

_BYTECODE = b"ML\xefR"


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input for "-".

    Raises:
        OSError: The file cannot be read.
        MlirError: It is not UTF-8; the message has file, line and column.
    """
    try:
        if file == "-":
            return sys.stdin.read()
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        raise _not_text(file, error.object, error.start) from None
    except ValueError:
        raise OSError(f"{file!r} must be the name of a file, but holds a null byte") from None


def _not_text(file: str, data: bytes, place: int) -> MlirError:
    line = data.count(b"\n", 0, place) + 1
    column = place - data.rfind(b"\n", 0, place)
    message = f"text must be UTF-8, but has the byte 0x{data[place]:02x} here"
    if data.startswith(_BYTECODE):
        line = column = 1
        message = "text is expected, but this is MLIR bytecode, which emu does not read"
    found = Diagnostic(Severity.ERROR, FileLoc(file, line, column), message)
    return MlirError(render(found), [found])


def open_to_write(file: str) -> TextIO:
    """Open a file for writing text.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        return open(file, "w", encoding="utf-8")
    except ValueError:
        raise OSError(f"{file!r} must be the name of a file, but holds a null byte") from None
