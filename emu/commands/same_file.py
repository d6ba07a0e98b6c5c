"""Whether what a command would write is what it reads.

Internal: names may change in any release.
"""

from __future__ import annotations

import os


def is_same_file(output: str | os.PathLike[str], read: str | os.PathLike[str]) -> bool:
    """Return whether an output is a file that is read; no, where one is not there or cannot be: that is told elsewhere."""
    try:
        return os.path.samefile(output, read)
    except (OSError, ValueError):
        return False
