"""Marks of what many instances access: whether any two of them meet, element by element."""

from __future__ import annotations

from typing import Any, Final

from emu.kernels.core.jit import jit

PLAIN_WRITE: Final = 0
ATOMIC: Final = 1
READ: Final = 2

_MANY: Final = -1


@jit()
def mark(
    rows: Any, strides: Any, counts: Any, what: tuple[int, int], owners: Any, atomics: Any
) -> bool:
    """Mark what rows access in turn; return whether none meets what another one has marked.

    Writes come first, then atomic accesses, then reads. A write must be alone, even in its program; others must not
    meet a write of another program, nor reads an atomic access of another.

    Args:
        rows: Of each instance: owner (from 1), program (from 1), first granule, granules of an element.
        strides: Of each instance, granules of a step along each axis.
        counts: Of each instance, how many steps, plus one.
        what: ``PLAIN_WRITE``, ``ATOMIC`` or ``READ``; 1 if reads must look for atomic accesses, else 0.
        owners: Owner and program of the write of each granule.
        atomics: Program of the atomic access of each granule; -1 of several.
    """
    kind, looks = what
    axes = strides.shape[1]
    for n in range(rows.shape[0]):
        owner, program, first, size = rows[n, 0], rows[n, 1], rows[n, 2], rows[n, 3]
        total = 1
        for axis in range(axes):
            total *= counts[n, axis]
        for lane in range(total):
            at, rest = first, lane
            for axis in range(axes - 1, -1, -1):
                at += rest % counts[n, axis] * strides[n, axis]
                rest //= counts[n, axis]
            for place in range(at, at + size):
                if kind == PLAIN_WRITE:
                    if owners[place, 0] != 0:
                        return False
                    owners[place, 0] = owner
                    owners[place, 1] = program
                    continue
                there = owners[place, 1]
                if there != 0 and there != program:
                    return False
                if kind == ATOMIC:
                    before = atomics[place]
                    atomics[place] = program if before in (0, program) else _MANY
                elif looks and atomics[place] not in (0, program):
                    return False
    return True
