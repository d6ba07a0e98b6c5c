"""Random valid programs of the tile IR for hypothesis: ``@given(programs())``.

Programs are made so that every right compiler gives the same bits: divisors are not 0 where that leaves
a result open, sums of floats are of small whole numbers, results of functions that are not rounded
correctly go straight to an output with a tolerance, and programs of a grid write to areas of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from tile_harness import Kernel, Program, values

from emu.tile import ops
from emu.tile.ir import Function, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.types import (
    BF16,
    DTYPES,
    F16,
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    U8,
    U32,
    DType,
    Pointer,
    Tile,
    with_shape,
)

Shape = tuple[int, ...]

AREA = 600
"""Elements of a buffer that belong to one program."""

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 32, 33, 64)
EXACT_UNARY = (Code.ABS, Code.NEG, Code.SQRT, Code.FLOOR, Code.CEIL, Code.TRUNC, Code.RINT)
INEXACT_UNARY = sorted(ops.FLOAT_UNARY - set(EXACT_UNARY))
ARITHMETIC = (Code.ADD, Code.SUB, Code.MUL, Code.MIN, Code.MAX, Code.DIV, Code.REM)
OF_INTEGERS = (Code.AND, Code.OR, Code.XOR, Code.SHL, Code.SHR, Code.MULHI)
OF_BOOLEANS = (Code.AND, Code.OR, Code.XOR, Code.ADD, Code.MUL, Code.MIN, Code.MAX)
INTEGERS = tuple(d for d in DTYPES.values() if d.is_integer)


@st.composite
def programs(draw: st.DrawFn, *, steps: int = 10, dtypes: Sequence[DType] = ()) -> Program:
    """Programs of about so many operations.

    Args:
        draw: From hypothesis.
        steps: Upper bound of the steps; a step is one operation and what it needs.
        dtypes: What the elements may be; by default all dtypes.
    """
    return Generator(draw, tuple(dtypes) or tuple(DTYPES.values())).program(steps)


class Generator:
    """Makes one program.

    Attributes:
        pool: Values that are visible where operations are being added.
        areas: Pointers to memory that only this program uses, with their dtypes.
        stored: Areas that were stored to.
    """

    def __init__(self, draw: st.DrawFn, dtypes: tuple[DType, ...]) -> None:
        self.draw = draw
        self.k = Kernel()
        self.b = self.k.builder
        self.grid = draw(st.sampled_from([(1, 1, 1), (3, 1, 1), (2, 3, 2)]))
        self.dtypes = draw(st.lists(st.sampled_from(dtypes), min_size=1, max_size=3, unique=True))
        extents = st.lists(st.sampled_from(EXTENTS), min_size=1, max_size=3).map(tuple)
        shapes = st.lists(extents.filter(lambda s: math.prod(s) <= 512), min_size=1, max_size=2)
        self.shapes: list[Shape] = [*draw(shapes), ()]
        self.pool: list[Value] = []
        self.areas: list[Value] = []
        self.stored: set[Value] = set()
        self.seeds = itertools.count(draw(st.integers(0, 1000)))
        self.depth = 0
        self.in_function = False
        self.number = self._number_of_program()

    def _number_of_program(self) -> Value:
        b = self.b
        place = b.program_id(2)
        for axis in (1, 0):
            place = b.binary(Code.MUL, place, b.num_programs(axis))
            place = b.binary(Code.ADD, place, b.program_id(axis))
        return place

    # ---- choices

    def one(self, choices: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def dtype(self, allowed: Callable[[DType], bool] = lambda d: True) -> DType | None:
        found = [d for d in self.dtypes if allowed(d)]
        return self.one(found) if found else None

    def shape(self) -> Shape:
        seen = {v.shape for v in self.pool if not isinstance(v.type, Pointer)}
        return self.one([*self.shapes, *sorted(seen)][:8])

    def tile(self, allowed: Callable[[Value], bool] = lambda v: True) -> Value:
        """Some value of rank 1 or more that is there already, or a new one."""
        found = [v for v in self.pool if v.shape and allowed(v)]
        if found and self.draw(st.integers(0, 4)):
            return self.one(found)
        return self.fresh(self.dtype() or I32, self.shapes[0])

    def pick(self, dtype: DType, shape: Shape) -> Value:
        """A value of a type: there already, or a new one."""
        type_ = with_shape(shape, dtype)
        found = [v for v in self.pool if v.type == type_]
        if found and self.draw(st.integers(0, 4)):
            return self.one(found)
        return self.fresh(dtype, shape)

    def add(self, *new: Value) -> None:
        self.pool.extend(new)

    # ---- values from nothing

    def fresh(self, dtype: DType, shape: Shape) -> Value:
        makers = [self._constant, self._converted]
        if not self.in_function:
            makers += [self._argument, self._loaded, self._loaded]
        value = self.one(makers)(dtype, shape)
        self.add(value)
        return value

    def _constant(self, dtype: DType, shape: Shape) -> Value:
        number = values(dtype, 1, next(self.seeds))[0].item()
        return self.b.splat(self.k.number(number, dtype), shape)

    def _converted(self, dtype: DType, shape: Shape) -> Value:
        found = [v for v in self.pool if v.shape == shape and v.dtype != dtype]
        if not found:
            return self._constant(dtype, shape)
        rounding = self.one(("rtne", "rtz"))
        return self.b.cast(self.one(found), dtype, rounding)

    def _argument(self, dtype: DType, shape: Shape) -> Value:
        narrow = dtype.is_float and dtype.bits < 32
        carrier = F32 if narrow else dtype
        number = values(carrier, 1, next(self.seeds))[0].item()
        return self.b.splat(self.b.cast(self.k.argument(carrier, number), dtype), shape)

    def _loaded(self, dtype: DType, shape: Shape) -> Value:
        data = values(dtype, AREA, next(self.seeds))
        pointer = self.k.pointer(data)
        return self.read(pointer, dtype, shape)

    # ---- memory

    def offsets(self, shape: Shape, *, distinct: bool = False) -> tuple[Value, Value | None]:
        """Offsets into an area, with a mask where they need one or happen to have one."""
        b = self.b
        index = [v for v in self.pool if v.shape == shape and _is_integer(v)]
        if index and not distinct and not self.draw(st.integers(0, 2)):
            plain = b.cast(self.one(index), U32)
            limit = b.splat(self.k.number(AREA, U32), shape)
            return b.binary(Code.REM, plain, limit), self.mask(shape)
        order = self.draw(st.permutations(range(len(shape)))) if shape else []
        strides, step = [0] * len(shape), 1
        for axis in order:
            strides[axis] = step
            step *= shape[axis]
        if not distinct:
            strides = [s * self.one((1, 1, 1, 2, 0, -1)) for s in strides]
        elif self.flag():
            strides = [-s for s in strides]
        ends = [s * (n - 1) for s, n in zip(strides, shape, strict=True)]
        lowest, highest = sum(min(e, 0) for e in ends), sum(max(e, 0) for e in ends)
        start = -lowest + self.draw(st.integers(0, 9))
        offset = b.splat(self.k.number(start), shape)
        for axis, stride in enumerate(strides):
            line = tuple(shape[axis] if a == axis else 1 for a in range(len(shape)))
            along = b.broadcast(b.reshape(b.arange(0, shape[axis]), line), shape)
            scaled = b.binary(Code.MUL, along, b.splat(self.k.number(stride), shape))
            offset = b.binary(Code.ADD, offset, scaled)
        mask = self.mask(shape)
        if start + highest >= AREA or self.flag():
            limit = b.splat(self.k.number(self.one((AREA, AREA // 2))), shape)
            inside = b.compare(Code.LT, offset, limit)
            mask = inside if mask is None else b.binary(Code.AND, mask, inside)
        return offset, mask

    def mask(self, shape: Shape) -> Value | None:
        return self.pick(I1, shape) if not self.draw(st.integers(0, 3)) else None

    def read(self, pointer: Value, dtype: DType, shape: Shape) -> Value:
        offset, mask = self.offsets(shape)
        address = self.b.ptr_add(self.b.splat(pointer, shape), offset)
        other = None
        if mask is not None and self.flag():
            same = [v for v in self.pool if v.type == with_shape(shape, dtype)]
            other = self.one(same) if same else self._constant(dtype, shape)
        return self.b.load(address, mask, other)

    def area(self) -> Value:
        if self.areas and (self.in_function or self.draw(st.integers(0, 2))):
            return self.one(self.areas)
        dtype = self.dtype() or I32
        count = math.prod(self.grid)
        pointer = self.k.pointer(values(dtype, AREA * count, next(self.seeds)))
        start = self.b.binary(Code.MUL, self.number, self.k.number(AREA))
        self.areas.append(self.b.ptr_add(pointer, start))
        return self.areas[-1]

    def step_load(self) -> None:
        pointer = self.area()
        self.add(self.read(pointer, pointer.type.element, self.shape()))

    def step_store(self) -> None:
        pointer, shape = self.area(), self.shape()
        value = self.pick(pointer.type.element, shape)
        offset, mask = self.offsets(shape)
        self.store(pointer, self.b.ptr_add(self.b.splat(pointer, shape), offset), value, mask)

    def store(self, area: Value, address: Value, value: Value, mask: Value | None) -> None:
        """Store to an area; without a barrier, stores of different lanes to one address have no order."""
        if area in self.stored or self.in_function:
            self.b.barrier()
        self.stored.add(area)
        self.b.store(address, value, mask)

    def step_exchange(self) -> None:
        """Load and store at the same addresses: tiles are read whole before they are written."""
        pointer, shape = self.area(), self.shape()
        if math.prod(shape) + 20 > AREA:
            return
        address, other = (
            self.b.ptr_add(self.b.splat(pointer, shape), self.offsets(shape, distinct=True)[0])
            for _ in range(2)
        )
        inside = [v for v in self.pool if v.type == with_shape(shape, I1)]
        mask = inside[-1] if inside else self._constant(I1, shape)
        self.store(pointer, other, self.b.load(address, mask), mask)

    def step_atomic(self) -> None:
        dtype = self.dtype(lambda d: d in (I32, U32, I64)) or I32
        count = math.prod(self.grid)
        if self.in_function:
            return
        memory = self.k.pointer(values(dtype, AREA * count, next(self.seeds)))
        start = self.b.binary(Code.MUL, self.number, self.k.number(AREA))
        shape = self.shape()
        offset, mask = self.offsets(shape)
        pointer = self.b.splat(self.b.ptr_add(memory, start), shape)
        address = self.b.ptr_add(pointer, offset)
        kind = self.one(list(Rmw))
        self.add(self.b.atomic_rmw(kind, address, self.pick(dtype, shape), mask))

    # ---- element by element

    def step_unary(self) -> None:
        dtype, shape = self.dtype(lambda d: d != I1), self.shape()
        if dtype is None:
            self.add(self.b.unary(Code.NOT, self.pick(I1, shape)))
            return
        codes = EXACT_UNARY if dtype.is_float else (Code.ABS, Code.NEG, Code.NOT)
        self.add(self.b.unary(self.one(codes), self.pick(dtype, shape)))

    def step_binary(self) -> None:
        dtype, shape = self.dtype() or I32, self.shape()
        codes: Sequence[Code] = (*ARITHMETIC, *OF_INTEGERS)
        if dtype == I1:
            codes = OF_BOOLEANS
        elif dtype.is_float:
            codes = ARITHMETIC
        code = self.one(codes)
        x, y = self.pick(dtype, shape), self.pick(dtype, shape)
        if code in (Code.DIV, Code.REM):
            y = self.not_zero(y)
        attributes = {}
        if code in (Code.MIN, Code.MAX) and self.flag():
            attributes = {"propagate_nan": self.flag()}
        self.add(self.b.binary(code, x, y, **attributes))

    def not_zero(self, y: Value) -> Value:
        zero, one = (self.b.splat(self.k.number(n, y.dtype), y.shape) for n in (0, 1))
        return self.b.select(self.b.compare(Code.EQ, y, zero), one, y)

    def step_compare(self) -> None:
        dtype, shape = self.dtype() or I32, self.shape()
        code = self.one(sorted(ops.COMPARISONS))
        self.add(self.b.compare(code, self.pick(dtype, shape), self.pick(dtype, shape)))

    def step_select(self) -> None:
        dtype, shape = self.dtype() or I32, self.shape()
        condition = self.pick(I1, shape)
        self.add(self.b.select(condition, self.pick(dtype, shape), self.pick(dtype, shape)))

    def step_fma(self) -> None:
        dtype, shape = self.dtype(lambda d: d.is_float), self.shape()
        if dtype is not None:
            self.add(self.b.fma(*(self.pick(dtype, shape) for _ in range(3))))

    def step_cast(self) -> None:
        dtype, shape = self.dtype() or I32, self.shape()
        self.add(self._converted(self.one([dtype, *DTYPES.values()]), shape))

    def step_bitcast(self) -> None:
        dtype, shape = self.dtype() or I32, self.shape()
        same = [d for d in DTYPES.values() if d.bits == dtype.bits and d != dtype]
        if same:
            self.add(self.b.bitcast(self.plain(self.pick(dtype, shape)), self.one(same)))

    def plain(self, x: Value) -> Value:
        """Without NaN and -0, whose bits are not laid down."""
        if not x.dtype.is_float:
            return x
        zero = self.b.splat(self.k.number(0, x.dtype), x.shape)
        x = self.b.binary(Code.ADD, x, zero)
        return self.b.select(self.b.compare(Code.EQ, x, x), x, zero)

    def step_inexact(self) -> None:
        """A function that is not rounded correctly, of numbers from -8 to 8, to an output."""
        dtype = self.dtype(lambda d: d in (F16, BF16, F32, F64))
        if dtype is None or self.depth:
            return
        shape, b = self.shape(), self.b
        code = self.one([*INEXACT_UNARY, Code.POW, Code.ATAN2])
        bounds = [b.splat(self.k.number(n, dtype), shape) for n in (-8, 8)]

        def bounded() -> Value:
            x = b.binary(Code.MAX, self.pick(dtype, shape), bounds[0])
            return self.plain(b.binary(Code.MIN, x, bounds[1]))

        x = bounded()
        if code in (Code.POW, Code.ATAN2):
            base = b.unary(Code.ABS, x) if code is Code.POW else x
            y = b.binary(code, base, bounded())
        else:
            x = b.unary(Code.ABS, x) if code is Code.RSQRT else x
            y = b.unary(code, x)
        self.output(y, inexact=True)

    # ---- shape

    def step_shape(self) -> None:
        b, x = self.b, self.tile()
        shape, rank = x.shape, len(x.shape)
        axis = self.draw(st.integers(0, rank - 1))
        kind = self.one(("reshape", "permute", "flip", "join", "split", "cat", "broadcast"))
        if kind == "reshape":
            size = math.prod(shape)
            first = self.one([d for d in range(1, size + 1) if size % d == 0])
            self.add(b.reshape(x, self.one([(size,), (first, size // first)])))
        elif kind == "permute":
            self.add(b.permute(x, self.draw(st.permutations(range(rank)))))
        elif kind == "flip":
            self.add(b.flip(x, axis))
        elif kind == "join" and rank < 4 and math.prod(shape) <= 256:
            self.add(b.join(x, self.pick(x.dtype, shape)))
        elif kind == "split" and math.prod(shape) % 2 == 0:
            self.add(*b.split(b.reshape(x, (math.prod(shape) // 2, 2))))
        elif kind == "cat" and math.prod(shape) <= 256:
            self.add(b.cat(x, self.pick(x.dtype, shape), axis))
        elif kind == "broadcast":
            line = tuple(1 if a == axis else n for a, n in enumerate(shape))
            self.add(b.broadcast(self.pick(x.dtype, line), shape))

    def step_after(self) -> None:
        """A value that waits for others."""
        token = self.b.join_tokens(self.tile(), self.tile())
        self.add(self.b.after(self.tile(), token))

    def step_gather(self) -> None:
        b, x = self.b, self.tile()
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        index = b.cast(self.pick(self.dtype(_whole) or I32, x.shape), U32)
        limit = b.splat(self.k.number(x.shape[axis], U32), x.shape)
        index = b.cast(b.binary(Code.REM, index, limit), self.one((I32, I64, U32)))
        self.add(b.gather(x, index, axis))

    # ---- along an axis, products

    def small(self, x: Value, dtype: DType) -> Value:
        """Whole numbers from -3 to 4, whose sums are exact."""
        b = self.b
        seven, three = (b.splat(self.k.number(n), x.shape) for n in (7, 3))
        low = b.binary(Code.AND, b.cast(x, I32), seven)
        return b.cast(b.binary(Code.SUB, low, three), dtype)

    def step_along(self) -> None:
        b, x = self.b, self.tile()
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        dtype = x.dtype
        codes = [Code.MIN, Code.MAX]
        if dtype == I1:
            codes += [Code.AND, Code.OR, Code.XOR]
        elif dtype.is_integer:
            codes += [Code.ADD, Code.MUL, Code.AND, Code.OR, Code.XOR]
        elif dtype.bits > 8 and x.shape[axis] <= 64:
            codes.append(Code.ADD)
        code = self.one(codes)
        if dtype.is_float and code is Code.ADD:
            x = self.small(x, dtype)

        def combine(a: Value, c: Value) -> list[Value]:
            return [b.binary(code, a, c)]

        if self.flag():
            self.add(*b.reduce([x], axis, combine))
        else:
            self.add(*b.scan([x], axis, combine, self.flag()))

    def step_argument_of_maximum(self) -> None:
        b, x = self.b, self.tile()
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        line = tuple(n if a == axis else 1 for a, n in enumerate(x.shape))
        index = b.broadcast(b.reshape(b.arange(0, x.shape[axis]), line), x.shape)
        code = self.one((Code.LT, Code.GT))

        def combine(a: Value, i: Value, c: Value, j: Value) -> list[Value]:
            tie = b.binary(Code.AND, b.compare(Code.EQ, a, c), b.compare(Code.LT, i, j))
            first = b.binary(Code.OR, b.compare(code, a, c), tie)
            return [b.select(first, a, c), b.select(first, i, j)]

        self.add(*b.reduce([self.plain(x), index], axis, combine))

    def step_scan_of_maps(self) -> None:
        b, dtype = self.b, self.dtype(_whole) or I32
        x = self.tile()
        axis = self.draw(st.integers(0, len(x.shape) - 1))
        y = self.pick(dtype, x.shape)

        def combine(a: Value, s: Value, c: Value, t: Value) -> list[Value]:
            moved = b.binary(Code.ADD, b.binary(Code.MUL, s, c), t)
            return [b.binary(Code.MUL, a, c), moved]

        self.add(*b.scan([b.cast(x, dtype), y], axis, combine, self.flag()))

    def step_histogram(self) -> None:
        shape = next((s for s in self.shapes if len(s) == 1), (16,))
        dtype = self.dtype(_whole) or I32
        x = self.pick(dtype, shape)
        self.add(self.b.histogram(x, self.one((1, 5, 16)), self.mask(shape)))

    def step_dot(self) -> None:
        b = self.b
        kinds = [(d, F32) for d in DTYPES.values() if d.is_float and d != F64]
        kinds += [(F16, F16), (F64, F64), (F32, F64), (I8, I32), (U8, I32)]
        source, target = self.one([(s, t) for s, t in kinds if s in self.dtypes] or kinds)
        m, n, depth = (self.one((1, 2, 3, 5, 8, 16, 17)) for _ in range(3))
        if source == F64 or target == F64:
            m, n, depth = min(m, 5), min(n, 5), min(depth, 5)
        batch = self.one([(), (), (2,)])
        a, c = self.pick(source, (*batch, m, depth)), self.pick(source, (*batch, depth, n))
        self.add(b.dot(a, c, self.pick(target, (*batch, m, n))))

    # ---- control

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        pool, areas = list(self.pool), list(self.areas)
        self.depth += 1
        yield
        self.depth -= 1
        self.pool, self.areas = pool, areas

    def body(self, wanted: Sequence[Value]) -> list[Value]:
        """Add a few steps and choose values of the types of others."""
        for _ in range(self.draw(st.integers(1, 3))):
            self.step()
        chosen = []
        for value in wanted:
            same = [v for v in self.pool if v.type == value.type]
            chosen.append(self.one(same[-4:]))
        return chosen

    def carried(self) -> list[Value]:
        count = self.draw(st.integers(1, 3))
        return [self.pick(self.dtype() or I32, self.shape()) for _ in range(count)]

    def step_for(self) -> None:
        start, end, step = self.one([(0, 3, 1), (0, 1, 1), (2, 2, 1), (5, -1, -2), (-4, 9, 5)])
        dtype = self.one((I32, I32, I64))
        bounds = [self.k.number(n, dtype) for n in (start, end, step)]
        if not self.in_function:
            bounds[1] = self.k.argument(dtype, end)
        carried = self.carried()
        with self.b.for_(*bounds, carried) as loop, self.nested():
            self.add(loop.index, *loop.carried)
            self.b.yield_(*self.body(carried))
        self.add(*loop.results)

    def step_if(self) -> None:
        condition, wanted = self.pick(I1, ()), self.carried()
        regions = []
        for _ in range(2):
            with self.nested(), self.b.into(Region()) as region:
                self.b.yield_(*self.body(wanted))
            regions.append(region)
        self.add(*self.b.if_(condition, *regions))

    def step_while(self) -> None:
        """Counts up, so that it ends, and may end before by a condition of the program's."""
        b, count = self.b, self.k.number(0)
        carried = [count, *self.carried()]
        before = Region([Value(v.type) for v in carried])
        with self.nested(), b.into(before):
            self.add(*before.arguments)
            go = b.compare(Code.LT, before.arguments[0], self.k.number(self.one((0, 1, 4))))
            if self.flag():
                go = b.binary(Code.AND, go, self.pick(I1, ()))
            _, *passed = self.body(carried)
            b.yield_(go, before.arguments[0], *passed)
        after = Region([Value(v.type) for v in carried])
        with self.nested(), b.into(after):
            self.add(*after.arguments)
            _, *rest = self.body(carried)
            one = b.binary(Code.ADD, after.arguments[0], self.k.number(1))
            b.yield_(one, *rest)
        self.add(*b.while_(carried, before, after))

    def step_call(self) -> None:
        if self.in_function:
            return
        given, area = self.carried(), self.area()
        self.stored.add(area)
        region = Region([Value(v.type) for v in (*given, area)])
        with self.nested(), self.b.into(region):
            self.pool, self.areas = list(region.arguments[:-1]), [region.arguments[-1]]
            self.in_function = True
            results = self.body(given)
            self.b.return_(*results)
            self.in_function = False
        name = f"function_{len(self.k.module.functions)}"
        function = Function(name, region, tuple(v.type for v in results))
        self.k.module.functions[name] = function
        for _ in range(self.one((1, 2))):
            given = list(self.b.call(function, [*given, area]))
        self.add(*given)

    # ---- whole programs

    def step(self) -> None:
        steps = [self.step_unary, self.step_binary, self.step_binary, self.step_compare]
        steps += [self.step_select, self.step_fma, self.step_cast, self.step_bitcast]
        steps += [self.step_load, self.step_store, self.step_exchange, self.step_atomic]
        steps += [self.step_shape, self.step_gather, self.step_along, self.step_dot]
        steps += [self.step_argument_of_maximum, self.step_scan_of_maps, self.step_histogram]
        steps += [self.step_inexact, self.step_after]
        if self.depth < 2:
            steps += [self.step_for, self.step_if, self.step_while, self.step_call]
        self.one(steps)()

    def output(self, value: Value, *, inexact: bool = False) -> None:
        """Store a value to an output, each program to a place of its own."""
        shape = value.shape
        whole = Tile((math.prod(self.grid), *shape), value.dtype)
        pointer = self.k.output(whole, inexact=inexact)
        start = self.b.binary(Code.MUL, self.number, self.k.number(math.prod(shape)))
        self.k.write(self.b.ptr_add(pointer, start), value)

    def program(self, steps: int) -> Program:
        for _ in range(self.draw(st.integers(1, steps))):
            self.step()
        for value in self.pool[-6:]:
            self.output(value)
        return self.k.program("program", self.grid)


def _whole(dtype: DType) -> bool:
    return dtype.is_integer


def _is_integer(value: Value) -> bool:
    return value.dtype.is_integer
