"""Bytes that the tensors of each emulated device hold, now and at most.

Each tagged storage carries a :class:`HeldBytes`, which lives and dies with it. Counters are changed by single
statements that call nothing, so that no other thread and no finaliser can run in between.
"""

from __future__ import annotations

from collections import defaultdict

import torch


class Usage:
    """Counters of a device, in bytes and in storages; ``made`` is the running total."""

    __slots__ = ("made", "made_bytes", "now", "now_bytes", "peak", "peak_bytes")

    def __init__(self) -> None:
        self.now = self.now_bytes = self.peak = self.peak_bytes = self.made = self.made_bytes = 0

    def reset_peaks(self) -> None:
        """Restart the search for the maximum."""
        self.peak, self.peak_bytes = self.now, self.now_bytes

    def reset_totals(self) -> None:
        """Restart the running total."""
        self.made, self.made_bytes = self.now, self.now_bytes


class HeldBytes:
    """Bytes of one storage, counted as long as this object lives."""

    __slots__ = ("nbytes", "usage")

    def __init__(self, usage: Usage, nbytes: int) -> None:
        self.usage = usage
        self.nbytes = nbytes
        usage.now += 1
        usage.made += 1
        usage.now_bytes += nbytes
        usage.made_bytes += nbytes
        if usage.now_bytes > usage.peak_bytes:  # noqa: PLR1730 - max() is a call
            usage.peak_bytes = usage.now_bytes
        if usage.now > usage.peak:  # noqa: PLR1730 - max() is a call
            usage.peak = usage.now

    def __del__(self) -> None:
        self.usage.now -= 1
        self.usage.now_bytes -= self.nbytes


USAGE: defaultdict[torch.device, Usage] = defaultdict(Usage)
"""Counters of each emulated device."""
