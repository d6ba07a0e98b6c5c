"""Reuse of a tile's memory for a value that comes when the tile is not needed any more."""

from __future__ import annotations

from collections.abc import Iterator

from emu.tile.cpu.plan.analysis import Analysis, is_view
from emu.tile.cpu.plan.schedule import Schedule
from emu.tile.ir import Operation, Value
from emu.tile.ops import Code
from emu.tile.types import Tile


def may_overwrite(
    analysis: Analysis, schedule: Schedule, value: Value, old: Value | None, terminator: Operation
) -> bool:
    """Return whether a tile may be written where an older tile of its shape lies.

    Args:
        analysis: Analysis of the function.
        schedule: Schedule of the stretch that computes the tile.
        value: Tile that is written.
        old: Tile that lies there; ``None``: nothing that is needed.
        terminator: End of the region, which takes ``value``.
    """
    writer = value.owner
    if writer is None or analysis.is_inline(value) or analysis.root(value)[0] is not value:
        return False
    if schedule.position(writer) is None:
        return False
    return old is None or all(
        _is_done(schedule, old, reader, writer, is_direct) and reader is not terminator
        for reader, is_direct in _readers(analysis, schedule, old)
    )


def may_take_over(analysis: Analysis, schedule: Schedule, value: Value, old: Value) -> bool:
    """Return whether a tile of a stretch may be written where another of the same stretch and shape lies.

    Args:
        analysis: Analysis of the function.
        schedule: Schedule of the stretch.
        value: Tile that is written.
        old: Tile whose memory nothing else shares.
    """
    writer = value.owner
    if writer is None or analysis.is_inline(value) or schedule.position(writer) is None:
        return False
    if old.owner in schedule.in_place:  # it may lie in the program's own memory
        return False
    for reader, is_direct in _readers(analysis, schedule, old):
        # A scan has read what it replaces: the element itself or, in runs, all of the run.
        in_place = reader is writer and writer.code is Code.SCAN and is_direct
        if schedule.position(reader) is None or not (
            in_place or _is_done(schedule, old, reader, writer, is_direct)
        ):
            return False
    return True


def _readers(
    analysis: Analysis, schedule: Schedule, value: Value, is_direct: bool = True
) -> Iterator[tuple[Operation, bool]]:
    """Yield the operations that read a value in the end, and whether they take it as it is.

    Views and inline operations read nothing themselves: their own readers do.
    """
    for user in analysis.users[value]:
        forwards = is_view(user) or (
            schedule.position(user) is None
            and any(isinstance(v.type, Tile) and analysis.is_inline(v) for v in user.results)
        )
        if not forwards:
            yield user, is_direct
            continue
        for result in user.results:
            yield from _readers(analysis, schedule, result, False)


def _is_done(
    schedule: Schedule, old: Value, reader: Operation, writer: Operation, is_direct: bool
) -> bool:
    """Return whether an operation has read an old tile when another overwrites it."""
    reads, writes = schedule.position(reader), schedule.position(writer)
    assert writes is not None
    if reads is None or reads < writes:  # in an earlier stretch, or earlier in this one
        return True
    if reader is writer and writer.code is Code.DOT:
        # A product accumulates in place, but reads its factors until the end.
        return writer.operands[2] is old and old not in writer.operands[:2]
    return is_direct and schedule.shares_loop(reader, writer)
