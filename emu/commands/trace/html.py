"""``emu trace html``: writes a page."""

from __future__ import annotations

import sys
from pathlib import Path

from emu.commands.same_file import is_same_file
from emu.kernels.core.messages import shown
from emu.trace.errors import TraceError, TraceFileError
from emu.trace.page.html import to_html
from emu.trace.reading import read_trace
from emu.trace.statistics.summary import statistics_of

_BAD = 2


def run_html(source: Path, target: Path | None) -> int:
    """Write the page of a trace; return the exit status: 0, or 2 where that could not be done."""
    try:
        trace = read_trace(source)
        target = target if target is not None else source.with_suffix(".html")
        if is_same_file(target, source):
            raise TraceFileError(f"the page {target} must not be the trace itself")
        target.write_text(to_html(statistics_of(trace), title=source.name), "utf-8")
    except TraceError as error:
        sys.stderr.write(f"emu: {error}\n")
        return _BAD
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        sys.stderr.write(f"emu: the page {shown(target)} cannot be written: {said}\n")
        return _BAD
    sys.stdout.write(f"{target}: open it in a browser\n")
    return 0
