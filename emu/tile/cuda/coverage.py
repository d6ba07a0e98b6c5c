"""Operations that the CUDA compiler covers."""

from __future__ import annotations

from emu.tile import ops
from emu.tile.ir import Function, Operation, TileError
from emu.tile.ops import CONTROL, MEMORY, TERMINATORS, Code

COVERED = (
    ops.PER_ELEMENT
    | MEMORY
    | TERMINATORS
    | (CONTROL - {Code.CALL})  # inlined before
    | {Code.PROGRAM_ID, Code.NUM_PROGRAMS}
    | {Code.REDUCE, Code.SCAN, Code.HISTOGRAM, Code.SORT, Code.DOT}
    | {Code.BARRIER, Code.JOIN_TOKENS, Code.ASSERT, Code.PRINT}
)
"""The operations that are covered, all dtypes of each."""


class NotCoveredError(TileError):
    """Error for an operation, or a form of it, that the CUDA compiler does not cover."""


def _refuse(operation: Operation, why: str) -> None:
    operands = ", ".join(str(v.type) for v in operation.operands)
    results = ", ".join(str(v.type) for v in operation.results)
    where = f"{operation.location}: " if operation.location else ""
    raise NotCoveredError(
        f"{where}the CUDA compiler does not cover {operation.code.name.lower()}"
        f"({operands}) -> ({results}): {why}"
    )


def check(kernel: Function) -> None:
    """Check that all of a verified kernel without calls is covered.

    Raises:
        NotCoveredError: An operation is not covered; the message names the operation, its place and its types.
    """
    for operation in kernel.body.walk():
        if operation.code not in COVERED:
            _refuse(operation, "it is not among the operations that are covered")
        if operation.code is Code.PRINT and operation.attributes.get("hex"):
            _refuse(operation, "hexadecimal output is not covered")
