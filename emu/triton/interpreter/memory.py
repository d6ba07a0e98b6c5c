"""Bounds of a launch's memory: every access of a kernel that runs as Python is checked against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emu.triton.interpreter.errors import InterpretedAccessError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Extent:
    """Memory of one argument: that of the whole storage, of which a tensor may be a view.

    Attributes:
        name: The argument's name.
        address: Where the argument's first element is.
        first: Address of the storage's first byte.
        behind: Address behind its last byte.
        description: Shape and strides, for errors.
        read_only: Whether it must not be written.
    """

    name: str
    address: int
    first: int
    behind: int
    description: str
    read_only: bool = False


class Memory:
    """Memory that the programs of a launch may touch.

    Args:
        extents: Those of the arguments whose extent is known.
    """

    def __init__(self, extents: Sequence[Extent]) -> None:
        self._extents = list(extents)
        self._by_name = {e.name: e for e in extents}

    def base_of(self, name: str) -> int | None:
        """Return the address of an argument; None if its memory is not known."""
        extent = self._by_name.get(name)
        return None if extent is None else extent.address

    def check(
        self, what: str, origin: str | None, addresses: Array, active: Array | None, size: int
    ) -> None:
        """Check the addresses of an access.

        Args:
            what: ``"load"``, ``"store"`` or ``"atomic"``.
            origin: The argument that the pointers came from; None if it is unknown.
            addresses: Addresses of all lanes.
            active: Lanes that are accessed; None: all.
            size: Bytes of an element.

        Raises:
            InterpretedAccessError: A lane is outside the storage of its argument, or of all memory, or may not
                be written.
        """
        used = addresses if active is None else addresses[np.broadcast_to(active, addresses.shape)]
        if not used.size:
            return
        low, high = int(used.min()), int(used.max()) + size
        extent = self._by_name.get(origin or "")
        if extent is not None:
            if not (extent.first <= low and high <= extent.behind):
                raise self._outside(what, extent, addresses, active, size)
        elif not any(e.first <= low and high <= e.behind for e in self._extents):
            self._check_mapped(what, used, size)
            return
        extent = extent or next(e for e in self._extents if e.first <= low and high <= e.behind)
        if extent.read_only and what != "load":
            raise InterpretedAccessError(
                f"{extent.name} must be writable, as the kernel stores to it, but got a read-only array"
            )

    def _outside(
        self, what: str, extent: Extent, addresses: Array, active: Array | None, size: int
    ) -> InterpretedAccessError:
        """Return the error for an access outside its argument's storage."""
        low = np.uint64(extent.first)
        top = extent.behind - size
        bad = np.ones(addresses.shape, np.bool_) if top < extent.first else (addresses < low)
        if top >= extent.first:
            bad = bad | (addresses > np.uint64(top))
        if active is not None:
            bad = bad & active
        lanes = np.argwhere(bad)
        lane = tuple(int(i) for i in lanes[0])
        offset = int(addresses[lane]) - extent.address
        place = f"{offset // size}" if offset % size == 0 else f"{offset / size:g}"
        first = (extent.first - extent.address) // size
        last = (extent.behind - extent.address) // size - 1
        allowed = f"{first} to {last}" if last >= first else "nothing, as it is empty"
        where = f" at lane {', '.join(map(str, lane))}" if lane else ""
        masked = "no mask is given" if active is None else "the mask is true there"
        return InterpretedAccessError(
            f"{what} outside {extent.name}: offset {place} (elements of {size} bytes){where}, but "
            f"{extent.name} ({extent.description}) has {allowed}; {len(lanes)} of {addresses.size} lanes "
            f"are outside, {masked}"
        )

    def _check_mapped(self, what: str, used: Array, size: int) -> None:
        """Check addresses of unknown origin against the memory map of the process."""
        wanted = "r" if what == "load" else "w"
        regions = _regions(wanted)
        starts = np.array([r[0] for r in regions], np.uint64)
        ends = np.array([r[1] for r in regions], np.uint64)
        at = np.searchsorted(starts, used, side="right").astype(np.int64) - 1
        fits = (at >= 0) & (used + np.uint64(size) <= ends[np.maximum(at, 0)])
        if not fits.all():
            address = int(used[~fits].flat[0])
            said = "a null pointer" if address == 0 else f"address {address:#x}"
            raise InterpretedAccessError(
                f"{what} at {said}, which is no memory that may be "
                f"{'read' if wanted == 'r' else 'written'}; the pointer was computed from no argument"
            )


def _regions(wanted: str) -> list[tuple[int, int]]:
    """Return the mapped ranges with a permission, adjacent ones joined."""
    found: list[tuple[int, int]] = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions, *_ = line.split(maxsplit=2)
        if wanted not in permissions:
            continue
        first, behind = (int(x, 16) for x in span.split("-"))
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], behind)
        else:
            found.append((first, behind))
    return found
