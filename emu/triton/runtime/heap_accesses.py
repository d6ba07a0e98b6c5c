"""Kernels on symmetric memory: what a launch reads and writes there is told to the check of races between PEs.

A launch whose addresses follow from its arguments tells the bytes that :mod:`emu.tile.footprints` finds. Of another one the
build that tells of each access runs. Operations by which programs of several PEs may find an order among themselves
are not told as such: the PE then counts as one that has waited for all that others had done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from emu.comm.world.listened_heaps import Heaps
from emu.tile.footprints.evaluation import find_footprints
from emu.tile.footprints.lines import Numbers, Truths
from emu.tile.footprints.spans import merged, spans_of
from emu.tile.ir import Location, Module, Operation
from emu.tile.observing import WORDS_BEFORE
from emu.tile.passes.observe_accesses import ATOMIC, LOAD, STORE, Observed
from emu.tile.types import DType, Pointer, element_of
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.grid_proof import GridProver

_MOST_KNOWN = 256
_MOST_PENDING = 1 << 16
_VERBS = {LOAD: "load", STORE: "store", ATOMIC: "atomic operation"}

AtomicClass = tuple[str, int]
"""Kind of elements, as ``dtype.kind``, and their bytes: operations of one class are atomic to each other."""


class Access(Protocol):
    """What is known of a memory operation of the kernel."""

    @property
    def operation(self) -> Operation:
        """The operation."""

    @property
    def argument(self) -> int | None:
        """The argument that its pointer comes from; None if it is not known."""

    @property
    def kind(self) -> str:
        """``"write"``, ``"read"`` or ``"atomic"``."""

    @property
    def changes(self) -> bool:
        """Whether it changes memory."""

    @property
    def orders(self) -> bool:
        """Whether programs may be ordered by it."""


class _Told(NamedTuple):
    """An access of the kernel, with the bytes that it uses from its argument's pointer."""

    operation: str
    argument: int
    writes: bool
    atomic: AtomicClass | None
    spans: Numbers


class HeapAccesses:
    """What launches of one kernel do to symmetric memory.

    Args:
        kernel: Its name.
        prover: Has its accesses.
    """

    def __init__(self, kernel: str, prover: GridProver) -> None:
        self._kernel = kernel
        self._prover = prover
        self._known: dict[Any, list[_Told] | None] = {}

    def plan(
        self, heaps: Heaps, grid: tuple[int, int, int], values: Sequence[Packed]
    ) -> HeapPlan | None:
        """Return what is to be told of a launch; None: it uses no symmetric memory."""
        module, pointers, accesses = self._prover.facts()
        inside = [
            is_pointer and isinstance(value, int) and heaps.low <= value < heaps.high
            for is_pointer, value in zip(pointers, values, strict=False)
        ]
        used: list[Access] = [a for a in accesses if a.argument is None or inside[a.argument]]
        if not used:
            return None
        # An access is told at the end of the launch, which a call of the machine in its middle is not.
        if self._prover.orders_by_machine or any(access.orders for access in used):
            return HeapPlan(heaps, self._kernel, values, [], synchronizes=True)
        if any(access.argument is None for access in used):
            return HeapPlan(heaps, self._kernel, values, None)
        pairs = zip(pointers, values, strict=False)
        numbers = tuple(None if p or not isinstance(v, int) else v for p, v in pairs)
        key = grid, tuple(inside), numbers
        if key not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = self._told(module, grid, numbers, used)
        return HeapPlan(heaps, self._kernel, values, self._known[key])

    def _told(
        self,
        module: Module,
        grid: tuple[int, int, int],
        numbers: Sequence[int | None],
        used: Sequence[Access],
    ) -> list[_Told] | None:
        """Return the bytes of each access from its argument's pointer; None: they do not follow from the arguments."""
        by_operation = {access.operation: access for access in used}
        found = []
        for footprint in find_footprints(module, grid, numbers, by_operation):
            access, spans = by_operation[footprint.operation], spans_of(footprint)
            if spans is None or footprint.origin is None:
                return None
            verb = {"read": "load", "write": "store"}.get(access.kind, "atomic operation")
            operation = _operation(self._kernel, verb, footprint.operation.location)
            atomic = _class_of(footprint.operation) if access.kind == "atomic" else None
            found.append(_Told(operation, footprint.origin, access.changes, atomic, spans))
        return found


class HeapPlan:
    """What is to be told of one launch.

    Args:
        heaps: Symmetric memory, and who is told.
        kernel: Name of the kernel.
        values: Arguments of the executable.
        told: The accesses; None: they must be observed.
        synchronizes: Whether programs may find an order with those of other PEs.

    Attributes:
        is_known: Whether nothing need be observed.
    """

    def __init__(
        self,
        heaps: Heaps,
        kernel: str,
        values: Sequence[Packed],
        told: list[_Told] | None,
        *,
        synchronizes: bool = False,
    ) -> None:
        self._heaps = heaps
        self._kernel = kernel
        self._values = values
        self._told = told
        self._synchronizes = synchronizes
        self._observer: HeapObserver | None = None
        self.is_known = told is not None
        if synchronizes:
            heaps.listener.begins_unseen_order()

    def observer(self, sites: Sequence[Observed]) -> HeapObserver | None:
        """Return what must be told of each access; None: nothing."""
        if not self.is_known:
            self._observer = HeapObserver(self._heaps, sites)
        return self._observer

    def tell(self) -> None:
        """Tell what the launch, which is over, has done."""
        listener = self._heaps.listener
        if self._synchronizes:
            listener.ends_unseen_order()
        for told in self._told or ():
            address: Any = self._values[told.argument]
            spans = told.spans + int(address)
            listener.used_spans(told.operation, spans, writes=told.writes, atomic=told.atomic)
        if self._observer is not None:
            self._observer.tell(self._kernel)


class HeapObserver:
    """Observer of one launch: the bytes of symmetric memory that each site uses.

    Args:
        heaps: Symmetric memory.
        sites: The sites of the kernel.

    Attributes:
        error: What went wrong, if anything.
    """

    def __init__(self, heaps: Heaps, sites: Sequence[Observed]) -> None:
        self._heaps = heaps
        self._sites = sites
        self._counts = [int(np.prod(s.access.shape, dtype=np.int64)) for s in sites]
        self._rows: dict[tuple[int, bool], list[Numbers]] = {}
        self._pending: dict[tuple[int, bool], int] = {}
        self.error: BaseException | None = None

    def __call__(self, number: int, record: int) -> None:
        """Note what a site has done; only what signals raise is raised."""
        try:
            if self.error is None:
                self._note(number, record)
        except BaseException as error:
            self.error = error  # the launch raises it at its end
            if not isinstance(error, Exception):
                raise

    def _note(self, number: int, record: int) -> None:
        site = self._sites[number]
        if not site.access.size:
            return
        count, masked = self._counts[number], int(site.access.is_masked)
        places = _words_at(record + 8 * WORDS_BEFORE, 1 + masked + int(site.may_fail))
        addresses = _words_at(int(places[0]), count)
        counts = np.ones(count, np.bool_)
        if masked:
            counts = _truths_at(int(places[1]), count)
        counts = counts & (addresses >= self._heaps.low) & (addresses < self._heaps.high)
        if not counts.any():
            return
        if not site.may_fail:
            self._add((number, site.kind != LOAD), addresses[counts], site.access.size)
            return
        swapped = _truths_at(int(places[1 + masked]), count)
        for writes, which in ((True, counts & swapped), (False, counts & ~swapped)):
            if which.any():
                self._add((number, writes), addresses[which], site.access.size)

    def _add(self, key: tuple[int, bool], addresses: Numbers, size: int) -> None:
        rows = self._rows.setdefault(key, [])
        rows.append(merged(np.stack([addresses, addresses + size], axis=1)))
        pending = self._pending[key] = self._pending.get(key, 0) + len(rows[-1])
        if pending > _MOST_PENDING and len(rows) > 1:
            rows[:] = [merged(np.concatenate(rows))]
            self._pending[key] = 0

    def tell(self, kernel: str) -> None:
        """Tell all that was noted."""
        for (number, writes), rows in self._rows.items():
            site = self._sites[number]
            operation = _operation(kernel, _VERBS[site.kind], site.access.location)
            is_atomic = bool(site.order) and site.scope != "cta"
            kind = "f" if "f" in site.access.element else "i"  # f32, bf16, fp8…
            self._heaps.listener.used_spans(
                operation,
                merged(np.concatenate(rows)),
                writes=writes,
                atomic=(kind, site.access.size) if is_atomic else None,
            )


def _class_of(operation: Operation) -> AtomicClass:
    element = element_of(operation.operands[0].type)
    assert isinstance(element, Pointer)
    held = element.element
    is_float = isinstance(held, DType) and held.is_float
    return "f" if is_float else "i", held.bytes


def _words_at(address: int, count: int) -> Numbers:
    """Return words of 8 bytes at an address."""
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))


def _truths_at(address: int, count: int) -> Truths:
    """Return truths, of a byte each, at an address."""
    truths: Truths = np.ctypeslib.as_array((ctypes.c_uint8 * count).from_address(address)) != 0
    return truths


def _operation(kernel: str, verb: str, location: Location | None) -> str:
    """Return what a report says of an access: where the kernel does it; the launch's line stands before that."""
    while location is not None and location.caller is not None:
        location = location.caller
    at = f" at {Path(location.file).name}:{location.line}" if location is not None else ""
    return f"kernel {kernel} ({verb}{at})"
