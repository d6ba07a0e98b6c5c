"""Calls of a device library's functions by symbol, with scalars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import constant, to_tensor
from emu.triton.language.external import call_extern
from emu.triton.language.threads import (
    count,
    element,
    goes_by_warps,
    is_own,
    of_one,
    of_warp,
    part_of_warp,
    settled,
)
from emu.triton.language.types import dtype, int32
from emu.triton.language.values import TensorLike, tensor
from emu.triton.language.variation import WARP_SIZE


def extern_call(
    lib_name: ConstexprLike[str],
    lib_path: ConstexprLike[str],
    args: Sequence[TensorLike],
    arg_type_symbol_dict: Mapping[tuple[dtype, ...], tuple[str, object]],
    is_pure: ConstexprLike[bool],
    _semantic: object = None,
) -> tensor:
    """Call a function of a device library: once for the program, or for each warp or thread that has operands of its own.

    Args:
        lib_name: Accepted; the symbol alone decides.
        lib_path: Accepted: no library is read.
        args: Scalars, or values of threads.
        arg_type_symbol_dict: By the dtypes of the operands, the symbol and the dtype of the result; of a function
            without one, an empty tuple.
        is_pure: Accepted.

    Raises:
        NotImplementedError: The symbol is not known.
        TypeError: No function takes operands of these dtypes.
        ValueError: An operand is a tile, or there is no function with so many operands.
    """
    del lib_name, lib_path, is_pure, _semantic
    operands = [settled(to_tensor(a)) for a in args]
    table = {
        tuple(map(unwrap, unwrap(types))): found
        for types, found in unwrap(arg_type_symbol_dict).items()
    }
    for operand in operands:
        if operand.extents and not is_own(operand):
            raise ValueError(f"args must be scalars, but got {operand}")
    counts = {len(types) for types in table}
    if len(operands) not in counts:
        raise ValueError(
            f"args must be {' or '.join(map(str, sorted(counts))) or 'no'} operands, but got {len(operands)}"
        )
    # By their text: types of pointers are made anew by each library.
    given = [str(o.dtype) for o in operands]
    for types, found in table.items():
        if [str(t) for t in types] == given:
            symbol, result = (unwrap(v) for v in unwrap(found))
            if any(map(is_own, operands)):
                return _call_for_each(symbol, operands, unwrap(result))
            return call_extern(symbol, operands, _single(symbol, result))
    takes = " or ".join(f"({', '.join(map(str, types))})" for types in table)
    raise TypeError(
        f"input arg type does not match: the function takes {takes}, but got ({', '.join(given)})"
    )


def _call_for_each(symbol: str, operands: Sequence[tensor], result: object) -> tensor:
    """Call a function without a result for each warp that has operands of its own, or for each thread.

    Raises:
        NotImplementedError: It has a result.
    """
    element_type = _single(symbol, result)
    if result not in ((), []) and not (isinstance(result, dtype) and result.is_void()):
        raise NotImplementedError(
            f"the symbol {symbol!r} has a result, and its operands differ between threads: call it in a branch on the "
            "thread's index, where one thread runs at a time"
        )
    emit, by_warps = builder(), goes_by_warps(*operands)
    turns = count() // WARP_SIZE if by_warps else count()
    running, part = (of_warp, part_of_warp) if by_warps else (of_one, element)
    first, step = constant(0, int32).handle, constant(1, int32).handle
    with emit.for_(first, constant(turns, int32).handle, step, []) as loop:
        with running(loop.index):
            given = [part(o, loop.index) if is_own(o) else o for o in operands]
            call_extern(symbol, given, element_type)
        emit.yield_()
    return constant(0, int32)


def _single(symbol: str, result: object) -> dtype:
    """Return the dtype of a function's only result; that of the status of one without any.

    Raises:
        NotImplementedError: It has several.
    """
    if isinstance(result, list | tuple):
        if len(result) > 1:
            raise NotImplementedError(f"the symbol {symbol!r} has several results, which emu lacks")
        result = unwrap(result[0]) if result else int32
    if not isinstance(result, dtype):
        raise TypeError(f"the result of the symbol {symbol!r} must be a dtype, but got {result!r}")
    return int32 if result.is_void() else result
