"""What orders programs of a grid, by sets: the definition that the check's clocks are compared with.

Programs run one after another, as the reference executes them. An event is one memory operation of one program, or a
fence. One event comes before another if it is of the same program and earlier, or if a chain of releases and acquires
leads from the one to the other. All elements have one width, and no two stores store the same bits.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emu.tile.ir import Module, Operation
from emu.tile.ops import Code
from emu.tile.passes import simplify
from emu.tile.passes.check_bounds import MASK_AT
from emu.tile.passes.observe_accesses import describe_order
from emu.tile.reference.interpreter import Program, argument

ACQUIRES, RELEASES = ("acquire", "acq_rel"), ("release", "acq_rel")


@dataclass
class Event:
    """A memory operation of a program, or a fence.

    Attributes:
        number: Its number: events have one order.
        program: Number of the program.
        line: Line of the source.
        code: ``Code.LOAD``, ``Code.STORE``, an atomic one, or ``Code.BARRIER`` of a fence.
        order: ``""`` of what is not atomic among programs.
        reads: Addresses that it reads.
        writes: Addresses that it writes.
        before: Numbers of the events that come before it.
    """

    number: int
    program: int
    line: int
    code: Code
    order: str
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)


class _Traced(Program):
    """A program that notes its events."""

    events: list[Event]

    def evaluate(self, operation: Operation, operands: list[Any], frame: Any = None) -> Any:
        code = operation.code
        if code in MASK_AT or (code is Code.BARRIER and operation.attributes.get("fence")):
            self._note(operation, operands)
        return super().evaluate(operation, operands, frame)

    def _note(self, operation: Operation, operands: list[Any]) -> None:
        code, line = operation.code, operation.location.line if operation.location else 0
        order, scope = describe_order(operation)
        order = "" if scope == "cta" else order.replace("volatile", "relaxed")
        event = Event(len(self.events), self.number[0], line, code, order)
        self.events.append(event)
        if code is Code.BARRIER:
            return
        pointer, at = np.asarray(operands[0]), MASK_AT[code]
        mask = operands[at] if at is not None and len(operands) > at else np.ones(pointer.shape)
        for lane in np.ndindex(pointer.shape):
            if not mask[lane]:
                continue
            address = int(pointer[lane])
            if code is not Code.STORE:
                event.reads.add(address)
            held = ctypes.c_int32.from_address(address).value
            if code is not Code.LOAD and (
                code is not Code.ATOMIC_CAS or held == np.asarray(operands[1])[lane]
            ):
                event.writes.add(address)


def trace(module: Module, values: Sequence[Any], grid: tuple[int, int, int]) -> list[Event]:
    """Execute a kernel of which all elements are 32 bits wide, one program after another; return the events."""
    module = simplify(module)
    given = [argument(v, a.type) for v, a in zip(values, module.kernel.body.arguments, strict=True)]
    events: list[Event] = []
    for x in range(grid[0]):
        program = _Traced(module, (x, 0, 0), grid, lambda text: None)
        object.__setattr__(program, "events", events)
        program.call(module.kernel, given)
    return events


def give_order(events: Sequence[Event]) -> None:
    """Say of each event which others come before it."""
    heads: dict[
        int, set[int]
    ] = {}  # at each address, the events that were released to what it holds
    last: dict[int, int] = {}  # the last event of each program
    fence: dict[int, int] = {}  # its last fence
    read: dict[
        int, set[int]
    ] = {}  # what was released to what it has read without acquiring it, since its last fence
    for event in events:
        sources: set[int] = set()
        me = event.program
        found = {head for address in event.reads for head in heads.get(address, ())}
        if event.code is Code.BARRIER:
            sources |= read.pop(me, set())
            fence[me] = event.number
        elif event.order in ACQUIRES:
            sources |= found
        elif event.order:
            read.setdefault(me, set()).update(found)
        if me in last:
            sources.add(last[me])
        for source in sources:
            event.before |= events[source].before | {source}
        last[me] = event.number
        own = {event.number} if event.order in RELEASES else set()
        if event.order and not own and me in fence:
            own = {fence[me]}
        for address in event.writes:
            goes_on = heads.get(address, set()) if event.order and event.reads else set()
            heads[address] = own | goes_on


def races(events: Sequence[Event]) -> set[frozenset[int]]:
    """Return the pairs of lines of events of two programs that meet without order, one of them a write."""
    pairs = set()
    for one, other in itertools.combinations(events, 2):
        if one.program == other.program or one.number in other.before:
            continue
        if one.order and other.order:
            continue
        if one.writes & (other.reads | other.writes) or one.reads & other.writes:
            pairs.add(frozenset((one.line, other.line)))
    return pairs
