"""Which tasks an access comes after."""

from __future__ import annotations

from typing import Any

from emu.pypto.uses import Uses


class _Task:
    def ends_with(self, progress: Any) -> None:
        """Do nothing."""


def test_a_read_comes_after_writes_and_a_write_after_all() -> None:
    uses, writer, reader = Uses(), _Task(), _Task()
    uses.add(writer, (0, 0), (4, 4), writes=True)
    uses.add(reader, (2, 0), (2, 4), writes=False)
    assert uses.before((3, 3), (1, 1), writing=False) == [writer]
    assert uses.before((3, 3), (1, 1), writing=True) == [writer, reader]
    assert uses.before((0, 0), (2, 4), writing=True) == [writer]
    assert uses.before((4, 0), (1, 4), writing=True) == []


def test_a_write_stands_for_what_it_covers() -> None:
    uses, tasks = Uses(), [_Task() for _ in range(4)]
    uses.add(tasks[0], (0, 0), (2, 4), writes=True)
    uses.add(tasks[1], (2, 0), (2, 4), writes=True)
    uses.add(tasks[2], (0, 0), (4, 4), writes=False)
    uses.add(tasks[3], (0, 0), (2, 4), writes=True)
    assert uses.before((0, 0), (4, 4), writing=True) == [tasks[1], tasks[3], tasks[2]]
    uses.add(tasks[0], (0, 0), (4, 4), writes=True)
    assert uses.before((0, 0), (4, 4), writing=True) == [tasks[0]]
