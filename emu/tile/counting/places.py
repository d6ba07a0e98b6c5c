"""Where a program calls an operator that counts."""

from __future__ import annotations

import sys
from pathlib import Path

_OWN = str(Path(__file__).parent.parent.parent) + "/"


def place_of_program(*libraries: str) -> tuple[str, int]:
    """Return file and line of the program that runs now; without one, of an installed library.

    Args:
        libraries: Folders, with a slash at the end, whose files are no program's either.
    """
    frame, library = sys._getframe(1), None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith((_OWN, *libraries, "<frozen")):
            if "site-packages" not in file:
                return file, frame.f_lineno
            library = library or (file, frame.f_lineno)
        before = frame.f_back
        if before is None:
            break
        frame = before
    return library or ("", 0)
