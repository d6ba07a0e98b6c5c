"""Count the launches of a block, or one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from emu.kernels.core.messages import shown
from emu.tile.counting.counts import Counts
from emu.tile.counting.state import counting


def count(kernel: Any, grid: object, *args: object, **meta: object) -> Counts:
    """Launch a kernel and return what it did.

    The launch is that of ``kernel[grid](*args, **meta)``: its results are the same, bit by bit. Launches by which an autotuner
    chooses do not count.

    Args:
        kernel: Decorated with ``@triton.jit``, perhaps with autotuning or heuristics around that.
        grid: As in ``kernel[grid]``.
        *args: The kernel's arguments.
        **meta: Arguments by name, and options of the launch.

    Raises:
        TypeError: The kernel is none, or an argument does not fit.
        ValueError: The kernel is checked, or interpreted, or its backend has no kernels that count.
    """
    if not callable(getattr(kernel, "run", None)) or not hasattr(kernel, "fn"):
        raise TypeError(
            f"kernel must be decorated with @triton.jit, but got {shown(kernel, with_type=True)}"
        )
    if meta.get("warmup") or grid is None:
        raise ValueError(
            "grid must be one to three integers, or a function, as a launch is counted"
        )
    if meta.get("check"):
        raise ValueError(
            f"check must be None or False for a launch that is counted, but got {shown(meta['check'])}"
        )
    if meta.get("interpret"):
        raise ValueError("interpret must be False for a launch that is counted, but got True")
    with collect() as found:
        kernel[grid](*args, **meta)
    if not found:
        name = getattr(kernel, "__name__", "the kernel")
        raise ValueError(
            f"kernel must be compiled without checks, with a grid of at least one program, to be counted, but {name} "
            "launched no such program"
        )
    total = found[0]
    for one in found[1:]:
        total += one
    return total


@contextlib.contextmanager
def collect(operators: bool = False) -> Iterator[list[Counts]]:
    """Count each launch of a Triton kernel in this block; the list has the counts of each, in order.

    Args:
        operators: Whether calls into torch on emulated devices, operations of PyPTO and operators of MC2 count, too: each has counts of
            its own, of no programs.

    Raises:
        TypeError: ``operators`` is no bool.
        ValueError: Kernels are checked, or interpreted.
    """
    if not isinstance(operators, bool):
        raise TypeError(f"operators must be a bool, but got {shown(operators, with_type=True)}")
    found: list[Counts] = []
    with counting(found.append, operators):
        yield found
