"""Shapes: broadcasting, reshaping, transposing, joining and splitting."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence

from emu.tile import ir
from emu.tile.ops import ELEMENTWISE, UNIFORM_SHAPES, Code
from emu.triton.language.constants import ConstexprLike, constexpr, unwrap, unwrap_sequence
from emu.triton.language.context import Threads, builder, current
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.types import block_type, dtype, validate_block_shape
from emu.triton.language.values import (
    ShapeLike,
    TensorLike,
    member,
    operation,
    slice,
    tensor,
    tuple,
)

Shape = builtins.tuple[int, ...]


def wrapped(handle: ir.Value, element: dtype) -> tensor:
    """Return an IR value as a tensor; one with a shape is a block."""
    shape = handle.shape
    return tensor(handle, block_type(element, shape) if shape else element)


def checked_shape(shape: object) -> Shape:
    """Return a shape as Python's integers.

    Raises:
        TypeError: An extent is not an int.
        ValueError: A tensor cannot have the shape.
    """
    extents = builtins.tuple(unwrap_sequence(shape))
    validate_block_shape(extents)
    return extents


def checked_axis(axis: object, rank: int, name: str = "axis") -> int:
    """Return an axis counted from 0.

    Raises:
        ValueError: The axis is not in ``[-rank, rank)``.
    """
    plain = unwrap(axis)
    if not isinstance(plain, int):
        raise TypeError(f"{name} must be an int known at compile time, but got {plain!r}")
    if not -rank <= plain < rank:
        raise ValueError(f"invalid axis {plain}: {name} must be in [{-rank}, {rank})")
    return plain % rank


_OF_EQUALS = ELEMENTWISE | UNIFORM_SHAPES | {Code.CONSTANT}
"""Operations whose results have equal elements if their operands have."""


def common_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the shape to which all can be broadcast.

    Raises:
        ValueError: The shapes cannot be broadcast.
    """
    rank = max(len(s) for s in shapes)
    common = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if common[i] == 1:
                common[i] = extent
            elif extent not in (1, common[i]):
                said = " and ".join(str(s) for s in shapes)
                hint = (
                    ""
                    if len(set(map(len, shapes))) == 1
                    else "; x[:, None] or x[None, :] gives a tensor another axis"
                )
                raise ValueError(
                    f"cannot broadcast tensors of shapes {said} to one shape: extents {common[i]} and "
                    f"{extent} of axis {i} differ, and neither is 1{hint}"
                )
    return builtins.tuple(common)


def broadcast_handle(handle: ir.Value, shape: Shape) -> ir.Value:
    """Broadcast an IR value to a shape; axes are added in front."""
    emit = builder()
    if handle.shape == shape:
        return handle
    if not handle.shape:
        return emit.splat(handle, shape)
    missing = len(shape) - len(handle.shape)
    if missing:
        handle = emit.reshape(handle, (1,) * missing + handle.shape)
    return emit.broadcast(handle, shape)


def broadcast_tensors(*tensors: tensor) -> builtins.tuple[tensor, ...]:
    """Broadcast tensors to their common shape.

    Raises:
        TypeError: One is a tile, and another a value that each thread has of its own.
        ValueError: They have no common shape.
    """
    threads = current().threads
    if threads is not None and threads.own:
        _check_no_mixture(tensors, threads)
    shapes = [t.extents for t in tensors]
    if all(s == shapes[0] for s in shapes):
        return tensors
    shape = common_shape(shapes)
    return builtins.tuple(
        t if t.extents == shape else wrapped(broadcast_handle(t.handle, shape), t.dtype)
        for t in tensors
    )


def _check_no_mixture(tensors: Sequence[tensor], threads: Threads) -> None:
    """Refuse tiles beside values of threads: an element of a tile belongs to no certain thread."""
    tiles = [t for t in tensors if t.type.is_block() and t.type.numel > 1]
    own = [t for t in tiles if threads.have(t.handle)]
    others = [t for t in tiles if not threads.have(t.handle) and not is_repeated(t.handle)]
    if own and others:
        other = others[0]
        raise TypeError(
            f"a value that each thread has of its own, here {own[0]}, cannot be combined with a tile, {other}: elements of "
            "tiles belong to no certain thread"
        )


def is_repeated(handle: ir.Value) -> bool:
    """Return whether all elements of a tile are seen to be the same."""
    todo = [handle]
    while todo:
        one = todo.pop()
        if not one.shape:
            continue
        if one.owner is None:
            return False
        if one.owner.code not in _OF_EQUALS:
            return False
        todo += one.owner.operands
    return True


def broadcast(input: TensorLike, other: TensorLike) -> tuple:
    """Broadcast two tensors to their common shape.

    Raises:
        ValueError: The shapes cannot be broadcast.
    """
    return tuple(broadcast_tensors(to_tensor(input), to_tensor(other)))


@member
def broadcast_to(input: TensorLike, *shape: ShapeLike) -> tensor:
    """Broadcast a tensor to a shape of the same rank, or a scalar to any.

    Args:
        input: The tensor.
        shape: Extents, or one sequence of them.

    Raises:
        ValueError: The ranks differ, or an extent other than 1 does.
    """
    x, target = to_tensor(input), checked_shape(shape)
    return wrapped(_broadcast_to(x, target), x.dtype)


def _broadcast_to(x: tensor, target: Shape) -> ir.Value:
    if not x.extents:
        return builder().splat(x.handle, target)
    if len(x.extents) != len(target):
        raise ValueError(
            f"cannot broadcast {x} to shape {target}: the ranks are {len(x.extents)} and {len(target)}"
        )
    for i, (extent, wanted) in enumerate(zip(x.extents, target, strict=True)):
        if extent not in (1, wanted):
            raise ValueError(
                f"cannot broadcast {x} to shape {target}: extent {extent} of axis {i} is neither 1 "
                f"nor {wanted}"
            )
    return builder().broadcast(x.handle, target)


@member
def expand_dims(input: TensorLike, axis: ShapeLike) -> tensor:
    """Insert axes of extent 1.

    Args:
        input: The tensor.
        axis: Position of the new axis in the result, or a sequence of them.

    Raises:
        ValueError: A position is out of range or given twice.
    """
    x = to_tensor(input)
    places = unwrap_sequence(axis)
    rank = len(x.extents) + len(places)
    places = [checked_axis(a, rank) for a in places]
    if len(set(places)) != len(places):
        raise ValueError(
            f"axis must name different axes, but got duplicate axes, normalized axes = {places}"
        )
    rest = iter(x.extents)
    shape = [1 if i in places else next(rest) for i in range(rank)]
    return wrapped(builder().reshape(x.handle, shape), x.dtype)


def unsqueeze(x: TensorLike, dim: ConstexprLike[int]) -> tensor:
    """Insert one axis of extent 1."""
    return expand_dims(x, checked_axis(dim, len(to_tensor(x).extents) + 1, "dim"))


def squeeze(x: TensorLike, dim: ConstexprLike[int]) -> tensor:
    """Remove an axis of extent 1.

    Raises:
        ValueError: The axis has another extent.
    """
    x = to_tensor(x)
    axis = checked_axis(dim, len(x.extents), "dim")
    if x.extents[axis] != 1:
        raise ValueError(f"dim must be an axis of extent 1, but axis {axis} of {x} is not")
    return _reshape(x, x.extents[:axis] + x.extents[axis + 1 :])


@member
def reshape(
    input: TensorLike, *shape: ShapeLike, can_reorder: ConstexprLike[bool] = False
) -> tensor:
    """Give a tensor another shape; the elements keep their row-major order.

    Args:
        input: The tensor.
        shape: Extents, or one sequence of them; ``()`` of one element gives a scalar.
        can_reorder: Accepted; the order is always kept.

    Raises:
        ValueError: The numbers of elements differ.
    """
    del can_reorder
    x = to_tensor(input)
    return _reshape(x, checked_shape(shape))


def _reshape(x: tensor, target: Shape) -> tensor:
    if math.prod(target) != math.prod(x.extents):
        raise ValueError(
            f"cannot reshape {x} to shape {target}: they have {math.prod(x.extents)} and "
            f"{math.prod(target)} elements"
        )
    if not target:
        return item(x)
    return wrapped(builder().reshape(x.handle, target), x.dtype)


@member
def view(input: TensorLike, *shape: ShapeLike) -> tensor:
    """Return :func:`reshape`, under its old name."""
    return reshape(input, *shape)


@member
def ravel(x: TensorLike, can_reorder: ConstexprLike[bool] = False) -> tensor:
    """Flatten a tensor to one axis."""
    x = to_tensor(x)
    return reshape(x, x.type.numel, can_reorder=can_reorder)


@member
def item(input: TensorLike) -> tensor:
    """Return the only element of a tensor as a scalar.

    Raises:
        ValueError: The tensor has more than one element.
    """
    x = to_tensor(input)
    if not x.extents:
        return x
    if x.type.numel != 1:
        raise ValueError(f"only a tensor of one element has an item, but got {x}")
    joined = builder().broadcast(builder().reshape(x.handle, (1,)), (2,))
    return wrapped(builder().split(joined)[0], x.dtype)


@member
def permute(input: TensorLike, *dims: ShapeLike) -> tensor:
    """Reorder axes: axis ``i`` of the result is axis ``dims[i]``.

    Raises:
        ValueError: ``dims`` does not name each axis once.
    """
    x = to_tensor(input)
    order = [unwrap(d) for d in unwrap_sequence(dims)]
    numbered = all(isinstance(d, int) for d in order)
    if not numbered or sorted(order) != list(range(len(x.extents))):
        raise ValueError(
            f"dims must name each of the {len(x.extents)} axes of {x} once, but got {order}"
        )
    return wrapped(builder().permute(x.handle, order), x.dtype)


@member
def trans(input: TensorLike, *dims: ShapeLike) -> tensor:
    """Reorder axes; without ``dims`` the last two are swapped.

    Raises:
        ValueError: There are fewer than two axes, or ``dims`` does not name each once.
    """
    x = to_tensor(input)
    if dims and unwrap_sequence(dims):
        return permute(x, *dims)
    rank = len(x.extents)
    if rank < 2:
        raise ValueError(f"trans needs a tensor of at least two axes, but got {x}")
    return permute(x, [*range(rank - 2), rank - 1, rank - 2])


def _one_dtype(a: TensorLike, b: TensorLike, what: str) -> builtins.tuple[tensor, tensor]:
    first, second = to_tensor(a), to_tensor(b)
    wanted, given = first.dtype, second.dtype
    if wanted.is_int() and given.is_int() and wanted.int_bitwidth == given.int_bitwidth:
        return first, cast_to(second, wanted)  # the signedness is that of the first, as in Triton
    if wanted != given:
        raise TypeError(f"{what} needs tensors of one dtype, but got {first} and {second}")
    return first, second


def join(a: TensorLike, b: TensorLike) -> tensor:
    """Join two tensors along a new last axis of extent 2; they are broadcast to one shape.

    Raises:
        TypeError: The dtypes differ in more than the signedness of integers.
        ValueError: The shapes cannot be broadcast.
    """
    first, second = broadcast_tensors(*_one_dtype(a, b, "join"))
    return wrapped(builder().join(first.handle, second.handle), first.dtype)


@member
def split(a: TensorLike) -> tuple:
    """Split a tensor in two along its last axis, whose extent is 2.

    Raises:
        ValueError: The last axis has another extent.
    """
    x = to_tensor(a)
    if not x.extents or x.extents[-1] != 2:
        raise ValueError(f"split needs a tensor whose last extent is 2, but got {x}")
    return tuple([wrapped(v, x.dtype) for v in builder().split(x.handle)])


def interleave(a: TensorLike, b: TensorLike) -> tensor:
    """Alternate the elements of two tensors along the last axis."""
    joined = join(a, b)
    if len(joined.extents) == 1:
        return joined
    return _reshape(joined, (*joined.extents[:-2], 2 * joined.extents[-2]))


def cat(
    input: TensorLike,
    other: TensorLike,
    can_reorder: ConstexprLike[bool] = False,
    dim: ConstexprLike[int] = 0,
) -> tensor:
    """Concatenate two tensors along an axis.

    Args:
        input: The first.
        other: The second, of the same shape and dtype; an integer's signedness becomes the first's.
        can_reorder: Accepted; the order is always kept.
        dim: The axis.

    Raises:
        TypeError: The dtypes differ.
        ValueError: The shapes differ.
    """
    del can_reorder
    first, second = _one_dtype(input, other, "cat")
    if first.extents != second.extents or not first.extents:
        raise ValueError(f"cat needs tensors of one shape, but got {first} and {second}")
    axis = checked_axis(dim, len(first.extents), "dim")
    return wrapped(builder().cat(first.handle, second.handle, axis), first.dtype)


@member
def flip(x: TensorLike, dim: ConstexprLike[int | None] = None) -> tensor:
    """Reverse an axis, by default the last.

    Raises:
        ValueError: There is no such axis.
    """
    x = to_tensor(x)
    axis = checked_axis(-1 if unwrap(dim) is None else dim, len(x.extents), "dim")
    return wrapped(builder().flip(x.handle, axis), x.dtype)


@member
def gather(src: TensorLike, index: TensorLike, axis: ConstexprLike[int]) -> tensor:
    """Pick elements along an axis: the result has the index's shape.

    Args:
        src: The tensor.
        index: Integers; of the same shape except along the axis.
        axis: The axis.

    Raises:
        TypeError: The index is not a tensor of integers.
        ValueError: The shapes do not fit.
    """
    source, at = to_tensor(src), to_tensor(index)
    if not at.dtype.is_int():
        raise TypeError(f"index must be a tensor of integers, but got {at}")
    along = checked_axis(axis, len(source.extents))
    rest = [s for i, s in enumerate(source.extents) if i != along]
    if len(at.extents) != len(source.extents) or rest != [
        s for i, s in enumerate(at.extents) if i != along
    ]:
        raise ValueError(
            f"index must have the shape of src but along axis {along}, but got {at} for {source}"
        )
    return wrapped(builder().gather(source.handle, at.handle, along), source.dtype)


@operation
def index(x: tensor, at: object) -> tensor:
    """Return ``x[:, None]``: insert axes where there is ``None``; whole axes are kept.

    Raises:
        TypeError: The index has anything else.
        ValueError: There are more whole axes than the tensor has.
    """
    if isinstance(at, constexpr) and isinstance(at.value, builtins.tuple):
        at = at.value
    parts = list(at) if isinstance(at, builtins.tuple | tuple | list) else [at]
    rank, whole, given = len(x.extents), 0, x
    for place, part in enumerate(parts):
        if unwrap(part) is None:
            x = expand_dims(x, place)
            continue
        full = isinstance(part, builtins.slice | slice) and all(
            unwrap(p) is None for p in (part.start, part.stop, part.step)
        )
        if not full:
            raise TypeError(
                f"unsupported tensor index: it must consist of ':' and None, but got {unwrap(part)} "
                f"for {x}"
            )
        whole += 1
    if whole > rank > 0:  # of a scalar, whole axes name nothing, as in Triton
        raise ValueError(f"too many indices for {given} of rank {rank}: {whole} axes are named")
    return x
