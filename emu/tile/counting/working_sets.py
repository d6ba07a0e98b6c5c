"""Working sets: how much of a tensor's memory programs that follow each other touch, for any number of them.

Memory is divided into *lines*, and the programs of a launch, in the order of their numbers, into at most 128 *groups* of equally many. A line has a
bit for each group, set when a program of it touches the line (``marking``). From these bits follows, without knowing when a program ran, how many
lines any run of groups touches: all windows of w groups less those that lie within a run of groups which leave the line alone.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from emu.tile.counting.plan import GROUP_WORDS

Bits = np.ndarray[Any, Any]
WorkingSet: TypeAlias = tuple[tuple[int, int], ...]
"""Numbers of consecutive programs, and the bytes of the lines that so many touch on average."""

GROUPS = 64 * GROUP_WORDS
LINE = 128
"""Bytes of a line, at least: those of a cache line of a GPU."""
MOST_LINES = 1 << 17
"""Lines of a tensor; those of a larger one are longer."""


def group_shift(programs: int) -> int:
    """Return the binary logarithm of the programs of a group."""
    return max(0, (programs - 1).bit_length() - (GROUPS - 1).bit_length())


def line_shift(size: int) -> int:
    """Return the binary logarithm of a line's bytes, of memory of a size."""
    return max(LINE.bit_length() - 1, (-(-size // MOST_LINES) - 1).bit_length())


def working_set(bits: Bits, shift: int, programs: int) -> WorkingSet:
    """Return the working sets of 1, 2, 4, … groups and of all programs.

    Args:
        bits: The groups that touch each line, ``GROUP_WORDS`` words a line.
        shift: Of a line's bytes, as :func:`line_shift` returns it.
        programs: Of the launch.
    """
    each = 1 << group_shift(programs)
    groups = -(-programs // each)
    alone, touched = _runs_without(bits, groups)
    # A run of n groups holds n - w + 1 windows of w: summed twice from the longest runs on, these are the windows without the line.
    missed = alone[::-1].cumsum().cumsum()[::-1].tolist()
    found = []
    window = 1
    while window < groups:
        windows = groups - window + 1
        size = round((touched * windows - missed[window]) / windows)
        found.append((window * each, size << shift))
        window *= 2
    return (*found, (programs, touched << shift))


def _runs_without(bits: Bits, groups: int) -> tuple[Bits, int]:
    """Return how many runs of 1, 2, … groups leave a line alone, of all touched lines together, and how many these are."""
    from emu.tile.counting.marking import count_runs  # here: this loads Numba

    found = np.zeros(groups + 1, np.int64)
    return found, count_runs(bits.view(np.int64), groups, found)
