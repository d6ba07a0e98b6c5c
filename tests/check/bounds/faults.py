"""How the cases of this folder are collected: a kernel that leaves a tensor, and with ``FIXED`` does not.

The access at fault is on the line that ends with ``# here``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

F, I = np.float32, np.int32


@dataclass(frozen=True)
class Fault:
    """A kernel that uses an address outside of a tensor.

    Attributes:
        kernel: The kernel.
        make: Makes its arguments.
        grid: Extents of the grid.
        constants: Its constants.
        argument: Name of the tensor that is left; None where the address was read from memory.
        index: Element, counted from the tensor's first, of the first lane outside.
        program: The first program at fault.
        verb: What the access does.
        helpers: Functions that the kernel calls.
    """

    kernel: Any
    make: Callable[[], tuple[Any, ...]]
    grid: tuple[int, ...]
    constants: dict[str, Any]
    argument: str | None
    index: int
    program: int
    verb: str
    helpers: tuple[Any, ...]

    @property
    def file(self) -> str:
        """The file of the kernel."""
        return inspect.getfile(self.kernel.fn)

    @property
    def line(self) -> int:
        """The line at fault."""
        found = []
        for function in (self.kernel, *self.helpers):
            source, first = inspect.getsourcelines(function.fn)
            found += [n for n, text in enumerate(source, first) if text.rstrip().endswith("# here")]
        (line,) = found
        return line


FAULTS: dict[str, Fault] = {}


def fault(
    kernel: Any,
    make: Callable[[], tuple[Any, ...]],
    grid: int | tuple[int, ...],
    where: tuple[str | None, int],
    *,
    program: int = 0,
    verb: str = "load",
    helpers: tuple[Any, ...] = (),
    name: str = "",
    **constants: Any,
) -> None:
    """Note a fault; ``where`` is the tensor and the index."""
    name = name or kernel.__name__
    assert name not in FAULTS
    extents = (grid,) if isinstance(grid, int) else grid
    FAULTS[name] = Fault(kernel, make, extents, constants, *where, program, verb, helpers)


def floats(*sizes: int) -> tuple[Any, ...]:
    """Return arrays of ones."""
    return tuple(np.ones(size, F) for size in sizes)


def whole(*sizes: int) -> tuple[Any, ...]:
    """Return arrays of zeros."""
    return tuple(np.zeros(size, I) for size in sizes)
