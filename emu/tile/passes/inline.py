"""Inlining of called functions into the kernel."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from emu.tile.ir import Location, Module, Operation
from emu.tile.ops import Code
from emu.tile.passes.rewriter import Rewriter


@dataclass(frozen=True)
class Inline:
    """Replace all calls, so that the kernel is the only function.

    Locations of what came from a function get the call's location as their ``caller``.
    """

    def apply(self, module: Module) -> Module:
        """Return a module of the kernel alone; functions must not call themselves."""
        return _Inliner(module).run()


class _Inliner(Rewriter):
    def __init__(self, module: Module) -> None:
        super().__init__()
        self._module = module
        self._call: Location | None = None
        self._known: dict[tuple[Location, Location], Location] = {}

    def run(self) -> Module:
        kernel = self.function(self._module.kernel)
        return Module({kernel.name: kernel})

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
        outer, self._call = self._call, self.location(operation)
        given = self.mapped(operation.operands)
        self.values.update(zip(callee.body.arguments, given, strict=True))
        for inner in callee.body.operations[:-1]:
            self.operation(inner)
        returned = self.mapped(callee.body.terminator.operands)
        self.values.update(zip(operation.results, returned, strict=True))
        self._call = outer
