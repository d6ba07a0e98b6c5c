"""Numbers of NVSHMEM: teams, signals, comparisons and states. Kernels know them by the same values."""

from __future__ import annotations

import enum


class Teams(enum.IntEnum):
    """The teams that are always there. ``team_split_strided`` makes others, whose numbers are plain integers."""

    TEAM_INVALID = -1
    """No team."""
    TEAM_WORLD = 0
    """All PEs."""
    TEAM_SHARED = 1
    """PEs that can address each other's memory: here all PEs."""
    TEAM_NODE = 2
    """PEs of one machine: here all PEs."""
    TEAM_SAME_MYPE_NODE = 3
    """PEs with this PE's number on their machines: here this PE alone."""
    TEAM_SAME_GPU = 4
    """PEs of one device: here this PE alone."""
    TEAM_GPU_LEADERS = 5
    """The first PE of each device: here all PEs."""


FIRST_NEW_TEAM = len(Teams) - 1
"""The smallest number that a new team may have."""


class SignalOp(enum.IntEnum):
    """What a signal does to its word."""

    SIGNAL_SET = 9
    SIGNAL_ADD = 10


class ComparisonType(enum.IntEnum):
    """Comparisons of a signal's word with a value."""

    CMP_EQ = 0
    CMP_NE = 1
    CMP_GT = 2
    CMP_LE = 3
    CMP_LT = 4
    CMP_GE = 5


class InitStatus(enum.IntEnum):
    """Whether NVSHMEM is initialised."""

    STATUS_NOT_INITIALIZED = 0
    STATUS_IS_BOOTSTRAPPED = 1
    STATUS_IS_INITIALIZED = 2
    STATUS_LIMITED_MPG = 3
    STATUS_FULL_MPG = 4
    STATUS_INVALID = 32767
