"""``Peers``: what an agent knows of the other hosts: whether they live, whether they are done, whether anything moves."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from emu.comm.hosts.places import Places

LOST_S, STARVED_S = 3.0, 60.0
"""Seconds after which a host that has not been heard of is lost: of which nothing else is known either, and whose process is
known to be there."""

ENDED = "its process has ended, or its connection"

HOME = 0
"""The host that finds deadlocks."""


class Event(NamedTuple):
    """What an agent tells the launcher of its host."""

    kind: str
    """``stop``: a host asks to; ``lost``: one is lost; ``quiet``: nothing moves on any; ``broken``: the agent is; ``waits``,
    ``look``, ``seen``: its launcher says that PEs wait, asks what PEs here wait for, says what PEs there do."""
    host: int
    """Which host it is about."""
    reason: int = 0
    """Of a stop."""
    text: str = ""
    message: Mapping[str, Any] = MappingProxyType({})
    """What a launcher says."""


class Peers:
    """The other hosts, as the agent of one knows them.

    Args:
        places: Where PEs are.
        beat_s: Seconds between two signs of life.
        tell: Sends a message to another host.
        is_there: Says whether the process of a host is there and can be reached; None: nobody knows.

    Attributes:
        lost: The hosts that are lost.
    """

    def __init__(
        self,
        places: Places,
        beat_s: float,
        tell: Callable[[int, dict[str, Any]], None],
        is_there: Callable[[int], bool | None] = lambda host: None,
    ) -> None:
        self._places = places
        self._beat_s = beat_s
        self._tell = tell
        self._is_there = is_there
        now = time.monotonic()
        self._next_beat = self._looked_at = now
        self._others = [host for host in range(places.n_hosts) if host != places.here]
        self._heard_at = dict.fromkeys(self._others, now)
        self._heard = [0] * places.n_hosts
        self._done: set[int] = set()
        self._quiet: dict[int, str] = {}
        self._was_quiet = False
        self._missed: dict[int, str] = {}
        self.lost: set[int] = set()

    @property
    def all_are_done(self) -> bool:
        """Whether the PEs of all other hosts that are not lost have ended."""
        return all(host in self._done or host in self.lost for host in self._others)

    def is_done(self, host: int) -> bool:
        """Return whether the PEs of a host have ended."""
        return host in self._done

    # --- what is said ----------------------------------------------------------------------

    def note(self, order: dict[str, Any]) -> None:
        """Note what this host tells the others of itself."""
        self._update(self._places.here, order)

    def hear(self, host: int, message: dict[str, Any]) -> None:
        """Note what another host tells of itself."""
        self._update(host, message)

    def _update(self, host: int, message: dict[str, Any]) -> None:
        if message["call"] == "done":
            self._done.add(host)
        elif message["call"] == "quiet":
            if message["text"]:
                self._quiet[host] = message["text"]
            else:
                self._quiet.pop(host, None)

    # --- looking ---------------------------------------------------------------------------

    def look(self, heard: Sequence[int]) -> Iterator[Event]:
        """Send a sign of life when it is time; yield what has become known.

        Args:
            heard: Number of messages from each host so far.
        """
        now = time.monotonic()
        away, self._looked_at = now - self._looked_at, now
        for host in self._others:
            if heard[host] != self._heard[host]:
                self._heard[host], self._heard_at[host] = heard[host], now
            elif (
                away > self._beat_s
            ):  # this agent did not look: that is not the other one's silence
                self._heard_at[host] += away
        self.beat(now)
        for host in self._others:
            both_done = host in self._done and self._places.here in self._done
            if both_done or host in self.lost:
                continue
            why = self._why_lost(host, now) or self._missed.get(host, "")
            if why:
                self.lost.add(host)
                yield Event("lost", host, text=why)
        found = self._find_stall()
        if found:
            yield Event("quiet", self._places.here, text=found)

    def beat(self, now: float) -> None:
        """Send a sign of life if it is time."""
        if now < self._next_beat:
            return
        self._next_beat = now + self._beat_s
        for host in self._others:
            if host not in self.lost:
                self._tell(host, {"call": "beat"})

    def is_lost(self, host: int) -> bool:
        """Return whether a host that owes a message is lost; it counts from when it was heard of last."""
        now = time.monotonic()
        self.beat(now)
        why = self._why_lost(host, now)
        if why:
            self._missed[host] = why
        return host in self.lost or host in self._missed

    def _why_lost(self, host: int, now: float) -> str:
        """Return why a host is lost, or nothing."""
        silent = now - self._heard_at[host]
        if silent < min(self._beat_s, LOST_S / 2):
            return ""
        is_there = self._is_there(host)
        if is_there is False:
            return ENDED
        limit = LOST_S if is_there is None else STARVED_S
        if silent < limit:
            return ""
        so = (
            "its process or its connection has ended"
            if is_there is None
            else "its process is there"
        )
        return f"nothing was heard of it for {limit:g} s; {so}"

    def _find_stall(self) -> str:
        """Return what all PEs wait for, once, if nothing moves on any host; at home only."""
        if self._places.here != HOME or self._was_quiet or not self._quiet:
            return ""
        everywhere = range(self._places.n_hosts)
        if not all(host in self._quiet or host in self._done for host in everywhere):
            return ""
        self._was_quiet = True
        return merge([self._quiet[host] for host in everywhere if host in self._quiet])


_BARRIER = re.compile(
    r"(?m)^(  PE (\d+) waits in barrier of group ('.*?')): \d+ of (\d+) have arrived, missing PEs \[(.*?)\](?: but for \d+ of other hosts)?"
)


def merge(reports: Sequence[str]) -> str:
    """Return the reports of all hosts as one.

    A host does not see of the members of a barrier on other hosts that they wait there: that is put right.
    """
    text = "\n".join(reports)
    waiting: dict[str, set[str]] = {}
    for found in _BARRIER.finditer(text):
        waiting.setdefault(found[3], set()).add(found[2])

    def put_right(found: re.Match[str]) -> str:
        missing = [pe for pe in found[5].split(", ") if pe and pe not in waiting[found[3]]]
        count = int(found[4]) - len(missing)
        return f"{found[1]}: {count} of {found[4]} have arrived, missing PEs [{', '.join(missing)}]"

    return _BARRIER.sub(put_right, text)
