"""What a launch computes and moves, as the model of a kernel takes it.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from emu.trace.prediction.errors import PredictionError

MOST = 1e30
"""Largest count; what is larger was not counted."""


LONGEST = 1 << 30
"""Largest extent of a product."""


class Traffic(NamedTuple):
    """What programs move of a tensor.

    Attributes:
        moved: Bytes that programs load and store; what two programs load counts twice.
        unique: Bytes of the tensor that are touched at all, at most ``moved``.
        sets: Its working sets: numbers of programs that follow each other, ascending from 1 or more, and the bytes of the lines that so many touch on
            average; the last is that of all programs. Empty: not known.
    """

    moved: float
    unique: float
    sets: tuple[tuple[float, float], ...] = ()


class Product(NamedTuple):
    """A product that a library does: ``[m, k] @ [k, n]``, and how often; of batched ones m is that of all together."""

    m: int
    n: int
    k: int
    dtype: str
    times: float


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one launch, of all its programs together.

    Attributes:
        programs: Number of programs, at least 1.
        dot: FLOPs of products by dtype (``f16``, ``tf32``, …).
        vector: Operations of other arithmetic by dtype.
        special: Results of exp, log, sqrt, divisions and their kin.
        atomics: Atomic operations on memory.
        tensors: What is moved of each tensor.
        ops: Operations on tiles that a program runs through, one after the other, on average.
        most: Work of the busiest program relative to the average, at least 1.
        warps: Warps of a program; None: not known.
        products: Of a library's call, its products; ``dot`` has their FLOPs.
        kernels: Of a library's call, how many kernels it is; 0: it is a launch, whose programs are known.
        parts: Of several calls one after the other, each, and how often; the other attributes are their sums. None: it is one. Without any part
            there is nothing to do on a device.
    """

    programs: int
    dot: Mapping[str, float] = field(default_factory=dict)
    vector: Mapping[str, float] = field(default_factory=dict)
    special: float = 0.0
    atomics: float = 0.0
    tensors: tuple[Traffic, ...] = ()
    ops: float = 0.0
    most: float = 1.0
    warps: int | None = None
    products: tuple[Product, ...] = ()
    kernels: int = 0
    parts: tuple[tuple[Work, float], ...] | None = None

    def __post_init__(self) -> None:
        if (
            isinstance(self.programs, bool)
            or not isinstance(self.programs, int)
            or self.programs < 1
        ):
            raise PredictionError(
                f"programs must be an integer of at least 1, but got {self.programs!r}"
            )
        for name, low in (("special", 0), ("atomics", 0), ("ops", 0), ("most", 1)):
            _check(name, getattr(self, name), low)
        for tensor in self.tensors:
            _check_traffic(tensor)
        for table in ("dot", "vector"):
            for dtype, count in getattr(self, table).items():
                _check(f"{table}[{dtype!r}]", count, 0)
        if self.warps is not None and not (type(self.warps) is int and 1 <= self.warps <= 64):
            raise PredictionError(f"warps must be in [1, 64], but got {self.warps!r}")

    @property
    def total(self) -> float:
        """Bytes that programs load and store."""
        return sum(tensor.moved for tensor in self.tensors)

    @property
    def footprint(self) -> float:
        """Bytes that are touched at all."""
        return sum(tensor.unique for tensor in self.tensors)

    def divided(self, programs: int) -> Work:
        """Return the same work divided among another number of programs."""
        factor = programs / self.programs
        tensors = tuple(
            t._replace(sets=tuple((max(1.0, n * factor), size) for n, size in t.sets))
            for t in self.tensors
        )
        return replace(self, programs=programs, ops=self.ops / factor, tensors=tensors)

    @property
    def launches(self) -> int:
        """Kernels that a device launches for it."""
        return self.kernels if self.parts is not None else max(1, self.kernels)


def joined(parts: Sequence[tuple[Work, float]]) -> Work:
    """Return the work of library's calls one after the other.

    Args:
        parts: Each, and how often.
    """
    return Work(
        programs=1,
        dot=_summed([(work.dot, times) for work, times in parts]),
        vector=_summed([(work.vector, times) for work, times in parts]),
        special=sum(work.special * times for work, times in parts),
        tensors=tuple(
            Traffic(tensor.moved * times, tensor.unique * times)
            for work, times in parts
            for tensor in work.tensors
        ),
        kernels=round(sum(work.launches * times for work, times in parts)),
        parts=tuple(parts),
    )


def _summed(tables: Sequence[tuple[Mapping[str, float], float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for table, times in tables:
        for dtype, count in table.items():
            found[dtype] = found.get(dtype, 0.0) + count * times
    return found


def _check_traffic(tensor: Traffic) -> None:
    moved, unique, sets = tensor
    _check("moved", moved, 0)
    _check("unique", unique, 0)
    if unique > moved:
        raise PredictionError(
            f"unique must be at most the {moved:g} bytes that are moved, but got {unique:g}"
        )
    before = (1.0, 0.0)
    for number, size in sets:
        _check("programs of a working set", number, before[0])
        _check(f"the working set of {number:g} programs", size, before[1])
        before = number, size


def _check(name: str, value: object, low: float) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not low <= value <= MOST
        or math.isnan(value)
    ):
        raise PredictionError(f"{name} must be a number in [{low}, {MOST:g}], but got {value!r}")
