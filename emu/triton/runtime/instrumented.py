"""Kernels with checks: how they are made, kept on disk, and launched."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emu.tile import ops
from emu.tile.ir import Module
from emu.tile.passes import CarryOffsets, simplify
from emu.tile.passes.check_bounds import Access, check_bounds
from emu.tile.passes.check_uninit import Use, check_uninit
from emu.tile.passes.observe_accesses import Observed, observe_accesses
from emu.tile.passes.record_extents import record_extents
from emu.triton.runtime.arguments import Packed
from emu.triton.runtime.backends import Launch
from emu.triton.runtime.bounds import Argument, BoundsChecker, value_of
from emu.triton.runtime.check_modes import (
    BOUNDS_ALL,
    bounds_of,
    has_streams,
    has_uninit,
    is_observed,
    others_of,
)
from emu.triton.runtime.places import chain_of, location_of
from emu.triton.runtime.storages import find_storage
from emu.triton.runtime.touched import TouchedRecorder
from emu.triton.runtime.uninit import UninitChecker


@dataclass(frozen=True)
class Sites:
    """What a kernel with checks may report, by number.

    Attributes:
        accesses: Accesses whose bounds are checked.
        loads: Loads that may read unwritten memory.
        uses: Uses of what was loaded.
        observed: Accesses of which an observer is told.
    """

    accesses: tuple[Access, ...] = ()
    loads: tuple[Access, ...] = ()
    uses: tuple[Use, ...] = ()
    observed: tuple[Observed, ...] = ()

    def to_json(self) -> list[Any]:
        """Return the sites as JSON holds them."""
        return [
            _accesses_to_json(self.accesses),
            _accesses_to_json(self.loads),
            [[u.what, chain_of(u.location), list(u.shape)] for u in self.uses],
            _accesses_to_json([o.access for o in self.observed]),
            [[o.kind, o.order, o.scope, o.may_fail] for o in self.observed],
        ]

    @staticmethod
    def from_json(stored: Sequence[Any]) -> Sites:
        """Return the sites of :meth:`to_json`."""
        accesses, loads, uses, observed, facts = stored
        found = tuple(Use(what, location_of(chain), tuple(shape)) for what, chain, shape in uses)
        told = zip(_accesses_from_json(observed), facts, strict=True)
        sites = tuple(Observed(kind, access, *rest) for access, (kind, *rest) in told)
        return Sites(_accesses_from_json(accesses), _accesses_from_json(loads), found, sites)


def _accesses_to_json(accesses: Sequence[Access]) -> list[list[Any]]:
    return [
        [a.verb, chain_of(a.location), a.argument, a.element, a.size, list(a.shape), a.is_masked]
        for a in accesses
    ]


def _accesses_from_json(stored: Sequence[Sequence[Any]]) -> tuple[Access, ...]:
    return tuple(
        Access(verb, location_of(chain), argument, element, size, tuple(shape), masked)
        for verb, chain, argument, element, size, shape, masked in stored
    )


def instrument(module: Module, mode: str) -> tuple[Module, Sites]:
    """Return the module of a kernel that checks itself, and its sites; the module given is not changed.

    Args:
        module: The module.
        mode: One of ``check_modes.MODES``, maybe with ``check_modes.OBSERVED``.
    """
    whole, mode = mode, others_of(mode)
    if not mode and not is_observed(whole):
        return module, Sites()
    module = simplify(module)
    CarryOffsets().apply(module)
    sites, bounds = Sites(), bounds_of(mode)
    memory = [o for o in module.kernel.body.walk() if o.code in ops.MEMORY]
    machine = frozenset(o for o in memory if o.attributes.get("machine"))
    own = {*memory} - machine
    trusted: frozenset[Any] = machine
    if has_uninit(mode):
        found = check_uninit(module)
        sites, trusted = Sites((), found.loads, found.uses), found.added | machine
    if bounds is not None:
        keep_going = bounds == BOUNDS_ALL
        module, accesses = check_bounds(module, keep_going=keep_going, trusted=trusted)
        sites = Sites(accesses, sites.loads, sites.uses)
    if has_streams(mode):
        record_extents(module, own)
    if is_observed(whole):
        sites = dataclasses.replace(sites, observed=observe_accesses(module, own))
    return module, sites


class CheckedLauncher:
    """Launcher of a kernel with checks.

    Args:
        kernel: Its name.
        mode: One of ``check_modes.MODES``; what is said there of races is another launcher's.
        sites: What it may report.
        arguments: Arguments of the executable, in order.

    Attributes:
        function: Runs the kernel, as :meth:`launch` does.
    """

    def __init__(self, kernel: str, mode: str, sites: Sites, arguments: Sequence[Argument]) -> None:
        mode = others_of(mode)
        self._uninit = self._bounds = None
        names = [name for name, *_ in arguments]
        more = 0
        if has_uninit(mode):
            self._uninit = UninitChecker(kernel, sites.loads, sites.uses, names)
            more = 1
        bounds = bounds_of(mode)
        if bounds is not None:
            self._bounds = BoundsChecker(kernel, bounds, sites.accesses, arguments, more)
        self._arguments = arguments
        only = self._bounds if self._uninit is None else None
        self.function: Callable[..., None] = self.launch if only is None else only.launch
        if has_streams(mode):
            self.function = TouchedRecorder(kernel, arguments, self.function).launch

    def launch(
        self,
        launch: Launch,
        call: tuple[int, int, int, Sequence[Packed]],
        given: Mapping[str, object] | None,
    ) -> None:
        """Run the kernel.

        Args:
            launch: Runs the executable.
            call: Extents of the grid and the packed values.
            given: Arguments by the names of the parameters; None: their memory is not known, and not checked.

        Raises:
            OutOfBoundsError: An address was outside.
            UninitialisedError: A value that was never written was used.
        """
        bounds, uninit = self._bounds, self._uninit
        if uninit is None:
            if bounds is None:
                launch(*call)
            else:
                bounds.launch(launch, call, given)
            return
        values = call[3]
        tensors = [value_of(given, argument) for argument in self._arguments]
        facts = uninit.prepare([None if t is None else find_storage(t) for t in tensors])

        def inner(x: int, y: int, z: int, packed: Sequence[Packed]) -> None:
            # The facts of unwritten memory come before those of bounds, which are the last argument.
            at = len(values)
            try:
                launch(x, y, z, (*packed[:at], facts.address, *packed[at:]))
            except Exception:
                if not facts.has_hits:
                    raise
            error = uninit.error(facts, (x, y, z)) if facts.has_hits else None
            if error is not None:
                raise error

        if bounds is None:
            inner(*call)
        else:
            bounds.launch(inner, call, given)
