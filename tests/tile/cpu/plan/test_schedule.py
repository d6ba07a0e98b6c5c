"""Schedules keep every dependence of a program; the check finds a scheduler that does not."""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import random
import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from tile_cases import CASES
from tile_dependences import WrongScheduleError, check_schedule
from tile_harness import Kernel, Program
from tile_kernels import KERNELS
from tile_programs import programs

from emu.tile.cpu import compiling
from emu.tile.cpu.depth import deep
from emu.tile.cpu.emit import emitter
from emu.tile.cpu.options import Options
from emu.tile.cpu.plan import memory_order, schedule
from emu.tile.cpu.plan.analysis import Analysis
from emu.tile.ir import Module
from emu.tile.ops import Code, Rmw
from emu.tile.passes import CarryOffsets, simplify
from emu.tile.types import F32, I32


class Scheduling:
    """Checks every schedule that the compiler makes."""

    def __init__(self, monkeypatch):
        self.checkers = {}
        self.overwritten = 0
        self.may_overwrite = emitter.may_overwrite
        monkeypatch.setattr(emitter, "Schedule", self.schedule)
        monkeypatch.setattr(emitter, "may_overwrite", self.check_overwriting)

    def schedule(self, analysis, operations):
        made = schedule.Schedule(analysis, operations)
        self.checkers[made] = check_schedule(analysis, operations, made)
        return made

    def check_overwriting(self, analysis, made, value, old, terminator):
        may = self.may_overwrite(analysis, made, value, old, terminator)
        if may and old is not None:
            self.overwritten += 1
            self.checkers[made].check_overwriting(value, old, terminator)
        return may


@pytest.fixture
def scheduling(monkeypatch):
    return Scheduling(monkeypatch)


def emit(module: Module):
    """Do all that a compilation does before LLVM's part."""
    with deep():
        module = simplify(copy.deepcopy(module))
        CarryOffsets().apply(module)
        compiling._emit(module.kernel, Options())


def emit_all():
    for program in (*KERNELS.values(), *CASES[::3]):  # a third of each family of dtypes
        emit(program.module)


def test_schedules_of_all_kinds_of_programs_keep_every_dependence(scheduling):
    emit_all()
    assert len(scheduling.checkers) > 100
    assert scheduling.overwritten > 3


@settings(deadline=None, max_examples=25)
@given(program=programs(steps=25))
def test_schedules_of_random_programs_keep_every_dependence(program: Program) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        scheduling = Scheduling(monkeypatch)
        emit(program.module)
        assert scheduling.checkers


# ---- sequences of memory operations

SHAPES = ((32,), (8,))
REGULAR, LATE, IRREGULAR = "regular", "late", "irregular"
STEPS = (
    *itertools.product("LS", (0, 1), (REGULAR, LATE, IRREGULAR)),
    *itertools.product("AEC", (0, 1), (REGULAR,)),
    *((code, None, REGULAR) for code in "lsa"),
)
"""Load, store, atomic, in lower case on scalars. Of tiles: of which shape, and by which pointers.

E computes a new value, one level after the last; C goes back to a constant, which is ready at once.
"""


def sequence(steps):
    """A program of memory operations, whose operands come from the steps before them."""
    k = Kernel()
    b = k.builder
    base = k.pointer(np.zeros(2000, np.int32))
    latest = {None: k.number(1), 0: k.number(1, I32, SHAPES[0]), 1: k.number(1, I32, SHAPES[1])}

    def pointers(which, kind):
        if which is None:
            return base
        # Late ones are ready after a sum, irregular ones a level after the last value.
        start = b.ptr_add(base, latest[None]) if kind == LATE else base
        offsets = b.arange(0, SHAPES[which][0])
        if kind == IRREGULAR:
            offsets = b.binary(Code.MUL, offsets, b.flip(latest[which], 0))
        return b.ptr_add(b.splat(start, SHAPES[which]), offsets)

    def total(tile):
        (found,) = b.reduce([tile], 0, lambda x, y: [b.binary(Code.ADD, x, y)])
        return found

    for code, which, kind in steps:
        if code in "Ll":
            latest[which] = b.load(pointers(which, kind))
        elif code in "Ss":
            b.store(pointers(which, kind), latest[which])
        elif code in "Aa":
            b.atomic_rmw(Rmw.ADD, pointers(which, kind), latest[which])
        elif code == "E":
            latest[which] = b.binary(Code.DIV, latest[which], b.flip(latest[which], 0))
            latest[None] = total(latest[which])
        else:
            latest[which] = k.number(1, I32, SHAPES[which])
            latest[None] = k.number(1)
    b.return_()
    return k.module


def mirrored():
    """A program that adds a tile of floats to itself, mirrored: two loops."""
    k = Kernel()
    x = k.load(np.zeros(32, np.float32))
    k.result(k.builder.binary(Code.ADD, x, k.builder.flip(x, 0)))
    k.builder.return_()
    return k.module


def held_back(dtype):
    """A program whose store takes a tile that waits for all of another one, loaded in a loop of the same shape."""
    k = Kernel()
    b = k.builder
    x, y = (k.load(np.zeros(64, dtype.numpy)) for _ in range(2))
    k.result(b.after(x, b.join_tokens(y)))
    k.result(b.flip(b.after(x, b.join_tokens(b.flip(y, 0))), 0))
    b.return_()
    return k.module


def check_stretch(module):
    body = module.kernel.body
    analysis, operations = Analysis(body), body.operations[:-1]
    check_schedule(analysis, operations, schedule.Schedule(analysis, operations))


SELDOM = """
    E0 E0 E1 L1late L1 S0
    L0 E0 L0irregular C0 L0 L0irregular S0
    E1 L0late C0 L0 S0irregular
    E0 A0 C0 A0
    E0 E0 A0
    E1 A0 L1
    E1 A0 S1
"""
"""Sequences that random ones seldom contain."""


@pytest.mark.parametrize("dtype", [I32, F32], ids=str)
def test_a_token_holds_a_tile_back_until_all_its_values_are_there(dtype):
    check_stretch(held_back(dtype))


def sequences():
    """Chosen ones, all pairs, and longer ones at random."""
    for line in SELDOM.split("\n"):
        yield [(step[0], int(step[1]), step[2:] or REGULAR) for step in line.split()]
    yield from itertools.product(STEPS, repeat=2)
    chance = random.Random(5)
    for length in (4, 7, 10):
        for _ in range(120):
            yield chance.choices(STEPS, k=length)


def test_sequences_of_memory_operations_keep_every_dependence():
    for steps in sequences():
        check_stretch(sequence(steps))


# ---- the check finds planted faults


def mutants(cls):
    """Return variants of a class with one fault each: an update lost, an off by one, a counter ignored."""
    source = textwrap.dedent(inspect.getsource(cls))
    for number in itertools.count():
        tree = ast.parse(source)
        sites = []
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("place_"):
                continue
            if isinstance(node, ast.FunctionDef):
                for block in (node.body, *(n.body for n in node.body if hasattr(n, "body"))):
                    sites += [
                        ("lost", block, s)
                        for s in block
                        if isinstance(s, ast.Assign) and "self." in ast.unparse(s.targets[0])
                    ]
                for inner in ast.walk(node):
                    if isinstance(inner, ast.BinOp) and isinstance(inner.right, ast.Constant):
                        sites.append(("off by one", inner, inner.right))
                    if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "max":
                        sites += [("ignored", inner.args, a) for a in inner.args]
        if number == len(sites):
            return
        kind, parent, node = sites[number]
        text = f"{kind}: {ast.unparse(node)} at line {node.lineno}"
        if kind == "lost":
            parent[parent.index(node)] = ast.copy_location(ast.Pass(), node)
        elif kind == "off by one":
            node.value = 0
            text = f"{kind}: {ast.unparse(parent)} at line {node.lineno}"
        else:
            parent.remove(node)
            if len(parent) == 1:
                parent.append(parent[0])
        names = dict(vars(memory_order))
        exec(compile(ast.fix_missing_locations(tree), "mutant", "exec"), names)  # noqa: S102 - our own text
        yield text, names[cls.__name__]


def is_found():
    """Whether a small program shows that the schedules are wrong."""
    for module in itertools.chain([mirrored(), held_back(F32)], map(sequence, sequences())):
        try:
            check_stretch(module)
        except WrongScheduleError:
            return True
    return False


HARMLESS = {
    # Loops of one level run in the order of their first operations, and an atomic has a loop of its own.
    "off by one: earlier + 0",
}


def test_every_fault_in_the_order_of_memory_is_found(monkeypatch):
    missed = []
    for text, mutant in mutants(memory_order.MemoryOrder):
        monkeypatch.setattr(schedule, "MemoryOrder", mutant)
        if not is_found():
            missed.append(text)
    missed = [text for text in missed if text.split(" at line ")[0] not in HARMLESS]
    assert not missed, "\n".join(missed)


FAULTS = {
    "a tile is read in the loop that computes another part of it": (
        "_may_fuse",
        "is_direct\n        and",
        "True and",
    ),
    "a tile is ready in the level that computes it": (
        "_ready",
        "self._fusion_level[root.owner] + 1",
        "self._fusion_level[root.owner]",
    ),
    "a scalar is ready at once": (
        "_ready",
        "return max(ready, self._issue_slot[root.owner])",
        "return 0",
    ),
    "a tile does not wait for its token": ("_after_tokens", "is Code.AFTER", "is None"),
    "an inline tile is read as it is written": ("_ready_in_memory", "level + 1", "level"),
    "an operand is read where it was computed": (
        "_earliest_level",
        "reads_memory(operation, operand)",
        "False",
    ),
    "a scalar ignores the order of memory": (
        "_earliest_slot",
        "operation.code in ops.MEMORY",
        "False",
    ),
    "an operation is delayed past its first reader": (
        "_latest_level",
        "min(latest, level)",
        "max(latest, level)",
    ),
    "a load is delayed to a store that may overlap": (
        "_is_overwritten",
        "at <= latest and not (at == latest and self._are_checked(load, other))",
        "at < latest",
    ),
    "a load is delayed past a store": ("_is_overwritten", "return True", "return False"),
    "a value is lost with its loop": ("_is_read", "group_of.get(user) is not group or ", ""),
    "an atomic shares a loop": ("_group", "and not group.is_serial and not is_serial", ""),
    "an operation is forgotten": ("_costs_nothing", "is_view(operation) or all", "any"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_rule_is_found(monkeypatch, scheduling, fault):
    name, old, new = FAULTS[fault]
    source = textwrap.dedent(inspect.getsource(inspect.getattr_static(schedule.Schedule, name)))
    assert source.count(old) == 1
    names = dict(vars(schedule))
    names["staticmethod"] = staticmethod
    exec(source.replace(old, new), names)  # noqa: S102 - our own text
    monkeypatch.setattr(schedule.Schedule, name, names[name])
    if not is_found():
        with pytest.raises(WrongScheduleError):
            emit_all()
