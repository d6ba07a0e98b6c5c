"""Verification of whole programs of the tile IR against every rule."""

from __future__ import annotations

from collections.abc import Iterator

from emu.tile import ops, rules
from emu.tile.ir import Function, Module, Operation, Region, TileError, Value, checked_module
from emu.tile.ops import Code
from emu.tile.rules import Broken, need, types_are
from emu.tile.text.printer import Printer
from emu.tile.types import Tile, Token

CONTEXT = 3
"""Lines of the printed program that an error shows before and after its operation."""

_IN_COMBINE = ops.ELEMENTWISE | ops.CONTROL | ops.TERMINATORS | {Code.CONSTANT}


class VerifyError(TileError):
    """Error for a program of the tile IR that breaks a rule.

    Attributes:
        message: Which.
        operation: Where; ``None`` if it is not one operation that is wrong.
    """

    def __init__(self, message: str, module: Module, operation: Operation | None) -> None:
        self.message = message
        self.operation = operation
        text = message
        if operation is not None:
            where = "" if operation.location is None else f"{operation.location}: "
            text = f"{where}{operation.code.name.lower()}: {message}\n{_excerpt(module, operation)}"
        super().__init__(text)


def verify(module: Module) -> None:
    """Verify a module without changing it.

    Checked are operands, attributes, results and regions of each operation, that each value is defined
    once and only used where it is visible, that regions end as they must, calls and their types, and
    that no function calls itself. What combines elements in a reduction or a scan must be without
    effects and of scalars.

    Raises:
        VerifyError: A rule is broken; the text has the operation, its place in the source and the
            lines around it.
    """
    Checker(checked_module(module)).module()


def _excerpt(module: Module, operation: Operation) -> str:
    printer = Printer(strict=False)
    printer.module(module)
    at = printer.places.get(operation)
    if at is None:
        return ""
    first, last = max(at - CONTEXT, 0), min(at + CONTEXT + 1, len(printer.lines))
    marks = ("> " if n == at else "  " for n in range(first, last))
    return "\n".join(m + line for m, line in zip(marks, printer.lines[first:last], strict=True))


class Checker:
    """Checker of one module.

    The current operation is kept, so that an error names its location.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._defined: set[Value] = set()
        self._current: Operation | None = None

    def module(self) -> None:
        """Check everything."""
        try:
            need(bool(self._module.functions), "a module must have a kernel")
            for name, function in self._module.functions.items():
                self._function(name, function)
            self._recursion()
            self._combining()
        except Broken as broken:
            raise VerifyError(str(broken), self._module, self._current) from None

    def _function(self, name: str, function: Function) -> None:
        self._current = None
        need(name == function.name, f"the function {function.name} is listed as {name}")
        if function is self._module.kernel:
            self._kernel(function)
        visible: set[Value] = set()
        self._define(function.body.arguments, None, visible)
        ends = function.body.operations
        returns = bool(ends) and ends[-1].code is Code.RETURN
        need(returns, f"the function {name} must end with return")
        self._operations(function.body, visible)
        types_are(f"what {name} returns", ends[-1].operands, function.results)

    def _kernel(self, function: Function) -> None:
        need(not function.results, f"the kernel {function.name} must not return anything")
        for argument in function.body.arguments:
            scalar = not isinstance(argument.type, Tile | Token)
            need(scalar, f"arguments of the kernel {function.name} must be scalars or pointers")

    def _operations(self, region: Region, visible: set[Value]) -> None:
        """Check a region's operations in their order."""
        for operation in region.operations:
            self._current = operation
            # First what rules rely on (attributes, the number of regions), then the regions, then the rules, which
            # may look at what a region yields; the results are visible only behind all that.
            self._form(operation, operation is region.operations[-1], visible)
            for inner in operation.regions:
                seen = set(visible)  # a copy: what a region defines is not visible behind it
                self._define(inner.arguments, None, seen)
                self._operations(inner, seen)
                self._current = operation  # errors below are this operation's again
            self._whole(operation, visible)

    def _form(self, operation: Operation, last: bool, visible: set[Value]) -> None:
        """Check what must hold before the regions are checked."""
        for value in operation.operands:
            if value not in visible:
                known = (
                    "it is defined elsewhere" if value in self._defined else "nothing defines it"
                )
                raise Broken(f"an operand {value!r} is not visible here: {known}")
        need(operation.code not in ops.TERMINATORS or last, "it must be the last of its region")
        rules.check_attributes(operation)
        count = rules.WITH_REGIONS.get(operation.code, 0)
        need(
            len(operation.regions) == count,
            f"the number of its regions must be {count}, but got {len(operation.regions)}",
        )

    def _whole(self, operation: Operation, visible: set[Value]) -> None:
        """Check the rest, and define the results."""
        for region in operation.regions:
            rules.yields(region)
        rules.RULES[operation.code](operation)
        if operation.code is Code.CALL:
            self._call(operation)
        self._define(operation.results, operation, visible)

    def _define(
        self, values: list[Value] | tuple[Value, ...], owner: Operation | None, visible: set[Value]
    ) -> None:
        for value in values:
            if value in self._defined:
                raise Broken(f"{value!r} is defined twice")
            if value.owner is not owner:
                raise Broken(f"the owner of {value!r} is not what defines it")
            rules.check_type(value.type)
            self._defined.add(value)
            visible.add(value)

    def _call(self, operation: Operation) -> None:
        name = operation.attributes["callee"]
        callee = self._module.functions.get(name)
        if callee is None:
            raise Broken(f"there is no function {name}")
        need(callee is not self._module.kernel, f"the kernel {name} cannot be called")
        wanted = [a.type for a in callee.body.arguments]
        types_are(f"arguments of {name}", operation.operands, wanted)
        types_are("its results", operation.results, callee.results)

    def _calls(self, region: Region) -> Iterator[tuple[Operation, Function]]:
        for operation in region.walk():
            if operation.code is Code.CALL:
                yield operation, self._module.functions[operation.attributes["callee"]]

    def _recursion(self) -> None:
        """Follow calls depth first; one back to a function under way is recursion."""
        done: set[str] = set()

        def follow(function: Function, chain: tuple[str, ...]) -> None:
            if function.name in done:
                return
            for operation, callee in self._calls(function.body):
                self._current = operation
                path = (*chain, callee.name)
                need(callee.name not in chain, f"functions call themselves: {' -> '.join(path)}")
                follow(callee, path)
            done.add(function.name)

        for function in self._module.functions.values():
            follow(function, (function.name,))

    def _combining(self) -> None:
        for function in self._module.functions.values():
            for operation in function.body.walk():
                if operation.code in (Code.REDUCE, Code.SCAN):
                    self._plain(operation.regions[0])

    def _plain(self, region: Region) -> None:
        """Check that a region only computes with scalars."""
        for operation in region.walk():
            code = operation.code
            values = (*operation.operands, *operation.results)
            scalars = not any(isinstance(v.type, Tile) for v in values)
            self._current = operation
            need(
                code in _IN_COMBINE and scalars,
                "what combines elements must compute with scalars alone, without effects",
            )
        for _, callee in self._calls(region):
            self._plain(callee.body)
