"""The alpha-beta model: what a collective takes on a link, by the algorithm that carries it out.

A device sends one message at a time and receives one at the same time; a message of b bytes takes
``latency + b / bandwidth`` seconds. Every algorithm goes in steps, in each of which every device
sends at most one message. So a collective takes ``steps * latency + bytes / bandwidth``, where
``bytes`` is what the busiest device sends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emu.comm.link_model import Link

RING = "ring"
DOUBLING = "recursive doubling"
PAIRWISE = "pairwise exchange"
DIRECT = "direct"
TREE = "binomial tree"

REDUCING = ("all_reduce", "cross-replica-sum")
_RINGS = (*REDUCING, "all_gather", "reduce_scatter")


@dataclass(frozen=True)
class Payload:
    """An array that a device brings into a collective.

    Attributes:
        elements: Number of its elements.
        itemsize: Bytes of an element.
    """

    elements: int
    itemsize: int

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.elements * self.itemsize


@dataclass(frozen=True)
class Transfer:
    """A collective carried out by an algorithm.

    Attributes:
        algorithm: Name of the algorithm.
        steps: Number of its steps.
        bytes_sent: Bytes that the busiest device sends.
        seconds: Predicted time.
        reason: Why that algorithm.
    """

    algorithm: str
    steps: int
    bytes_sent: int
    seconds: float
    reason: str


def transfer(kind: str, size: int, payloads: Sequence[Payload], link: Link) -> Transfer:
    """Return what a collective takes.

    Args:
        kind: The collective, as StableHLO calls it: ``"all_gather"``.
        size: Number of devices of a group.
        payloads: What each device brings.
        link: The link of each device.

    Raises:
        ValueError: No algorithm is known for the kind.
    """
    if kind in _RINGS:
        return _ring_or_doubling(kind, size, payloads, link)
    if kind == "all_to_all":
        sent = sum(p.nbytes - p.nbytes // size for p in payloads)
        reason = "each device has a different part for each other device"
        return _transfer(PAIRWISE, size - 1, sent, link, reason)
    if kind == "collective_permute":
        sent = sum(p.nbytes for p in payloads) if size > 1 else 0
        return _transfer(DIRECT, min(size - 1, 1), sent, link, "each device sends to one other")
    if kind == "collective_broadcast":
        steps = (size - 1).bit_length()
        sent = steps * sum(p.nbytes for p in payloads)
        reason = "every device that has the value passes it on; the first one sends in each step"
        return _transfer(TREE, steps, sent, link, reason)
    raise ValueError(f"no algorithm is known for stablehlo.{kind}")


def _transfer(algorithm: str, steps: int, sent: int, link: Link, reason: str) -> Transfer:
    seconds = steps * link.latency + sent / link.bandwidth
    return Transfer(algorithm, steps, sent, seconds, reason)


def _ring_or_doubling(kind: str, size: int, payloads: Sequence[Payload], link: Link) -> Transfer:
    steps = (size - 1) * (2 if kind in REDUCING else 1)
    sent = sum(_ring_bytes(kind, size, p) for p in payloads)
    start_ups, moving = steps * link.latency, sent / link.bandwidth
    if start_ups <= moving or size < 3:
        why = "it sends the fewest bytes, and moving them takes longer than starting its steps"
        if size < 3:
            why = "two devices exchange their parts"
        return _transfer(RING, steps, sent, link, why)
    if size & (size - 1):
        why = f"recursive doubling would have fewer steps, but {size} is no power of two"
        return _transfer(RING, steps, sent, link, why)
    rounds = size.bit_length() - 1
    # An all-reduce by doubling exchanges whole arrays; the other two send what the ring sends.
    exchanged = rounds * sum(p.nbytes for p in payloads) if kind in REDUCING else sent
    why = f"starting the {steps} steps of a ring takes longer than moving the bytes"
    doubling = _transfer(DOUBLING, rounds, exchanged, link, why)
    ring = _transfer(RING, steps, sent, link, "recursive doubling would send more bytes")
    return doubling if doubling.seconds < ring.seconds else ring


def _ring_bytes(kind: str, size: int, payload: Payload) -> int:
    """Return what the busiest device of a ring sends."""
    if kind == "all_gather":
        return (size - 1) * payload.nbytes
    small, larger = divmod(payload.elements, size)
    if kind == "reduce_scatter":
        return (size - 1) * small * payload.itemsize
    # Chunks of `small` elements, the first `larger` of them one longer. In each half every
    # device sends all chunks but one, and those two are neighbours: the busiest spares the smallest.
    spared = 2 * small + (1 if larger == size - 1 else 0)
    return (2 * payload.elements - spared) * payload.itemsize
