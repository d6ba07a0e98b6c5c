"""AND-OR wait-for graphs: which PEs can never go on.

A PE that waits has one *need* or several, and goes on as soon as one of them is met. A need for **all** of some
PEs (the members that a barrier lacks) is met when each of them goes on, a need for **any** (all who may still
write a word) when one of them does. PEs that do not wait go on by themselves; those that have ended never do. What
the release fixpoint does not reach is deadlocked, as in Hilbrich, Protze, de Supinski, Schulz and Müller,
"Distributed wait state tracking for runtime MPI deadlock detection" (SC 2013): there is no sink that they reach.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Need:
    """What a wait needs from other PEs."""

    pes: tuple[int, ...]
    """World numbers of the PEs that could meet it."""
    is_all: bool
    """Whether all of them must go on, as for a barrier; else one of them is enough."""


def stuck_pes(needs: Mapping[int, tuple[Need, ...]], free: Collection[int]) -> frozenset[int]:
    """Return the PEs that can never go on.

    Args:
        needs: Of each PE that waits: it goes on when one of its needs is met.
        free: PEs that go on by themselves. One that is in neither has ended.
    """
    released, waiting = set(free), dict(needs)
    while True:
        found = [pe for pe, own in waiting.items() if any(_is_met(need, released) for need in own)]
        if not found:
            return frozenset(waiting)
        released.update(found)
        for pe in found:
            del waiting[pe]


def _is_met(need: Need, released: set[int]) -> bool:
    if need.is_all:
        return released.issuperset(need.pes)
    return not released.isdisjoint(need.pes)


def find_cycle(edges: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """Return a shortest cycle of PEs, each of which waits for the next one and the last for the first; or nothing.

    Args:
        edges: For each PE, those that it waits for, likely ones first.
    """
    best: tuple[int, ...] = ()
    for start in sorted(edges):
        found = _way_back(edges, start, len(best) or len(edges) + 1)
        if found and (not best or len(found) < len(best)):
            best = found
        if len(best) == 1:
            break
    return best


def _way_back(
    edges: Mapping[int, tuple[int, ...]], start: int, shorter_than: int
) -> tuple[int, ...]:
    """Return the shortest cycle through ``start``, if it is shorter than that."""
    came: dict[int, int] = {}
    level = [start]
    for _ in range(shorter_than - 1):
        following = []
        for pe in level:
            for other in edges.get(pe, ()):
                if other == start:
                    way = [pe]
                    while way[-1] != start:
                        way.append(came[way[-1]])
                    return tuple(reversed(way))
                if other not in came:
                    came[other] = pe
                    following.append(other)
        level = following
    return ()
