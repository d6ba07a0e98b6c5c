"""Where commands that read a trace write.

Internal: names may change in any release.
"""

from __future__ import annotations

from pathlib import Path


def is_same_file(output: Path, trace: str | Path) -> bool:
    """Return whether an output is the trace that is read; no, where one is not there or cannot be: that is told elsewhere."""
    try:
        return output.samefile(trace)
    except (OSError, ValueError):
        return False
