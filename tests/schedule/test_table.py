"""A trace as people read it."""

from __future__ import annotations

from emu.schedule.table import interleaving
from emu.schedule.trace import Step, Trace


def step(actor: int, operation: str, line: int = 0) -> Step:
    return Step(actor, actor % 2, operation, "/a/b/prog.py", line, 0, 0, False, (), ())


def test_one_column_a_pe() -> None:
    steps = (step(0, "put x to PE 1", 3), step(1, "barrier"), step(4, "put arrives", 3))
    table = interleaving(Trace(2, steps, 0))
    assert "    1 put x to PE 1  prog.py:3" in table
    assert "↘ store 2: put arrives  prog.py:3" in table
    columns = [line.index("·") for line in table.splitlines() if "·" in line]
    assert len(set(columns)) == 2


def test_long_traces_and_long_texts_are_cut() -> None:
    steps = tuple(step(i % 2, "wait_until " + "x" * 200, 9) for i in range(100))
    table = interleaving(Trace(2, steps, 0), rows=10).splitlines()
    assert len(table) == 12
    assert "90 operations before" in table[1]
    assert max(map(len, table)) < 130
