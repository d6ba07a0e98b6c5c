"""Problems that rules find, and their conversion to diagnostics.

A rule is a function that returns a ``Problem`` or None and knows nothing of
where messages go. ``verifier`` combines rules to the verifier of an operation's
definition: the first problem found is reported, at the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from emu.mlir.diagnostics import Diagnostics, Location
from emu.mlir.ir import Operation
from emu.sdy.dialect.attributes import AxisRef


@dataclass(frozen=True, slots=True)
class Problem:
    """A violation of a rule by an operation.

    Attributes:
        message: The message; the operation's name is prepended.
        note: A note that explains it.
        place: Location of the note; None: that of the operation.
        bare: Whether the message goes without the operation's name.
        conclusion: A second message, which states a consequence of the first.
    """

    message: str
    note: str = ""
    place: Location | None = None
    bare: bool = False
    conclusion: str = ""

    def within(self, prefix: str) -> Problem:
        """Return the same problem with a prefix before the message."""
        return replace(self, message=prefix + self.message)


Check = Callable[[Operation], Problem | None]


def report(op: Operation, problem: Problem, diagnostics: Diagnostics) -> None:
    """Emit a problem as an error."""
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
    """Return the name of one of several values in messages; a single one has no number."""
    return "- " if count == 1 else f"{index} - "


def axis_text(axis: AxisRef) -> str:
    """Return the text of an axis in messages."""
    sub = axis.sub_axis
    return f'"{axis.name}"' + ("" if sub is None else f":({sub.pre_size}){sub.size}")
