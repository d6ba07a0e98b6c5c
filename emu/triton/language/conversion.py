"""Python's numbers as tensors, and conversions between dtypes."""

from __future__ import annotations

import numbers

import ml_dtypes
import numpy as np

from emu.tile import ir
from emu.tile import types as tile
from emu.tile.ops import Code
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.promotion import scalar_dtype
from emu.triton.language.small_floats import ENCODINGS, code_of, decode, encode
from emu.triton.language.types import dtype, float32, int1, int8, int64, pointer_type, shown_dtype
from emu.triton.language.values import Scalar, TensorLike, member, tensor

_ROUNDINGS = (None, "rtne", "rtz")


def is_number(value: object) -> bool:
    """Return whether a value is a Python number, which does not promote tensors of its kind."""
    return isinstance(value, numbers.Number)


def _rounded(value: float, to: dtype) -> float:
    """Return the value that a constant has in a float dtype, as a Python float."""
    if to.name == "fp64":
        return value
    with np.errstate(over="ignore"):
        single = np.float32(value)
        if to.name == "fp16":
            return float(np.float16(value))
        if to.name == "bf16":
            # One rounding, not two: what fp32 cannot hold is kept as a sticky last bit.
            if float(single) != value and np.isfinite(single):
                bits = single.view(np.uint32)
                if abs(float(single)) > abs(value):
                    bits = np.uint32(bits - np.uint32(1))
                single = np.uint32(bits | np.uint32(1)).view(np.float32)
            return float(single.astype(ml_dtypes.bfloat16))
        if to.is_fp8():
            type_ = to.to_ir()
            assert isinstance(type_, tile.DType)
            return float(single.astype(type_.numpy))
    return float(single)


def literal(value: Scalar, to: dtype) -> bool | int | float:
    """Return the value that a dtype has for a Python number; of a float held as bytes its code.

    Raises:
        TypeError: A float was given for an integer dtype.
        ValueError: An integer is out of the dtype's range.
    """
    if to.name in ENCODINGS:
        return code_of(float(value), ENCODINGS[to.name])
    if to.is_floating():
        return _rounded(float(value), to)
    if to.is_bool():
        return bool(value)
    if to.is_ptr() or to.is_void():
        raise TypeError(f"there is no constant of {to}, but got {value!r}")
    if not isinstance(value, int) and value != 0:
        raise TypeError(f"a constant of {to} must be an integer, but got {value!r}")
    number = int(value)
    low, high = to.get_int_min_value(), to.get_int_max_value()
    if not low <= number <= (1 << to.int_bitwidth) - 1:
        raise ValueError(f"a constant of {to} must be in [{low}, {high}], but got {number}")
    # A value that only the unsigned dtype holds is taken as its bits, as Triton does.
    return number - (1 << to.int_bitwidth) if number > high else number


def constant(value: Scalar, to: dtype) -> tensor:
    """Return a scalar of a dtype; the errors are those of :func:`literal`."""
    return tensor(builder().constant(literal(value, to), to.to_ir()), to)


def to_tensor(x: object) -> tensor:
    """Return a tensor unchanged; convert a number, or a constexpr of one, to a scalar.

    A bool becomes ``int1``, an int the first of int32, uint32, int64, uint64 that holds it, a float fp32
    or, where that does not hold it, fp64.

    Raises:
        TypeError: ``x`` is neither a number nor a tensor.
        ValueError: No dtype holds the integer.
    """
    if isinstance(x, tensor):
        return x
    value = unwrap(x)
    if isinstance(value, np.generic):
        value = value.item()
    return constant(value, scalar_dtype(value))


@member
def cast(
    input: TensorLike,
    dtype: ConstexprLike[_dtype],
    fp_downcast_rounding: ConstexprLike[str | None] = None,
    bitcast: ConstexprLike[bool] = False,
) -> tensor:
    """Convert a tensor to another dtype, or read its bits as another.

    Args:
        input: A tensor or number.
        dtype: The dtype, or a pointer type; of a block type the element's.
        fp_downcast_rounding: ``"rtne"`` or ``"rtz"``; only from a float to a narrower one. What is too large for
            an 8-bit float becomes its largest number of that sign, infinity too; NaN stays NaN where the
            dtype has one. With ``"rtz"`` float8e5 keeps infinities.
        bitcast: Read the same bits; both must be of one width.

    Raises:
        TypeError: There is no such conversion.
        ValueError: The rounding mode is unknown, or the widths of a bitcast differ.
    """
    x = to_tensor(input)
    to = unwrap(dtype)
    if not isinstance(to, _dtype):
        raise TypeError(f"dtype must be a dtype of triton.language, but got {shown_dtype(to)}")
    if unwrap(bitcast):
        return bitcast_to(x, to)
    return cast_to(x, to, unwrap(fp_downcast_rounding))


def cast_to(x: tensor, to: dtype, rounding: str | None = None) -> tensor:
    """Convert a tensor's values; ``rounding`` as in :func:`cast`."""
    source, to = x.dtype, to.scalar
    if source == to:
        return x
    if rounding not in _ROUNDINGS:
        raise ValueError(f"fp_downcast_rounding must be 'rtne' or 'rtz', but got {rounding!r}")
    narrowing = (
        source.is_floating()
        and to.is_floating()
        and to.primitive_bitwidth < source.primitive_bitwidth
    )
    if rounding is not None and not narrowing:
        raise ValueError(
            "fp_downcast_rounding must only be given for a float that becomes a narrower one, but "
            f"the source is {source} and the destination {to}"
        )
    _check_conversion(source, to)
    from_narrow = to.is_ptr() and source.is_int() and source.int_bitwidth < 64
    if from_narrow or (source.is_ptr() and to.is_bool()):
        x = cast_to(x, int64)
    handle = _converted(x.handle, source, to, rounding or "rtne")
    return tensor(handle, x.type.with_element_ty(to))


def _converted(handle: ir.Value, source: dtype, to: dtype, rounding: str) -> ir.Value:
    if source.name in ENCODINGS:
        handle = decode(handle, ENCODINGS[source.name])
    if to.name in ENCODINGS:
        return encode(handle, ENCODINGS[to.name], rounding)
    element = to.to_ir()
    assert isinstance(element, tile.DType | tile.Pointer)
    if to.is_fp8() and not (rounding == "rtz" and to.name == "fp8e5"):
        handle = _saturated(handle, element)
    return builder().cast(handle, element, rounding)


def _saturated(handle: ir.Value, element: tile.ScalarType) -> ir.Value:
    """Bring what is beyond the largest number of a dtype to it; NaN stays."""
    assert isinstance(element, tile.DType)
    emit = builder()
    largest = float(ml_dtypes.finfo(element.numpy).max)  # type: ignore[no-untyped-call]  # ml_dtypes has no types
    if (
        tile.dtype_of(handle.type).bits == 8
    ):  # of another 8-bit float, which may not hold the number
        handle = emit.cast(handle, tile.F32)
    for code, limit in ((Code.MIN, largest), (Code.MAX, -largest)):
        bound = emit.constant(limit, handle.type)
        handle = emit.binary(code, handle, bound, propagate_nan=True)
    return handle


def computed(x: tensor) -> tensor:
    """Return floats that the tile IR holds as bytes in fp32, others as they are."""
    return cast_to(x, float32) if x.dtype.name in ENCODINGS else x


def _check_conversion(source: dtype, to: dtype) -> None:
    standard = source.is_int() or source.is_standard_floating()
    if source.is_ptr():
        fits = to.is_ptr() or to.is_bool() or (to.is_int() and to.int_bitwidth == 64)
    elif to.is_ptr():
        fits = source.is_int()
    elif to.is_fp8():
        fits = source.is_floating()
    elif source.is_fp8():
        fits = to.is_floating()
    else:
        fits = standard and (to.is_int() or to.is_floating())
    if not fits:
        hint = "; go by way of float32" if source.is_fp8() or to.is_fp8() else ""
        if source.is_ptr():
            hint = "; a pointer is an address, and tl.load(pointer) what is there"
        raise TypeError(f"cannot cast {source!r} to {to!r}{hint}")


def bitcast_to(x: tensor, to: dtype) -> tensor:
    """Read a tensor's bits as another dtype of the same width."""
    source, to = x.dtype, to.scalar
    if source == to:
        return x
    if source.is_ptr() or to.is_ptr():
        return cast_to(x, to)
    if source.primitive_bitwidth != to.primitive_bitwidth:
        raise ValueError(
            f"a bitcast must keep the width, but got {source} of {source.primitive_bitwidth} bits and "
            f"{to} of {to.primitive_bitwidth}"
        )
    element = to.to_ir()
    assert isinstance(element, tile.DType)
    return tensor(builder().bitcast(x.handle, element), x.type.with_element_ty(to))


def bytes_of_bools(pointer: tensor) -> tensor:
    """Return pointers to int1 as pointers to bytes, each of which holds one; others unchanged."""
    element = pointer.dtype
    assert isinstance(element, pointer_type)
    if element.element_ty != int1:
        return pointer
    return cast_to(pointer, pointer_type(int8, element.address_space, element.const))


_dtype = dtype
