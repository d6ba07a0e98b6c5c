"""Functions of device libraries by symbol: a table that programs can extend."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import current
from emu.triton.language.conversion import bitcast_to, cast_to, to_tensor
from emu.triton.language.promotion import computation_type
from emu.triton.language.shapes import broadcast_tensors
from emu.triton.language.types import dtype
from emu.triton.language.values import TensorLike, tensor

Body = Callable[..., Any]
"""Emits a function's operations: takes tensors of one shape, returns one."""

_bodies: dict[str, Body] = {}
_reasons: dict[str, str] = {}


def register_extern(symbol: str, function: Body) -> None:
    """Make a symbol of a device library known, so that kernels which call it run here.

    It also replaces what ``libdevice`` and other programs call under the symbol.

    Args:
        symbol: Name in the library, such as ``"__nv_sinf"``.
        function: What it computes: a ``@triton.jit`` function, or a Python function that builds its result
            out of ``triton.language``. It gets the operands, broadcast to one shape, and returns one tensor
            of that shape.

    Raises:
        TypeError: The symbol is not a text, or the function cannot be called.
        ValueError: The symbol is empty.
    """
    if not isinstance(symbol, str):
        raise TypeError(f"symbol must be a text, but got {symbol!r}")
    if not symbol:
        raise ValueError("symbol must not be empty")
    if not callable(function):
        raise TypeError(f"function of the symbol {symbol!r} must be callable, but got {function!r}")
    _bodies[symbol] = function


def refuse_extern(symbol: str, reason: str) -> None:
    """Say why a symbol has no meaning here; the error of a kernel that calls it gives the reason."""
    _reasons[symbol] = reason


def has_extern(symbol: str) -> bool:
    """Return whether kernels can call a symbol."""
    return symbol in _bodies


def _find_in_libraries(symbol: str, count: int) -> Body | None:
    """Return the function of a library whose symbols are looked up by their parts.

    Raises:
        TypeError: It takes another number of operands.
    """
    if "shmem" not in symbol:
        return None
    from emu.triton.language.shmem.symbols import find_symbol  # it knows this module's users

    found = find_symbol(symbol)
    if found is not None:
        parameters = inspect.signature(found).parameters.values()
        least = sum(p.default is p.empty for p in parameters)
        if not least <= count <= len(parameters):
            takes = f"{least} operands" if least == len(parameters) else f"up to {len(parameters)}"
            raise TypeError(f"the symbol {symbol!r} takes {takes}, but got {count}")
    return found


def call_extern(symbol: str, operands: Sequence[tensor], result: dtype) -> tensor:
    """Emit a call of a symbol's function.

    Args:
        symbol: A registered symbol.
        operands: Tensors of one shape.
        result: Dtype of the result; an integer of another signedness is read as this one.

    Raises:
        NotImplementedError: The symbol is not known.
        TypeError: The function takes another number of operands, or its result is not one tensor of the operands' shape.
    """
    body = _bodies.get(symbol)
    if body is None and symbol not in _reasons:
        body = _find_in_libraries(symbol, len(operands))
    if body is None:
        reason = _reasons.get(symbol, "emu does not know it")
        raise NotImplementedError(
            f"the symbol {symbol!r} of a device library cannot be called: {reason}; "
            "triton.language.extra.register_extern adds a function for a symbol"
        )
    value = current().call(body, list(operands)) if hasattr(body, "fn") else body(*operands)
    if not isinstance(value, tensor) or (operands and value.extents != operands[0].extents):
        raise TypeError(
            f"the function of the symbol {symbol!r} must return one tensor of its operands' shape "
            f"{operands[0].extents if operands else ()}, but got {value!r}"
        )
    both = value.dtype.is_int() and result.is_int()
    if both and value.dtype.primitive_bitwidth == result.primitive_bitwidth:
        return bitcast_to(value, result)
    return cast_to(value, result)


def promote_operands(operands: Sequence[tensor]) -> list[tensor]:
    """Return operands in their common dtype: what Triton tries where no function takes theirs.

    Raises:
        TypeError: One is no number.
    """
    common = operands[0].dtype
    for operand in operands[1:]:
        common = computation_type(common, False, operand.dtype, False)
    return [cast_to(operand, common) for operand in operands]


def extern_elementwise(
    lib_name: ConstexprLike[str],
    lib_path: ConstexprLike[str],
    args: Sequence[TensorLike],
    arg_type_symbol_dict: Mapping[tuple[dtype, ...], tuple[str, dtype]],
    is_pure: ConstexprLike[bool],
    _semantic: object = None,
) -> tensor:
    """Call a function of a device library, element by element.

    Args:
        lib_name: Accepted; the symbol alone decides.
        lib_path: Accepted: no library is read.
        args: Tensors or numbers; broadcast to one shape.
        arg_type_symbol_dict: By the dtypes of the operands, the symbol and the dtype of the result.
        is_pure: Accepted: functions of the table have no side effects.

    Returns:
        The results under the common shape.

    Raises:
        NotImplementedError: The symbol is not in the table; :func:`register_extern` adds one.
        TypeError: No function takes operands of these dtypes, nor of the dtype that they have in common.
        ValueError: There is no function at all, or the number of operands or their shapes do not fit.
    """
    # Functions that are written for Triton hand on its builder, which has no part in this.
    del lib_name, lib_path, is_pure, _semantic
    operands = [to_tensor(a) for a in args]
    table = {
        tuple(unwrap(t) for t in unwrap(types)): found
        for types, found in unwrap(arg_type_symbol_dict).items()
    }
    if not table:
        raise ValueError("arg_type_symbol_dict must have at least one function, but is empty")
    dtypes = tuple(o.dtype for o in operands)
    counts = {len(types) for types in table}
    if len(dtypes) not in counts:
        raise ValueError(
            f"args must be {' or '.join(map(str, sorted(counts)))} operands, but got {len(dtypes)}"
        )
    if dtypes not in table and len(operands) > 1:
        operands = promote_operands(operands)
    symbol, result = _entry(table, operands)
    return call_extern(symbol, broadcast_tensors(*operands) if operands else (), result)


def _entry(
    table: Mapping[tuple[dtype, ...], tuple[str, dtype]], operands: Sequence[tensor]
) -> tuple[str, dtype]:
    """Return the symbol and the dtype of the result for operands."""
    dtypes = tuple(o.dtype for o in operands)
    if dtypes not in table:
        takes = " or ".join(f"({', '.join(map(str, types))})" for types in table)
        given = ", ".join(map(str, operands))
        raise TypeError(
            f"input arg type does not match: the function takes {takes}, but got ({given})"
        )
    symbol, result = (unwrap(v) for v in unwrap(table[dtypes]))
    return symbol, result
