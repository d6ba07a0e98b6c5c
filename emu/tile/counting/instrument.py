"""Make of a kernel one that counts what it does.

What the operations of a region do each time it runs is known, so that only how often it ran need be counted; of a FOR,
whose trips are known when it begins, outside of it. Lanes that masks let through are counted where they are used. What of
each tensor was touched is kept in *cells*, a bit for each element: at the end of a region native code (``marking``) is
told of offsets and masks, once for all accesses that have the same.

Most kernels are counted *apart*: if neither control flow nor addresses nor masks depend on what is in memory, a second
kernel has these and nothing else. It touches no memory but its own, and the kernel itself stays as it is. Of the others the
code that counts stands between the operations.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TypeAlias

from emu.tile import ops
from emu.tile.counting.affine import find_lanes, find_prefix, find_range
from emu.tile.counting.plan import (
    ALWAYS,
    BYTES,
    GROUP_WORD,
    HEAD,
    MARKING_WORD,
    MOST_MEMBERS,
    NARROW,
    NO_COLUMN,
    NONE,
    POINTER_WORDS,
    PREFIX,
    RANGE32,
    RANGE64,
    ROWS_WORD,
    SCALAR,
    WIDE,
    Block,
    Dot,
    Mark,
    Member,
    Plan,
    Runs,
    Site,
    plus,
)
from emu.tile.counting.strip import strip
from emu.tile.counting.work import UNCOUNTED, Work, work_of
from emu.tile.ir import Builder, Module, Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.passes import Inline
from emu.tile.passes.check_bounds import mask_of
from emu.tile.passes.fold import value_of
from emu.tile.passes.origins import UNKNOWN, find_origins, is_pointer
from emu.tile.types import I32, I64, U64, DType, Pointer, ScalarType, element_of


def instrument(module: Module) -> tuple[Module, Plan]:
    """Return a module that counts what the kernel of another does, and what to make of that.

    Args:
        module: The module as its front end has written it; it is not changed.

    Returns:
        A module whose kernel has one more argument, the address of the words that ``plan`` describes; its plan.
    """
    made = _Instrumenter(module)
    made.run()
    kernel = strip(made.module, made.added)
    if kernel is not None:
        return kernel, made.plan(is_apart=True)
    return made.module, made.plan(is_apart=False)


_Key: TypeAlias = tuple[Value | None, Value | None, tuple[int, int]]
"""Offsets, mask, and sizes: by how much the offsets of neighbours differ, bytes of an element."""


class _Scope:
    """A region whose operations are being copied, with those that count.

    Attributes:
        runs: How often it runs.
        updates: What is added to columns where it ends.
        lanes: For each mask, the column of its lanes.
        accesses: Those whose memory is known, by offsets, mask and sizes: the address of each, and what it does.
    """

    def __init__(self, region: Region, runs: Runs) -> None:
        self.builder = Builder(region)
        self.runs = runs
        self.updates: list[tuple[int, Value]] = []
        self.lanes: dict[Value, int] = {}
        self.accesses: dict[_Key, list[tuple[Value, Member]]] = {}
        self.operations = 0
        self.work: Work = Counter()
        self.dots: list[Dot] = []


class _Instrumenter:
    """Adds operations that count to a copy of a module.

    Attributes:
        module: The copy.
        added: The operations that count.
    """

    def __init__(self, module: Module) -> None:
        self.module = Inline().apply(module)
        self.added: set[Operation] = set()
        self._body = self.module.kernel.body
        self._arguments = len(self._body.arguments)
        self._facts = Value(Pointer(I64), name="counters")
        self._origins = find_origins(self._body)
        self._home: dict[Value, _Scope] = {}
        self._counted: dict[Value, Value] = {}
        self._words: dict[int, Value] = {}
        self._entry: list[Operation] = []
        self._blocks: list[Block] = []
        self._sites: list[Site] = []
        self._columns = 0
        self._marks: list[Mark] = []
        self._mark_words = HEAD + POINTER_WORDS * self._arguments
        self._granules = self._find_granules()
        self._row = self._columns_constant = self._first_row = self._facts  # until there are others
        self._group = self._facts  # the same

    def plan(self, is_apart: bool) -> Plan:
        """Return what to make of the counters."""
        return Plan(
            is_apart,
            self._columns,
            self._arguments,
            tuple(self._blocks),
            tuple(self._sites),
            tuple(self._granules),
            tuple(self._marks),
        )

    def run(self) -> None:
        """Add the operations."""
        before = set(self._body.walk())
        self._row = self._make_row()
        self._region(self._body, {ALWAYS: 1})
        for constant, value in (
            (self._columns_constant, self._columns),
            (self._first_row, self._mark_words),
        ):
            assert constant.owner is not None
            constant.owner.attributes["value"] = value
        self._body.operations[:0] = self._entry
        self._body.arguments.append(self._facts)
        self.added = {o for o in self._body.walk() if o not in before}

    # ---- what is known before

    def _find_granules(self) -> list[int]:
        """Return the bytes of a cell for each argument: those of the smallest element by which a pointer moves."""
        sizes: list[set[int]] = [set() for _ in range(self._arguments)]
        accessed: set[int] = set()
        for operation in self._body.walk():
            if _is_counted(operation) or operation.code is Code.PTR_ADD:
                origin = self._origin(operation)
                if origin is not None:
                    sizes[origin].add(_element(operation).bytes)
                    if operation.code is not Code.PTR_ADD:
                        accessed.add(origin)
        return [min(found) if n in accessed else 0 for n, found in enumerate(sizes)]

    def _origin(self, operation: Operation) -> int | None:
        """Return the argument whose memory an operation accesses, if it can be no other's."""
        found = self._arguments_of(operation)
        return found[0] if len(found) == 1 else None

    def _arguments_of(self, operation: Operation) -> tuple[int, ...]:
        found = self._origins.get(operation.operands[0], frozenset((UNKNOWN,)))
        return () if UNKNOWN in found else tuple(sorted(found))

    # ---- regions

    def _region(self, region: Region, runs: Runs, counted_by: int = NO_COLUMN) -> None:
        """Add what counts the operations of a region; ``counted_by``: the column of how often it runs."""
        operations, region.operations = region.operations, []
        scope = _Scope(region, runs)
        for argument in region.arguments:
            self._home[argument] = scope
        if counted_by != NO_COLUMN:
            scope.updates.append((counted_by, scope.builder.constant(1, I64)))
        end = operations.pop()
        for operation in operations:
            scope.builder.location = operation.location
            self._operation(operation, scope)
            region.operations.append(operation)
            for result in operation.results:
                self._home[result] = scope
        scope.builder.location = end.location
        self._update(scope)
        self._mark(scope)
        region.operations.append(end)
        work = tuple((unit, dtype, n) for (unit, dtype), n in sorted(scope.work.items()))
        if scope.operations:
            self._blocks.append(Block(runs, scope.operations, work, tuple(scope.dots)))

    def _operation(self, operation: Operation, scope: _Scope) -> None:
        code = operation.code
        if code is Code.FOR:
            trips = self._column()
            scope.updates.append((trips, _trips(scope.builder, operation)))
            self._region(operation.regions[0], {trips: 1})
        elif code is Code.WHILE:
            rounds = self._column()
            before, after = operation.regions
            self._region(before, plus(scope.runs, {rounds: 1}))
            self._region(after, {rounds: 1}, rounds)
        elif code is Code.IF:
            taken = self._column()
            then, other = operation.regions
            self._region(then, {taken: 1}, taken)
            self._region(other, plus(scope.runs, {taken: 1}, -1))
        elif code not in UNCOUNTED and not operation.attributes.get("machine"):
            scope.operations += 1
            scope.work += work_of(operation)
            if code is Code.DOT:
                scope.dots.append(_dot(operation))
            if code in ops.MEMORY:
                self._access(operation, scope)

    def _column(self) -> int:
        self._columns += 1
        return self._columns - 1

    def _update(self, scope: _Scope) -> None:
        """Add to the columns of a region what is to be added each time it runs."""
        builder = scope.builder
        for column, value in scope.updates:
            place = builder.ptr_add(self._row, builder.constant(column, I64))
            builder.atomic_rmw(Rmw.ADD, place, value, order={"order": "relaxed"})

    # ---- memory operations

    def _access(self, operation: Operation, scope: _Scope) -> None:
        mask = mask_of(operation)
        column = NO_COLUMN
        if mask is not None:
            if mask not in scope.lanes:
                scope.lanes[mask] = self._column()
                scope.updates.append((scope.lanes[mask], self._count(mask)))
            column = scope.lanes[mask]
        element = _element(operation)
        verb = {Code.LOAD: "load", Code.STORE: "store", Code.ATOMIC_CAS: "cas"}.get(
            operation.code, str(operation.attributes.get("kind"))
        )
        site = Site(
            verb,
            self._arguments_of(operation),
            str(element),
            element.bytes,
            math.prod(operation.operands[0].shape),
            scope.runs,
            column,
        )
        self._sites.append(site)
        origin = self._origin(operation)
        if origin is None:
            return
        base, offsets = _split(scope.builder, operation.operands[0])
        unit = element.bytes if is_pointer(base) else 1
        address = scope.builder.cast(base, I64) if is_pointer(base) else base
        member = Member(origin, unit, site.verb != "store", site.verb != "load")
        key = offsets, mask, (element.bytes // unit, element.bytes)
        scope.accesses.setdefault(key, []).append((address, member))

    def _mark(self, scope: _Scope) -> None:
        """Tell of the accesses of a region, those with the same offsets and mask together."""
        builder = scope.builder
        for (offsets, mask, sizes), accesses in scope.accesses.items():
            lanes = math.prod(offsets.shape) if offsets is not None else 1
            row = offsets.shape[-1] if offsets is not None else 1
            kind, places = _offsets_of(builder, offsets, sizes)
            mask_kind, lets = _mask_of(builder, mask, kind)
            for first in range(0, len(accesses), MOST_MEMBERS):
                some = accesses[first : first + MOST_MEMBERS]
                addresses, members = zip(*some, strict=True)
                mark = Mark(kind, lanes, row, mask_kind, *sizes, tuple(members))
                values = [builder.cast(self._facts, I64), self._group, *places, *lets, *addresses]
                builder.tell_native(self._mark_words, self._word(MARKING_WORD), values)
                self._marks.append(mark)
                self._mark_words += len(mark.words())

    # ---- lanes

    def _count(self, mask: Value) -> Value:
        """Return how many lanes of a mask are true, i64, computed where the mask is."""
        if mask not in self._counted:
            builder = self._home[mask].builder
            self._counted[mask] = self._count_at(mask, builder)
        return self._counted[mask]

    def _count_at(self, mask: Value, builder: Builder) -> Value:
        """Return it, where a builder is: by rows and columns where the mask is made of these."""
        owner = mask.owner
        if not mask.shape:
            return builder.cast(mask, I64)
        if owner is not None and owner.code is Code.SPLAT:
            return self._scaled(builder, owner.operands[0], mask)
        if owner is not None and owner.code in (Code.BROADCAST, Code.RESHAPE, Code.PERMUTE):
            return self._scaled(builder, owner.operands[0], mask)
        prefix = find_prefix(builder, mask)
        if prefix is not None:
            lanes = find_lanes(builder, prefix)
            return builder.bitcast(builder.binary(Code.ADD, lanes.before, lanes.behind), I64)
        if owner is not None and owner.code is Code.AND:
            first, second = (_narrowed(v) for v in owner.operands)
            if first is not None and second is not None and _are_apart(first, second, mask.shape):
                product = builder.binary(
                    Code.MUL, self._count_at(first, builder), self._count_at(second, builder)
                )
                parts = math.prod(first.shape) * math.prod(second.shape)
                return _times(builder, product, math.prod(mask.shape) // parts)
        ones = builder.reshape(builder.cast(mask, I32), (math.prod(mask.shape),))
        (total,) = builder.reduce((ones,), 0, lambda a, b: (builder.binary(Code.ADD, a, b),))
        return builder.cast(total, I64)

    def _scaled(self, builder: Builder, smaller: Value, mask: Value) -> Value:
        factor = math.prod(mask.shape) // math.prod(smaller.shape)
        return _times(builder, self._count_at(smaller, builder), factor)

    # ---- words

    def _make_row(self) -> Value:
        """Return the pointer to the counters of this program."""
        builder = Builder()
        ids = [builder.cast(builder.program_id(axis), I64) for axis in range(3)]
        extents = [builder.cast(builder.num_programs(axis), I64) for axis in range(2)]
        plane = builder.binary(Code.ADD, ids[1], builder.binary(Code.MUL, ids[2], extents[1]))
        number = builder.binary(Code.ADD, ids[0], builder.binary(Code.MUL, plane, extents[0]))
        self._group = builder.binary(Code.SHR, number, self._word(GROUP_WORD))
        number = builder.binary(Code.AND, number, self._word(ROWS_WORD))
        # How many columns there are is known at the end, and how many words come before the rows.
        columns, first = builder.constant(0, I64), builder.constant(0, I64)
        at = builder.binary(Code.ADD, builder.binary(Code.MUL, number, columns), first)
        row = builder.ptr_add(self._facts, at)
        self._entry += builder.region.operations
        self._columns_constant, self._first_row = columns, first
        return row

    def _word(self, number: int) -> Value:
        """Return a word of what the launch gives, which does not change while the kernel runs."""
        if number not in self._words:
            builder = Builder()
            place = builder.ptr_add(self._facts, builder.constant(number, I64))
            self._words[number] = builder.load(place)
            self._entry[:0] = builder.region.operations
        return self._words[number]


def _is_counted(operation: Operation) -> bool:
    return operation.code in ops.MEMORY and not operation.attributes.get("machine")


def _element(operation: Operation) -> ScalarType:
    """Return the type of the elements that a memory operation accesses."""
    pointer = element_of(operation.operands[0].type)
    assert isinstance(pointer, Pointer)
    return pointer.element


def _split(builder: Builder, pointer: Value) -> tuple[Value, Value | None]:
    """Return an address that all lanes share, and the offsets of lanes from it.

    Of a pointer that is one plus offsets, these, in elements. Of other tiles 0, and the addresses of lanes, in bytes.
    """
    if not pointer.shape:
        return pointer, None
    owner = pointer.owner
    if owner is not None and owner.code is Code.PTR_ADD:
        base, offsets = owner.operands
        if base.owner is not None and base.owner.code in (Code.SPLAT, Code.BROADCAST):
            source = base.owner.operands[0]
            if not source.shape:
                narrow = element_of(offsets.type) in (I32, I64)
                return source, offsets if narrow else builder.cast(offsets, I64)
    return builder.constant(0, I64), builder.cast(pointer, I64)


def _offsets_of(
    builder: Builder, offsets: Value | None, sizes: tuple[int, int]
) -> tuple[int, list[Value]]:
    """Return the kind of offsets, and what tells of them."""
    if offsets is None:
        return SCALAR, []
    is_narrow = element_of(offsets.type) == I32
    found = find_range(builder, offsets) if sizes[0] == 1 else None
    if found is None:
        return NARROW if is_narrow else WIDE, [offsets]
    return RANGE32 if is_narrow else RANGE64, [builder.cast(found.start, I64)]


def _mask_of(builder: Builder, mask: Value | None, kind: int) -> tuple[int, list[Value]]:
    """Return the kind of a mask, and what tells of it."""
    if mask is None:
        return NONE, []
    prefix = find_prefix(builder, mask) if kind in (RANGE32, RANGE64) else None
    if prefix is None:
        return BYTES, [mask]
    return PREFIX, [builder.bitcast(n, I64) for n in find_lanes(builder, prefix)]


def _dot(operation: Operation) -> Dot:
    a, b, c = operation.operands
    *batch, m, k = a.shape
    return Dot(math.prod(batch), m, b.shape[-1], k, a.dtype.name, b.dtype.name, c.dtype.name)


def _narrowed(mask: Value) -> Value | None:
    """Return the tile that a mask repeats along some axes; None if it does not."""
    owner = mask.owner
    return owner.operands[0] if owner is not None and owner.code is Code.BROADCAST else None


def _are_apart(first: Value, second: Value, shape: tuple[int, ...]) -> bool:
    """Return whether no axis has several elements of both."""
    sizes = zip(first.shape, second.shape, strict=True)
    return len(first.shape) == len(shape) and all(1 in pair for pair in sizes)


def _times(builder: Builder, value: Value, factor: int) -> Value:
    if factor == 1:
        return value
    return builder.binary(Code.MUL, value, builder.constant(factor, value.type))


def _trips(builder: Builder, loop: Operation) -> Value:
    """Return how often a FOR runs its region, i64."""
    start, end, step = loop.operands[:3]
    up = builder.compare(Code.LT, start, end)
    down = builder.compare(Code.GT, start, end)
    first, last = _wide(builder, start), _wide(builder, end)
    rises = builder.binary(Code.SUB, last, first)
    number = value_of(step)
    if number is not None and number > 0:
        return _rounds(builder, up, rises, builder.constant(int(number), U64))
    falls = builder.binary(Code.SUB, first, last)
    if number is not None:
        return _rounds(builder, down, falls, builder.constant(max(1, -int(number)), U64))
    wide, none = _wide(builder, step), builder.constant(0, U64)
    is_up = builder.compare(Code.GT, step, builder.constant(0, step.type))
    size = builder.select(is_up, wide, builder.binary(Code.SUB, none, wide))
    size = builder.binary(Code.MAX, size, builder.constant(1, U64))  # a step of 0 is an error
    runs = builder.select(is_up, up, down)
    return _rounds(builder, runs, builder.select(is_up, rises, falls), size)


def _wide(builder: Builder, value: Value) -> Value:
    """Return an integer as u64; differences of such are those of the integers."""
    assert isinstance(value.type, DType)
    return builder.bitcast(builder.cast(value, I64), U64) if value.type != U64 else value


def _rounds(builder: Builder, runs: Value, distance: Value, step: Value) -> Value:
    one = builder.constant(1, U64)
    whole = builder.binary(Code.DIV, builder.binary(Code.SUB, distance, one), step)
    found = builder.select(runs, builder.binary(Code.ADD, whole, one), builder.constant(0, U64))
    return builder.bitcast(found, I64)
