"""``map_elementwise``: a function of scalars, applied to each element of tensors."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from emu.kernels.core.messages import shown
from emu.tile.ir import Region, Value
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder, current
from emu.triton.language.conversion import to_tensor
from emu.triton.language.lifting import Lifting
from emu.triton.language.shapes import broadcast_tensors, join, reshape, split, wrapped
from emu.triton.language.values import TensorLike, flatten, tensor, tuple


def map_elementwise(
    scalar_fn: ConstexprLike[Callable[..., object]],
    *args: TensorLike,
    pack: ConstexprLike[int] = 1,
) -> Any:
    """Apply a function of scalars to each element.

    The function may branch and loop on its arguments, and load and store. Here all elements run together: both
    sides of a branch are computed where some element takes them, and memory is touched for these only.

    Args:
        scalar_fn: A jit function of one scalar per tensor, that returns one or several.
        *args: Tensors, which are broadcast to one shape.
        pack: Number of neighbours along the last axis that a call gets, a power of two: ``pack`` scalars of
            the first tensor, then ``pack`` of the second, and so on. It returns ``pack`` of each result.

    Returns:
        A tensor, or a tuple of as many as the function returns.

    Raises:
        TypeError: ``scalar_fn`` is not a function, returns no scalars, of one result scalars of several dtypes, or does what single
            elements cannot do.
        ValueError: ``pack`` is not a power of two, or does not divide the last extent.
    """
    function = unwrap(scalar_fn)
    if not callable(function) and not hasattr(function, "fn"):  # as the functions of kernels have
        raise TypeError(f"scalar_fn must be a jit function, but got {shown(function)}")
    count = unwrap(pack)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1 or count & (count - 1):
        raise ValueError(f"pack must be a power of 2, but got {count!r}")
    if not args:
        raise TypeError("map_elementwise needs at least one tensor, but got none")
    tensors = broadcast_tensors(*[to_tensor(a) for a in args])
    shape = tensors[0].extents
    last = shape[-1] if shape else 1
    if last % count:
        raise ValueError(f"pack must divide the last extent, but got {count} for {tensors[0]}")
    if not shape:
        return current().call(function, list(tensors))
    packed = [part for t in tensors for part in _unpacked(t, count)]
    single, made = _mapped(function, packed, count)
    results = [_packed(made[i : i + count], shape) for i in range(0, len(made), count)]
    return results[0] if single and count == 1 else tuple(results)


def _mapped(
    function: Callable[..., object], packed: Sequence[tensor], count: int
) -> builtins.tuple[bool, list[tensor]]:
    """Return whether the function returns one value that is no tuple, and the tensor of each scalar."""
    single = False

    def call(given: list[tensor]) -> list[tensor]:
        nonlocal single
        returned = current().call(function, given)
        single = not isinstance(returned, tuple | builtins.tuple)
        found = [to_tensor(v) for v in ([returned] if single else list(returned))]
        _check_results(found, count)
        return found

    map_scalars = current().map_scalars
    if map_scalars is not None:
        results = map_scalars(call, packed)
        return single, results
    region, scalars = Region(), [Value(t.dtype.to_ir()) for t in packed]
    with builder().into(region):
        found = call([tensor(v, t.dtype) for v, t in zip(scalars, packed, strict=True)])
        builder().yield_(*flatten(found))
    tiles = dict(zip(scalars, [t.handle for t in packed], strict=True))
    handles = Lifting(builder(), packed[0].extents, tiles).run(region)
    return single, [wrapped(h, t.dtype) for h, t in zip(handles, found, strict=True)]


def _check_results(found: Sequence[tensor], count: int) -> None:
    if not found or any(t.type.is_void() or t.extents for t in found):
        said = ", ".join(map(str, found)) or "nothing"
        raise TypeError(f"the function of map_elementwise must return scalars, but returns {said}")
    if len(found) % count:
        raise TypeError(
            f"with pack={count} the function of map_elementwise must return {count} of each result, "
            f"but returns {len(found)}"
        )
    for i in range(0, len(found), count):
        if any(t.dtype != found[i].dtype for t in found[i : i + count]):
            said = ", ".join(str(t.dtype) for t in found[i : i + count])
            raise TypeError(
                f"the {count} scalars of one result must have one dtype, but have {said}"
            )


def _unpacked(x: tensor, count: int) -> list[tensor]:
    """Return the elements at each place of runs of ``count`` along the last axis, as tensors."""
    if count == 1:
        return [x]
    if x.extents == (count,):
        x = reshape(x, (1, count))
    even, odd = split(reshape(x, (*x.extents[:-1], x.extents[-1] // 2, 2)))
    halves = [_unpacked(half, count // 2) for half in (even, odd)]
    return [part for pair in zip(*halves, strict=True) for part in pair]


def _packed(parts: Sequence[tensor], shape: builtins.tuple[int, ...]) -> tensor:
    """Undo :func:`_unpacked`."""
    return reshape(_interleaved(list(parts)), shape)


def _interleaved(parts: list[tensor]) -> tensor:
    if len(parts) == 1:
        return parts[0]
    pair = join(_interleaved(parts[0::2]), _interleaved(parts[1::2]))
    return reshape(pair, (*pair.extents[:-2], pair.extents[-2] * 2))
