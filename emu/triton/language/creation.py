"""Values without operands: program ids, ranges, constants."""

from __future__ import annotations

from emu.kernels.core.messages import shown
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import cast_to, is_number, literal, to_tensor
from emu.triton.language.shapes import checked_shape, item, wrapped
from emu.triton.language.types import block_type, int32, shown_dtype
from emu.triton.language.types import dtype as _dtype
from emu.triton.language.values import ShapeLike, TensorLike, tensor


def _grid_axis(axis: ConstexprLike[int], function: str) -> int:
    axis = unwrap(axis)
    if axis not in (0, 1, 2):
        raise ValueError(f"{function} axis must be 0, 1, or 2 but got {axis}")
    return int(axis)


def program_id(axis: ConstexprLike[int]) -> tensor:
    """Return the number of this program along an axis of the grid, int32.

    Raises:
        ValueError: The axis is not 0, 1 or 2.
    """
    return tensor(builder().program_id(_grid_axis(axis, "program_id")), int32)


def num_programs(axis: ConstexprLike[int]) -> tensor:
    """Return the extent of the grid along an axis, int32.

    Raises:
        ValueError: The axis is not 0, 1 or 2.
    """
    return tensor(builder().num_programs(_grid_axis(axis, "num_programs")), int32)


def arange(start: ConstexprLike[int], end: ConstexprLike[int]) -> tensor:
    """Return the int32 numbers from ``start`` up to, but not including, ``end``.

    Args:
        start: First, known at compile time.
        end: Exclusive end, known at compile time; the count must be a power of two.

    Raises:
        TypeError: ``start`` or ``end`` is not known at compile time.
        ValueError: ``start`` or ``end`` does not fit int32, or the count is not a power of two.
    """
    first, behind = (int(v) if isinstance(v, bool) else v for v in (unwrap(start), unwrap(end)))
    for name, value in (("start", first), ("end", behind)):
        if not isinstance(value, int):
            said = f"{name} of arange must be an int known at compile time, but got"
            if not isinstance(value, tensor):
                raise TypeError(f"{said} {shown(value, with_type=True)}")
            raise TypeError(
                f"{said} the run-time value {value}; declare it `{value.handle.name or 'NAME'}: tl.constexpr` "
                "and mask what is too many"
            )
        if not -(2**31) <= value < 2**31:
            raise ValueError(f"{name} of arange must fit int32, but got {value}")
    count = behind - first
    if count <= 0:
        raise ValueError(f"end of arange must be above start, but got {first} and {behind}")
    if count & (count - 1):
        error = ValueError("arange's range must be a power of 2")
        error.add_note(f"from {first} to {behind} there are {count} numbers")
        raise error
    checked_shape((count,))
    return wrapped(builder().arange(first, behind), int32)


def full(shape: ShapeLike, value: TensorLike, dtype: ConstexprLike[_dtype]) -> tensor:
    """Return a tensor with one value everywhere.

    Args:
        shape: Extents, powers of two; ``()`` gives a scalar.
        value: A number, or a tensor of one element.
        dtype: Its dtype.
    """
    extents, to = checked_shape(shape), unwrap(dtype)
    if not isinstance(to, _dtype) or isinstance(to, block_type):
        raise TypeError(f"dtype must be a dtype of triton.language, but got {shown_dtype(to)}")
    if isinstance(value, tensor):
        single = cast_to(item(value), to)
    else:
        number = unwrap(value)
        if not is_number(number):
            raise TypeError(f"value must be a number or a tensor, but got {number!r}")
        number = literal(number.item() if hasattr(number, "item") else number, to)
        type_ = block_type(to, extents) if extents else to
        return tensor(builder().constant(number, type_.to_ir()), type_)
    return wrapped(builder().splat(single.handle, extents), to)


def zeros(shape: ShapeLike, dtype: ConstexprLike[_dtype]) -> tensor:
    """Return a tensor of zeros."""
    return full(shape, 0, dtype)


def zeros_like(input: tensor) -> tensor:
    """Return a tensor of zeros with the shape and dtype of another."""
    given = to_tensor(input)
    return full(given.type.shape, 0, given.dtype)
