"""Programs of a grid in an order that is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from tile_counting import counting

from emu.tile.cpu.run import order


def test_every_program_runs_once_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_PROGRAM_ORDER", "3")
    run = counting().bind(2)
    for _ in range(3):
        out = np.zeros(37 * 3, np.int32)
        run(37, 3, 1, [out.ctypes.data])
        assert (out == 1).all()


@pytest.mark.parametrize("total", [0, 1, 7, order.MOST_PARTS, 3 * order.MOST_PARTS + 5])
def test_parts_are_all_programs(total: int) -> None:
    parts = order.draw(total, 5)
    assert sorted(p for first, behind in parts for p in range(first, behind)) == list(range(total))
    assert len(parts) == min(total, order.MOST_PARTS)
    assert total < 7 or parts != sorted(parts)


def test_a_seed_must_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMU_PROGRAM_ORDER", "x")
    with pytest.raises(ValueError, match="EMU_PROGRAM_ORDER must be a whole number, but got 'x'"):
        order.seed()
    monkeypatch.delenv("EMU_PROGRAM_ORDER")
    assert order.seed() == 0
