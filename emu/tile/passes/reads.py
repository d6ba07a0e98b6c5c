"""Values of a kernel that may depend on what it reads from memory."""

from __future__ import annotations

from collections.abc import Sequence

from emu.tile import ops
from emu.tile.ir import Operation, Region, Value
from emu.tile.ops import Code
from emu.tile.types import Token


def find_reads(kernel: Region) -> set[Value]:
    """Return the values of a kernel that calls nothing that may depend on memory; conditions do not count."""
    found: set[Value] = set()
    while _visit(kernel, found):
        pass
    return found


def _visit(region: Region, found: set[Value]) -> bool:
    """Go through a region once; return whether something was new."""
    before = len(found)
    for operation in region.operations:
        if operation.code in (Code.FOR, Code.WHILE, Code.IF):
            _control(operation, found)
        elif operation.code in ops.READS or any(v in found for v in operation.operands):
            found.update(r for r in operation.results if not isinstance(r.type, Token))
    return len(found) > before


def _control(operation: Operation, found: set[Value]) -> None:
    for region in operation.regions:
        _visit(region, found)
    if operation.code is Code.FOR:
        (body,) = operation.regions
        _join(body.arguments[1:], operation.operands[3:], found)
        _join(body.arguments[1:], body.terminator.operands, found)
        _join(operation.results, body.arguments[1:], found)
    elif operation.code is Code.WHILE:
        before, after = operation.regions
        _join(before.arguments, operation.operands, found)
        _join(before.arguments, after.terminator.operands, found)
        _join(after.arguments, before.terminator.operands[1:], found)
        _join(operation.results, before.terminator.operands[1:], found)
    else:
        for region in operation.regions:
            _join(operation.results, region.terminator.operands, found)


def _join(into: Sequence[Value], values: Sequence[Value], found: set[Value]) -> None:
    found.update(t for t, v in zip(into, values, strict=True) if v in found)
