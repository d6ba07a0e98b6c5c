"""Inlining of called functions into the kernel."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from emu.tile.ir import Function, Location, Module, Operation
from emu.tile.ops import Code
from emu.tile.passes.rewriter import Rewriter
from emu.tile.types import Tile


@dataclass(frozen=True)
class Inline:
    """Replace all calls, so that the kernel is the only function.

    Locations of what came from a function get the call's location as their ``caller``.

    Attributes:
        keep_noinline: Whether functions that are marked ``noinline``, and take and return scalars only, stay.
    """

    keep_noinline: bool = False

    def apply(self, module: Module) -> Module:
        """Return a module of the kernel and what stays; functions must not call themselves."""
        return _Inliner(module, self.keep_noinline).run()


class _Inliner(Rewriter):
    def __init__(self, module: Module, keep_noinline: bool) -> None:
        super().__init__()
        self._module = module
        self._keep_noinline = keep_noinline
        self._kept: dict[str, Function] = {}
        self._call: Location | None = None
        self._known: dict[tuple[Location, Location], Location] = {}

    def run(self) -> Module:
        kernel = self.function(self._module.kernel)
        made = {kernel.name: kernel}
        while waiting := [f for name, f in self._kept.items() if name not in made]:
            for function in waiting:
                made[function.name] = self.function(function)
        return Module(made)

    def _is_kept(self, function: Function) -> bool:
        types = (*(a.type for a in function.body.arguments), *function.results)
        return (
            self._keep_noinline
            and function.noinline
            and not any(isinstance(type_, Tile) for type_ in types)
        )

    def location(self, operation: Operation) -> Location | None:
        return self._within(operation.location, self._call)

    def _within(self, place: Location | None, call: Location | None) -> Location | None:
        """Return a location with the call that leads there as its caller."""
        if place is None or call is None:
            return call if place is None else place
        if (place, call) not in self._known:
            caller = call if place.caller is None else self._within(place.caller, call)
            self._known[place, call] = dataclasses.replace(place, caller=caller)
        return self._known[place, call]

    def operation(self, operation: Operation) -> None:
        if operation.code is not Code.CALL:
            super().operation(operation)
            return
        callee = self._module.functions[operation.attributes["callee"]]
        if self._is_kept(callee):
            self._kept[callee.name] = callee
            super().operation(operation)
            return
        outer, self._call = self._call, self.location(operation)
        given = self.mapped(operation.operands)
        self.values.update(zip(callee.body.arguments, given, strict=True))
        for inner in callee.body.operations[:-1]:
            self.operation(inner)
        returned = self.mapped(callee.body.terminator.operands)
        self.values.update(zip(operation.results, returned, strict=True))
        self._call = outer
