"""Traces in other formats, by the end of a file's name.

Internal: names may change in any release.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from emu.trace.errors import TraceError, TraceFileError
from emu.trace.reading import read_trace

_logger = logging.getLogger("emu.trace")

NATIVE, PERFETTO, KINETO = ".emutrace", ".pftrace", ".json"
FORMATS = (PERFETTO, KINETO)
"""What a trace can be converted to."""


def check_needs(path: Path) -> None:
    """Check that a file can be written as the end of its name says.

    Raises:
        TraceError: A package that this needs is not installed.
    """
    if path.suffix == PERFETTO:
        from emu.trace.pftrace import load_messages

        load_messages()


def convert_all(source: Path, targets: Sequence[Path]) -> bool:
    """Make the other files of a trace; return whether each was written. A log names those that were not.

    Args:
        source: A ``.emutrace``.
        targets: The files.
    """
    is_whole = True
    for target in targets:
        try:
            if target.suffix == NATIVE:
                shutil.copyfile(source, target)
            else:
                convert(source, target)
        except (OSError, TraceError) as error:
            is_whole = False
            _logger.warning("%s was not written: %s; %s has the events", target, error, source)
    return is_whole


def convert(source: Path, target: Path, pe: int | None = None) -> None:
    """Convert a trace.

    Args:
        source: A ``.emutrace``.
        target: A file whose name ends in ``.pftrace`` or ``.json``.
        pe: With ``.json``: the PE whose events the file gets, as HTA wants a file a rank. Default: all PEs.

    Raises:
        TraceFileError: The source is no trace, or the target cannot be written.
        TraceError: The target's name ends otherwise, there is no such PE, or the package perfetto is not installed.
    """
    if target.suffix not in FORMATS:
        raise TraceError(
            f"a trace is converted to a file whose name ends in {' or '.join(FORMATS)}, but got {str(target)!r}"
        )
    if "\0" in str(target):
        raise TraceFileError(f"{str(target)!r} cannot be written: no file's name has a null byte")
    if pe is not None and target.suffix != KINETO:
        raise TraceError(f"one PE's events are written to {KINETO} only, but got {str(target)!r}")
    trace = read_trace(source)
    if pe is not None and not 0 <= pe < trace.n_pes:
        raise TraceError(f"pe must be in [0, {trace.n_pes}), but got {pe}")
    try:
        if target.suffix == PERFETTO:
            from emu.trace.pftrace import write_pftrace

            write_pftrace(trace, target)
        else:
            from emu.trace.kineto import write_json

            write_json(trace, target, pe)
    except OSError as error:
        raise TraceFileError(f"{target} cannot be written: {error.strerror}") from None
