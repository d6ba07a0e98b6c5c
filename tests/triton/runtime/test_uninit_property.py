"""Random programs: what is reported of unwritten memory is what a slow checker finds, lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from variants import thorough

from emu.kernels.core import shadows
from emu.tile import cpu
from emu.tile.ir import Builder, Function, Module, Region, Value
from emu.tile.ops import Code
from emu.tile.passes import simplify
from emu.tile.passes.check_uninit import check_uninit
from emu.tile.reference import run
from emu.tile.types import I32, Pointer
from emu.triton.runtime.storages import Storage
from emu.triton.runtime.uninit import UninitChecker

LANES, PROGRAMS = 8, 3
MANY = LANES * PROGRAMS
Known = tuple[int, bool]
"""A value, and whether it comes from unwritten memory."""


class Stopped(Exception):
    """The slow checker has found a use."""

    def __init__(self, what: str, program: int, lane: int) -> None:
        super().__init__(what, program, lane)


class Program:
    """A random program: a tree that is built as tile IR, and walked in Python."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.tree = self.number(3)
        self.mask = self.condition(1) if self.random.random() < 0.5 else None

    def number(self, depth: int) -> tuple[Any, ...]:
        if depth == 0:
            kind = self.random.integers(4)
            if kind == 0:
                # Not 0: a product with a constant 0 is folded, and then depends on nothing.
                return ("constant", int(self.random.choice([-3, -2, 1, 2, 3])))
            if kind == 1:
                return ("lane",)
            return ("load", int(self.random.integers(2)), None, None, None)
        kind = self.random.integers(8)
        inner = self.number(depth - 1)
        if kind == 0:
            mask = self.condition(0)
            return ("load", int(self.random.integers(2)), None, mask, inner)
        if kind == 1:
            return ("load", int(self.random.integers(2)), inner, None, None)
        if kind == 2:
            return ("select", self.condition(0), inner, self.number(depth - 1))
        if kind == 3:
            return (str(self.random.choice(["most", "upto", "flip", "loop", "branch"])), inner)
        return (str(self.random.choice(["add", "mul", "and", "or"])), inner, self.number(depth - 1))

    def condition(self, depth: int) -> tuple[Any, ...]:
        if depth:
            name = str(self.random.choice(["all", "any"]))
            return (name, self.condition(depth - 1), self.condition(depth - 1))
        return ("less", self.number(int(self.random.integers(2))), self.number(0))

    # ---- as tile IR

    def module(self) -> Module:
        arguments = [Value(Pointer(I32), name=n) for n in ("x", "y", "out")]
        b = Builder(Region(arguments))
        self.lanes = b.arange(0, LANES)
        start = b.binary(Code.MUL, b.program_id(0), b.constant(LANES, I32))
        self.index = b.binary(Code.ADD, self.lanes, b.splat(start, (LANES,)))
        self.pointers = [b.splat(a, (LANES,)) for a in arguments]
        value = self.emit(b, self.tree)
        mask = None if self.mask is None else self.emit(b, self.mask)
        b.store(b.ptr_add(self.pointers[2], self.index), value, mask)
        b.return_()
        return Module({"kernel": Function("kernel", b.region)})

    def emit(self, b: Builder, tree: tuple[Any, ...]) -> Value:
        name, *parts = tree
        if name == "constant":
            return b.splat(b.constant(parts[0], I32), (LANES,))
        if name == "lane":
            return self.lanes
        if name == "load":
            return self.emit_load(b, *parts)
        first, *rest = (self.emit(b, p) for p in parts)
        if name == "select":
            return b.select(first, *rest)
        if name == "less":
            return b.compare(Code.LT, first, *rest)
        if name == "flip":
            return b.flip(first, 0)
        if name == "most":
            (most,) = b.reduce((first,), 0, self.most(b))
            return b.splat(most, (LANES,))
        if name == "upto":
            return b.scan((first,), 0, self.most(b))[0]
        if name == "loop":
            zero, two, one = (b.constant(n, I32) for n in (0, 2, 1))
            with b.for_(zero, two, one, (first, b.splat(zero, (LANES,)))) as loop:
                mine, total = loop.carried
                b.yield_(total, b.binary(Code.ADD, mine, total))
            return loop.results[1]
        if name == "branch":
            return self.emit_branch(b, first)
        codes = {"add": Code.ADD, "mul": Code.MUL, "and": Code.AND, "or": Code.OR}
        codes |= {"all": Code.AND, "any": Code.OR}
        return b.binary(codes[name], first, *rest)

    @staticmethod
    def most(b: Builder) -> Any:
        return lambda p, q: (b.binary(Code.MAX, p, q, propagate_nan=False),)

    def emit_branch(self, b: Builder, value: Value) -> Value:
        (most,) = b.reduce((value,), 0, self.most(b))
        condition = b.compare(Code.GT, most, b.constant(0, I32))
        then, other = Region(), Region()
        with b.into(then):
            b.yield_(value)
        with b.into(other):
            b.yield_(b.splat(b.constant(1, I32), (LANES,)))
        return b.if_(condition, then, other)[0]

    def emit_load(self, b: Builder, which: int, index: Any, mask: Any, other: Any) -> Value:
        at = self.index
        if index is not None:  # a remainder that is never negative
            many = b.splat(b.constant(MANY, I32), (LANES,))
            found = b.binary(Code.REM, self.emit(b, index), many)
            at = b.binary(Code.REM, b.binary(Code.ADD, found, many), many)
        pointer = b.ptr_add(self.pointers[which], at)
        if mask is None:
            return b.load(pointer)
        return b.load(pointer, self.emit(b, mask), self.emit(b, other))

    # ---- in Python

    def slow_check(self, arrays: list[Any], unwritten: list[Any]) -> Stopped | None:
        try:
            for program in range(PROGRAMS):
                self.program, self.arrays, self.unwritten = program, arrays, unwritten
                found = self.walk(self.tree)
                mask = None if self.mask is None else self.walk(self.mask)
                if mask is not None:
                    self.use("mask", mask)
                    found = [f if m[0] else (0, False) for f, m in zip(found, mask, strict=True)]
                self.use("stored value", found)
        except Stopped as stopped:
            return stopped
        return None

    def use(self, what: str, found: list[Known]) -> None:
        for lane, (_, bad) in enumerate(found):
            if bad:
                raise Stopped(what, self.program, lane)

    def walk(self, tree: tuple[Any, ...]) -> list[Known]:
        name, *parts = tree
        if name == "constant":
            return [(parts[0], False)] * LANES
        if name == "lane":
            return [(n, False) for n in range(LANES)]
        if name == "load":
            return self.walk_load(*parts)
        first, *rest = (self.walk(p) for p in parts)
        if name == "flip":
            return first[::-1]
        if name == "most":
            return [(max(v for v, _ in first), any(bad for _, bad in first))] * LANES
        if name == "upto":
            before = [first[: n + 1] for n in range(LANES)]
            return [(max(v for v, _ in b), any(bad for _, bad in b)) for b in before]
        if name == "loop":
            mine, total = first, [(0, False)] * LANES
            for _ in range(2):
                pairs = zip(mine, total, strict=True)
                mine, total = total, [(_wrap(p + q), a or b) for (p, a), (q, b) in pairs]
            return total
        if name == "branch":
            if any(bad for _, bad in first):
                raise Stopped("condition", self.program, 0)
            return first if max(v for v, _ in first) > 0 else [(1, False)] * LANES
        return [_lane(name, *lanes) for lanes in zip(first, *rest, strict=True)]

    def walk_load(self, which: int, index: Any, mask: Any, other: Any) -> list[Known]:
        at = [(self.program * LANES + n, False) for n in range(LANES)]
        if index is not None:
            at = [(int(np.fmod(v, MANY) + MANY) % MANY, bad) for v, bad in self.walk(index)]
        active = [(1, False)] * LANES if mask is None else self.walk(mask)
        instead = [(0, False)] * LANES if mask is None else self.walk(other)
        self.use("mask", active)
        self.use("address", [a if m[0] else (0, False) for a, m in zip(at, active, strict=True)])
        return [
            (int(self.arrays[which][a]), bool(self.unwritten[which][a])) if m else o
            for (a, _), (m, _), o in zip(at, active, instead, strict=True)
        ]


def _wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _lane(name: str, a: Known, b: Known, c: Known = (0, False)) -> Known:
    if name == "select":
        return (b if a[0] else c)[0], a[1] or (b if a[0] else c)[1]
    either = a[1] or b[1]
    if name in ("and", "all", "or", "any"):
        decides = {"and": 0, "all": 0, "or": -1, "any": 1}[name]
        if (a[0] == decides and not a[1]) or (b[0] == decides and not b[1]):
            either = False
        return (a[0] & b[0] if name in ("and", "all") else a[0] | b[0]), either
    if name == "less":
        return int(a[0] < b[0]), either
    return _wrap(a[0] + b[0] if name == "add" else a[0] * b[0]), either


class Checked:
    """An instrumented copy of a module, compiled once for all its runs."""

    def __init__(self, module: Module) -> None:
        self.copy = simplify(module)
        found = check_uninit(self.copy)
        self.checker = UninitChecker("kernel", found.loads, found.uses, ["x", "y", "out"])
        self.kernel = cpu.compile(self.copy, options=cpu.Options(optimise=False))


def _run(checked: Checked, arrays: list[Any], how: str) -> tuple[str, int, int] | None:
    checker = checked.checker
    storages = [Storage(a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays]
    facts = checker.prepare(storages)
    values = [*(a.ctypes.data for a in arrays), facts.address]
    try:
        if how == "reference":
            run(checked.copy, values, (PROGRAMS, 1, 1))
        else:
            checked.kernel.bind(1)(PROGRAMS, 1, 1, values)
    except Exception:  # noqa: BLE001 - the two back ends stop in their own ways
        assert facts.has_hits
    error = checker.error(facts, (PROGRAMS, 1, 1))
    if error is None:
        return None
    read = error.read
    return read.use, read.program[0], (read.lane or (0,))[0]


@pytest.mark.parametrize("seed", thorough(range(60), *range(20)))
def test_random_programs_are_reported_as_a_slow_checker_finds_them(seed: int) -> None:
    program, random = Program(seed), np.random.default_rng(500 + seed)
    checked = Checked(program.module())
    for share in (0.0, 0.1, 0.6):
        contents = [random.integers(-4, 5, MANY).astype(np.int32) for _ in range(2)]
        unwritten = [random.random(MANY) < share for _ in range(2)]
        found: list[Any] = []
        for how in ("slow", "reference", "cpu"):
            arrays = [np.zeros(MANY, np.int32) for _ in range(3)]
            tracked = [shadows.track(a.ctypes.data, a.nbytes, "here:1") for a in arrays]
            try:
                for array, shadow, content, bad in zip(
                    arrays, tracked, contents, unwritten, strict=False
                ):
                    assert shadow is not None
                    array[~bad] = content[~bad]
                    shadow.states.view(np.int32)[~bad] = 0
                if how == "slow":
                    stopped = program.slow_check(arrays[:2], unwritten)
                    found.append(None if stopped is None else stopped.args)
                else:
                    found.append(_run(checked, arrays, how))
            finally:
                for array in arrays:
                    shadows.forget(array.ctypes.data)
        assert found[1] == found[2] == found[0], (found, program.tree, program.mask)
