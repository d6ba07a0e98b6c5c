"""The kernel that is being compiled, into which functions of the language emit operations."""

from __future__ import annotations

import contextlib
import contextvars
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from emu.tile import ir

Call = Callable[[Callable[..., Any], Sequence[object]], Any]
"""Emits a function's body in place: ``call(function, arguments)`` returns its value."""


def _call(function: Callable[..., Any], arguments: Sequence[object]) -> Any:
    return function(*arguments)


@dataclass(slots=True)
class Asserted:
    """What a combine function asserts.

    Attributes:
        region: The combine function's; conditions inside a branch of it are not known at its end.
        conditions: The conditions, scalars of int1.
        messages: Their messages, each once.
    """

    region: ir.Region
    messages: dict[str, None]
    conditions: list[ir.Value] = field(default_factory=list)


class Varies(enum.IntFlag):
    """Among which threads a value may differ: those of one warp, those at the same place of several warps."""

    NOT = 0
    LANES = 1
    WARPS = 2


@dataclass(slots=True)
class Threads:
    """What a kernel's compilation knows of its threads: see :mod:`emu.triton.language.threads`.

    Attributes:
        own: Values that are a thread's own and not computed from others: indices, and what loops and branches leave.
        index: Index of the thread whose code is being emitted; ``None`` in code of all threads, or of a warp's.
        warp: Number of the warp whose code is being emitted; ``None`` in code of all warps.
        indices: Values that are the indices of threads.
        varies: What is known of how values vary, beside what follows from their operands.
    """

    own: set[ir.Value] = field(default_factory=set)
    index: ir.Value | None = None
    warp: ir.Value | None = None
    indices: set[ir.Value] = field(default_factory=set)
    varies: dict[ir.Value, Varies] = field(default_factory=dict)

    def have(self, value: ir.Value) -> bool:
        """Return whether a tile has an element for each thread: whether it was computed, element by element, from one that has."""
        todo, seen = [value], {value}
        while todo and self.own:
            one = todo.pop()
            if one.shape != value.shape:
                continue
            if one in self.own:
                return True
            if one.owner is None:
                continue
            for operand in one.owner.operands:
                if operand not in seen:
                    seen.add(operand)
                    todo.append(operand)
        return False


@dataclass(slots=True)
class Context:
    """Destination of operations, and the way to call functions of the kernel.

    Attributes:
        builder: Appends operations.
        module: The functions of the kernel so far.
        call: Emits the body of a combine function in place. The default calls it as Python does.
        debug: Whether ``device_assert`` and ``assert`` have an effect.
        asserted: Where conditions that a combine function asserts are collected; ``None`` outside of one.
        input_precision: Default of ``dot`` for operands of fp32, which are then rounded as it says; ``None``: they
            are not rounded, whatever a kernel asks for.
        bf16_native: Whether ``dot`` of bf16 takes the CPU's own instruction where a kernel names no precision.
        sanitize_overflow: Whether, with ``debug``, integers that wrap around are errors.
        num_warps: Number of warps that the launch gives; ``None``: the kernel's key does not hold it.
        keeps_fences: Whether fences of inline assembly become operations, for a check of races.
        over_hosts: Whether the PEs of the World are on several hosts.
        threads: What is known of values that each thread has of its own; ``None``: the kernel has not asked for threads.
        operands: What the condition of the assertion at hand compares, by its text: its error shows them.
        print_: Function that ``static_print`` prints with; ``None``: ``print``.
        map_scalars: Applies a function to the scalars of tiles, one after the other, where values are known;
            ``None``: functions of scalars are emitted for all elements at once.
    """

    builder: ir.Builder
    module: ir.Module
    call: Call = _call
    debug: bool = False
    asserted: Asserted | None = None
    input_precision: str | None = None
    bf16_native: bool = False
    sanitize_overflow: bool = True
    num_warps: int | None = None
    keeps_fences: bool = False
    over_hosts: bool = False
    threads: Threads | None = None
    operands: Mapping[str, object] = field(default_factory=dict)
    print_: Callable[..., None] | None = None
    map_scalars: Callable[[Callable[..., Any], Sequence[Any]], list[Any]] | None = None


_current: contextvars.ContextVar[Context | None] = contextvars.ContextVar("context", default=None)


def current() -> Context:
    """Return the context of the kernel that is being compiled.

    Raises:
        RuntimeError: No kernel is being compiled.
    """
    context = _current.get()
    if context is None:
        raise RuntimeError(
            "functions of triton.language can only be called in functions that are decorated with "
            "@triton.jit, while these are compiled"
        )
    return context


def builder() -> ir.Builder:
    """Return the current context's builder."""
    return current().builder


@contextlib.contextmanager
def building(context: Context) -> Iterator[Context]:
    """Make a context the current one of this thread inside the block."""
    token = _current.set(context)
    try:
        yield context
    finally:
        _current.reset(token)


@contextlib.contextmanager
def asserting(messages: dict[str, None]) -> Iterator[Asserted]:
    """Collect what a combine function asserts inside the block.

    Args:
        messages: Gets their messages.
    """
    context = current()
    before = context.asserted
    context.asserted = Asserted(context.builder.region, messages)
    try:
        yield context.asserted
    finally:
        context.asserted = before
