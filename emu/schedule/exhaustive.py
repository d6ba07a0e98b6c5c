"""Every order of a small program, but for those that only exchange operations which do not touch each other.

A depth-first search over the actors that may act at each step. *Sleep sets* (Godefroid, 1996) leave out what was seen: when
all orders that begin with an actor have been run, that actor sleeps in the branches beside it, until one is chosen that
depends on it. Two operations are independent if they are of two PEs and neither writes what the other uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from emu.comm.schedule_options import Schedule
from emu.comm.world.steering import Span
from emu.schedule.running import Outcome
from emu.schedule.shrinking import Run
from emu.schedule.trace import EVERYWHERE, Step


@dataclass
class _Node:
    """A step of the order that was run last.

    Attributes:
        chosen: Who acted, and what it used.
        candidates: Who could have.
        asleep: Those all of whose orders were run already, and what they used.
    """

    chosen: tuple[int, tuple[Span, ...]]
    candidates: tuple[int, ...]
    asleep: dict[int, tuple[Span, ...]] = field(default_factory=dict)


def every_order(run: Run, n_pes: int, *, late: bool) -> Iterator[Outcome]:
    """Yield a run in each order that may differ from the ones before.

    Args:
        run: Runs the program once.
        n_pes: Number of PEs.
        late: Whether stores may arrive late.
    """
    nodes: list[_Node] = []
    prefix: tuple[int, ...] = ()
    while True:
        outcome = run(Schedule(prefix=prefix, late=late))
        yield outcome
        _extend(nodes, outcome.trace.steps, n_pes)
        following = _backtrack(nodes)
        if following is None:
            return
        prefix = following


def _extend(nodes: list[_Node], steps: tuple[Step, ...], n_pes: int) -> None:
    """Add the steps that were run behind the known ones, up to one that sleeps."""
    if nodes and len(nodes) <= len(steps):  # what its last choice used is known now
        nodes[-1].chosen = (nodes[-1].chosen[0], steps[len(nodes) - 1].spans)
    for step in steps[len(nodes) :]:
        asleep = _still_asleep(nodes[-1], n_pes) if nodes else {}
        node = _Node((step.actor, step.spans), tuple(a for a, _ in step.candidates), asleep)
        nodes.append(node)
        if step.actor in asleep:
            return


def _still_asleep(node: _Node, n_pes: int) -> dict[int, tuple[Span, ...]]:
    return {
        actor: spans
        for actor, spans in node.asleep.items()
        if actor != node.chosen[0] and _are_independent((actor, spans), node.chosen, n_pes)
    }


def _backtrack(nodes: list[_Node]) -> tuple[int, ...] | None:
    """Return the beginning of the next order; None: there is none."""
    while nodes:
        node = nodes[-1]
        actor, spans = node.chosen
        node.asleep[actor] = spans
        awake = [a for a in node.candidates if a not in node.asleep]
        if awake:
            node.chosen = (awake[0], ())
            return tuple(n.chosen[0] for n in nodes)
        nodes.pop()
    return None


def _are_independent(
    one: tuple[int, tuple[Span, ...]], two: tuple[int, tuple[Span, ...]], n_pes: int
) -> bool:
    if one[0] % n_pes == two[0] % n_pes:
        return False
    return not any(_conflict(a, b) for a in one[1] for b in two[1])


def _conflict(a: Span, b: Span) -> bool:
    if EVERYWHERE in (a.pe, b.pe):
        return True
    overlap = a.pe == b.pe and a.first < b.behind and b.first < a.behind
    return overlap and (a.writes or b.writes)
