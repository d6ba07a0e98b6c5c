"""Compiled forms of operations, and what they are bound to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emu.mlir.ir import Operation, Value
from emu.stablehlo.compiled.storage import Kind, Layout, Root
from emu.stablehlo.reference.devices import Device
from emu.stablehlo.reference.scope import Program
from emu.stablehlo.reference.values import Array

Action = Callable[[], object]
"""Computes the results of one step, from memory to memory."""


@dataclass(frozen=True)
class Form:
    """How a step computes.

    Attributes:
        in_place: Operands whose memory a result may take: pairs of an operand and a result, where
            element ``i`` of the result needs no other element of the operand than ``i``.
        scratch: Bytes of memory that it needs while it runs.
        contiguous: Whether its operands must be C-contiguous.
    """

    in_place: tuple[tuple[int, int], ...] = field(default=(), kw_only=True)
    scratch: int = field(default=0, kw_only=True)
    contiguous: bool = field(default=False, kw_only=True)

    def bind(self, site: Site) -> Action:
        """Return what computes the results at one place."""
        raise NotImplementedError

    def load(self) -> None:
        """Load the code that it calls, if that is on disk: processes that are forked then have it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A form at its place in a program.

    Attributes:
        op: Number of the operation, in the order of ``walk``.
        form: What it does.
        operands: Slots of the operands.
        results: Slots of the results.
        scratch: Slot of its scratch memory; -1 for none.
        blocks: Steps of the blocks that it runs.
        window: Root of the window that it places; -1 for none.
    """

    op: int
    form: Form
    operands: tuple[int, ...]
    results: tuple[int, ...]
    scratch: int = -1
    blocks: tuple[tuple[Step, ...], ...] = ()
    window: int = -1


class Memory:
    """The arrays of a bound program, by slot.

    Attributes:
        env: Array per slot. Those of buffers and constants stay; the others are set in each call.
        roots: The roots.
        layouts: Layout per slot.

    Args:
        roots: The roots.
        layouts: Layout per slot.
        constants: Arrays of the constants.
        size: Bytes of the buffers.
        shared: Memory for the buffers that other processes use as well.
    """

    def __init__(
        self,
        roots: Sequence[Root],
        layouts: Sequence[Layout],
        constants: Sequence[Array],
        size: int,
        shared: Array,
    ) -> None:
        self.roots, self.layouts = roots, layouts
        self.env: list[Array] = [_NOTHING] * len(layouts)
        arena = np.empty(size + 64, np.uint8)
        shift = -arena.__array_interface__["data"][0] % 64
        shared_shift = -shared.__array_interface__["data"][0] % 64 if shared.size else 0
        starts = {False: (arena, shift), True: (shared, shared_shift)}
        self._memory: list[Array | None] = [None] * len(roots)
        self._start = [0] * len(roots)
        self._slots: list[list[int]] = [[] for _ in roots]
        self._given: dict[int, tuple[int, int]] = {}
        for slot, layout in enumerate(layouts):
            self._slots[layout.root].append(slot)
        for number, root in enumerate(roots):
            if root.kind is Kind.BUFFER:
                memory, start = starts[root.is_shared]
                self.place(number, memory, start + root.offset)
            elif root.kind is Kind.CONSTANT:
                self.place(number, as_bytes(constants[root.index]))

    def is_static(self, slot: int) -> bool:
        """Return whether the array of a slot is the same in all calls."""
        return self.roots[self.layouts[slot].root].kind in (Kind.BUFFER, Kind.CONSTANT)

    def is_constant(self, slot: int) -> bool:
        """Return whether a slot shows a constant."""
        return self.roots[self.layouts[slot].root].kind is Kind.CONSTANT

    def place(self, number: int, memory: Array, start: int = 0) -> None:
        """Set where a root is, and with it the arrays in it."""
        self._memory[number] = memory
        self._start[number] = start
        for slot in self._slots[number]:
            self.env[slot] = self.layouts[slot].array(memory, start)

    def give(self, number: int, array: Array) -> None:
        """Set where an input or output is: a C-contiguous array."""
        where = (array.__array_interface__["data"][0], array.nbytes)
        if self._given.get(number) == where:
            return  # The arrays in it, and what is bound to them, stay as they are.
        self._given[number] = where
        self.place(number, as_bytes(array))

    def release(self, number: int) -> None:
        """Forget where an input or output was."""
        del self._given[number]
        self._memory[number] = None
        for slot in self._slots[number]:
            self.env[slot] = _NOTHING

    def place_window(self, number: int, parent: int, offset: int) -> None:
        """Set where a window of another root starts."""
        memory = self._memory[parent]
        assert memory is not None
        self.place(number, memory, self._start[parent] + offset)


_NOTHING = np.empty(0)


def as_bytes(array: Array) -> Array:
    """Return the bytes of a C-contiguous array."""
    return array.reshape(-1).view(np.uint8)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a form is bound.

    Attributes:
        memory: The arrays.
        step: The step.
        op: The operation.
        program: The program that the reference's handlers get: functions, device, custom calls.
        blocks: What runs each block of the step.
    """

    memory: Memory
    step: Step
    op: Operation
    program: Program
    blocks: tuple[Action, ...]

    @property
    def device(self) -> Device:
        """The process that runs the program."""
        return self.program.device

    @property
    def scratch(self) -> Array:
        """Bytes of scratch memory."""
        return self.memory.env[self.step.scratch]

    def call(self, function: Callable[..., Any], *slots: int) -> Action:
        """Return an action that calls a function with the arrays of slots."""
        env = self.memory.env
        if all(map(self.memory.is_static, slots)):
            return functools.partial(function, *(env[s] for s in slots))
        if len(slots) == 2:
            a, b = slots
            return lambda: function(env[a], env[b])
        if len(slots) == 3:
            a, b, c = slots
            return lambda: function(env[a], env[b], env[c])
        return lambda: function(*[env[s] for s in slots])

    def all(self, function: Callable[..., Any]) -> Action:
        """Return an action that calls a function with all operands, then all results."""
        return self.call(function, *self.step.operands, *self.step.results)


@dataclass(frozen=True)
class Context:
    """What planners of forms are told of an operation.

    Attributes:
        op: The operation.
        operands: Shadows of the operands: shape, dtype and strides, without elements.
    """

    op: Operation
    operands: tuple[Array, ...]
    constants: Mapping[Value, Array] = field(default_factory=dict)


Plan = Callable[[Context], "Form | None"]
"""Returns the form of an operation; None where it has none, so that the reference computes it."""

PLANS: dict[str, Plan] = {}
"""Planner of forms per name of an operation."""


def plans(*names: str) -> Callable[[Plan], Plan]:
    """Make a function the planner of forms of operations."""

    def register(plan: Plan) -> Plan:
        for name in names:
            if name in PLANS:
                raise ValueError(f"{name} has a planner")
            PLANS[name] = plan
        return plan

    return register
