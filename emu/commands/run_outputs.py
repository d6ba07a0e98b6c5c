"""Files that ``emu run`` is to write: each is checked before anything starts."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from emu.commands.same_file import is_same_file
from emu.kernels.core.messages import shown


def check_outputs(options: argparse.Namespace) -> None:
    """Check that traces and the report can be written, and go to files of their own.

    Args:
        options: Those of ``emu run``.

    Raises:
        ArgumentError: One cannot, is given twice, or is a file that the run reads.
    """
    from emu.comm.errors import ArgumentError

    outputs = [("--trace", file) for file in options.trace]
    if options.report is not None:
        outputs.append(("--report", str(options.report)))
    before: dict[str, str] = {}
    for name, file in outputs:
        reason = _refusal(Path(file))
        if reason is not None:
            raise ArgumentError(
                f"{name} must be a file that can be written, but got {shown(file)}: {reason}"
            )
        for role, read in _inputs(options):
            if is_same_file(file, read):
                raise ArgumentError(
                    f"{name} must be another file than {role}, but got {shown(file)} for both"
                )
        place = os.path.realpath(file)
        if place in before:
            raise ArgumentError(
                f"{name} must be another file than that of {before[place]}, but got {shown(file)} for both"
            )
        before[place] = name


def _inputs(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield what a run reads: what it is, and its path."""
    if options.script not in (None, "-"):
        yield "the script", options.script
    if options.replay is not None:
        yield "that of --replay", options.replay
    if options.predict is not None:
        yield "that of --predict", options.predict


def _refusal(path: Path) -> str | None:
    """Return why a file cannot be written; None: it can, as far as can be told."""
    try:
        kind = _mode_of(path)
        if kind is None:
            folder = path.resolve().parent
            above = _mode_of(folder)
            if above is None or not stat.S_ISDIR(above):
                return f"there is no folder {shown(str(folder))}"
            return None if os.access(folder, os.W_OK | os.X_OK) else "its folder is read-only"
    except (OSError, ValueError, RuntimeError) as error:
        return str(getattr(error, "strerror", None) or error)
    if stat.S_ISDIR(kind):
        return "it is a folder"
    return None if os.access(path, os.W_OK) else "it is read-only"


def _mode_of(path: Path) -> int | None:
    """Return the mode of a file; None: there is none."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
