"""CheckUninit: code that follows what a kernel reads of memory that nobody has written.

Tensors that were allocated and not filled have a *shadow*: as many bytes as the tensor, which are not zero where nothing
was written. Each value that may come from memory gets a tile beside it, its *origins*: an element is 0, or it
names the load and the address that it comes from (``ORIGIN_BITS``). Origins go where the values go, through
arithmetic, selections, reductions, products and loops.

A *use* is where such a value matters: an address, a mask, a condition, the bounds of a loop, and what is stored. It
stops the program, so memory never holds what comes from unwritten memory: a store always marks its
elements as written. The shadow is marked before the store and read after the load: what another program
has written and announced is never taken for unwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emu.tile import ops
from emu.tile.ir import Builder, Location, Module, Operation, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.passes.check_bounds import MASK_AT, Access, Then, describe_access, mask_of
from emu.tile.passes.intervals import combining
from emu.tile.passes.origins import find_origins
from emu.tile.passes.reads import find_reads
from emu.tile.types import I1, I8, I16, I32, I64, Pointer, Tile, Token, Type, element_of

HITS, CAPACITY, TABLE, TABLE_STEPS, PATTERN, SHADOWS = 0, 1, 2, 3, 4, 8
"""Words of the facts: uses found so far; records that there is room for; address of the table of all shadows; binary
logarithm of its length; what unwritten memory holds; then ``SHADOW_WORDS`` words for each argument. Records
follow."""

SHADOW_WORDS = 4
"""Words of a shadow: the first address of the memory that it is for, the first one behind, the distance from memory to
shadow in bytes, and ``IS_SHARED`` or 0."""

RECORD_WORDS = 8
"""Words of a record: number of the use, program x, y, z, lane, origin; two are not used."""

ADDRESS_BITS = 47
"""Bits of an origin: the address of the element; above it ``IS_SHARED``; from bit 48 the number of the load, from 1."""

IS_SHARED = 1 << ADDRESS_BITS
"""Bit of an origin: others write this memory while a kernel runs, so the memory itself is looked at as well."""

MAX_LOADS = (1 << 15) - 2

MESSAGE = "a value was read from memory that nobody has written"
"""Message of the assertion that stops a program."""

_WORDS = {1: I8, 2: I16, 4: I32, 8: I64}


@dataclass(frozen=True)
class Use:
    """A place where an unwritten value would matter.

    Attributes:
        what: ``"address"``, ``"mask"``, ``"condition"``, ``"bounds of a loop"``, ``"assertion"``, ``"stored value"``,
            or ``"operand of an atomic operation"``.
        location: Where it is, if known.
        shape: Shape of the tile; ``()`` of a scalar.
    """

    what: str
    location: Location | None
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Checked:
    """What a kernel that was instrumented may report.

    Attributes:
        loads: Loads and atomic operations, by number.
        uses: Uses, by number.
        added: Memory operations of the checks themselves.
    """

    loads: tuple[Access, ...]
    uses: tuple[Use, ...]
    added: frozenset[Operation]


def check_uninit(module: Module) -> Checked:
    """Instrument a kernel so that it reports what it uses of memory that was never written.

    Args:
        module: Module of a kernel that has been simplified, so that it calls nothing. It is changed: its kernel gets
            one more argument, the address of the facts.
    """
    instrumenter = _Instrumenter(module.kernel.body)
    instrumenter.run()
    return Checked(
        tuple(instrumenter.loads), tuple(instrumenter.uses), frozenset(instrumenter.added)
    )


class _Instrumenter:
    def __init__(self, body: Region) -> None:
        self.loads: list[Access] = []
        self.uses: list[Use] = []
        self.added: set[Operation] = set()
        self._body = body
        self._origins_of_pointers = find_origins(body)
        self._reads = find_reads(body)
        self._facts = Value(Pointer(I64), name="shadows")
        self._arguments = len(body.arguments)
        self._origins: dict[Value, Value] = {}
        self._entry: list[Operation] = []
        self._words: dict[int, Value] = {}

    def run(self) -> None:
        before = set(self._body.walk())
        self._region(self._body)
        self._body.operations[:0] = self._entry
        self._body.arguments.append(self._facts)
        for operation in self._body.walk():
            if operation not in before and operation.code in ops.MEMORY:
                self.added.add(operation)

    # ---- regions

    def _region(self, region: Region) -> None:
        operations, region.operations = region.operations, []
        builder = Builder(region)
        for operation in operations:
            builder.location = operation.location
            visit = _VISITS.get(operation.code)
            if visit is not None:
                visit(self, builder, operation)
                continue
            region.operations.append(operation)
            self._follow(builder, operation)

    def _follow(self, builder: Builder, operation: Operation) -> None:
        """Add the origins of the results of an operation without effects."""
        if not operation.results or not any(v in self._origins for v in operation.operands):
            return
        if operation.code in ops.SHAPES or operation.code is Code.SPLAT:
            found: Sequence[Value] = self._reshaped(builder, operation)
        elif operation.code is Code.AFTER:
            found = (self._of(builder, operation.operands[0]),)
        elif operation.code is Code.SELECT:
            condition, first, second = operation.operands
            chosen = builder.select(condition, self._of(builder, first), self._of(builder, second))
            found = (self._either(builder, chosen, self._origins.get(condition)),)
        elif operation.code is Code.AND or operation.code is Code.OR:
            found = (self._decided(builder, operation),)
        elif operation.code is Code.DOT:
            found = (self._product(builder, operation),)
        elif operation.code is Code.HISTOGRAM:
            (counts,) = operation.results
            everywhere = [self._total(builder, v) for v in operation.operands if v in self._origins]
            found = (builder.splat(self._any_of(builder, everywhere), counts.shape),)
        elif operation.code is Code.SORT:
            found = (self._along_last(builder, operation.operands[0]),)
        elif operation.code in (Code.REDUCE, Code.SCAN):
            found = self._combined(builder, operation)
        else:
            known = [self._origins[v] for v in operation.operands if v in self._origins]
            found = (self._any_of(builder, known),)
        for result, origins in zip(operation.results, found, strict=True):
            if not isinstance(result.type, Token):
                self._origins[result] = origins

    # ---- origins of results

    def _of(self, builder: Builder, value: Value) -> Value:
        """Return the origins of a value, zeros where it has none."""
        found = self._origins.get(value)
        return _zeros(builder, value.shape) if found is None else found

    def _either(self, builder: Builder, first: Value, second: Value | None) -> Value:
        if second is None:
            return first
        return builder.binary(Code.MAX, first, second, propagate_nan=False)

    def _any_of(self, builder: Builder, known: Sequence[Value]) -> Value:
        found = known[0]
        for other in known[1:]:
            found = self._either(builder, found, other)
        return found

    def _reshaped(self, builder: Builder, operation: Operation) -> Sequence[Value]:
        """Apply an operation that moves elements to their origins."""
        if operation.code is Code.GATHER:
            value, index = operation.operands
            found = builder.gather(self._of(builder, value), index, operation.attributes["axis"])
            return (self._either(builder, found, self._origins.get(index)),)
        types = [Tile(r.shape, I64) if r.shape else I64 for r in operation.results]
        operands = [self._of(builder, v) for v in operation.operands]
        attributes = dict(operation.attributes)
        return builder.append(operation.code, operands, types, attributes).results

    def _decided(self, builder: Builder, operation: Operation) -> Value:
        """Return the origins of ``a & b`` or ``a | b``: a known 0 (all ones) decides whatever the other is."""
        first, second = operation.operands
        dtype = element_of(first.type)
        decides = 0 if operation.code is Code.AND else True if dtype == I1 else -1
        if decides == -1 and not getattr(dtype, "is_signed", True):
            decides = (1 << (8 * dtype.bytes)) - 1
        neutral = builder.constant(bool(decides) if dtype == I1 else decides, first.type)
        none = _zeros(builder, first.shape)
        parts = []
        for value, other in ((first, second), (second, first)):
            origins = self._origins.get(value)
            if origins is None:
                continue
            is_decided = builder.compare(Code.EQ, other, neutral)
            if other in self._origins:
                known = builder.compare(Code.EQ, self._origins[other], none)
                is_decided = builder.binary(Code.AND, is_decided, known)
            parts.append(builder.select(is_decided, none, origins))
        return self._any_of(builder, parts)

    def _product(self, builder: Builder, operation: Operation) -> Value:
        a, b, c = operation.operands
        parts = [self._origins[c]] if c in self._origins else []
        for value, axis in ((a, len(a.shape) - 1), (b, len(b.shape) - 2)):
            if value in self._origins:
                (line,) = builder.reduce((self._origins[value],), axis, _most(builder))
                parts.append(_stretched(builder, line, axis, c.shape))
        return self._any_of(builder, parts)

    def _along_last(self, builder: Builder, value: Value) -> Value:
        axis = len(value.shape) - 1
        (line,) = builder.reduce((self._origins[value],), axis, _most(builder))
        return _stretched(builder, line, axis, value.shape)

    def _combined(self, builder: Builder, operation: Operation) -> Sequence[Value]:
        known = [self._origins[v] for v in operation.operands if v in self._origins]
        together, axis = self._any_of(builder, known), operation.attributes["axis"]
        if operation.code is Code.REDUCE:
            (found,) = builder.reduce((together,), axis, _most(builder))
        else:
            reverse = operation.attributes["reverse"]
            (found,) = builder.scan((together,), axis, _most(builder), reverse)
        return [found] * len(operation.results)

    def _total(self, builder: Builder, value: Value) -> Value:
        origins = self._origins[value]
        (found,) = builder.reduce(
            (builder.reshape(origins, (_size(origins.shape),)),), 0, _most(builder)
        )
        return found

    # ---- uses

    def _use(self, builder: Builder, what: str, value: Value, mask: Value | None = None) -> None:
        """Emit the stop at a use of a value, in the lanes of a mask."""
        if value in self._origins:
            self._stop(builder, what, self._origins[value], mask)

    def _stop(self, builder: Builder, what: str, origins: Value, mask: Value | None) -> None:
        number = len(self.uses)
        self.uses.append(Use(what, builder.location, origins.shape))
        if mask is not None:
            origins = builder.select(mask, origins, _zeros(builder, origins.shape))
        none = builder.constant(0, I64)
        if not origins.shape:
            with Then(builder, builder.compare(Code.NE, origins, none)):
                self._record(builder, number, none, origins)
            return
        count = _size(origins.shape)
        flat = builder.reshape(origins, (count,))
        (anything,) = builder.reduce((flat,), 0, lambda a, b: (builder.binary(Code.OR, a, b),))
        with Then(builder, builder.compare(Code.NE, anything, none)):
            lanes = builder.arange(0, count)
            found = builder.compare(Code.NE, flat, _zeros(builder, (count,)))
            nobody = builder.constant(count, lanes.type)
            (first,) = builder.reduce(
                (builder.select(found, lanes, nobody),), 0, combining(builder, Code.MIN)
            )
            is_first = builder.compare(Code.EQ, lanes, builder.splat(first, (count,)))
            (origin,) = builder.reduce(
                (builder.select(is_first, flat, _zeros(builder, (count,))),), 0, _most(builder)
            )
            self._record(builder, number, builder.cast(first, I64), origin)

    def _record(self, builder: Builder, number: int, lane: Value, origin: Value) -> None:
        """Write a record and stop the program, unless somebody has written the memory meanwhile."""
        shared = builder.binary(Code.AND, origin, builder.constant(IS_SHARED, I64))
        address = builder.binary(Code.AND, origin, builder.constant((IS_SHARED - 1) & ~7, I64))
        is_private = builder.compare(Code.EQ, shared, builder.constant(0, I64))
        there = builder.load(builder.cast(address, Pointer(I64)))
        is_unwritten = builder.compare(Code.EQ, there, self._word(PATTERN))
        with Then(builder, builder.binary(Code.OR, is_private, is_unwritten)):
            slot = builder.atomic_rmw(Rmw.ADD, self._facts, builder.constant(1, I64))
            with Then(builder, builder.compare(Code.LT, slot, self._word(CAPACITY))):
                words = builder.constant(RECORD_WORDS, I64)
                first = builder.constant(SHADOWS + SHADOW_WORDS * self._arguments, I64)
                place = builder.binary(Code.ADD, builder.binary(Code.MUL, slot, words), first)
                record = builder.ptr_add(self._facts, place)
                programs = [builder.cast(builder.program_id(axis), I64) for axis in range(3)]
                facts = (builder.constant(number, I64), *programs, lane, origin)
                for n, value in enumerate(facts):
                    builder.store(builder.ptr_add(record, builder.constant(n, I64)), value)
            builder.assert_(builder.constant(False, I1), MESSAGE)  # noqa: PT009 - emits an ASSERT

    # ---- shadows

    def _word(self, number: int) -> Value:
        """Return a word of the facts, which does not change while the kernel runs."""
        if number not in self._words:
            builder = Builder()
            place = builder.ptr_add(self._facts, builder.constant(number, I64))
            self._words[number] = builder.load(place)
            self._entry += builder.region.operations
        return self._words[number]

    def _shadow(
        self, builder: Builder, operation: Operation, access: Access
    ) -> tuple[Value, Value, Value]:
        """Return pointers to the shadow of what an operation accesses, which of them there are, and the flags."""
        pointer, mask = operation.operands[0], mask_of(operation)
        shape = pointer.shape
        address = builder.cast(pointer, I64)
        if access.argument is None:
            start, end, distance, flags = self._find(builder, address)
        else:
            first = SHADOWS + SHADOW_WORDS * access.argument
            words = [self._word(first + n) for n in range(SHADOW_WORDS)]
            start, end, distance, flags = (builder.splat(w, shape) for w in words)
        last = builder.binary(Code.SUB, end, builder.constant(access.size, end.type))
        inside = builder.binary(
            Code.AND,
            builder.compare(Code.GE, address, start),
            builder.compare(Code.LE, address, last),
        )
        if mask is not None:
            inside = builder.binary(Code.AND, inside, mask)
        steps = access.size.bit_length() - 1
        moved = builder.binary(Code.SHR, distance, builder.constant(steps, distance.type))
        place = builder.ptr_add(builder.cast(pointer, Pointer(_WORDS[access.size])), moved)
        return place, inside, flags

    def _find(self, builder: Builder, address: Value) -> list[Value]:
        """Return the words of the last entry of the table that begins no later than an address."""
        shape = address.shape
        table = builder.splat(builder.cast(self._word(TABLE), Pointer(I64)), shape)
        steps = self._word(TABLE_STEPS)
        one, two = builder.constant(1, I64), builder.constant(2, address.type)
        half = builder.binary(Code.SHL, one, steps)
        many, none = builder.cast(steps, I32), builder.constant(0, I32)
        at = _zeros(builder, shape)
        with builder.for_(none, many, builder.constant(1, I32), (at, half)) as loop:
            before, span = loop.carried
            span = builder.binary(Code.SHR, span, one)
            middle = builder.binary(Code.ADD, before, builder.splat(span, shape))
            place = builder.ptr_add(table, builder.binary(Code.SHL, middle, two))
            later = builder.compare(Code.LE, builder.load(place), address)
            builder.yield_(builder.select(later, middle, before), span)
        entry = builder.ptr_add(table, builder.binary(Code.SHL, loop.results[0], two))
        places = (
            builder.ptr_add(entry, builder.constant(n, address.type)) for n in range(SHADOW_WORDS)
        )
        return [builder.load(place) for place in places]

    def _read(self, builder: Builder, operation: Operation) -> Value:
        """Return the origins of what an operation reads."""
        access = describe_access(operation, self._origins_of_pointers)
        self.loads.append(access)
        place, inside, flags = self._shadow(builder, operation, access)
        shape = place.shape
        state = builder.load(place, inside)
        unwritten = builder.compare(Code.NE, state, builder.constant(0, state.type))
        address = builder.cast(operation.operands[0], I64)
        number = min(len(self.loads), MAX_LOADS) << (ADDRESS_BITS + 1)
        name = builder.binary(Code.OR, address, flags)
        name = builder.binary(Code.OR, name, builder.constant(number, name.type))
        return builder.select(unwritten, name, _zeros(builder, shape))

    def _mark(self, builder: Builder, operation: Operation) -> None:
        """Emit that the elements of a store are written."""
        access = describe_access(operation, self._origins_of_pointers)
        place, inside, _ = self._shadow(builder, operation, access)
        element = element_of(place.type)
        assert isinstance(element, Pointer)
        zeros = builder.constant(
            0, Tile(place.shape, element.element) if place.shape else element.element
        )
        builder.store(place, zeros, inside)

    # ---- operations with effects

    def _address(self, builder: Builder, operation: Operation) -> None:
        mask = mask_of(operation)
        if mask is not None:
            self._use(builder, "mask", mask)
        self._use(builder, "address", operation.operands[0], mask)

    def _visit_load(self, builder: Builder, operation: Operation) -> None:
        self._address(builder, operation)
        builder.region.operations.append(operation)
        origins = self._read(builder, operation)
        if len(operation.operands) > MASK_AT[Code.LOAD] + 1:  # type: ignore[operator]  # a load's is known
            _, mask, other = operation.operands
            if other in self._origins:
                origins = builder.select(mask, origins, self._origins[other])
        self._origins[operation.result] = origins

    def _visit_store(self, builder: Builder, operation: Operation) -> None:
        self._address(builder, operation)
        self._use(builder, "stored value", operation.operands[1], mask_of(operation))
        self._mark(builder, operation)
        builder.region.operations.append(operation)

    def _visit_atomic(self, builder: Builder, operation: Operation) -> None:
        self._address(builder, operation)
        mask = mask_of(operation)
        what = "operand of an atomic operation"
        for value in operation.operands[1:]:
            if value is not mask:
                self._use(builder, what, value, mask)
        before = self._read(builder, operation)
        if operation.attributes.get("kind") == Rmw.EXCHANGE.value:
            self._origins[operation.result] = before  # what was there counts only if it is used
        else:
            self._stop(builder, what, before, None)
        self._mark(builder, operation)
        builder.region.operations.append(operation)

    def _visit_assert(self, builder: Builder, operation: Operation) -> None:
        self._use(builder, "assertion", operation.operands[0])
        builder.region.operations.append(operation)

    def _visit_for(self, builder: Builder, operation: Operation) -> None:
        for bound in operation.operands[:3]:
            self._use(builder, "bounds of a loop", bound)
        (body,) = operation.regions
        chosen = [n for n, v in enumerate(body.arguments[1:]) if v in self._reads]
        starts = [self._of(builder, operation.operands[3 + n]) for n in chosen]
        self._add_arguments(body, [body.arguments[1 + n] for n in chosen])
        builder.region.operations.append(operation)
        operation.operands = (*operation.operands, *starts)
        self._region(body)
        self._add_yields(body, [body.terminator.operands[n] for n in chosen])
        self._add_results(operation, [operation.results[n] for n in chosen])

    def _visit_while(self, builder: Builder, operation: Operation) -> None:
        before, after = operation.regions
        carried = [n for n, v in enumerate(before.arguments) if v in self._reads]
        passed = [n for n, v in enumerate(after.arguments) if v in self._reads]
        starts = [self._of(builder, operation.operands[n]) for n in carried]
        self._add_arguments(before, [before.arguments[n] for n in carried])
        self._add_arguments(after, [after.arguments[n] for n in passed])
        builder.region.operations.append(operation)
        operation.operands = (*operation.operands, *starts)
        self._region(before)
        end = before.operations.pop()
        inner = Builder(before)
        inner.location = operation.location
        self._use(inner, "condition", end.operands[0])
        before.operations.append(end)
        self._add_yields(before, [end.operands[1 + n] for n in passed])
        self._region(after)
        self._add_yields(after, [after.terminator.operands[n] for n in carried])
        self._add_results(operation, [operation.results[n] for n in passed])

    def _visit_if(self, builder: Builder, operation: Operation) -> None:
        self._use(builder, "condition", operation.operands[0])
        builder.region.operations.append(operation)
        chosen = [n for n, v in enumerate(operation.results) if v in self._reads]
        for region in operation.regions:
            self._region(region)
            self._add_yields(region, [region.terminator.operands[n] for n in chosen])
        self._add_results(operation, [operation.results[n] for n in chosen])

    def _add_arguments(self, region: Region, values: Sequence[Value]) -> None:
        for value in values:
            origins = Value(_origins_type(value.shape))
            self._origins[value] = origins
            region.arguments.append(origins)

    def _add_yields(self, region: Region, values: Sequence[Value]) -> None:
        end = region.operations.pop()
        builder = Builder(region)
        origins = [self._of(builder, v) for v in values]
        end.operands = (*end.operands, *origins)
        region.operations.append(end)

    def _add_results(self, operation: Operation, values: Sequence[Value]) -> None:
        added = tuple(Value(_origins_type(v.shape), operation) for v in values)
        self._origins.update(zip(values, added, strict=True))
        operation.results = (*operation.results, *added)


_VISITS = {
    Code.LOAD: _Instrumenter._visit_load,
    Code.STORE: _Instrumenter._visit_store,
    Code.ATOMIC_RMW: _Instrumenter._visit_atomic,
    Code.ATOMIC_CAS: _Instrumenter._visit_atomic,
    Code.ASSERT: _Instrumenter._visit_assert,
    Code.FOR: _Instrumenter._visit_for,
    Code.WHILE: _Instrumenter._visit_while,
    Code.IF: _Instrumenter._visit_if,
}


def _most(builder: Builder) -> Callable[[Value, Value], tuple[Value]]:
    return combining(builder, Code.MAX)


def _origins_type(shape: tuple[int, ...]) -> Type:
    return Tile(shape, I64) if shape else I64


def _size(shape: tuple[int, ...]) -> int:
    return Tile(shape, I64).size


def _zeros(builder: Builder, shape: tuple[int, ...]) -> Value:
    return builder.constant(0, _origins_type(shape))


def _stretched(builder: Builder, line: Value, axis: int, shape: tuple[int, ...]) -> Value:
    """Return a tile whose elements along an axis are all that of a tile without the axis."""
    one = (*line.shape[:axis], 1, *line.shape[axis:])
    return builder.broadcast(builder.reshape(line, one), shape)
