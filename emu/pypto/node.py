"""Nodes of the dataflow graph, what waits must offer, and the scopes that nodes belong to."""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.comm.ops import Cmp
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group
    from emu.comm.world.listening import Task
    from emu.comm.world.steering import Steering
    from emu.pypto.symbolic import Shape

Origin = tuple[CodeType, int]
"""Code and instruction of a program."""

Word = tuple["SymmetricArray", int, "Cmp", int]
"""A word that a wait sleeps on: array, index, comparison, value."""


class Wait(Protocol):
    """Condition that a wait node polls instead of running an action."""

    def poll(self) -> bool:
        """Look at the words once; return whether all have matched."""

    def words(self) -> list[Word]:
        """Return the words that have not matched yet."""

    def describe(self) -> str:
        """Describe what is waited for."""

    def explain(self) -> list[str]:
        """Return lines that say what is missing, and what was found in its place."""

    def released(self) -> list[Node]:
        """Return the pieces that have matched since the last call."""


class Pieces(Protocol):
    """The pieces of an op that is done piece by piece, on symmetric memory."""

    @property
    def memory(self) -> object:
        """The symmetric tensor."""

    @property
    def count(self) -> int:
        """Number of pieces."""

    def touching(self, low: Shape, extent: Shape) -> set[Node] | None:
        """Return the pending pieces that touch a rectangle; None: all pieces count."""


class Scope:
    """Part of a program that is drained as a whole: a kernel, or the code outside of kernels.

    Attributes:
        open: Number of its nodes that are not complete.
        rng: Draws the order of ready nodes; None: program order.
        allow_mixed_add: Whether FP16 and BF16 may be added into FP32 memory.
        at_end: Functions to call once the scope is drained.
        is_kernel: Whether it is a kernel.
        steering: What decides when an op runs; None: nothing does.
    """

    __slots__ = ("allow_mixed_add", "at_end", "is_kernel", "open", "rng", "steering")

    def __init__(
        self, rng: random.Random | None, allow_mixed_add: bool, is_kernel: bool = False
    ) -> None:
        self.is_kernel = is_kernel
        self.steering: Steering | None = None
        self.open = 0
        self.rng = rng
        self.allow_mixed_add = allow_mixed_add
        self.at_end: list[Callable[[], None]] = []

    def steer(self, group: Group) -> None:
        """Let what steers this PE, if anything does, decide when an op runs; a scope in program order gets a drawn one."""
        if group.steering is None or self.steering is not None:
            return
        self.steering = group.steering
        if self.rng is None and group.steering.seed:
            self.rng = drawn_order(group.steering.seed, group.members[group.my_pe])


def drawn_order(seed: int, my_pe: int) -> random.Random:
    """Return what draws a PE's order: of one seed, each PE has its own, as orders that agree would hide races."""
    return random.Random(seed * 65_537 + my_pe)


class Node:
    """An op that has not run yet.

    Attributes:
        seq: Its number in the order of the program, from 1.
        label: Name of the op.
        action: Function that runs the op; None for a wait.
        wait: Condition of a wait; None for other ops.
        missing: Number of dependencies that are not complete.
        dependents: Nodes that wait for this one.
        done: Whether it is complete.
        origin: Code and instruction of the program that made it.
        detail: Describes the operands and the target, for reports.
        more: Number, name and origin of the local ops that have joined it.
        piece: Number among the pieces of an op that is done piece by piece; -1: the whole op.
        pieces: Its pieces, of a whole op that is done by pieces of symmetric memory.
        family: What knows the local ops of which it is a piece.
        task: The task of a whole op, where a check wants to know it.
    """

    __slots__ = (
        "action",
        "dependents",
        "detail",
        "done",
        "family",
        "label",
        "missing",
        "more",
        "origin",
        "piece",
        "pieces",
        "scope",
        "seq",
        "task",
        "wait",
    )

    def __init__(
        self,
        seq: int,
        label: str,
        action: Callable[[], None] | None,
        wait: Wait | None,
        scope: Scope,
        piece: int = -1,
    ) -> None:
        self.seq = seq
        self.label = label
        self.action = action
        self.wait = wait
        self.scope = scope
        self.missing = 0
        self.dependents: list[Node] = []
        self.done = False
        self.origin = find_origin()
        self.detail: Callable[[], str] | None = None
        self.more: list[tuple[int, str, Origin | None]] = []
        self.piece = piece
        self.pieces: Pieces | None = None
        self.family: object = None
        self.task: Task | None = None

    def __lt__(self, other: Node) -> bool:
        return (self.seq, self.piece) < (other.seq, other.piece)

    @property
    def title(self) -> str:
        """Name of the op, its number, and its place in the program."""
        return title_of(self.seq, self.label, self.origin)

    @property
    def titles(self) -> list[str]:
        """Titles of its ops."""
        return [self.title, *(title_of(*each) for each in self.more)]


def title_of(seq: int, label: str, origin: Origin | None) -> str:
    """Return what reports call an op."""
    if origin is None:
        return f"{label} (op {seq})"
    file, line = place_of(*origin)
    return f"{label} (op {seq}, {os.path.basename(file)}:{line})"


@functools.lru_cache(4096)
def place_of(code: CodeType, instruction: int) -> tuple[str, int]:
    """Return file and line of an instruction."""
    line = code.co_firstlineno
    for start, end, number in code.co_lines():
        if start <= instruction < end and number is not None:
            line = number
    return code.co_filename, line


def find_origin() -> Origin | None:
    """Return the code and the instruction where the program makes an op.

    Every pending op pays for it, so the line number is worked out only by :attr:`Node.title`.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None:
        if not _is_own(frame.f_globals.get("__name__", "")):
            break
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


@functools.lru_cache(1024)
def _is_own(module: str) -> bool:
    """Return whether a module of this name makes ops for others."""
    # The kernels in ``programs`` stand for a user's program, although they lie in this package.
    return module.startswith("emu.pypto.") and module != "emu.pypto.programs"
