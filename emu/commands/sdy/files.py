"""Access to files named on a command line, with errors that name them."""

from __future__ import annotations

import sys
from typing import TextIO


def read_text(file: str) -> str:
    """Return the text of a file, or of standard input for "-".

    Raises:
        OSError: The file cannot be read, or is not UTF-8.
    """
    try:
        if file == "-":
            return sys.stdin.read()
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except UnicodeDecodeError as error:
        wrong = error.object[error.start]
        raise OSError(
            f"{file} must be UTF-8 text, but byte {error.start} is 0x{wrong:02x}"
        ) from None
    except ValueError:
        raise OSError(f"{file!r} must be the name of a file, but holds a null byte") from None


def open_to_write(file: str) -> TextIO:
    """Open a file for writing text.

    Raises:
        OSError: The file cannot be written.
    """
    try:
        return open(file, "w", encoding="utf-8")
    except ValueError:
        raise OSError(f"{file!r} must be the name of a file, but holds a null byte") from None
