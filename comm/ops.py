"""The small enumerations of the communication layer."""

from __future__ import annotations

import enum


class AtomicOp(enum.IntEnum):
    """The effect of a put or a signal on the value already there."""

    SET = 0
    """Replace it. Elements never tear; a tile as a whole is not atomic."""
    ADD = 1
    """Add to it, atomically element by element against every other ADD."""


class Cmp(enum.IntEnum):
    """Comparisons of ``wait_until`` and ``test``: *word there* <cmp> *value given*."""

    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5
