"""What a program exchanges with its host: infeed, outfeed, and values sent over channels."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from emu.stablehlo.reference.values import Array

Channel = queue.SimpleQueue[Sequence[Array]]
"""What was sent and not yet received, the first first."""


@dataclass
class Streams:
    """Queues of one program; all threads that evaluate it share them.

    Attributes:
        infeed: What ``infeed`` takes, the first first: per operation its results without the token.
        outfeed: What ``outfeed`` gave, in the order in which it ran.
        generator: Source of ``rng``, whose numbers StableHLO leaves to implementations.
    """

    infeed: deque[Sequence[Array]] = field(default_factory=deque)
    outfeed: list[Sequence[Array]] = field(default_factory=list)
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    _channels: dict[tuple[int | None, int], Channel] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def channel(self, process: int | None, number: int) -> Channel:
        """Return the queue of a channel: of one process, or with None of all that share a host."""
        with self._lock:
            return self._channels.setdefault((process, number), queue.SimpleQueue())
