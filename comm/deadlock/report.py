"""``Deadlock``: the report of a world in which PEs wait that nobody can release."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from emu.comm.deadlock import drawing


class Kind(enum.Enum):
    """Causes of deadlocks that are known by name."""

    PE_ENDED = "a PE ended while others wait for it"
    CROSSED_GROUPS = "barriers or collectives of different groups in another order"
    CROSSED_SIGNALS = "each waits before it signals"
    BARRIER_AND_SIGNAL = "one waits in a barrier, another for a signal"
    NO_SENDER = "no other PE could signal"
    OTHER_INDEX = "signalled at another index"
    OTHER_ARRAY = "signalled in another array"
    OTHER_PE = "signalled on another PE"
    OVERTAKEN = "the value has passed the one that is waited for"
    SET_NOT_ADD = "SET where signals are counted"
    TOO_FEW = "too few signals"
    OTHER_VALUE = "another value"
    CLEARED = "the word was cleared after the signal had come"
    LOCK_NOT_RELEASED = "a lock that is never released"
    LATER_PROGRAM = "a program of a grid waits for a later one"
    OTHER_TILES = "sender and receiver use other tile shapes"
    NO_PREDECESSOR = "an op waits for one that never runs"
    TASK_NOT_PREPARED = "a rank does not prepare or release a task"


@dataclass(frozen=True)
class Cause:
    """A likely cause of a deadlock."""

    kind: Kind
    pes: tuple[int, ...]
    """World numbers of the PEs that wait because of it."""
    text: str
    """What was found."""
    advice: str
    """What to change."""


@dataclass(frozen=True)
class WaitingPE:
    """A PE that waits for others."""

    pe: int
    """World number."""
    what: str
    """What it waits in, or for, in a few words: ``barrier of group 'world'``."""
    at: str
    """File and line of its program; empty: not known."""
    waits_for: tuple[int, ...]
    """World numbers of the PEs that could have released it, likely ones first."""
    needs_all: bool
    """Whether it needs all of them, as in a barrier; else any one of them would do."""


@dataclass(frozen=True)
class EndedPE:
    """A PE that has ended while others wait."""

    pe: int
    """World number."""
    at: str
    """File and line from which its function returned; empty: not known."""


@dataclass(frozen=True, kw_only=True)
class Deadlock:
    """A world, or a part of it, in which PEs wait that nobody can release.

    ``str()`` gives the report as text.
    """

    kind: ClassVar[str] = "deadlock"

    is_proved: bool
    """Whether nobody could release these PEs; else nothing moved for the time-out."""
    timeout: float
    """The launch's time-out, in seconds."""
    waiting: tuple[WaitingPE, ...]
    """The PEs that are deadlocked."""
    ended: tuple[EndedPE, ...]
    """PEs that had ended."""
    cycle: tuple[int, ...]
    """World numbers of PEs each of which waits for the next one, the last for the first; empty: there is none."""
    missing: tuple[int, ...]
    """World numbers of PEs that have ended and that others wait for in a barrier or a collective."""
    causes: tuple[Cause, ...]
    """Likely causes, the best first; empty: none is known."""
    states: str
    """What each PE of the world does, one line or more for each."""

    def __str__(self) -> str:
        lines = [self._headline()]
        for cause in self.causes:
            lines += [f"  cause: {cause.text}", f"    advice: {cause.advice}"]
        chain = self._chain()
        if chain:
            lines.append(f"  cycle: {chain}")
        return "\n".join([*lines, self.states])

    @property
    def text(self) -> str:
        """The report."""
        return str(self)

    def _headline(self) -> str:
        if not self.is_proved:
            return f"no progress for {self.timeout:g} s: every PE that could move another waits"
        pes = [each.pe for each in self.waiting]
        return f"deadlock: nobody can release {numbers(pes)} any more"

    def _chain(self) -> str:
        if len(self.cycle) < 2:
            return ""
        what = {each.pe: each.what for each in self.waiting}
        shown = self.cycle if len(self.cycle) <= 8 else self.cycle[:7]
        parts = [f"PE {pe} ({what.get(pe, 'ended')})" for pe in shown]
        if len(shown) < len(self.cycle):
            parts.append(f"{len(self.cycle) - len(shown)} more")
        return " waits for ".join([*parts, f"PE {self.cycle[0]}"])

    def to_dot(self) -> str:
        """Return the wait-for graph in the language of Graphviz.

        An arrow leads from a PE to one that it waits for: a full one where it needs all of them, a dashed one
        where any would do. The cycle is red; PEs that have ended are grey.
        """
        return drawing.to_dot(self._picture())

    def to_svg(self) -> str:
        """Return the wait-for graph as an SVG picture, drawn as :meth:`to_dot` says; PEs stand on a circle."""
        return drawing.to_svg(self._picture())

    @property
    def pair(self) -> tuple[Any, ...]:
        """What makes two reports the same: the lines of the PEs that wait, what they wait in, and the causes."""
        waits = sorted({(each.at, each.what) for each in self.waiting})
        return (self.kind, *waits, *(cause.kind.name for cause in self.causes))

    def to_dictionary(self) -> dict[str, Any]:
        """Return the report as data for JSON.

        Beside the fields there are ``nodes`` and ``edges``, the whole wait-for graph: an edge leads from a PE to one
        that it waits for, and says whether it needs ``"all"`` of those or ``"any"`` of them.
        """
        fields = asdict(self)
        for data, cause in zip(fields["causes"], self.causes, strict=True):
            data["kind"] = cause.kind.name
        ended = {each.pe for each in self.ended}
        waiting = {each.pe: each.what for each in self.waiting}
        others = {pe for each in self.waiting for pe in each.waits_for}
        red = self._around()
        nodes = [
            {
                "pe": pe,
                "state": "waits" if pe in waiting else "ended" if pe in ended else "runs",
                "what": waiting.get(pe, ""),
            }
            for pe in sorted({*waiting, *ended, *others})
        ]
        edges = [
            {
                "from": each.pe,
                "to": other,
                "needs": "all" if each.needs_all else "any",
                "in_cycle": (each.pe, other) in red,
            }
            for each in self.waiting
            for other in each.waits_for
        ]
        return {"kind": self.kind, **fields, "nodes": nodes, "edges": edges}

    def _around(self) -> set[tuple[int, int]]:
        """Return the arrows of the cycle."""
        around = zip(self.cycle, (*self.cycle[1:], *self.cycle[:1]), strict=True)
        return set(around) if len(self.cycle) > 1 else set()

    def _picture(self) -> drawing.Picture:
        red = self._around()
        nodes = [drawing.Node(each.pe, f"PE {each.pe}", each.what) for each in self.waiting]
        ended = {each.pe: each.at for each in self.ended}
        named = {each.pe for each in self.waiting}
        others = sorted({pe for each in self.waiting for pe in each.waits_for} - named)
        for pe in others:
            note = f"ended at {ended[pe]}" if ended.get(pe) else "ended" if pe in ended else ""
            nodes.append(drawing.Node(pe, f"PE {pe}", note, is_grey=pe in ended))
        arrows = []
        for each in self.waiting:
            for other in _drawn(each, red):
                if other != each.pe or len(each.waits_for) == 1:
                    is_red = (each.pe, other) in red
                    arrows.append(drawing.Arrow(each.pe, other, not each.needs_all, is_red))
        return drawing.Picture(tuple(nodes), tuple(arrows))


_MANY = 8


def _drawn(each: WaitingPE, red: set[tuple[int, int]]) -> tuple[int, ...]:
    """Return the PEs to which arrows are drawn: of many any of which would do, the likeliest."""
    if each.needs_all or len(each.waits_for) <= _MANY:
        return each.waits_for
    likely = each.waits_for[:_MANY]
    return likely + tuple(pe for pe in each.waits_for[_MANY:] if (each.pe, pe) in red)


def numbers(pes: list[int] | tuple[int, ...]) -> str:
    """Name PEs: ``PE 3``, ``PEs 0, 1 and 2``; many of them by the first and their count."""
    if len(pes) == 1:
        return f"PE {pes[0]}"
    if len(pes) > _MANY:
        return f"PEs {', '.join(map(str, pes[:_MANY]))} and {len(pes) - _MANY} more"
    return f"PEs {', '.join(map(str, pes[:-1]))} and {pes[-1]}"
