"""What every operation of a running program computed, by marks in locations.

A pass gives what it creates the location of what it is made from. A mark around each location, which
is a name that no text has, so says of every operation of the partitioned program which one of the
whole program it comes from, and under which sharding.
"""

from __future__ import annotations

from collections.abc import Sequence

from emu.mlir.diagnostics import CallSiteLoc, FusedLoc, Location, NameLoc
from emu.mlir.ir import Block, Operation
from emu.stablehlo.reference.values import Array

Values = dict[int, list[list[Array]]]
"""Results of operations by number: one entry per time that an operation ran."""

_WHOLE = "\0whole "


def mark_whole(module: Operation) -> dict[int, Operation]:
    """Mark the operations of a whole program by their numbers; return them."""
    found = dict(enumerate(module.walk()))
    for number, op in found.items():
        op.location = NameLoc(f"{_WHOLE}{number}", op.location)
    return found


def whole_number(location: Location) -> int | None:
    """Return the number of the whole program's operation, or None."""
    if isinstance(location, NameLoc):
        if location.name.startswith(_WHOLE):
            return int(location.name.removeprefix(_WHOLE))
        return whole_number(location.child)
    if isinstance(location, CallSiteLoc):
        found = whole_number(location.callee)
        return whole_number(location.caller) if found is None else found
    if isinstance(location, FusedLoc):
        return next((n for n in map(whole_number, location.locations) if n is not None), None)
    return None


class Recorder:
    """Keeps all values of a running program; give it to ``evaluate`` as the observer.

    Attributes:
        values: Results of each operation by its number in the order of the module's text: one entry
            per time that it ran.
        arguments: Arguments of each block, likewise.
    """

    def __init__(self, module: Operation) -> None:
        self._numbers = {op: number for number, op in enumerate(module.walk())}
        self.values: Values = {}
        self.arguments: dict[Block, list[list[Array]]] = {}

    def enter(self, block: Block, arguments: Sequence[Array]) -> None:
        """Keep the arguments of a block."""
        self.arguments.setdefault(block, []).append(list(arguments))

    def leave(self, op: Operation, results: Sequence[Array]) -> None:
        """Keep the results of an operation that has run."""
        self.values.setdefault(self._numbers[op], []).append(list(results))
