"""Leave of a kernel that counts nothing but the counting.

What it reads from memory becomes a constant with a mark. If a mark is still there when all that is dead is gone, what is
counted depends on memory, and there is no such kernel. Nor is there one if it depends on what addresses are.
"""

from __future__ import annotations

from collections.abc import Collection

from emu.tile import ops
from emu.tile.ir import Module, Operation
from emu.tile.ops import Code
from emu.tile.passes import DeadCode
from emu.tile.passes.origins import is_pointer
from emu.tile.passes.rewriter import Rewriter

_MARK = "mark"

_DROPPED = frozenset({Code.STORE, Code.ASSERT, Code.PRINT, Code.BARRIER, Code.OBSERVE})
_READS = ops.READS | {Code.MACHINE_CALL}


def strip(module: Module, added: Collection[Operation]) -> Module | None:
    """Return a module of what counts; None if that depends on memory.

    Args:
        module: A kernel that calls nothing.
        added: The operations that count.
    """
    found = DeadCode().apply(_Stripper(added).module(module))
    marked = (o.attributes.get(_MARK) for o in found.kernel.body.walk())
    return None if any(marked) else found


class _Stripper(Rewriter):
    def __init__(self, added: Collection[Operation]) -> None:
        super().__init__()
        self._added = added

    def operation(self, operation: Operation) -> None:
        code = operation.code
        if operation in self._added:
            super().operation(operation)
        elif code in _DROPPED:
            return
        elif code is Code.AFTER:
            self.values[operation.result] = self.values[operation.operands[0]]
        elif code in _READS or _looks_at_addresses(operation):
            self._mark(operation)
        else:
            super().operation(operation)

    def _mark(self, operation: Operation) -> None:
        for result in operation.results:
            mark = Operation(Code.CONSTANT, (), [result.type], {"value": 0, _MARK: True})
            self.values[result] = mark.result
            self.out.append(mark)


def _looks_at_addresses(operation: Operation) -> bool:
    """Return whether an operation makes something of an address that is none."""
    if operation.code in (Code.CAST, Code.BITCAST):
        pointers = [is_pointer(v) for v in (*operation.operands, operation.result)]
        return any(pointers) and not all(pointers)
    return operation.code in ops.COMPARISONS and is_pointer(operation.operands[0])
