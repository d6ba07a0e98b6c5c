"""The order in which the programs of a grid run, where that is drawn: a GPU promises none."""

from __future__ import annotations

import itertools
import random

from emu.kernels.core import environment

MOST_PARTS = 4096
"""Parts of a grid that are put in another order; of larger grids, neighbours stay together."""

Part = tuple[int, int]

_launches = itertools.count()


def seed() -> int:
    """Return the seed of the order; 0: programs run by number."""
    return environment.program_order()


def draw(total: int, number: int) -> list[Part]:
    """Return the parts of a grid, first program and the one behind the last, in the order in which they run next.

    Args:
        total: Number of programs.
        number: The seed; each launch of a process draws another order.
    """
    parts = min(total, MOST_PARTS)
    order = list(range(parts))
    random.Random(number * 1_000_003 + next(_launches)).shuffle(order)
    return [(total * i // parts, total * (i + 1) // parts) for i in order]
