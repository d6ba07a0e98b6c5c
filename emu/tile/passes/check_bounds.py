"""CheckBounds: code that checks the address of every load, store and atomic operation before it is used.

The memory that a kernel may touch is in a block of *facts* that a launch fills: for each argument that is a pointer
the first and the last address of what the pointer belongs to, and a table of everything else that is
allocated, for pointers that were read from memory or made of integers.

A tile is checked by bounds of its addresses first (``intervals``): a few operations on scalars, once for all
operations of a stretch whose addresses are known before it. Only if they are not inside, every lane is looked at,
under the mask. A lane that is outside goes into a record in the facts, and the program stops before memory was
touched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from emu.tile import ops
from emu.tile.ir import Builder, Location, Module, Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.passes.intervals import Arithmetic, Intervals, Scope, combining
from emu.tile.passes.origins import UNKNOWN, find_origins
from emu.tile.types import I1, I32, I64, Pointer, Tile, element_of

HITS, CAPACITY, TABLE, TABLE_STEPS, SPARE, BOUNDS = 0, 1, 2, 3, 4, 12
"""Words of the facts: accesses outside so far; records that there is room for; address of the table; binary
logarithm of its length; 64 bytes that nobody needs; then two words for each argument of the kernel: the address of
the first byte of its memory, and of the first one behind. Records follow."""

RECORD_WORDS = 8
"""Words of a record: number of the access, program x, y, z, lane, address; two are not used."""

MESSAGE = "an address is out of bounds"
"""Message of the assertion that stops a program."""


@dataclass(frozen=True)
class Access:
    """A memory operation that is checked.

    Attributes:
        verb: ``"load"``, ``"store"`` or ``"atomic"``.
        location: Where it comes from, if known.
        argument: Position of the argument whose memory it may touch; None: that of any allocation.
        element: Name of the type in memory.
        size: Bytes of an element.
        shape: Shape of the tile; ``()`` of a scalar.
        is_masked: Whether it has a mask.
    """

    verb: str
    location: Location | None
    argument: int | None
    element: str
    size: int
    shape: tuple[int, ...]
    is_masked: bool


def check_bounds(
    module: Module, *, keep_going: bool = False, trusted: Collection[Operation] = ()
) -> tuple[Module, tuple[Access, ...]]:
    """Instrument a kernel so that no access leaves the memory that the launch names.

    Args:
        module: Module of a kernel that has been simplified, so that it calls nothing. It is changed.
        keep_going: Leave out the lanes that are outside and go on. Default: the program stops at the first.
        trusted: Operations that are not checked: those of other checks.

    Returns:
        The module, whose kernel has one more argument, the address of the facts; and the accesses by number.
    """
    kernel = module.kernel
    instrumenter = _Instrumenter(kernel.body, keep_going, trusted)
    instrumenter.run()
    return module, tuple(instrumenter.accesses)


class _Instrumenter:
    def __init__(self, body: Region, keep_going: bool, trusted: Collection[Operation]) -> None:
        self._trusted = trusted
        self.accesses: list[Access] = []
        self._body = body
        self._keep_going = keep_going
        self._origins = find_origins(body)
        self._facts = Value(Pointer(I64), name="facts")
        self._pointers = len(body.arguments)
        self._home: dict[Value, Scope] = {}
        self._entry = Scope()
        self._words: dict[int, Value] = {}

    def run(self) -> None:
        root = Scope()
        for argument in (*self._body.arguments, self._facts):
            self._home[argument] = root
        root.out = self._entry.out  # what is read of the facts stands before everything else
        self._region(self._body, root)
        self._body.arguments.append(self._facts)

    # ---- regions

    def _region(self, region: Region, scope: Scope) -> None:
        for argument in region.arguments:
            self._home[argument] = scope
        operations = list(region.operations)
        done: set[Operation] = set()
        checked: set[Operation] = set(self._trusted)
        for number, operation in enumerate(operations):
            if operation in done:
                continue
            if operation.code in ops.MEMORY and operation not in checked:
                batch, early = self._batch(operations[number:], done, checked)
                for one in early:
                    self._keep(one, scope, done)
                self._check(batch, scope)
                checked.update(batch)
            if operation.code in (Code.FOR, Code.WHILE, Code.IF):
                for nested in operation.regions:
                    self._region(nested, Scope())
            self._keep(operation, scope, done)
        region.operations = scope.out

    def _keep(self, operation: Operation, scope: Scope, done: set[Operation]) -> None:
        scope.out.append(operation)
        done.add(operation)
        for result in operation.results:
            self._home[result] = scope

    def _batch(
        self,
        operations: Sequence[Operation],
        done: set[Operation],
        checked: set[Operation],
    ) -> tuple[list[Operation], list[Operation]]:
        """Return the memory operations that can be checked now, and the pure ones that must come before that."""
        stretch: list[Operation] = []
        for operation in operations:
            if operation.code in _BORDERS:
                break
            stretch.append(operation)
        inside, order = set(stretch), {o: n for n, o in enumerate(stretch)}
        batch: list[Operation] = []
        early: set[Operation] = set()
        for operation in stretch:
            if operation.code not in ops.MEMORY or operation in checked:
                continue
            needed = self._needed(_address_and_mask(operation), inside, done)
            if needed is not None:
                batch.append(operation)
                early |= needed
        return batch, sorted(early, key=order.__getitem__)

    @staticmethod
    def _needed(
        values: Sequence[Value], inside: set[Operation], done: set[Operation]
    ) -> set[Operation] | None:
        """Return the operations that values need and that are still to come; None if one of them is not pure."""
        found: set[Operation] = set()
        pending = list(values)
        while pending:
            owner = pending.pop().owner
            if owner is None or owner in done or owner in found or owner not in inside:
                continue
            if owner.code not in _MOVABLE:
                return None
            found.add(owner)
            pending.extend(owner.operands)
        return found

    # ---- checks

    def _check(self, batch: Sequence[Operation], scope: Scope) -> None:
        builder = scope.builder()
        checks = []
        for operation in batch:
            builder.location = operation.location
            access = describe_access(operation, self._origins)
            checks.append((operation, access, self._is_inside(operation, access, scope)))
            self.accesses.append(access)
        arithmetic = Arithmetic(builder)
        fine = arithmetic.all(tuple(inside for *_, inside in checks))
        slow, nothing = Region(), Region()
        with builder.into(slow):
            first = len(self.accesses) - len(checks)
            for number, (operation, access, inside) in enumerate(checks, first):
                builder.location = operation.location
                with Then(builder, builder.unary(Code.NOT, inside)):
                    self._look_at_lanes(builder, operation, access, number)
            builder.yield_()
        with builder.into(nothing):
            builder.yield_()
        builder.if_(builder.unary(Code.NOT, fine), slow, nothing)
        if self._keep_going:
            for operation, access, _ in checks:
                self._leave_out(builder, operation, access)

    def _is_inside(self, operation: Operation, access: Access, scope: Scope) -> Value:
        """Return whether the bounds of the addresses are inside; false where that is not known."""
        intervals = Intervals(scope, self._home)
        mask = mask_of(operation)
        if mask is not None:
            intervals.assume(mask)
        found = intervals.of(operation.operands[0])
        builder = scope.builder()
        builder.location = operation.location
        arithmetic = Arithmetic(builder)
        low, high = arithmetic.value(found.low), arithmetic.value(found.high)
        conditions = (
            *found.conditions,
            builder.compare(Code.LE, low, high),
            *self._inside(builder, access, low, high),
        )
        inside = arithmetic.all(conditions)
        for nothing in intervals.empty:
            inside = builder.binary(Code.OR, inside, nothing)
        if mask is not None and not mask.shape:
            inside = builder.binary(Code.OR, inside, builder.unary(Code.NOT, mask))
        return inside

    def _inside(
        self, builder: Builder, access: Access, low: Value, high: Value
    ) -> tuple[Value, Value]:
        """Return conditions that together say that elements from ``low`` to ``high`` are in the memory."""
        size = builder.splat(builder.constant(access.size, I64), high.shape)
        if access.argument is None:
            start, end = self._find(builder, low)
        else:
            start = builder.splat(self._word(BOUNDS + 2 * access.argument), low.shape)
            end = builder.splat(self._word(BOUNDS + 2 * access.argument + 1), high.shape)
        last = builder.binary(Code.SUB, end, size)
        return builder.compare(Code.GE, low, start), builder.compare(Code.LE, high, last)

    def _find(self, builder: Builder, address: Value) -> tuple[Value, Value]:
        """Return the start and the end of the last entry of the table that begins no later than an address."""
        table = builder.splat(builder.cast(self._word(TABLE), Pointer(I64)), address.shape)
        steps = self._word(TABLE_STEPS)
        one, none = builder.constant(1, I64), builder.constant(0, I32)
        half = builder.binary(Code.SHL, one, steps)
        many = builder.cast(steps, I32)
        at = builder.splat(builder.constant(0, I64), address.shape)
        with builder.for_(none, many, builder.constant(1, I32), (at, half)) as loop:
            before, span = loop.carried
            span = builder.binary(Code.SHR, span, one)
            middle = builder.binary(Code.ADD, before, builder.splat(span, address.shape))
            begins = builder.load(builder.ptr_add(table, builder.binary(Code.ADD, middle, middle)))
            later = builder.compare(Code.LE, begins, address)
            builder.yield_(builder.select(later, middle, before), span)
        found = loop.results[0]
        start = builder.ptr_add(table, builder.binary(Code.ADD, found, found))
        ones = builder.splat(one, address.shape)
        return builder.load(start), builder.load(builder.ptr_add(start, ones))

    def _word(self, number: int) -> Value:
        """Return a word of the facts, which does not change while the kernel runs."""
        if number not in self._words:
            builder = Builder()
            place = builder.ptr_add(self._facts, builder.constant(number, I64))
            self._words[number] = builder.load(place)
            self._entry.out[:0] = builder.region.operations
        return self._words[number]

    # ---- lanes

    def _look_at_lanes(
        self, builder: Builder, operation: Operation, access: Access, number: int
    ) -> None:
        """Emit a record, and the stop, if a lane is outside."""
        pointer, mask = operation.operands[0], mask_of(operation)
        address = builder.cast(pointer, I64)
        if not pointer.shape:
            bad = self._outside(builder, access, address)
            if mask is not None:
                bad = builder.binary(Code.AND, bad, mask)
            with Then(builder, bad):
                self._record(builder, number, builder.constant(0, I64), address)
            return
        assert isinstance(pointer.type, Tile)
        count = pointer.type.size
        address = builder.reshape(address, (count,))
        bad = self._outside(builder, access, address)
        if mask is not None:
            bad = builder.binary(Code.AND, bad, builder.reshape(mask, (count,)))
        lanes = builder.arange(0, count)
        nobody = builder.constant(count, lanes.type)
        (first,) = builder.reduce(
            (builder.select(bad, lanes, nobody),), 0, combining(builder, Code.MIN)
        )
        with Then(builder, builder.compare(Code.LT, first, builder.constant(count, I32))):
            chosen = builder.compare(Code.EQ, lanes, builder.splat(first, (count,)))
            least = builder.constant(I64.limits[0], address.type)
            (found,) = builder.reduce(
                (builder.select(chosen, address, least),), 0, combining(builder, Code.MAX)
            )
            self._record(builder, number, builder.cast(first, I64), found)

    def _outside(self, builder: Builder, access: Access, address: Value) -> Value:
        after, before = self._inside(builder, access, address, address)
        return builder.unary(Code.NOT, builder.binary(Code.AND, after, before))

    def _record(self, builder: Builder, number: int, lane: Value, address: Value) -> None:
        one = builder.constant(1, I64)
        slot = builder.atomic_rmw(Rmw.ADD, self._facts, one)
        with Then(builder, builder.compare(Code.LT, slot, self._word(CAPACITY))):
            words = builder.constant(RECORD_WORDS, I64)
            first = builder.constant(BOUNDS + 2 * self._pointers, I64)
            place = builder.binary(Code.ADD, builder.binary(Code.MUL, slot, words), first)
            record = builder.ptr_add(self._facts, place)
            programs = [builder.cast(builder.program_id(axis), I64) for axis in range(3)]
            for n, value in enumerate((builder.constant(number, I64), *programs, lane, address)):
                builder.store(builder.ptr_add(record, builder.constant(n, I64)), value)
        if not self._keep_going:
            builder.assert_(builder.constant(False, I1), MESSAGE)  # noqa: PT009 - emits an ASSERT

    def _leave_out(self, builder: Builder, operation: Operation, access: Access) -> None:
        """Narrow an operation to the lanes that are inside."""
        builder.location = operation.location
        pointer, *rest = operation.operands
        address = builder.cast(pointer, I64)
        after, before = self._inside(builder, access, address, address)
        good = builder.binary(Code.AND, after, before)
        at = MASK_AT[operation.code]
        if at is None:  # has no mask: lanes that are outside work on memory that nobody needs
            spare = builder.ptr_add(self._facts, builder.constant(SPARE, I64))
            spare = builder.cast(spare, element_of(pointer.type))
            pointer = builder.select(good, pointer, builder.splat(spare, pointer.shape))
            operation.operands = (pointer, *rest)
            return
        if len(operation.operands) > at:
            good = builder.binary(Code.AND, good, operation.operands[at])
        operation.operands = (*operation.operands[:at], good, *operation.operands[at + 1 :])


def describe_access(operation: Operation, origins: Mapping[Value, frozenset[int]]) -> Access:
    """Return the facts of a memory operation.

    Args:
        operation: The operation.
        origins: Of all pointers of the kernel.
    """
    pointer = operation.operands[0]
    element = element_of(pointer.type)
    assert isinstance(element, Pointer)
    found = origins.get(pointer, frozenset((UNKNOWN,)))
    (argument,) = found if len(found) == 1 else (UNKNOWN,)
    verb = "atomic" if operation.code in ops.ATOMIC else operation.code.name.lower()
    return Access(
        verb,
        operation.location,
        None if argument == UNKNOWN else argument,
        str(element.element),
        element.element.bytes,
        pointer.shape,
        mask_of(operation) is not None,
    )


class Then:
    """Context in which a builder builds what is done if a condition holds."""

    def __init__(self, builder: Builder, condition: Value) -> None:
        self._builder = builder
        self._condition = condition
        self._region = Region()
        self._inner = builder.into(self._region)

    def __enter__(self) -> None:
        self._inner.__enter__()

    def __exit__(self, *error: object) -> None:
        self._builder.yield_()
        self._inner.__exit__(None, None, None)
        other = Region()
        with self._builder.into(other):
            self._builder.yield_()
        self._builder.if_(self._condition, self._region, other)


MASK_AT: dict[Code, int | None] = {
    Code.LOAD: 1,
    Code.STORE: 2,
    Code.ATOMIC_RMW: 2,
    Code.ATOMIC_CAS: None,
}
"""Position of the mask among the operands."""

_BORDERS = (
    ops.CONTROL
    | ops.TERMINATORS
    | {Code.BARRIER, Code.ASSERT, Code.PRINT, Code.OBSERVE, Code.MACHINE_CALL}
)
_MOVABLE = (ops.ELEMENTWISE | ops.LEAVES | ops.SHAPES | ops.LAUNCH) - (
    ops.COSTLY - {Code.DIV, Code.REM}
)


def mask_of(operation: Operation) -> Value | None:
    """Return the mask of a memory operation; None if it has none."""
    at = MASK_AT[operation.code]
    return None if at is None or len(operation.operands) <= at else operation.operands[at]


def _address_and_mask(operation: Operation) -> list[Value]:
    mask = mask_of(operation)
    return [operation.operands[0]] if mask is None else [operation.operands[0], mask]
