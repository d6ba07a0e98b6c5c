"""What the compiler covers, checked before anything is generated."""

from __future__ import annotations

from emu.tile.ir import Function, Operation, Region, TileError
from emu.tile.ops import BINARY, BITWISE, FLOAT_BINARY, MEMORY, Code, Rmw
from emu.tile.types import DType, Kind, Pointer, Tile, Token, element_of

_NO_BOOLEANS = frozenset(
    (Code.NEG, Code.ABS, Code.DIV, Code.REM, Code.SHL, Code.SHR, Code.MULHI, Code.FMA)
)
_CROSS_LANE = frozenset((Code.REDUCE, Code.SCAN, Code.HISTOGRAM, Code.DOT, Code.BARRIER))


class NotCoveredError(TileError):
    """An operation, or one of its forms, is not covered by the compiler for CUDA."""


def _refuse(operation: Operation, why: str) -> None:
    operands = ", ".join(str(v.type) for v in operation.operands)
    results = ", ".join(str(v.type) for v in operation.results)
    where = f"{operation.location}: " if operation.location else ""
    raise NotCoveredError(
        f"{where}the CUDA compiler does not cover {operation.code.name.lower()}"
        f"({operands}) -> ({results}): {why}"
    )


def _check_elements(operation: Operation) -> None:
    code = operation.code
    if not operation.operands or isinstance(operation.operands[0].type, Token):
        return
    element = element_of(operation.operands[0].type)
    if isinstance(element, Pointer):
        if code in BINARY:
            _refuse(operation, "pointers have no arithmetic but ptr_add")
        return
    if element.kind is Kind.BOOL and code in _NO_BOOLEANS:
        _refuse(operation, "i1 has no such operation")
    if element.is_float and code in BITWISE | {Code.NOT}:
        _refuse(operation, "floats have no bitwise operations")
    if not element.is_float and code in FLOAT_BINARY:
        _refuse(operation, "it takes floats")


def _check_atomic(operation: Operation) -> None:
    element = element_of(operation.operands[1].type)
    if not isinstance(element, DType):
        _refuse(operation, "pointers are not updated atomically")
        return
    if element.kind is Kind.BOOL:
        _refuse(operation, "i1 is not updated atomically")
    bitwise = operation.attributes.get("kind") in (Rmw.AND.value, Rmw.OR.value, Rmw.XOR.value)
    if element.is_float and bitwise:
        _refuse(operation, "floats have no bitwise operations")


def _check_print(operation: Operation) -> None:
    if operation.attributes.get("hex"):
        _refuse(operation, "hexadecimal output is not covered")


def _check_dot(operation: Operation) -> None:
    a, b, c = (element_of(v.type) for v in operation.operands)
    kinds = [e for e in (a, b, c) if isinstance(e, DType)]
    floats = [e.is_float for e in kinds]
    if len(kinds) < 3 or any(e.kind is Kind.BOOL for e in kinds) or len(set(floats)) != 1:
        _refuse(operation, "it multiplies floats into floats, and integers into integers")


def _check(operation: Operation, combining: bool) -> None:
    code = operation.code
    if combining and (code in MEMORY | _CROSS_LANE or code in (Code.ASSERT, Code.PRINT)):
        _refuse(operation, "a combine function takes operations on scalars only")
    values = (*operation.operands, *operation.results)
    if combining and any(isinstance(v.type, Tile) for v in values):
        _refuse(operation, "a combine function takes operations on scalars only")
    _check_elements(operation)
    if code in (Code.ATOMIC_RMW, Code.ATOMIC_CAS):
        _check_atomic(operation)
    elif code is Code.PRINT:
        _check_print(operation)
    elif code is Code.DOT:
        _check_dot(operation)


def _walk(region: Region, combining: bool) -> None:
    for operation in region.operations:
        _check(operation, combining)
        inner = combining or operation.code in (Code.REDUCE, Code.SCAN)
        for nested in operation.regions:
            _walk(nested, inner)


def check(kernel: Function) -> None:
    """Check that all of a kernel without calls is covered.

    Raises:
        NotCoveredError: Something is not; the message names the operation, its place and its types.
    """
    for number, argument in enumerate(kernel.body.arguments):
        if isinstance(argument.type, Tile | Token):
            raise NotCoveredError(
                f"arguments of a kernel must be scalars or pointers, but argument {number} "
                f"is {argument.type}"
            )
    if kernel.results:
        raise NotCoveredError(f"a kernel must return nothing, but returns {kernel.results}")
    _walk(kernel.body, False)
