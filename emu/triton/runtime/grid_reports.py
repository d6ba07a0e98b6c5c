"""What is said of races among the programs of a grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from emu.kernels.core import access_shadow as shadow
from emu.tile.passes.observe_accesses import ATOMIC, FENCE, LOAD, STORE, Observed
from emu.triton.errors import GridRace
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.bounds import Argument
from emu.triton.runtime.grid_observer import Pair, strength
from emu.triton.runtime.places import chain_of, lane_text, places


class GridReports:
    """Reports of one launch.

    Args:
        kernel: Name of the kernel.
        grid: Extents of the grid.
        arguments: Arguments of the executable, in order.
        values: Their values.
        sites: The sites of the kernel.
        extents: Memory of each argument.
    """

    def __init__(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        arguments: Sequence[Argument],
        values: Sequence[Packed],
        sites: Sequence[Observed],
        extents: Sequence[tuple[int, int]],
    ) -> None:
        self._kernel = kernel
        self._grid = grid
        self._arguments = arguments
        self._values = values
        self._sites = sites
        self._extents = extents
        self._has_fences = any(s.kind == FENCE for s in sites)

    def describe(self, pairs: Sequence[Pair]) -> list[GridRace]:
        """Return one report for each pair of places, benign ones only where there is no other."""
        ordered = sorted(pairs, key=lambda p: p.what == shadow.BENIGN)
        found: dict[object, GridRace] = {}
        for pair in ordered:
            places_ = frozenset((pair.site, pair.other_site))
            key = places_, pair.what == shadow.LANES
            if key not in found:
                found[key] = self._describe(pair)
        return sorted(found.values(), key=lambda r: r.is_benign)

    def _describe(self, pair: Pair) -> GridRace:
        site, other = self._sites[pair.site], self._sites[pair.other_site]
        here, there = chain_of(site.access.location), chain_of(other.access.location)
        file, line, column = here[-1][:3] if here else ("", 0, 0)
        other_file, other_line = there[-1][:2] if there else ("", 0)
        program, other_program = self._indices(pair.program), self._indices(pair.other_program)
        access = site.access
        lane = (
            tuple(int(i) for i in np.unravel_index(pair.lane, access.shape)) if access.shape else ()
        )
        argument, element, where = self._where(pair, site, other)
        is_benign = pair.what == shadow.BENIGN
        text = [
            *places(here),
            *(places(there) if there != here else []),
            self._headline(pair, program, other_program),
            f"  {_what(site)} of {access.element} at {file}:{line}, {lane_text(access.shape, pair.lane, lane)}",
            f"  {_what(other)} of {other.access.element} at {other_file}:{other_line}",
            f"  both access {where}",
        ]
        if is_benign:
            text.append("  a benign candidate: memory holds the same bits in either order")
        text += [f"  {line_}" for line_ in self._advice(pair, site, other)]
        kind = "lanes" if pair.what == shadow.LANES else "race"
        return GridRace(
            *(self._kernel, kind, is_benign, site.access.verb, program, lane, file, line, column),
            *(other.access.verb, other_program, other_file, other_line),
            argument,
            element,
            pair.address,
            access.size,
            "\n".join(text),
        )

    def _headline(
        self, pair: Pair, program: tuple[int, ...], other_program: tuple[int, ...]
    ) -> str:
        if pair.what == shadow.LANES:
            who = f"two lanes of program {program} of {self._grid} store to one element"
            return f"in kernel {self._kernel} {who}, and nothing orders them"
        who = f"programs {program} and {other_program} of {self._grid}"
        return f"{who} of kernel {self._kernel} race: nothing orders their accesses to one element"

    def _indices(self, number: int) -> tuple[int, int, int]:
        x, y, _ = self._grid
        return number % x, number // x % y, number // (x * y)

    def _where(
        self, pair: Pair, site: Observed, other: Observed
    ) -> tuple[str | None, int | None, str]:
        """Return the argument, the index of the element, and a text that names it."""
        access = site.access
        which = access.argument if access.argument is not None else other.access.argument
        if which is None:
            which = self._owner(pair.address)
        if which is None:
            return None, None, f"address {pair.address:#x}"
        name = self._arguments[which][0]
        base: Any = self._values[which]
        distance = pair.address - int(base)
        bytes_ = f"bytes {distance} to {distance + access.size - 1} from {name}, address {pair.address:#x}"
        if distance % access.size:
            return name, None, bytes_
        element = distance // access.size
        return name, element, f"{name}[{element}] ({bytes_})"

    def _owner(self, address: int) -> int | None:
        """Return the argument in whose memory an address is; None if there is none, or several."""
        found = [
            n
            for n, (_, is_pointer, _) in enumerate(self._arguments)
            if is_pointer and self._extents[n][0] <= address < self._extents[n][1]
        ]
        return found[0] if len(found) == 1 else None

    def _advice(self, pair: Pair, site: Observed, other: Observed) -> list[str]:
        """Return what would order them, and what the kernel has that does not."""
        if pair.what == shadow.LANES:
            if pair.site == pair.other_site:
                return [
                    "lanes of a store run in any order: each element must be stored by one lane"
                ]
            return [
                "lanes of a program run in any order: tl.debug_barrier() between the stores orders them"
            ]
        found = [_remedy(site, other)]
        for weak in self._sites:
            if weak.kind in (LOAD, STORE, ATOMIC) and weak.order:
                place = (
                    f"line {weak.access.location.line}"
                    if weak.access.location
                    else "a place unknown"
                )
                if strength(weak) == "relaxed":
                    unless = " without a fence between it and that" if self._has_fences else ""
                    found.append(f"the {_what(weak)} at {place} orders nothing{unless}")
                elif weak.scope == "cta":
                    said = "orders nothing among programs"
                    found.append(f"the {weak.access.verb} of scope 'cta' at {place} {said}")
        return list(dict.fromkeys(found))


def _what(site: Observed) -> str:
    """Return what a site does."""
    verb = site.access.verb
    if site.kind == ATOMIC:
        order = "" if site.order == "acq_rel" else f"{site.order} "
        return f"{order}atomic operation"
    if site.order == "volatile":
        return f"volatile {verb}"
    return f"{site.order} atomic {verb}" if site.order else verb


def _remedy(site: Observed, other: Observed) -> str:
    atomic = [bool(s.order) for s in (site, other)]
    if all(atomic) and "cta" in (site.scope, other.scope):
        return "scope='cta' is atomic among the threads of one program: scope='gpu' is among all programs"
    if all(atomic):
        return "atomic operations of different widths do not exclude each other: both must have one width"
    if any(atomic):
        plain = other if atomic[0] else site
        name = "tl.atomic_load" if plain.kind == LOAD else "tl.atomic_xchg"
        return (
            f"a {plain.access.verb} that is not atomic may meet it at any time: {name} may not; or the one releases "
            "(sem='release') after its access what the other acquires (sem='acquire') before its own"
        )
    if site.kind == other.kind == STORE:
        return (
            "programs of a grid run in any order, also at once: let one program own the element, or tl.atomic_add "
            "the parts, or store them apart and combine them in a second launch"
        )
    return (
        "programs of a grid run in any order, also at once: tl.atomic_add and its kin read and write in one step; a second "
        "launch orders the two, or a release after the one (tl.atomic_xchg(flag, 1, sem='release')) that an acquire "
        "before the other one reads"
    )
