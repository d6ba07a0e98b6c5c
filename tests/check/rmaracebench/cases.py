"""How the programs of this folder are written and found.

A case is a function of a World and of the number of elements that its arrays have: one element is a word, which the
checker treats apart, more are a tile. All PEs call it. Lines that end with ``# A`` and ``# B`` are the two that race;
a case without them is clean. ``# A also`` marks another line that the same fault lets race with B.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from emu import SymmetricArray, World

Program = Callable[[World, int], None]


@dataclass(frozen=True)
class Case:
    """A program with its label.

    Attributes:
        name: Folder and number of the case in the benchmark, and what it is about.
        n_pes: Number of PEs.
        is_racy: The label.
        program: The program.
    """

    name: str
    n_pes: int
    is_racy: bool
    program: Program

    def lines(self, mark: str) -> set[int]:
        """Return the lines of the source with a mark."""
        source, first = inspect.getsourcelines(self.program)
        return {
            n for n, line in enumerate(source, first) if re.search(rf"  # {mark}$", line.rstrip())
        }

    @property
    def place(self) -> tuple[str, range]:
        """File and lines."""
        source, first = inspect.getsourcelines(self.program)
        return inspect.getfile(self.program), range(first, first + len(source))


CASES: dict[str, Case] = {}


def clean(n_pes: int) -> Callable[[Program], Program]:
    """Note a program in which everything is ordered."""
    return _case(n_pes, is_racy=False)


def racy(n_pes: int) -> Callable[[Program], Program]:
    """Note a program with two accesses that nothing orders."""
    return _case(n_pes, is_racy=True)


def _case(n_pes: int, *, is_racy: bool) -> Callable[[Program], Program]:
    def note(program: Program) -> Program:
        case = Case(program.__name__, n_pes, is_racy, program)
        assert case.name not in CASES
        CASES[case.name] = case
        return program

    return note


def two(world: World, n: int, dtype: Any = np.int32) -> tuple[SymmetricArray, SymmetricArray]:
    """Return an array that is zero everywhere, and one that each PE has filled with values of its own."""
    shared = world.alloc(n, dtype, name="shared", poison=False)
    mine = world.alloc(n, dtype, name="mine", poison=False)
    mine.local[...] = 3 * world.my_pe + 5
    world.barrier()
    return shared, mine


def flag(world: World, dtype: Any = np.uint64) -> SymmetricArray:
    """Return a word for signals."""
    return world.alloc(1, dtype, name="flag", poison=False)
