"""Which tasks have used which rectangles of a buffer, where a check wants to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.pypto.symbolic import Shape, lies_in, overlaps

if TYPE_CHECKING:
    from emu.comm.world.listening import Task

Use = tuple["Task", Shape, Shape]
"""A task, and the corner and the extents of a rectangle that it uses."""


class Uses:
    """Uses of a buffer by tasks."""

    __slots__ = ("reads", "writes")

    def __init__(self) -> None:
        self.reads: list[Use] = []
        self.writes: list[Use] = []

    def before(self, low: Shape, extent: Shape, *, writing: bool) -> list[Task]:
        """Return the tasks that an access to a rectangle comes after."""
        uses = [*self.writes, *self.reads] if writing else self.writes
        return [task for task, at, size in uses if overlaps(low, extent, at, size)]

    def add(self, task: Task, low: Shape, extent: Shape, *, writes: bool) -> None:
        """Note an access. One that writes comes after all others of its rectangle and stands for them."""
        if not writes:
            self.reads.append((task, low, extent))
            return
        for uses in (self.reads, self.writes):
            uses[:] = [use for use in uses if not lies_in(use[1], use[2], low, extent)]
        self.writes.append((task, low, extent))
