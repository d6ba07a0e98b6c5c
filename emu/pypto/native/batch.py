"""Batches as data: what ops touch, by numbers."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from emu.pypto.buffer import Buffer
from emu.pypto.operation import LocalOp, Operation, Rectangle
from emu.pypto.symbolic import Shape


@dataclass(frozen=True, slots=True)
class Spot:
    """A rectangle of a buffer of the batch.

    Attributes:
        buffer: Number of the buffer.
        low: Corner.
        extent: Extents of the valid part.
        shape: Extents.
    """

    buffer: int
    low: Shape
    extent: Shape
    shape: Shape


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number that an op takes.

    Attributes:
        number: Its place among the numbers of the batch.
        dtype: Its NumPy dtype.
    """

    number: int
    dtype: np.dtype[np.generic]


Input: TypeAlias = Spot | Scalar


@dataclass(frozen=True, slots=True)
class Step:
    """An op of the batch.

    Attributes:
        operation: What it computes.
        inputs: What it reads.
        outputs: What it writes.
        attributes: Those of the op.
    """

    operation: Operation
    inputs: tuple[Input, ...]
    outputs: tuple[Spot, ...]
    attributes: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """Memory of a buffer.

    Attributes:
        dtype: NumPy dtype.
        shape: Extents.
        strides: Strides in elements; None if the elements cannot be addressed so.
        is_needed: Whether something besides the ops of the batch holds it, or it has memory already.
    """

    dtype: np.dtype[np.generic]
    shape: Shape
    strides: tuple[int, ...] | None
    is_needed: bool


Key: TypeAlias = tuple[Hashable, ...]


def _references(objects: dict[Any, Any], counted: list[int]) -> list[int]:
    """Return how many references to each key there are besides those that are counted."""
    count = sys.getrefcount
    return [count(each) - known for each, known in zip(objects, counted, strict=True)]


_OWN = min(_references({object(): 0, object(): 0, object(): 0}, [0, 0, 0]))
"""What :func:`_references` finds for objects that only a dictionary holds: versions of Python differ."""


class Batch:
    """Ops to compute together, and the key of their structure.

    Attributes:
        ops: The ops.
        buffers: The buffers that they touch.
        numbers: The numbers that they take.
        key: Equal for batches that one plan computes.
        is_mixed: Whether arrays of the program among the buffers may share memory.
    """

    __slots__ = ("buffers", "is_mixed", "key", "needed", "numbers", "ops")

    def __init__(self, ops: list[LocalOp]) -> None:
        self.ops = ops
        self.numbers: list[np.generic] = []
        known: dict[Rectangle, int] = {}
        uses: list[int] = []
        buffers: dict[Buffer, int] = {}
        held: list[int] = []
        calls: list[int] = []
        key: list[Hashable] = []
        append, find = key.append, known.get
        for operation, inputs, outputs, attributes in ops:
            append(operation)
            for x in inputs + outputs:
                if isinstance(x, np.generic):
                    self.numbers.append(x)
                    append(x.dtype)
                    continue
                number = find(x)
                if number is None:
                    known[x] = number = len(uses)
                    uses.append(1)
                    _describe(x, buffers, held, calls, key)
                else:
                    uses[number] += 1
                append(number)
            append(attributes)
        x = None  # type: ignore[assignment]  # it would count as a reference
        self.needed = needed = [buffer.memory is not None for buffer in buffers]
        if False in needed:
            for rectangle, count in zip(known, _references(known, uses), strict=True):
                if count > _OWN:
                    needed[buffers[rectangle.buffer]] = True
            rectangle = None  # type: ignore[assignment]
            for number, count in enumerate(_references(buffers, held)):
                if count > _OWN:
                    needed[number] = True
        key.append(tuple(needed))
        self.buffers = list(buffers)
        self.key: Key = tuple(key)
        self.is_mixed = len(calls) > 1 and (not min(calls) or min(calls) < max(calls))

    def steps(self) -> list[Step]:
        """Return the ops as data."""
        numbers = {buffer: n for n, buffer in enumerate(self.buffers)}
        count = 0

        def spot(t: Rectangle) -> Spot:
            return Spot(numbers[t.buffer], t.low, t.valid_shape, t.shape)

        steps = []
        for operation, inputs, outputs, attributes in self.ops:
            described: list[Input] = []
            for x in inputs:
                if isinstance(x, np.generic):
                    described.append(Scalar(count, x.dtype))
                    count += 1
                else:
                    described.append(spot(x))
            spots = tuple([spot(t) for t in outputs])
            steps.append(Step(operation, tuple(described), spots, attributes))
        return steps

    def stores(self) -> list[Store]:
        """Return the memory of each buffer."""
        return [
            _store(buffer, needed) for buffer, needed in zip(self.buffers, self.needed, strict=True)
        ]


def _store(buffer: Buffer, is_needed: bool) -> Store:
    memory, dtype = buffer.memory, np.dtype(buffer.dtype)
    if memory is None:
        sizes = [math.prod(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape))]
        return Store(dtype, buffer.shape, tuple(sizes), is_needed)
    can_address = memory.flags.aligned and not any(n % dtype.itemsize for n in memory.strides)
    strides = tuple([n // dtype.itemsize for n in memory.strides]) if can_address else None
    return Store(dtype, buffer.shape, strides, is_needed)


def _describe(
    t: Rectangle,
    buffers: dict[Buffer, int],
    held: list[int],
    calls: list[int],
    key: list[Hashable],
) -> None:
    """Append to a key what a tensor is that the batch has not touched before."""
    buffer = t.buffer
    number = buffers.get(buffer)
    if number is None:
        buffers[buffer] = number = len(buffers)
        held.append(1)
        memory = buffer.memory
        if memory is None:
            key += (buffer.dtype, buffer.shape)
        else:
            key += (memory.dtype, memory.strides, memory.flags.aligned)
            if buffer.is_foreign:
                calls.append(buffer.call)
    else:
        held[number] += 1
    key += (number, t.low, t.valid_shape, t.shape)
