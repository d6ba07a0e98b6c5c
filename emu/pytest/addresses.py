"""Which tests' kernels and operators have used memory that they must not, or too early: a section at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from emu.pytest import pes

_TITLE = "emu: bad addresses"


def in_red_zones() -> list[str]:
    """Return what was found in the red zones around memory since this was called last, a line each."""
    zones: Any = sys.modules.get("emu.tile.cpu.run.red_zones")
    if zones is None:
        return []
    zones.report_freed()
    lines: list[str] = zones.take_reports()
    return lines


def note(report: Any, error: BaseException | None, here: Path, more: Iterable[str] = ()) -> None:
    """Note in the report of a test what its kernels used, as far as the exception that ended it tells.

    Paths are relative to ``here`` where they lie below it. ``more`` are lines that are known from elsewhere.

    Under pytest-xdist the report is what reaches the process that prints the summary.
    """
    found = dict.fromkeys(line for each in _errors(error, set()) for line in _lines(each, here))
    found |= dict.fromkeys(more)
    if found:
        report.emu_addresses = list(found)


def summarize(terminalreporter: Any) -> None:
    """Print the section, if there is anything to say."""
    found = {
        report.nodeid: lines
        for reports in terminalreporter.stats.values()
        for report in reports
        if (lines := getattr(report, "emu_addresses", None))
    }
    if not found:
        return
    terminalreporter.section(_TITLE)
    for test, lines in found.items():
        terminalreporter.write_line(test)
        for line in lines:
            terminalreporter.write_line(f"  {line}")


def _errors(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """Yield an exception, its causes, and those of the PEs."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    yield error
    if isinstance(error, pes.OutcomeError):
        yield from _errors(pes.unpickled(error.error), seen)
    for other in (error.__cause__, error.__context__, *getattr(error, "exceptions", ())):
        if isinstance(other, BaseException):
            yield from _errors(other, seen)


def _lines(error: Any, here: Path) -> Iterator[str]:
    """Yield a line for each bad use of memory that an exception reports."""
    triton: Any = sys.modules.get("emu.triton.errors")
    faults: Any = sys.modules.get("emu.tile.cpu.run.faults")
    streams: Any = sys.modules.get("emu.accelerator.stream_errors")
    if triton is not None and isinstance(error, triton.OutOfBoundsError):
        for access in error.accesses:
            place = _place(access.file, access.line, here)
            yield f"{access.verb} out of bounds in kernel {access.kernel}{place}, {_tensor(access)}"
    elif triton is not None and isinstance(error, triton.UninitialisedError):
        read = error.read
        place = _place(read.file, read.line, here)
        yield f"unwritten memory used as {read.use} in kernel {read.kernel}{place}, {_tensor(read)}"
    elif streams is not None and isinstance(error, streams.StreamOrderError):
        for race in error.races:
            first, second = (
                f"{use.what}{_place(use.file, use.lineno, here)}"
                for use in (race.first, race.second)
            )
            yield f"nothing orders {first} and {second}"
    elif faults is not None and isinstance(error, faults.ProgramFaultError):
        place = f", {error.location}" if error.location else ""
        address = "an address" if error.address is None else f"address {error.address:#x}"
        yield f"{address} that is not there in kernel {error.kernel}{place}"


def _place(file: str, line: int, here: Path) -> str:
    """Return where an access is in the source."""
    if not file:
        return ""
    path = Path(file)
    return f", {path.relative_to(here) if path.is_relative_to(here) else path}:{line}"


def _tensor(access: Any) -> str:
    name = f"tensor {access.argument}" if access.argument else "an address that was read"
    past, before = getattr(access, "past_end", None), getattr(access, "before_start", None)
    if past is not None and past >= 0:
        return f"{name}: {past} bytes past its end" if past else f"{name}: right behind its end"
    return name if before is None else f"{name}: {before} bytes before its start"
