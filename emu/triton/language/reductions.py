"""Reductions along an axis, and along all."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from emu.tile import ir
from emu.tile.ops import Code
from emu.triton.language.arithmetic import add, and_, maximum, minimum, not_equal, or_, where, xor_
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import asserting, builder, current
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.creation import arange
from emu.triton.language.shapes import (
    broadcast_to,
    checked_axis,
    expand_dims,
    ravel,
    reshape,
    wrapped,
)
from emu.triton.language.types import dtype as _dtype
from emu.triton.language.types import float32, int1, int32, uint32
from emu.triton.language.values import TensorLike, TensorTuple, flatten, member, tensor, tuple

Combine = Callable[..., tensor | tuple | builtins.tuple[tensor, ...]]
"""Emits a combine function: takes the scalars of one side, then those of the other."""

_OWN = __name__.rpartition(".")[0]
_REFUSED = {
    Code.LOAD: "load from memory",
    Code.STORE: "store to memory",
    Code.ATOMIC_RMW: "have atomic operations",
    Code.ATOMIC_CAS: "have atomic operations",
    Code.PRINT: "print",
    Code.BARRIER: "wait at a barrier",
}


def body_of(function: object) -> Combine:
    """Return a function that emits a combine function's body; the language's own functions do so themselves.

    Python's ``max`` and ``min`` stand for ``tl.maximum`` and ``tl.minimum``.
    """
    plain = unwrap(function)
    if plain is builtins.max:
        return maximum
    if plain is builtins.min:
        return minimum
    if getattr(plain, "__module__", "").startswith(_OWN):
        own: Combine = plain
        return own
    call = current().call
    return lambda *arguments: call(plain, list(arguments))


def combining(
    elements: Sequence[_dtype], combine: Combine, what: str
) -> Callable[..., list[ir.Value]]:
    """Convert a combine function of tensors to one of the builder's values.

    Args:
        elements: Dtypes of the tensors that are combined.
        combine: Takes those of one side, then those of the other; returns one or a tuple.
        what: Name of the operation, for errors.

    Returns:
        A function that raises ``TypeError`` if the combine function has effects, or gives other dtypes.
    """

    def check(code: Code) -> None:
        if code in _REFUSED:
            advice = (
                "load before it, and pass a tuple of tensors"
                if code is Code.LOAD
                else "do that before it, or after it with its result"
            )
            raise TypeError(
                f"the combine function of {what} must not {_REFUSED[code]}, as how often it is called, and with what, "
                f"is not defined: {advice}"
            )

    def build(*values: ir.Value) -> list[ir.Value]:
        both = [*elements, *elements]
        with builder().checking(check):
            result = combine(*(tensor(v, e) for v, e in zip(values, both, strict=True)))
        given = [result] if isinstance(result, tensor) else list(result)
        found = [g.dtype if isinstance(g, tensor) else type(g) for g in given]
        if found != list(elements):
            raise TypeError(
                f"the combine function of {what} must give {', '.join(map(str, elements))}, but gives "
                f"{', '.join(map(str, found))}"
            )
        return flatten(builtins.tuple(given))

    return build


def combined(
    tensors: Sequence[tensor],
    combine: Combine,
    what: str,
    apply: Callable[[Sequence[ir.Value], Callable[..., list[ir.Value]]], Sequence[ir.Value]],
) -> Sequence[ir.Value]:
    """Apply a combine function along an axis.

    What it asserts becomes one more value that is combined, and is asserted afterwards: in the tile IR combine
    functions have no effects.

    Args:
        tensors: Of one shape.
        combine: Takes those of one side, then those of the other; returns one or a tuple.
        what: Name of the operation, for errors.
        apply: Emits the operation for tiles and a combine function of the builder's values.
    """
    context = current()
    elements, tiles = [t.dtype for t in tensors], [t.handle for t in tensors]
    messages: dict[str, None] = {}
    operations = context.builder.region.operations
    first = len(operations)
    results = apply(tiles, combining(elements, _collecting(combine, messages), what))
    if not messages:
        return results
    del operations[first:]
    holds = to_tensor(True)
    if tensors[0].extents:
        holds = broadcast_to(holds, tensors[0].extents)
    checked = combining([*elements, int1], _with_assertions(combine, messages), what)
    *results, handle = apply([*tiles, holds.handle], checked)
    said = ", or ".join([m for m in messages if m])
    message = f"an assertion in the combine function of {what} failed"
    context.builder.assert_(handle, f"{message}: {said}" if said else message)  # noqa: PT009 - emits an ASSERT
    return results


def _collecting(combine: Combine, messages: dict[str, None]) -> Combine:
    """Return a combine function whose assertions are collected, and only their messages kept."""

    def build(*values: tensor) -> Any:
        with asserting(messages):
            return combine(*values)

    return build


def _with_assertions(combine: Combine, messages: dict[str, None]) -> Combine:
    """Return a combine function of one value more: whether all assertions so far hold."""

    def build(*values: tensor) -> builtins.tuple[tensor, ...]:
        half = len(values) // 2
        first, second = values[: half - 1], values[half:-1]
        with asserting(messages) as asserted:
            result = combine(*first, *second)
        holds = and_(values[half - 1], values[-1])
        for condition in asserted.conditions:
            holds = and_(holds, tensor(condition, int1))
        return (*([result] if isinstance(result, tensor) else result), holds)

    return build


def inputs_of(input: TensorLike | TensorTuple, what: str) -> builtins.tuple[list[tensor], bool]:
    """Return the tensors of an input, and whether the input is a single tensor."""
    single = isinstance(input, tensor)
    tensors = [input] if isinstance(input, tensor) else [to_tensor(t) for t in unwrap(input)]
    if not tensors or any(t.extents != tensors[0].extents for t in tensors):
        said = ", ".join(map(str, tensors))
        raise ValueError(f"{what} needs tensors of one shape, but got {said or 'none'}")
    return tensors, single


def _reduced(
    tensors: Sequence[tensor],
    axis: ConstexprLike[int | None],
    combine: Combine,
    keep_dims: ConstexprLike[bool],
) -> list[tensor]:
    """Reduce tensors of one shape together; one of them alone goes by :func:`_reduced_one`."""
    where, keep = unwrap(axis), unwrap(keep_dims)
    rank = len(tensors[0].extents)
    if where is None:
        if not rank:
            return list(tensors)
        tensors, along = [ravel(t) for t in tensors], 0
    else:
        along = checked_axis(where, rank)
    handles = combined(
        tensors, combine, "a reduction", lambda tiles, build: builder().reduce(tiles, along, build)
    )
    results = [wrapped(h, t.dtype) for h, t in zip(handles, tensors, strict=True)]
    if keep:
        kept = [*range(rank)] if where is None else [along]
        results = [expand_dims(r, kept) for r in results]
    return results


def _reduced_one(
    x: tensor, axis: ConstexprLike[int | None], combine: Combine, keep_dims: ConstexprLike[bool]
) -> tensor:
    (result,) = _reduced([x], axis, combine, keep_dims)
    return result


@member
def reduce(
    input: TensorLike | TensorTuple,
    axis: ConstexprLike[int | None],
    combine_fn: ConstexprLike[Callable[..., object]],
    keep_dims: ConstexprLike[bool] = False,
) -> Any:
    """Combine all elements along an axis.

    Args:
        input: A tensor, or a tuple of tensors of one shape that are reduced together.
        axis: The axis, or ``None`` for all.
        combine_fn: A jit function of the scalars of one side, then those of the other, that returns as
            many of the same dtypes. It must be associative and commutative. Its assertions are checked where assertions are.
        keep_dims: Whether the reduced axes stay, with extent 1.

    Returns:
        A tensor, or a tuple of as many.

    Raises:
        TypeError: The function returns other dtypes, or touches memory or prints.
        ValueError: There is no such axis, or the shapes differ.
    """
    tensors, single = inputs_of(input, "a reduction")
    results = _reduced(tensors, axis, body_of(combine_fn), keep_dims)
    return results[0] if single else tuple(results)


def sum_dtype(of: _dtype, wanted: ConstexprLike[_dtype | None]) -> _dtype:
    """Return the dtype of a sum: integers narrower than 32 bits are added in 32 bits."""
    given: _dtype | None = unwrap(wanted)
    if given is not None:
        return given
    if of.is_int() and of.int_bitwidth < 32:
        return int32 if of.is_int_signed() else uint32
    return of


@member
def sum(
    input: TensorLike,
    axis: ConstexprLike[int | None] = None,
    keep_dims: ConstexprLike[bool] = False,
    dtype: ConstexprLike[_dtype | None] = None,
) -> tensor:
    """Sum along an axis, or of all elements.

    Args:
        input: The tensor.
        axis: The axis, or ``None`` for all.
        keep_dims: Whether the reduced axes stay, with extent 1.
        dtype: Dtype of the sum. By default integers narrower than 32 bits become int32 or, if
            unsigned or int1, uint32; other dtypes are kept.
    """
    x = to_tensor(input)
    x = cast_to(x, sum_dtype(x.dtype, dtype))
    return _reduced_one(x, axis, add, keep_dims)


def _widened(x: tensor) -> tensor:
    if x.dtype.primitive_bitwidth >= 32:
        return x
    return cast_to(x, float32 if x.dtype.is_floating() else int32)


def _larger(a: tensor, b: tensor) -> tensor:
    return maximum(a, b)


def _smaller(a: tensor, b: tensor) -> tensor:
    return minimum(a, b)


def _with_index(larger: bool, tie_break_left: bool) -> Combine:
    def combine(v1: tensor, i1: tensor, v2: tensor, i2: tensor) -> builtins.tuple[tensor, tensor]:
        first = v1 > v2 if larger else v1 < v2
        if v1.dtype.is_floating():
            first = or_(first, not_equal(v2, v2))  # a number goes before NaN
        if tie_break_left:
            first = or_(first, and_(v1 == v2, i1 < i2))
        return where(first, v1, v2), where(first, i1, i2)

    return combine


def _indexed(
    input: TensorLike,
    axis: ConstexprLike[int | None],
    keep_dims: ConstexprLike[bool],
    larger: bool,
    tie_break_left: ConstexprLike[bool],
) -> builtins.tuple[tensor, tensor]:
    x = to_tensor(input)
    if unwrap(axis) is None:
        if len(x.extents) != 1:
            raise ValueError(f"axis must be given where indices are asked for, but is None for {x}")
        axis = 0
    along, rank = checked_axis(axis, len(x.extents)), len(x.extents)
    index = reshape(
        arange(0, x.extents[along]), [s if i == along else 1 for i, s in enumerate(x.extents)]
    )
    index = broadcast_to(index, x.extents) if rank > 1 else index
    combine = _with_index(larger, bool(unwrap(tie_break_left)))
    value, place = _reduced([x, index], along, combine, keep_dims)
    return value, place


def _extreme(
    input: TensorLike,
    axis: ConstexprLike[int | None],
    return_indices: ConstexprLike[bool],
    tie_break_left: ConstexprLike[bool],
    keep_dims: ConstexprLike[bool],
    larger: bool,
) -> Any:
    if unwrap(return_indices):
        return tuple(_indexed(input, axis, keep_dims, larger, tie_break_left))
    combine = _larger if larger else _smaller
    return _reduced_one(_widened(to_tensor(input)), axis, combine, keep_dims)


@member
def max(
    input: TensorLike,
    axis: ConstexprLike[int | None] = None,
    return_indices: ConstexprLike[bool] = False,
    return_indices_tie_break_left: ConstexprLike[bool] = True,
    keep_dims: ConstexprLike[bool] = False,
) -> Any:
    """Return the largest element along an axis, or of all; NaNs are ignored where there is a number.

    Args:
        input: The tensor. Dtypes narrower than 32 bits are compared and given as fp32 or int32, unless
            indices are returned.
        axis: The axis, or ``None`` for all.
        return_indices: Whether to return a tuple of it and its index along the axis, int32.
        return_indices_tie_break_left: Whether ties give the first index.
        keep_dims: Whether the reduced axes stay, with extent 1.
    """
    return _extreme(input, axis, return_indices, return_indices_tie_break_left, keep_dims, True)


@member
def min(
    input: TensorLike,
    axis: ConstexprLike[int | None] = None,
    return_indices: ConstexprLike[bool] = False,
    return_indices_tie_break_left: ConstexprLike[bool] = True,
    keep_dims: ConstexprLike[bool] = False,
) -> Any:
    """Return the smallest element along an axis, or of all; otherwise as :func:`max`."""
    return _extreme(input, axis, return_indices, return_indices_tie_break_left, keep_dims, False)


@member
def argmax(
    input: TensorLike,
    axis: ConstexprLike[int],
    tie_break_left: ConstexprLike[bool] = True,
    keep_dims: ConstexprLike[bool] = False,
) -> tensor:
    """Return the index of the largest element along an axis, int32; NaNs are ignored where there is a number.

    Args:
        input: The tensor.
        axis: The axis.
        tie_break_left: Whether ties give the first index.
        keep_dims: Whether the reduced axis stays, with extent 1.
    """
    return _indexed(input, axis, keep_dims, True, tie_break_left)[1]


@member
def argmin(
    input: TensorLike,
    axis: ConstexprLike[int],
    tie_break_left: ConstexprLike[bool] = True,
    keep_dims: ConstexprLike[bool] = False,
) -> tensor:
    """Return the index of the smallest element along an axis, int32; otherwise as :func:`argmax`."""
    return _indexed(input, axis, keep_dims, False, tie_break_left)[1]


def _integers(what: str, x: TensorLike) -> tensor:
    value = to_tensor(x)
    if not value.dtype.is_int():
        raise TypeError(f"{what} needs integers, but got {value}")
    return value


def _exclusive(a: tensor, b: tensor) -> tensor:
    return xor_(a, b)


def _inclusive(a: tensor, b: tensor) -> tensor:
    return or_(a, b)


@member
def xor_sum(
    input: TensorLike,
    axis: ConstexprLike[int | None] = None,
    keep_dims: ConstexprLike[bool] = False,
) -> tensor:
    """Return the bitwise exclusive or of the integers along an axis, or of all."""
    return _reduced_one(_integers("xor_sum", input), axis, _exclusive, keep_dims)


@member
def reduce_or(
    input: TensorLike,
    axis: ConstexprLike[int | None] = None,
    keep_dims: ConstexprLike[bool] = False,
) -> tensor:
    """Return the bitwise or of the integers along an axis, or of all."""
    return _reduced_one(_integers("reduce_or", input), axis, _inclusive, keep_dims)
