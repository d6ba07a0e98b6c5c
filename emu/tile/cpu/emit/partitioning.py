"""Sorting of unsigned integers by partition: a quicksort whose steps move a vector at a time.

A step divides a stretch by a pivot: of each vector the lanes up to the pivot are packed and appended to one memory, the
others to another. Both parts are sorted so in turn, until a network sorts them in registers. There are two memories,
the row's and a buffer of its size, and each part may lie in either; the last step of each puts it where it belongs.

The pivot is a median of samples. Where it divides a part badly, the pivot of the next step is the middle of the part's
range: so any row ends after a bounded number of steps, and parts of equal elements are copied as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llvmlite import ir

from emu.tile.cpu.emit.networks import sorted_registers
from emu.tile.cpu.native import AS_WRITTEN, has_feature
from emu.tile.cpu.numeric import vector_builder as r
from emu.tile.llvm import IrPointer, Register

_POINTER = ir.PointerType()
_REGISTERS = 16
"""Of a network, at the most."""

_BADLY = 4
"""Logarithm of the share of a part below which a step divided it badly."""


def lanes(bytes_: int) -> int | None:
    """Return the elements of a vector whose lanes can be packed; ``None`` if the CPU has no such instructions."""
    if bytes_ not in (4, 8) or not has_feature("avx2"):
        return None
    return (64 if has_feature("avx512f") else 32) // bytes_


def declare_sort(module: ir.Module, bytes_: int) -> ir.Function:
    """Return the function that sorts unsigned integers of 4 or 8 bytes; emit it if the module has none.

    Its arguments: where the elements lie; where they go, which may be the same; a buffer of as many and a vector; the number of
    elements (i64); how many of the least are wanted in their places (i64): the others are undefined; the end of the
    memory that they go to; whether the range is asked for the first pivot (i1).
    """
    name = f"sort.u{8 * bytes_}"
    if name in module.globals:
        found: ir.Function = module.globals[name]
        return found
    return _Sort(module, name, bytes_).function


class _Part(NamedTuple):
    """What a step divides: the arguments of the function."""

    source: IrPointer
    target: IrPointer
    buffer: IrPointer
    count: Register
    first: Register
    end: IrPointer


class _Sort:
    """Emitter of the function, and of the one that sorts a part in registers.

    Args:
        module: Gets both.
        name: Of the function.
        bytes_: Of an element.
    """

    def __init__(self, module: ir.Module, name: str, bytes_: int) -> None:
        width = lanes(bytes_)
        assert width is not None
        self._lanes, self._bytes = width, bytes_
        self._key = ir.IntType(8 * bytes_)
        self._vector = r.vector(self._key, width)
        self._module = module
        self._small = self._emit_small(f"{name}.small")
        kinds = [_POINTER, _POINTER, _POINTER, r.I64, r.I64, _POINTER, r.BIT]
        self.function = self._new(name, kinds)
        self._emit()

    def _new(self, name: str, kinds: list[ir.Type]) -> ir.Function:
        function = ir.Function(self._module, ir.FunctionType(ir.VoidType(), kinds), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        set.add(function.attributes, AS_WRITTEN)  # llvmlite knows no attributes of others
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        return function

    # ---- small pieces

    def _number(self, value: int) -> Register:
        return r.number(r.I64, value)

    def _at(self, base: IrPointer, index: Register) -> IrPointer:
        return self._builder.gep(base, [index], source_etype=self._key)

    def _load(self, base: IrPointer, index: Register) -> Register:
        value = self._builder.load(self._at(base, index), typ=self._vector)
        value.align = self._bytes
        return value

    def _store(self, value: Register, place: IrPointer) -> None:
        self._builder.store(value, place).align = self._bytes

    def _block(self) -> ir.Block:
        return self._builder.function.append_basic_block()

    def _go(self, block: ir.Block) -> None:
        self._builder.position_at_end(block)

    def _less(self, a: Register, b: Register) -> Register:
        return self._builder.icmp_unsigned("<", a, b)

    def _loop(
        self,
        start: list[Register],
        step: int,
        count: Register,
        body: Callable[[list[Register]], list[Register]],
    ) -> list[Register]:
        """Emit a loop while ``step`` more elements are there; the first of what it carries is the index."""
        builder, before = self._builder, self._builder.block
        head, inside, after = self._block(), self._block(), self._block()
        builder.branch(head)
        self._go(head)
        carried = [builder.phi(each.type) for each in start]
        for phi, value in zip(carried, start, strict=True):
            phi.add_incoming(value, before)
        following = builder.add(carried[0], self._number(step))
        builder.cbranch(builder.icmp_unsigned("<=", following, count), inside, after)
        self._go(inside)
        for phi, value in zip(carried[1:], body(carried), strict=True):
            phi.add_incoming(value, builder.block)
        carried[0].add_incoming(following, builder.block)
        builder.branch(head)
        self._go(after)
        return carried

    # ---- parts that fit into registers

    def _emit_small(self, name: str) -> ir.Function:
        """Emit the function that sorts a part in registers: source, target, number of elements, end of the target."""
        function = self._new(name, [_POINTER, _POINTER, r.I64, _POINTER])
        builder, (source, target, count, end) = self._builder, function.args
        spare = builder.alloca(self._vector, _REGISTERS)
        registers = _REGISTERS // 2
        while registers < _REGISTERS:
            fits, larger = self._block(), self._block()
            most = self._number(registers * self._lanes)
            builder.cbranch(builder.icmp_unsigned("<=", count, most), fits, larger)
            self._go(fits)
            self._sort_in_registers(registers, source, target, count, end, spare)
            self._go(larger)
            registers *= 2
        self._sort_in_registers(registers, source, target, count, end, spare)
        return function

    def _sort_in_registers(
        self,
        registers: int,
        source: IrPointer,
        target: IrPointer,
        count: Register,
        end: IrPointer,
        spare: IrPointer,
    ) -> None:
        builder = self._builder
        here = builder.ptrtoint(target, r.I64)
        whole = self._number(registers * self._lanes * self._bytes)
        inside = builder.icmp_unsigned("<=", builder.add(here, whole), builder.ptrtoint(end, r.I64))
        # What is behind a part is not sorted yet: it lies elsewhere, and may be overwritten.
        to = builder.select(inside, target, spare)
        loaded = [self._padded(source, i * self._lanes, count) for i in range(registers)]
        for i, each in enumerate(sorted_registers(builder, loaded)):
            self._store(each, self._at(to, self._number(i * self._lanes)))
        done, copied = self._block(), self._block()
        builder.cbranch(inside, done, copied)
        self._go(copied)
        self._copy(target, spare, count)
        builder.branch(done)
        self._go(done)
        builder.ret_void()

    def _padded(self, source: IrPointer, at: int, count: Register) -> Register:
        """Return a vector of a part; lanes beyond it have the greatest number."""
        builder, kind = self._builder, r.vector(self._key, self._lanes)
        numbers = ir.Constant(r.vector(r.I32, self._lanes), list(range(at, at + self._lanes)))
        limit = r.splat(builder, builder.trunc(count, r.I32), self._lanes)
        mask = builder.icmp_signed("<", numbers, limit)
        name = f"llvm.masked.load.{r.mangle(kind)}.p0"
        kinds = (_POINTER, r.I32, r.vector(r.BIT, self._lanes), kind)
        function = r.declare(builder, name, kind, kinds)
        place = self._at(source, self._number(at))
        return builder.call(
            function, [place, r.number(r.I32, self._bytes), mask, r.number(kind, -1)]
        )

    def _copy(self, target: IrPointer, source: IrPointer, count: Register) -> None:
        kinds = (_POINTER, _POINTER, r.I64, r.BIT)
        function = r.declare(self._builder, "llvm.memmove.p0.p0.i64", ir.VoidType(), kinds)
        size = self._builder.mul(count, self._number(self._bytes))
        self._builder.call(function, [target, source, size, r.number(r.BIT, 0)])

    # ---- a step

    def _emit(self) -> None:
        builder, ranged = self._builder, self.function.args[6]
        part = _Part(*self.function.args[:6])
        small, large = self._block(), self._block()
        most = self._number(_REGISTERS * self._lanes)
        builder.cbranch(builder.icmp_unsigned("<=", part.count, most), small, large)
        self._go(small)
        builder.call(self._small, [part.source, part.target, part.count, part.end])
        builder.ret_void()
        self._go(large)
        pivot = self._pivot(part, ranged)
        low = self._divide(part, pivot)
        self._sort_parts(part, low)

    def _pivot(self, part: _Part, ranged: Register) -> Register:
        """Return the greatest key of the lower part; return from the function if all keys are equal."""
        builder = self._builder
        sampled, asked, found = self._block(), self._block(), self._block()
        builder.cbranch(ranged, asked, sampled)
        self._go(sampled)
        sample = self._samples(part)
        middle = builder.extract_element(sample, r.number(r.I32, 0))
        same = builder.icmp_unsigned("==", sample, r.splat(builder, middle, self._lanes))
        bits = builder.bitcast(same, ir.IntType(self._lanes))
        builder.cbranch(builder.icmp_unsigned("==", bits, r.number(bits.type, -1)), asked, found)
        self._go(asked)
        least, greatest = self._range(part)
        equal, differ = self._block(), self._block()
        builder.cbranch(builder.icmp_unsigned("==", least, greatest), equal, differ)
        self._go(equal)
        self._copy(part.target, part.source, part.count)
        builder.ret_void()
        self._go(differ)
        half = builder.lshr(builder.sub(greatest, least), r.number(self._key, 1))
        center = builder.add(least, half)
        builder.branch(found)
        self._go(found)
        pivot = builder.phi(self._key)
        pivot.add_incoming(middle, sampled)
        pivot.add_incoming(center, differ)
        return pivot

    def _samples(self, part: _Part) -> Register:
        """Return a vector of samples, of which each of the first lanes is a median of many."""
        builder, quarter = self._builder, self._builder.lshr(part.count, self._number(2))
        half = builder.lshr(part.count, self._number(1))
        three = [self._load(part.source, at) for at in (quarter, half, builder.add(quarter, half))]
        for apart in (1, self._lanes // 2 - 1):
            found = self._median(three)
            three = [found, *(self._turned(found, apart * n) for n in (1, 2))]
        return self._median(three)

    def _median(self, three: Sequence[Register]) -> Register:
        builder, (a, b, c) = self._builder, three
        low, high = (r.intrinsic(builder, name, (a, b)) for name in ("umin", "umax"))
        return r.intrinsic(builder, "umax", (low, r.intrinsic(builder, "umin", (high, c))))

    def _turned(self, vector: Register, by: int) -> Register:
        order = [(lane + by) % self._lanes for lane in range(self._lanes)]
        mask = ir.Constant(r.vector(r.I32, self._lanes), order)
        return self._builder.shuffle_vector(vector, vector, mask)

    def _range(self, part: _Part) -> list[Register]:
        """Return the least and the greatest key."""
        builder, names = self._builder, ("umin", "umax")
        last = self._load(part.source, builder.sub(part.count, self._number(self._lanes)))

        def body(carried: list[Register]) -> list[Register]:
            each = self._load(part.source, carried[0])
            return [
                r.intrinsic(builder, name, (kept, each))
                for name, kept in zip(names, carried[1:], strict=True)
            ]

        found = self._loop([self._number(0), last, last], self._lanes, part.count, body)[1:]
        return [
            builder.call(
                r.declare(
                    builder,
                    f"llvm.vector.reduce.{name}.{r.mangle(self._vector)}",
                    self._key,
                    [self._vector],
                ),
                [each],
            )
            for name, each in zip(names, found, strict=True)
        ]

    def _divide(self, part: _Part, pivot: Register) -> Register:
        """Emit the division: keys up to the pivot go to the target, the others to the buffer.

        Either may be where the part lies: no more is written than was read before.

        Returns:
            The number of keys up to the pivot (i64).
        """
        builder, limit = self._builder, r.splat(self._builder, pivot, self._lanes)
        zero = self._number(0)

        def one(carried: list[Register]) -> list[Register]:
            index, low = carried
            keys = self._load(part.source, index)
            below = builder.icmp_unsigned("<=", keys, limit)
            return [self._append(part, keys, below, builder.not_(below), index, low)]

        index, low = self._loop([zero, zero], self._lanes, part.count, one)
        return self._divide_rest(part, limit, index, low)

    def _divide_rest(
        self, part: _Part, limit: Register, index: Register, low: Register
    ) -> Register:
        """Emit the division of the keys that fill no vector; return the number of low ones."""
        builder, width = self._builder, self._lanes
        after = self._at(part.target, builder.add(low, self._number(width)))
        inside = builder.icmp_unsigned(
            "<=", builder.ptrtoint(after, r.I64), builder.ptrtoint(part.end, r.I64)
        )
        vector, scalar, done = (self._block() for _ in range(3))
        builder.cbranch(inside, vector, scalar)
        self._go(vector)
        keys = self._load(part.source, builder.sub(part.count, self._number(width)))
        left = builder.trunc(builder.sub(part.count, index), r.I32)
        numbers = ir.Constant(r.vector(r.I32, width), list(range(width, 0, -1)))
        new = builder.icmp_unsigned("<=", numbers, r.splat(builder, left, width))
        below = builder.icmp_unsigned("<=", keys, limit)
        above = builder.and_(builder.not_(below), new)
        # What is stored too much lies behind the part, where nothing is that will be read.
        by_vector = self._append(part, keys, builder.and_(below, new), above, index, low)
        builder.branch(done)
        self._go(scalar)
        pivot = builder.extract_element(limit, r.number(r.I32, 0))

        def one(carried: list[Register]) -> list[Register]:
            index, low = carried
            key = builder.load(self._at(part.source, index), typ=self._key)
            builder.store(key, self._at(part.buffer, builder.sub(index, low)))
            builder.store(key, self._at(part.target, low))
            below = builder.icmp_unsigned("<=", key, pivot)
            return [builder.add(low, builder.zext(below, r.I64))]

        by_key = self._loop([index, low], 1, part.count, one)[1]
        before = builder.block
        builder.branch(done)
        self._go(done)
        found = builder.phi(r.I64)
        found.add_incoming(by_vector, vector)
        found.add_incoming(by_key, before)
        return found

    def _append(
        self,
        part: _Part,
        keys: Register,
        below: Register,
        above: Register,
        index: Register,
        low: Register,
    ) -> Register:
        """Append lanes of a vector to both parts; return the new number of low ones."""
        builder = self._builder
        self._store(self._packed(keys, below), self._at(part.target, low))
        self._store(self._packed(keys, above), self._at(part.buffer, builder.sub(index, low)))
        bits = builder.bitcast(below, ir.IntType(self._lanes))
        return builder.add(low, r.intrinsic(builder, "ctpop", (builder.zext(bits, r.I64),)))

    def _packed(self, keys: Register, mask: Register) -> Register:
        """Return the lanes of a mask side by side; what is behind them is of no use."""
        builder = self._builder
        if not has_feature("avx512f"):
            return self._moved(keys, builder.bitcast(mask, ir.IntType(self._lanes)))
        name = f"llvm.x86.avx512.mask.compress.{r.mangle(self._vector)}"
        kinds = (self._vector, self._vector, mask.type)
        function = r.declare(builder, name, self._vector, kinds)
        return builder.call(function, [keys, r.number(self._vector, 0), mask])

    def _moved(self, keys: Register, bits: Register) -> Register:
        """Return the lanes of a mask side by side, by a table of the orders that masks ask for."""
        builder, words = self._builder, r.vector(r.I32, 8)
        place = builder.gep(self._orders(), [builder.zext(bits, r.I64)], source_etype=r.I64)
        order = builder.bitcast(builder.load(place, typ=r.I64), r.vector(r.BYTE, 8))
        function = r.declare(builder, "llvm.x86.avx2.permd", words, (words, words))
        moved = builder.call(function, [builder.bitcast(keys, words), builder.zext(order, words)])
        return builder.bitcast(moved, self._vector)

    def _orders(self) -> IrPointer:
        """Return the table: for each mask, eight bytes with the numbers of the words that come first, and so on."""
        name = f"orders.{self._lanes}"
        if name not in self._module.globals:
            apart = 8 // self._lanes
            rows = []
            for bits in range(1 << self._lanes):
                chosen = [lane for lane in range(self._lanes) if bits >> lane & 1]
                chosen += [0] * (self._lanes - len(chosen))
                numbers = [apart * lane + word for lane in chosen for word in range(apart)]
                rows.append(int.from_bytes(bytes(numbers), "little"))
            kind = ir.ArrayType(r.I64, len(rows))
            table = ir.GlobalVariable(self._module, kind, name)
            table.linkage, table.global_constant = "internal", True
            table.initializer = ir.Constant(kind, rows)
        return self._module.globals[name]

    def _sort_parts(self, part: _Part, low: Register) -> None:
        """Emit the sort of both parts, the lower one first."""
        builder = self._builder
        high = builder.sub(part.count, low)
        few = builder.lshr(part.count, self._number(_BADLY))
        lower, between, upper, done = (self._block() for _ in range(4))
        builder.cbranch(builder.icmp_unsigned("!=", low, self._number(0)), lower, between)
        self._go(lower)
        rest = self._at(part.buffer, high)
        bad = self._less(high, few)
        builder.call(
            self.function, [part.target, part.target, rest, low, part.first, part.end, bad]
        )
        builder.branch(between)
        self._go(between)
        wanted = builder.icmp_unsigned("<", low, part.first)
        some = builder.icmp_unsigned("!=", high, self._number(0))
        builder.cbranch(builder.and_(wanted, some), upper, done)
        self._go(upper)
        to, first = self._at(part.target, low), builder.sub(part.first, low)
        bad = self._less(low, few)
        builder.call(self.function, [part.buffer, to, part.buffer, high, first, part.end, bad])
        builder.branch(done)
        self._go(done)
        builder.ret_void()
