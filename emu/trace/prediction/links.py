"""Messages and collectives between devices: latency and bandwidth, over ports that a device's messages share.

A message of b bytes from one device to another waits until the sender's port out, the receiver's port in and the path of the pair are free. It occupies
the ports for ``b / link.bandwidth`` and the path for ``b / link.pair``, and has arrived ``link.latency`` after the last byte. Where devices are joined by a
switch, both rates are the same; in a full mesh a pair's path is slower than a port.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.errors import PredictionError


@dataclass(frozen=True)
class Message:
    """How long a message occupies what it passes; nanoseconds.

    Attributes:
        port: The sender's port out and the receiver's port in.
        path: The path between the two.
        latency: From the last byte's sending until it has arrived.
    """

    port: int
    path: int
    latency: int

    @property
    def sending(self) -> int:
        """Time until the last byte has left."""
        return max(self.port, self.path)


def message(nbytes: float, device: Device) -> Message:
    """Return how long a message of some bytes takes."""
    efficiency = device["link.efficiency"]
    return Message(
        nanoseconds(nbytes / (device["link.bandwidth"] * efficiency)),
        nanoseconds(nbytes / (device["link.pair"] * efficiency)),
        nanoseconds(device["link.latency"]),
    )


class Ports:
    """When ports and paths are free; messages pass in the order in which they are asked for."""

    def __init__(self) -> None:
        self._free: dict[tuple[str, int, int], int] = {}

    def pass_message(self, now: int, source: int, target: int, what: Message) -> tuple[int, int]:
        """Let a message pass.

        Args:
            now: When it is ready, in nanoseconds.
            source: The sending device.
            target: The receiving device.
            what: The message.

        Returns:
            When its last byte has left, and when it has arrived.
        """
        keys = (("out", source, 0), ("in", target, 0), ("path", source, target))
        start = max(now, *(self._free.get(key, 0) for key in keys))
        for key, time in zip(keys, (what.port, what.port, what.path), strict=True):
            self._free[key] = start + time
        sent = start + what.sending
        return sent, sent + what.latency


# Collectives

PROTOCOLS = ("ll", "ll128", "simple")
SWITCH = "switch"


@dataclass(frozen=True)
class CollectiveTime:
    """A collective's predicted time.

    Attributes:
        seconds: From when the last member has called it.
        algorithm: "ring", "tree", "pairwise", "switch" (the switch reduces), or "alone".
        protocol: Which of the device's protocols.
    """

    seconds: float
    algorithm: str
    protocol: str


def collective_time(kind: str, nbytes: float, members: int, device: Device) -> CollectiveTime:
    """Predict a collective: the fastest of the algorithms and protocols that a library would choose from.

    Args:
        kind: ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``reduce``, ``all_to_all``; anything else counts as an ``all_gather``.
        nbytes: Bytes of the whole array: what an all-gather gives, what a reduce-scatter takes.
        members: Number of devices.
        device: The device, whose ``collective`` numbers are used.
    """
    if members < 2:
        return CollectiveTime(0.0, "alone", "")
    rate = device["link.bandwidth"] * device["link.efficiency"]
    across = min(device["link.pair"] * device["link.efficiency"] * (members - 1), rate)
    found = []
    for protocol in PROTOCOLS:
        base, step, share = _protocol(device, protocol)
        if math.isnan(share):
            continue
        for algorithm, steps, moved in _algorithms(kind, members):
            seconds = base + steps * step + nbytes * moved / (across * share)
            found.append(CollectiveTime(seconds, algorithm, protocol))
    base, _, share = _protocol(device, SWITCH)
    if not math.isnan(share) and "reduce" in kind and "scatter" not in kind:
        found.append(CollectiveTime(base + nbytes / (rate * share), SWITCH, SWITCH))
    if not found:  # no protocol: messages alone
        _, steps, moved = _algorithms(kind, members)[0]
        return CollectiveTime(steps * device["link.latency"] + nbytes * moved / across, "ring", "")
    return min(found, key=lambda each: each.seconds)


def barrier_time(members: int, device: Device) -> float:
    """Return what a barrier takes from its last arrival on: rounds of messages, each of which doubles what is known."""
    return math.ceil(math.log2(members)) * device["link.latency"] if members > 1 else 0.0


def _protocol(device: Device, name: str) -> tuple[float, float, float]:
    base, step, share = (device[f"collective.{name}.{part}"] for part in ("base", "step", "share"))
    return (0.0 if math.isnan(base) else base), (0.0 if math.isnan(step) else step), share


def _algorithms(kind: str, members: int) -> list[tuple[str, int, float]]:
    """Return algorithms with their steps, and how often the array passes the busiest port."""
    ring, part = members - 1, (members - 1) / members
    depth = math.ceil(math.log2(members))
    if kind in ("all_reduce", "cross-replica-sum"):
        return [("ring", 2 * ring, 2 * part), ("tree", 2 * depth, 2.0)]
    if kind in ("broadcast", "reduce", "collective_broadcast"):
        return [("ring", ring, 1.0), ("tree", depth, 2.0)]
    if kind.startswith("all_to_all"):
        return [("pairwise", ring, part)]
    return [("ring", ring, part)]


LONGEST_S = 1e9
"""Longest time that is predicted: thirty years; what takes longer is no prediction."""


def nanoseconds(seconds: float) -> int:
    """Return whole nanoseconds, rounded to the nearest.

    Raises:
        PredictionError: It is longer than :data:`LONGEST_S`.
    """
    if not seconds <= LONGEST_S:
        raise PredictionError(
            f"the predicted time of an event must be at most {LONGEST_S:g} s, but got {seconds:g} s: a number of the device is too small"
        )
    return round(seconds * 1e9)
