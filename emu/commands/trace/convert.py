"""``emu trace convert``: writes a trace for another viewer."""

from __future__ import annotations

import sys
from pathlib import Path

from emu.trace.converting import convert
from emu.trace.errors import TraceError

USAGE = 2


def run_convert(source: Path, target: Path, pe: int | None) -> int:
    """Convert a trace; return the exit status: 0, or 2 for a wrong argument, a file that is no trace, or one that cannot be written."""
    try:
        convert(source, target, pe)
    except TraceError as error:
        sys.stderr.write(f"emu: {error}\n")
        return USAGE
    return 0
