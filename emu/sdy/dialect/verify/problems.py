"""A rule is a function that gives what is wrong, or None; here is the rest.

Rules know nothing of where messages go. ``verifier`` makes of some rules what an
operation's definition wants: the first that finds something is the one that is
reported, at the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from emu.mlir.diagnostics import Diagnostics, Location
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import AxisRef

__all__ = ["Check", "Problem", "axis_text", "report", "value_prefix", "verifier"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with an operation.

    Attributes:
        message: The message, which the operation's name goes before.
        note: A note that explains it.
        place: Where the note points; None: to the operation.
        bare: The operation's name does not go before the message.
        conclusion: A second message, which says what follows of the first.
    """

    message: str
    note: str = ""
    place: Location | None = None
    bare: bool = False
    conclusion: str = ""

    def within(self, prefix: str) -> Problem:
        """Return the same with words that go before the message."""
        return replace(self, message=prefix + self.message)


Check = Callable[[Operation], Problem | None]


def report(op: Operation, problem: Problem, diagnostics: Diagnostics) -> None:
    """Emit the error that a problem is."""
    name = "" if problem.bare else f"'{op.name}' op "
    error = diagnostics.error(op.location, name + problem.message)
    if problem.note:
        error.note(problem.note, problem.place)
    if problem.conclusion:
        diagnostics.error(op.location, name + problem.conclusion)


def verifier(*checks: Check) -> Callable[[Operation, Diagnostics], bool]:
    """Return a verifier that reports the first problem that the checks find."""

    def verify(op: Operation, diagnostics: Diagnostics) -> bool:
        for check in checks:
            problem = check(op)
            if problem is not None:
                report(op, problem, diagnostics)
                return False
        return True

    return verify


def value_prefix(count: int, index: int) -> str:
    """How messages name one of several values; the only one needs no number."""
    return "- " if count == 1 else f"{index} - "


def axis_text(axis: AxisRef) -> str:
    """Return an axis as messages write it."""
    sub = axis.sub_axis
    return f'"{axis.name}"' + ("" if sub is None else f":({sub.pre_size}){sub.size}")
