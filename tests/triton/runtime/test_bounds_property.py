"""Random accesses: what the checks report is what a slow checker finds, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from variants import thorough

from emu.tile import cpu
from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import Code, Rmw
from emu.tile.packing import slot
from emu.tile.passes import simplify
from emu.tile.passes.check_bounds import BOUNDS, HITS, check_bounds
from emu.tile.reference import interpreter, memory, run
from emu.tile.types import F32, I32, I64, Pointer, Tile
from emu.triton.runtime.bounds import _Facts
from emu.triton.runtime.storages import Storage

SHAPES = ((), (8,), (16,), (4, 8), (8, 8), (2, 4, 4))
GRID = (3, 2, 1)
_CODES = (
    *(Code.ADD, Code.ADD, Code.ADD, Code.SUB, Code.MUL, Code.MUL, Code.REM, Code.DIV),
    *(Code.MIN, Code.MAX, Code.AND, Code.OR, Code.XOR, Code.SHL, Code.SHR),
    *(Code.SELECT, Code.CAST, Code.NEG),
)


class Generator:
    """Random kernels: ``kernel(x: ptr<f32>, y: ptr<f32>, indices: ptr<i32>, a: i32, b: i32, c: i64)``."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        types = [Pointer(F32), Pointer(F32), Pointer(I32), I32, I32, I64]
        self.arguments = [Value(t, name=f"a{n}") for n, t in enumerate(types)]
        self.builder = Builder(Region(self.arguments))
        self.tiles: dict[tuple[tuple[int, ...], Any], list[Value]] = {}

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.random.integers(len(items))]

    def scalar(self, dtype: Any) -> Value:
        b, kind = self.builder, self.random.integers(5)
        if kind == 0:
            return b.cast(b.program_id(int(self.random.integers(3))), dtype)
        if kind == 1:
            return b.constant(int(self.pick((-7, -1, 0, 1, 2, 3, 5, 16, 64, 2**31 - 1))), dtype)
        return b.cast(self.pick(self.arguments[3:]), dtype)

    def leaf(self, shape: tuple[int, ...], dtype: Any) -> Value:
        b = self.builder
        known = self.tiles.get((shape, dtype), [])
        if known and self.random.random() < 0.4:
            return self.pick(known)
        if not shape or self.random.random() < 0.25:
            return b.splat(self.scalar(dtype), shape)
        axis = int(self.random.integers(len(shape)))
        start = int(self.pick((0, 0, 0, -3, 5)))
        row = b.arange(start, start + shape[axis])
        if self.random.random() < 0.2:  # indirect
            safe = b.arange(0, shape[axis])
            row = b.load(b.ptr_add(b.splat(self.arguments[2], (shape[axis],)), safe))
        line = tuple(n if a == axis else 1 for a, n in enumerate(shape))
        found = b.broadcast(b.reshape(b.cast(row, dtype), line), shape)
        if self.random.random() < 0.1:
            found = b.flip(found, axis)
        if len(set(shape)) < len(shape) and self.random.random() < 0.3:
            order = list(range(len(shape)))
            if shape[-1] == shape[-2]:
                order[-1], order[-2] = order[-2], order[-1]
                found = b.permute(found, order)
        self.tiles.setdefault((shape, dtype), []).append(found)
        return found

    def number(self, shape: tuple[int, ...], dtype: Any, depth: int) -> Value:
        b = self.builder
        if depth == 0:
            return self.leaf(shape, dtype)
        code = self.pick(_CODES)
        first = self.number(shape, dtype, depth - 1)
        if code is Code.NEG:
            return b.unary(code, first)
        if code is Code.CAST:
            return b.cast(self.number(shape, I64 if dtype is I32 else I32, depth - 1), dtype)
        if code in (Code.SHL, Code.SHR):
            return b.binary(code, first, b.constant(int(self.random.integers(4)), first.type))
        second = self.number(shape, dtype, depth - 1)
        if code in (Code.REM, Code.DIV):
            one = b.constant(1, second.type)  # never by zero, nor the least by -1
            second = b.binary(Code.MAX, second, one, propagate_nan=False)
            return b.binary(code, first, second)
        if code in (Code.MIN, Code.MAX):
            return b.binary(code, first, second, propagate_nan=False)
        if code is Code.SELECT:
            return b.select(self.mask(shape, 0), first, second)
        return b.binary(code, first, second)

    def mask(self, shape: tuple[int, ...], depth: int) -> Value:
        b = self.builder
        if depth and self.random.random() < 0.6:
            code = self.pick((Code.AND, Code.AND, Code.OR))
            return b.binary(code, self.mask(shape, depth - 1), self.mask(shape, depth - 1))
        dtype = self.pick((I32, I64))
        compare = self.pick((Code.LT, Code.LE, Code.GT, Code.GE, Code.EQ, Code.NE))
        first = self.number(shape, dtype, int(self.random.integers(2)))
        return b.compare(compare, first, b.splat(self.scalar(dtype), shape))

    def access(self) -> None:
        b, shape = self.builder, self.pick(SHAPES)
        pointer = b.splat(self.pick(self.arguments[:2]), shape)
        if self.random.random() < 0.2:
            other = b.splat(self.pick(self.arguments[:2]), shape)
            pointer = b.select(self.mask(shape, 0), pointer, other)
        for _ in range(int(self.random.integers(1, 3))):
            dtype = self.pick((I32, I64))
            pointer = b.ptr_add(pointer, self.number(shape, dtype, int(self.random.integers(3))))
        mask = self.mask(shape, 1) if self.random.random() < 0.6 else None
        value = b.constant(1.0, Tile(shape, F32) if shape else F32)
        kind = self.random.integers(4)
        if kind == 0:
            b.store(pointer, value, mask)
        elif kind == 1:
            b.atomic_rmw(Rmw.ADD, pointer, value, mask)
        elif kind == 2:
            b.atomic_cas(pointer, value, value)
        else:
            b.store(pointer, b.load(pointer, mask), mask)

    def module(self) -> Module:
        b = self.builder
        for _ in range(int(self.random.integers(1, 4))):
            self.access()
        if self.random.random() < 0.4:
            start, end = b.constant(0, I32), b.constant(2, I32)
            dtype, shape = self.pick((I32, I64)), self.pick(SHAPES)
            carried = b.ptr_add(b.splat(self.arguments[0], shape), self.number(shape, dtype, 1))
            self.tiles.clear()
            with b.for_(start, end, b.constant(1, I32), (carried,)) as loop:
                mask = self.mask(shape, 1) if self.random.random() < 0.5 else None
                b.store(loop.carried[0], b.load(loop.carried[0], mask), mask)
                step = b.splat(self.scalar(I32), shape)
                b.yield_(b.ptr_add(loop.carried[0], step))
                self.tiles.clear()
        b.return_()
        return Module({"kernel": Function("kernel", b.region)})


def slow_check(module: Module, values: Sequence[int], bounds: Sequence[Storage]) -> int:
    """Run a kernel that is not instrumented; return the number of accesses with a lane outside all memory it may use."""
    count = 0
    origins: dict[Value, frozenset[int]] = {}
    from emu.tile.passes.origins import find_origins

    origins = find_origins(module.kernel.body)

    def bad(operation: Any, pointer: Any, mask: Any) -> Any:
        nonlocal count
        element = operation.operands[0].type
        size = (element.element if isinstance(element, Tile) else element).element.bytes
        allowed = np.zeros(pointer.shape, np.bool_)
        for number in origins[operation.operands[0]]:
            start, end = bounds[number].start, bounds[number].end
            at = pointer.astype(np.int64)
            allowed |= (at >= start) & (at <= end - size)
        active = np.ones(pointer.shape, np.bool_) if mask is None else mask
        count += bool((active & ~allowed).any())
        return active & allowed

    def load(operation: Any, pointer: Any, mask: Any = None, other: Any = None) -> Any:
        return memory.load(operation, pointer, np.asarray(bad(operation, pointer, mask)), other)

    def store(operation: Any, pointer: Any, value: Any, mask: Any = None) -> None:
        memory_store(operation, pointer, value, np.asarray(bad(operation, pointer, mask)))

    def rmw(operation: Any, pointer: Any, value: Any, mask: Any = None) -> Any:
        return memory.atomic_rmw(
            operation, pointer, value, np.asarray(bad(operation, pointer, mask))
        )

    def cas(operation: Any, pointer: Any, expected: Any, new: Any) -> Any:
        good = np.asarray(bad(operation, pointer, None))
        result = np.zeros(pointer.shape, new.dtype)
        for lane in map(tuple, np.argwhere(good)):
            single = SimpleNamespace()
            at = pointer[lane]
            result[lane] = memory.atomic_cas(
                single, *(np.asarray(v) for v in (at, expected[lane], new[lane]))
            )  # type: ignore[arg-type]
        return result

    memory_store = memory.store
    changed = {Code.LOAD: load, Code.ATOMIC_RMW: rmw, Code.ATOMIC_CAS: cas}
    with (
        mock.patch.dict(interpreter.ONE_RESULT, changed),
        mock.patch.object(interpreter.memory, "store", store),
    ):
        run(module, values, GRID)
    return count


class Checked:
    """An instrumented copy of a module that goes on after hits, compiled once for all its runs."""

    def __init__(self, module: Module) -> None:
        self.copy, self.accesses = check_bounds(simplify(module), keep_going=True)
        self.kernel = cpu.compile(self.copy, options=cpu.Options(optimise=False))


def run_checked(checked: Checked, values: list[int], bounds: Sequence[Storage], how: str) -> int:
    """Run an instrumented module; return the number of hits."""
    facts = _Facts(len(bounds), 4096)
    for n, storage in enumerate(bounds):
        facts.memory[BOUNDS + 2 * n], facts.memory[BOUNDS + 2 * n + 1] = storage.start, storage.end
    facts.set_table(bounds[:2])
    values = [*values, facts.address]
    if how == "reference":
        run(checked.copy, values, GRID)
    else:
        checked.kernel.bind(2 if how == "threads" else 1)(*GRID, values)
    assert all(record[0] < len(checked.accesses) for record in facts.records())
    return int(facts.memory[HITS])


def some_values(random: np.random.Generator) -> list[int]:
    small = [-65, -8, -1, 0, 1, 2, 7, 15, 16, 40, 100]
    a, b = (int(random.choice([*small, 2**31 - 1, -(2**31), 2**30, 2**16])) for _ in range(2))
    c = int(random.choice([*small, 2**31, 2**40, -(2**62), 2**63 - 1, -(2**63)]))
    return [a, b, c]


@pytest.mark.parametrize("seed", thorough(range(60), *range(20)))
def test_random_accesses_are_reported_as_a_slow_checker_finds_them(seed: int) -> None:
    random = np.random.default_rng(1000 + seed)
    module = Generator(seed).module()
    assert "".join(slot(a.type) for a in module.kernel.body.arguments) == "QQQqqq"
    simple, checked = simplify(module), Checked(module)
    for numbers in [some_values(random) for _ in range(3)]:
        found = []
        for how in ("slow", "reference", "cpu", "threads"):
            x, y = np.zeros(192, np.float32), np.zeros(64, np.float32)
            indices = np.array([3, -2, 0, 9, 60, -64, 7, 1] * 2, np.int32)
            arrays = [x[64:], y[8:], indices]
            bounds = [Storage(a.ctypes.data, a.ctypes.data + a.nbytes) for a in (x, y, indices)]
            bounds += [Storage(0, 1 << 62)] * 3
            values = [*(a.ctypes.data for a in arrays), *numbers]
            if how == "slow":
                found.append(slow_check(simple, values, bounds))
            else:
                found.append(run_checked(checked, values, bounds, how))
        assert len(set(found)) == 1, (found, numbers)
