"""Brute-force check of the CPU compiler's schedules: every pair of dependent operations, one by one.

The scheduler keeps the order of a program with a few counters (``plan.memory_order``) and levels (``plan.schedule``).
Here each dependence is derived again, from the operations alone, and looked up in the finished stages.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from emu.tile import ops
from emu.tile.cpu.plan.analysis import Analysis, constant_of, is_view
from emu.tile.cpu.plan.schedule import Group, Schedule, loop_shape
from emu.tile.ir import Operation, Value
from emu.tile.ops import Code
from emu.tile.types import Tile

COMPLETE_AFTER_LOOP = (Code.REDUCE, Code.JOIN, Code.ATOMIC_RMW, Code.ATOMIC_CAS)
ELSEWHERE = (Code.CAT, Code.RESHAPE, Code.SCAN, Code.DOT, Code.HISTOGRAM, Code.SORT)


class WrongScheduleError(AssertionError):
    """A schedule breaks a dependence."""


def need(condition: object, text: str, *operations: Operation) -> None:
    """Raise unless a condition holds."""
    if not condition:
        raise WrongScheduleError(f"{text}: {', '.join(o.code.name for o in operations)}")


@dataclass(frozen=True)
class Place:
    """Where an operation runs: its stage, its issue slot (0) or a loop (1), and its number there."""

    stage: int
    in_loop: int
    number: int

    @property
    def key(self) -> tuple[int, int, int]:
        """Sorts places as they run."""
        return (self.stage, self.in_loop, self.number)


class Checker:
    """Checks one schedule.

    Args:
        analysis: Analysis of the function.
        operations: The stretch, in program order.
        schedule: Its schedule.
    """

    def __init__(
        self, analysis: Analysis, operations: Sequence[Operation], schedule: Schedule
    ) -> None:
        self.analysis = analysis
        self.operations = [o for o in operations if o.code not in ops.TERMINATORS]
        self.schedule = schedule
        self.place: dict[Operation, Place] = {}
        self.group: dict[Operation, Group] = {}
        self.written_inline: dict[Value, Place] = {}

    def check(self) -> None:
        """Raise WrongScheduleError if a dependence is broken."""
        self.check_structure()
        for one, other in itertools.combinations(self.operations, 2):
            if one.code in ops.MEMORY and other.code in ops.MEMORY:
                self.check_memory(one, other)
        for value, place in self.written_inline.items():
            for owner, result, _ in self.sources(value):
                self.check_before(owner, result, place)
        for operation in self.place:
            for number in range(len(operation.operands)):
                self.check_operand(operation, number)
            self.check_readers_elsewhere(operation)

    # ---- structure

    def check_structure(self) -> None:
        """Check that each operation has one place, in loops of its shape, in program order."""
        order = {operation: n for n, operation in enumerate(self.operations)}
        for n, stage in enumerate(self.schedule.stages):
            for m, item in enumerate(stage.items):
                need(item not in self.place, "placed twice", item)
                alone = loop_shape(item) is None or item in self.schedule.in_place
                need(alone, "a loop in an issue slot", item)
                self.place[item] = Place(n, 0, m)
            for m, group in enumerate(stage.groups):
                if not group.operations:
                    (value,) = group.materialized
                    need(value not in self.written_inline, "written twice")
                    self.written_inline[value] = Place(n, 1, m)
                for operation in group.operations:
                    need(operation not in self.place, "placed twice", operation)
                    need(loop_shape(operation) == group.shape, "in another's loop", operation)
                    self.place[operation] = Place(n, 1, m)
                    self.group[operation] = group
                if any(operation.code in ops.ATOMIC for operation in group.operations):
                    need(len(group.operations) == 1, "an atomic shares a loop", *group.operations)
                    need(group.is_serial, "an atomic in a vector loop", *group.operations)
        for members in (
            *(stage.items for stage in self.schedule.stages),
            *(group.operations for stage in self.schedule.stages for group in stage.groups),
        ):
            numbers = [order[operation] for operation in members]
            need(numbers == sorted(numbers), "not in program order", *members)
        for operation in self.operations:
            free = bool(operation.results) and all(
                isinstance(r.type, Tile) and (is_view(operation) or self.analysis.is_inline(r))
                for r in operation.results
            )
            free = free and operation.code not in ops.IMPURE
            need((operation in self.place) != free, "not placed, or for nothing", operation)

    # ---- memory

    def check_memory(self, one: Operation, other: Operation) -> None:
        """Check the order of two memory operations, of which ``one`` comes first in the program."""
        if one.code is Code.LOAD and other.code is Code.LOAD:
            return
        first, second = self.place[one], self.place[other]
        stores = one.code is Code.STORE and other.code is Code.STORE
        if first.in_loop and second.in_loop and first.key == second.key:
            checked = one.code is Code.LOAD and other.code is Code.STORE
            if checked:
                checked = all(self.analysis.has_span(o.operands[0]) for o in (one, other))
            need(stores or checked, "memory operations share a loop", one, other)
        elif first.in_loop and second.in_loop and stores:
            need(first.stage <= second.stage, "stores are exchanged", one, other)
        else:
            need(first.key < second.key, "memory operations are exchanged", one, other)
        if one in self.schedule.in_place:
            for product in self.products_of(one.result):
                need(self.place[product].key < second.key, "read in place too late", one, other)

    def products_of(self, value: Value) -> Iterator[Operation]:
        """Yield the products and scans that read a tile in place."""
        for user in self.analysis.users[value]:
            need(user in self.operations, "read in place in another stretch", user)
            if user.code is Code.PERMUTE:
                yield from self.products_of(user.result)
            else:
                takes = user.code is Code.DOT and user.operands[2] is not value
                need(takes or user.code is Code.SCAN, "in no memory", user)
                yield user

    # ---- values

    def sources(self, value: Value, direct: bool = True) -> Iterator[tuple[Operation, Value, bool]]:
        """Yield the placed operations that a value is computed from where it is read.

        With each: its result, and whether an element is read where it was computed.
        """
        owner = value.owner
        if owner is None:
            return
        if owner in self.place:
            yield owner, value, direct
        elif owner in self.operations:
            for n, operand in enumerate(owner.operands):
                yield from self.sources(operand, direct and owner.code is Code.AFTER and n == 0)

    def root(self, value: Value) -> Value:
        """Return what a chain of views leads to."""
        while value.owner is not None and is_view(value.owner):
            value = value.owner.operands[0]
        return value

    def check_operand(self, reader: Operation, number: int) -> None:
        """Check that an operand is there when an operation reads it."""
        operand, place = reader.operands[number], self.place[reader]
        if reader.code is Code.DOT and number == 2 and constant_of(operand) is not None:
            return
        elsewhere = reader.code in ELSEWHERE or (reader.code is Code.GATHER and number == 0)
        root = self.root(operand)
        if elsewhere and isinstance(root.type, Tile) and self.analysis.is_inline(root):
            written = self.written_inline.get(root)
            need(written is not None, "an inline tile is not in memory", reader)
            assert written is not None
            need(written.key < place.key, "read before it is in memory", reader)
            return
        for owner, result, direct in self.sources(operand):
            if owner in self.group and self.group[owner] is self.group.get(reader):
                need(
                    direct and not elsewhere, "read at other coordinates in one loop", owner, reader
                )
                need(owner.code not in COMPLETE_AFTER_LOOP, "read too early", owner, reader)
            else:
                self.check_before(owner, result, place)

    def check_before(self, owner: Operation, result: Value, place: Place) -> None:
        """Check that a result is complete, and in memory, before a place."""
        need(self.place[owner].key < place.key, "read before it is computed", owner)
        self.check_in_memory(owner, result)

    def check_in_memory(self, owner: Operation, result: Value) -> None:
        """Check that a loop writes a result to memory."""
        if owner in self.group and isinstance(result.type, Tile):
            kept = owner.code in COMPLETE_AFTER_LOOP or result in self.group[owner].materialized
            need(kept, "read beyond its loop, but not in memory", owner)

    def check_readers_elsewhere(self, owner: Operation) -> None:
        """Check that results which other stretches read are in memory."""
        for result in owner.results:
            pending = [result]
            while pending:
                for user in self.analysis.users[pending.pop()]:
                    if user in self.place:
                        continue  # checked from there
                    if is_view(user):
                        pending.extend(user.results)
                    else:
                        self.check_in_memory(owner, result)

    # ---- memory that is used again

    def check_overwriting(self, value: Value, old: Value, terminator: Operation) -> None:
        """Check that a tile may be written over an old one: all that reads it has done so."""
        writer = value.owner
        assert writer is not None
        pending, seen = [(old, True)], set[tuple[Value, bool]]()
        while pending:
            found, direct = pending.pop()
            if (found, direct) in seen:
                continue
            seen.add((found, direct))
            for reader in self.analysis.users[found]:
                need(reader is not terminator, "needed by the end of the region", writer)
                if reader in self.place:
                    self.check_reader(reader, writer, old, direct)
                elif reader in self.operations or is_view(reader):
                    pending.extend((result, False) for result in reader.results)

    def check_reader(self, reader: Operation, writer: Operation, old: Value, direct: bool) -> None:
        """Check that one operation has read an old tile before another overwrites it."""
        if self.place[reader].key < self.place[writer].key:
            return
        if reader is writer and writer.code is Code.DOT:
            need(writer.operands.count(old) == 1 and writer.operands[2] is old, "a factor", writer)
            return
        same = reader in self.group and self.group[reader] is self.group.get(writer)
        good = same and direct and writer.code not in COMPLETE_AFTER_LOOP
        good = good and reader.code not in (*ELSEWHERE, *ops.ATOMIC)
        good = good and not (reader.code is Code.GATHER and reader.operands[0] is old)
        need(good, "overwritten too early", reader, writer)


def check_schedule(
    analysis: Analysis, operations: Sequence[Operation], schedule: Schedule
) -> Checker:
    """Raise WrongScheduleError if a schedule breaks a dependence; return the checker."""
    checker = Checker(analysis, operations, schedule)
    checker.check()
    return checker
