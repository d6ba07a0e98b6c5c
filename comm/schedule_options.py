"""``Schedule``: in which order the operations of PEs take place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown

FIRST, RANDOM, PCT, DELAY, STARVE = "first", "random", "pct", "delay", "starve"
STRATEGIES = (FIRST, RANDOM, PCT, DELAY, STARVE)

_MAX_DEPTH, _MAX_LENGTH = 64, 1 << 20


class Switch(NamedTuple):
    """A point at which an order departs from the first one, in which each PE goes on as long as it can.

    Attributes:
        actor: Who would have come next; see :class:`Schedule`.
        after: How many operations its PE had done by then.
        to: Who comes instead.
    """

    actor: int
    after: int
    to: int


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """In which order the operations of a launch's PEs take place: one at a time, so that the order is the same each time.

    Whoever does something is an *actor*: PE ``p`` of ``n`` is actor ``p``, and the ``k``-th store that PE ``p`` has issued
    and that arrives later than it was issued is actor ``p + n * k``, with ``k`` from 1.

    Raises:
        ArgumentError: A value breaks a rule.
    """

    strategy: str = FIRST
    """``"first"``: a PE goes on until it waits, and stores arrive at once. ``"random"``: any actor comes next. ``"pct"``: actors
    have random priorities, which change at ``depth - 1`` random points (Burckhardt and others, 2010). ``"delay"``: stores
    arrive as late as they may. ``"starve"``: one PE, and its stores, hardly ever come."""

    seed: int = 0
    """Seed of all that is random in it, 0 to 2**63 - 1."""

    depth: int = 2
    """Of ``"pct"``: the number of ordering constraints of the errors that it looks for, 1 to 64."""

    length: int = 64
    """Of ``"pct"``: operations among which the points are drawn, 1 to 2**20."""

    late: bool = True
    """Whether stores may arrive later than they were issued, as far as fences and ``quiet`` let them."""

    switches: tuple[Switch, ...] | None = None
    """Follow ``"first"`` but for these points, in this order. Default: follow the strategy."""

    prefix: tuple[int, ...] = ()
    """Actors of the first operations, whatever the strategy."""

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ArgumentError(
                f"strategy must be one of {', '.join(STRATEGIES)}, but got {shown(self.strategy)}"
            )
        for name, low, high in (
            ("seed", 0, (1 << 63) - 1),
            ("depth", 1, _MAX_DEPTH),
            ("length", 1, _MAX_LENGTH),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ArgumentError(
                    f"{name} must be an integer in [{low}, {high}], but got {shown(value)}"
                )
        if not isinstance(self.late, bool):
            raise ArgumentError(f"late must be True or False, but got {shown(self.late)}")
        if self.switches is not None:
            object.__setattr__(self, "switches", _switches(self.switches))
        object.__setattr__(self, "prefix", _actors("prefix", self.prefix))

    def as_data(self) -> dict[str, Any]:
        """Return the schedule as plain data, for a file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_data(cls, data: object) -> Schedule:
        """Return the schedule that plain data means.

        Raises:
            ArgumentError: They mean none.
        """
        known = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or not known.issuperset(data):
            raise ArgumentError(
                f"schedule must have fields of {sorted(known)}, but got {shown(data)}"
            )
        return cls(**data)


def _actors(name: str, values: object) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not all(
        type(value) is int and value >= 0 for value in values
    ):
        raise ArgumentError(
            f"{name} must be a sequence of integers of at least 0, but got {shown(values)}"
        )
    return tuple(values)


def _switches(values: object) -> tuple[Switch, ...]:
    if not isinstance(values, list | tuple):
        raise ArgumentError(f"switches must be a sequence of Switch, but got {shown(values)}")
    found = []
    for value in values:
        if not isinstance(value, list | tuple) or len(value) != 3:
            raise ArgumentError(f"switches must be of three integers each, but got {shown(value)}")
        found.append(Switch(*_actors("switches", value)))
    return tuple(found)
