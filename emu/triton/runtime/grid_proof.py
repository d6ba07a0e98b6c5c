"""Launches of which it is proved, without a look at memory, that no two programs race."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from emu.tile import ops
from emu.tile.footprints.evaluation import Footprint, find_footprints
from emu.tile.footprints.proofs import are_apart
from emu.tile.ir import Module, Operation
from emu.tile.machine import ORDERLESS
from emu.tile.ops import SCOPES, Code
from emu.tile.passes import CarryOffsets, simplify
from emu.tile.passes.observe_accesses import describe_order
from emu.tile.passes.origins import UNKNOWN, find_origins
from emu.tile.types import Pointer, element_of
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.storages import END

_MOST_VERDICTS = 4096

Extents = tuple[int, int]


@dataclass(frozen=True)
class _Access:
    """A memory operation of the kernel.

    Attributes:
        operation: The operation.
        argument: The argument that its pointer comes from; None if it is not known.
        kind: ``"write"``, ``"read"`` or ``"atomic"``: a weak one is a write.
        size: Bytes of an element.
        changes: Whether it changes memory.
        orders: Whether programs may be ordered by it.
    """

    operation: Operation
    argument: int | None
    kind: str
    size: int
    changes: bool
    orders: bool


class GridProver:
    """Prover of the launches of one kernel.

    Args:
        translate: Returns the module of the kernel.

    Attributes:
        orders_by_machine: Whether programs of the kernel may find an order by calls of the machine, among each other or
            with those of other PEs; known with :meth:`facts`.
    """

    orders_by_machine = False

    def __init__(self, translate: Callable[[], Module]) -> None:
        self._translate = translate
        self._loaded = False
        self._verdicts: dict[Any, bool] = {}
        self._recent: dict[Any, bool] = {}

    def is_free(
        self, grid: tuple[int, int, int], values: Sequence[Packed], extents: Sequence[Extents]
    ) -> bool:
        """Return whether it is proved that a launch has no race.

        Args:
            grid: Extents of the grid.
            values: The arguments of the executable: numbers, and addresses.
            extents: Memory of each argument that is a pointer: first byte, and the one behind; others anything.
        """
        # The same memory again: as in most launches, no look at how it overlaps.
        exact = grid, tuple(values), tuple(extents)
        found = self._recent.get(exact)
        if found is None:
            if len(self._recent) >= _MOST_VERDICTS:
                self._recent.clear()
            found = self._recent[exact] = self._is_free(grid, values, extents)
        return found

    def _is_free(
        self, grid: tuple[int, int, int], values: Sequence[Packed], extents: Sequence[Extents]
    ) -> bool:
        if not self._loaded:
            self._load()
        values = values[: len(self._pointers)]
        groups = self._groups(values, extents)
        key = grid, groups, self._numbers(values)
        found = self._verdicts.get(key)
        if found is None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            found = self._verdicts[key] = self._prove(grid, values, groups)
        return found

    def shared(self, values: Sequence[Packed], extents: Sequence[Extents]) -> list[bool]:
        """Return for each argument whether a program may change its memory while another one accesses it.

        That goes for memory of atomic operations alone only where they order programs.
        """
        if not self._loaded:
            self._load()
        values = values[: len(self._pointers)]
        found = [False] * len(values)
        has_stray = any(a.argument is None for a in self._accesses)
        stray = any(a.argument is None and a.changes for a in self._accesses)
        for group in self._groups(values, extents):
            here = [a for a in self._accesses if a.argument in {n for n, _ in group}]
            changed = stray or any(a.changes for a in here)
            for n, _ in group:
                alone = not has_stray and _are_updates(here) and not any(a.orders for a in here)
                found[n] = changed and not alone
        return found

    def facts(self) -> tuple[Module, list[bool], list[_Access]]:
        """Return the kernel's module, which of its arguments are pointers, and its memory operations."""
        if not self._loaded:
            self._load()
        return self._module, self._pointers, self._accesses

    def _load(self) -> None:
        module = simplify(self._translate())
        CarryOffsets().apply(module)
        self._module = module
        body = module.kernel.body
        origins = find_origins(body)
        self._pointers = [isinstance(a.type, Pointer) for a in body.arguments]
        has_fences = any(o.attributes.get("fence") for o in body.walk() if o.code is Code.BARRIER)
        self._accesses = [
            _describe(o, origins.get(o.operands[0], frozenset((UNKNOWN,))), has_fences)
            for o in body.walk()
            if o.code in ops.MEMORY and not o.attributes.get("machine")
        ]
        self.orders_by_machine = any(
            o.code is Code.MACHINE_CALL and o.attributes["what"] not in ORDERLESS
            for o in body.walk()
        )
        self._loaded = True

    def _numbers(self, values: Sequence[Packed]) -> tuple[Packed, ...]:
        return tuple(
            0 if pointer else value for pointer, value in zip(self._pointers, values, strict=True)
        )

    def _groups(
        self, values: Sequence[Packed], extents: Sequence[Extents]
    ) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Return the arguments whose memory overlaps, each with its distance from the group's first."""
        spans = sorted((*extents[n], n) for n, pointer in enumerate(self._pointers) if pointer)
        groups: list[list[int]] = []
        reach = -1
        for start, end, n in spans:
            if groups and start < reach:
                groups[-1].append(n)
            else:
                groups.append([n])
            reach = max(reach, end)
        made = []
        for group in groups:
            given: list[Any] = [values[n] for n in sorted(group)]
            distances = [int(value) - int(given[0]) for value in given]
            made.append(tuple(zip(sorted(group), distances, strict=True)))
        return tuple(made)

    def _prove(
        self,
        grid: tuple[int, int, int],
        values: Sequence[Packed],
        groups: Sequence[Sequence[tuple[int, int]]],
    ) -> bool:
        # What order programs find by the machine is not looked into.
        if self.orders_by_machine or not any(a.changes for a in self._accesses):
            return True
        if any(a.argument is None for a in self._accesses):
            return False
        hard = []
        for group in groups:
            here = [a for a in self._accesses if a.argument in dict(group)]
            if any(a.changes for a in here) and not _are_updates(here):
                if len({a.size for a in here if a.kind == "atomic"}) > 1:
                    return False
                hard.append((dict(group), here))
        if not hard:
            return True
        wanted = {a.operation for _, here in hard for a in here}
        pairs = zip(self._pointers, values, strict=True)
        numbers = [None if p or not isinstance(v, int) else v for p, v in pairs]
        found = find_footprints(self._module, grid, numbers, wanted)
        return all(_is_apart(group, here, found) for group, here in hard)


def _is_apart(
    addresses: dict[int, int], accesses: Sequence[_Access], footprints: Sequence[Footprint]
) -> bool:
    """Return whether the accesses of one group are proved to be apart."""
    kinds = {a.operation: a.kind for a in accesses}
    parts: dict[str, list[tuple[Footprint, int]]] = {"write": [], "atomic": [], "read": []}
    for footprint in footprints:
        if footprint.operation in kinds:
            if footprint.origin is None:
                return False
            pair = footprint, addresses[footprint.origin]
            parts[kinds[footprint.operation]].append(pair)
    return are_apart(parts["write"], parts["atomic"], parts["read"])


def _are_updates(accesses: Sequence[_Access]) -> bool:
    """Return whether all accesses are atomic, of one width."""
    return all(a.kind == "atomic" for a in accesses) and len({a.size for a in accesses}) == 1


def _describe(operation: Operation, origins: frozenset[int], has_fences: bool) -> _Access:
    element = element_of(operation.operands[0].type)
    assert isinstance(element, Pointer)
    (argument,) = origins if len(origins) == 1 else (UNKNOWN,)
    order, scope = describe_order(operation)
    changes = operation.code is not Code.LOAD
    kind = "write" if changes else "read"
    if order and scope != SCOPES[0]:
        kind = "atomic"
    known = None if argument == UNKNOWN else argument
    orders = kind == "atomic" and (has_fences or order not in ("relaxed", "volatile"))
    return _Access(operation, known, kind, element.element.bytes, changes, orders)


NOWHERE: Extents = (0, END)
"""Extents of memory that is not known: all there is."""
