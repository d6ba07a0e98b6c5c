"""Sequences of memory operations that schedules must keep in order, and small programs that tell wrong ones."""

from __future__ import annotations

import itertools
import random

import numpy as np
from tile_dependences import WrongScheduleError, check_schedule
from tile_harness import Kernel

from emu.tile.cpu.plan import schedule
from emu.tile.cpu.plan.analysis import Analysis
from emu.tile.ops import Code, Rmw
from emu.tile.types import F32, I32

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


def sequences():
    """Chosen ones, all pairs, and longer ones at random."""
    for line in SELDOM.split("\n"):
        yield [(step[0], int(step[1]), step[2:] or REGULAR) for step in line.split()]
    yield from itertools.product(STEPS, repeat=2)
    chance = random.Random(5)
    for length in (4, 7, 10):
        for _ in range(120):
            yield chance.choices(STEPS, k=length)


def is_found():
    """Whether a small program shows that the schedules are wrong."""
    for module in itertools.chain([mirrored(), held_back(F32)], map(sequence, sequences())):
        try:
            check_stretch(module)
        except WrongScheduleError:
            return True
    return False
