"""Products of scaled (microscaling) matrices: operands are decoded, scaled, rounded, and multiplied as any others.

Both operands become fp16 if one of them is fp16, and else bf16; so do the scales, and each element is multiplied by its
scale in that dtype. A product of bf16 is exact unless it leaves bf16's range, for scales are powers of two.
"""

from __future__ import annotations

from typing import NamedTuple

from emu.triton.language.arithmetic import (
    add,
    and_,
    equal,
    less_than,
    mul,
    or_,
    shl,
    shr,
    where,
)
from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.creation import zeros
from emu.triton.language.shapes import (
    broadcast_to,
    expand_dims,
    join,
    permute,
    reshape,
    trans,
    wrapped,
)
from emu.triton.language.types import (
    bfloat16,
    dtype,
    float8e4nv,
    float8e5,
    float16,
    float32,
    uint8,
    uint16,
    uint32,
)
from emu.triton.language.values import tensor

_FORMATS: dict[str, dtype] = {
    "e2m1": uint8,
    "e4m3": float8e4nv,
    "e5m2": float8e5,
    "bf16": bfloat16,
    "fp16": float16,
}
_BITS: dict[str, dtype] = {"e4m3": uint8, "e5m2": uint8, "bf16": uint16, "fp16": uint16}
_SMALL = frozenset({"e4m3", "e5m2"})
_GROUPS = (16, 32)
_NAN_SCALE = 0xFF


class _Side(NamedTuple):
    """One operand, as it was given.

    Attributes:
        name: ``"lhs"`` or ``"rhs"``.
        values: The elements, or codes of two e2m1 each.
        scale: Codes of e8m0, of shape (..., m or n, k / group); or None.
        format: Format of an element.
        k_pack: Whether codes are packed along k.
    """

    name: str
    values: tensor
    scale: tensor | None
    format: str
    k_pack: bool

    @property
    def k_axis(self) -> int:
        """The axis along which products are summed."""
        return -1 if self.name == "lhs" else -2

    @property
    def packed_axis(self) -> int:
        """The axis along which codes are packed."""
        return self.k_axis if self.k_pack else -3 - self.k_axis

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the matrix of elements."""
        extents = list(self.values.extents)
        if self.format == "e2m1":
            extents[self.packed_axis] *= 2
        return tuple(extents)


def _check_side(name: str, values: object, scale: object, format_: object, k_pack: object) -> _Side:
    """Return an operand whose parts fit together."""
    if not isinstance(values, tensor) or len(values.extents) not in (2, 3):
        got = values if isinstance(values, tensor) else repr(values)
        raise TypeError(f"{name} of dot_scaled must be a tensor of 2 or 3 axes, but got {got}")
    if not isinstance(format_, str) or format_ not in _FORMATS:
        said = ", ".join(repr(f) for f in _FORMATS)
        raise ValueError(f"{name}_format must be one of {said}, but got {format_!r}")
    wanted = {_FORMATS[format_], _BITS.get(format_, uint8)}
    if values.dtype not in wanted:
        said = " or ".join(sorted(str(w) for w in wanted))
        raise TypeError(
            f"{name} of dot_scaled must have dtype {said} for the format {format_}, but got {values}"
        )
    if not k_pack and format_ != "e2m1":
        raise ValueError(
            f"{name}_k_pack must be True for the format {format_}: only e2m1 is packed, but got {k_pack!r}"
        )
    if scale is not None and not isinstance(scale, tensor):
        raise TypeError(f"{name}_scale must be a tensor or None, but got {scale!r}")
    if scale is not None and scale.dtype.name not in ("uint8", "int8", "fp8e4nv"):
        raise TypeError(f"{name}_scale must be uint8 (codes of e8m0) or fp8e4nv, but got {scale}")
    return _Side(name, values, scale, format_, bool(k_pack))


def _check_shapes(lhs: _Side, rhs: _Side) -> tuple[int, ...]:
    """Return the shape of the product."""
    left, right = lhs.shape, rhs.shape
    if len(left) != len(right) or left[:-2] != right[:-2]:
        raise ValueError(
            "lhs and rhs of dot_scaled must have as many axes and the same batches, but got "
            f"{lhs.values} and {rhs.values}"
        )
    if left[-1] != right[-2]:
        raise ValueError(
            f"lhs and rhs of dot_scaled must have as many elements along k, but got {left[-1]} in "
            f"{lhs.values} of {lhs.format} and {right[-2]} in {rhs.values} of {rhs.format}"
        )
    group = None
    for side, extent in ((lhs, left[-2]), (rhs, right[-1])):
        if side.scale is None or side.scale.type.numel == 1:
            continue
        given, wanted = side.scale.extents, (*left[:-2], extent)
        said = ", ".join(map(str, (*wanted, f"{left[-1]} / group")))
        found = left[-1] // given[-1] if given else 0
        if given[:-1] == wanted and group is not None and found in _GROUPS and found != group:
            raise ValueError(
                f"Operands must have the same scale factor; (lhs: {group} vs rhs: {found})"
            )
        if given[:-1] != wanted or found not in _GROUPS:
            raise ValueError(
                f"{side.name}_scale must have shape ({said}) with one group of 16 or 32 elements of "
                f"both operands, but got {side.scale}"
            )
        group = found
    return (*left[:-1], right[-1])


def _decoded(side: _Side, to: dtype) -> tensor:
    """Return the elements of an operand in the dtype of the product."""
    if side.format != "e2m1":
        return cast_to(bitcast_to(side.values, _FORMATS[side.format]), to)
    low, high = (_decoded_e2m1(part, to) for part in (side.values, shr(side.values, 4, uint8)))
    couples = join(low, high)
    if side.packed_axis == -2:
        rank = len(couples.extents)
        couples = permute(couples, *range(rank - 3), rank - 3, rank - 1, rank - 2)
    return reshape(couples, side.shape)


def _decoded_e2m1(codes: tensor, to: dtype) -> tensor:
    """Return the values of codes of e2m1 in the lower 4 bits, by integers as wide as the dtype; exact."""
    mantissa, bias = (7, 127) if to == bfloat16 else (10, 15)
    wide = cast_to(codes, uint16)
    magnitude = and_(wide, 7)
    half = (
        (bias - 1) << mantissa
    )  # what the code 1 stands for, and the exponent that the codes from 2 on begin with
    normal = add(shl(magnitude, mantissa - 1), half)
    value = where(less_than(magnitude, 2), mul(magnitude, half), normal)
    return bitcast_to(or_(value, shl(and_(wide, 8), 12)), to)


def _decoded_scale(scale: tensor, to: dtype) -> tensor:
    """Return 2 to the power of ``code - 127``: 0 for code 0, infinity for what is too large; of fp8 its values."""
    if scale.dtype == float8e4nv:
        return cast_to(scale, to)
    if to == bfloat16:
        return bitcast_to(shl(cast_to(scale, uint16), 7), bfloat16)
    return cast_to(bitcast_to(shl(cast_to(scale, uint32), 23), float32), to)


def _along_k(scale: tensor, side: _Side) -> tensor:
    """Repeat a value of each group for each of its elements, in the shape of the operand."""
    if scale.type.numel == 1:  # one scale for all
        return reshape(scale, ()) if scale.extents else scale
    *front, one, other = scale.extents
    k = side.shape[side.k_axis]
    if side.k_axis == -1:
        repeated = broadcast_to(expand_dims(scale, -1), (*front, one, other, k // other))
    else:
        repeated = broadcast_to(expand_dims(scale, -2), (*front, one, k // one, other))
    return reshape(repeated, side.shape)


def _scaled(side: _Side, to: dtype, fast_math: bool) -> tensor:
    if side.scale is None:
        return _decoded(side, to)
    codes = side.scale
    if codes.dtype != float8e4nv:
        codes = bitcast_to(codes, uint8)
    if side.k_axis == -2 and codes.type.numel != 1:
        codes = trans(codes)  # before they are repeated: there are 16 or 32 times fewer
    scales = _decoded_scale(codes, to)
    if not fast_math and codes.dtype == uint8:
        # Beside the values, not the codes: there are fewer, too, and NaN times anything is NaN.
        scales = where(equal(codes, _NAN_SCALE), float("nan"), scales)
    if side.format in _SMALL and to == bfloat16:
        # Factors are exact in fp32, so that the product is rounded once, as in bf16.
        exact = cast_to(bitcast_to(side.values, _FORMATS[side.format]), float32)
        return cast_to(mul(exact, _along_k(cast_to(scales, float32), side)), to)
    return mul(_decoded(side, to), _along_k(scales, side))


def _accumulator(given: object, shape: tuple[int, ...]) -> tensor:
    """Return the tensor that a product is added to: zeros if none is given."""
    if given is None:
        return zeros(shape, float32)
    if not isinstance(given, tensor) or given.extents != shape or given.dtype != float32:
        said = ", ".join(map(str, shape))
        raise ValueError(f"acc of dot_scaled must be fp32[{said}], but got {given}")
    return given


def dot_scaled(
    lhs: tensor,
    lhs_scale: ConstexprLike[tensor | None],
    lhs_format: ConstexprLike[str],
    rhs: tensor,
    rhs_scale: ConstexprLike[tensor | None],
    rhs_format: ConstexprLike[str],
    acc: ConstexprLike[tensor | None] = None,
    fast_math: ConstexprLike[bool] = False,
    lhs_k_pack: ConstexprLike[bool] = True,
    rhs_k_pack: ConstexprLike[bool] = True,
    out_dtype: ConstexprLike[dtype] = float32,
) -> tensor:
    """Multiply matrices of scaled elements: ``acc + (lhs * lhs_scale) @ (rhs * rhs_scale)``, summed in fp32.

    A scale is a code of e8m0, 2 to the power of ``code - 127`` (0 for code 0), and belongs to a group of 16 or 32
    elements along k. Elements and scales are multiplied in fp16 where a format is ``"fp16"``, else in bf16.

    Args:
        lhs: Of shape (..., m, k), at most one batch axis. Two codes of e2m1 are packed into a uint8, the first in its lower
            bits; those of the other formats are of their dtype, or unsigned integers of their width.
        lhs_scale: uint8 of shape (..., m, k / group), or None for none; fp8e4nv, too, for scales with a mantissa.
        lhs_format: ``"e2m1"``, ``"e4m3"``, ``"e5m2"``, ``"bf16"`` or ``"fp16"``.
        rhs: Of shape (..., k, n).
        rhs_scale: uint8 of shape (..., n, k / group), not transposed as ``rhs`` is; or None.
        rhs_format: As ``lhs_format``.
        acc: Accumulator of shape (..., m, n), fp32.
        fast_math: Leave out that a scale of 0xFF makes its elements NaN. Default: they are NaN.
        lhs_k_pack: Whether e2m1 is packed along k, not along m.
        rhs_k_pack: Whether e2m1 is packed along k, not along n.
        out_dtype: float32.

    Returns:
        fp32 of shape (..., m, n).

    Raises:
        TypeError: A dtype does not fit its format.
        ValueError: The shapes do not fit, or a keyword has an unknown value.
    """
    if unwrap(out_dtype) != float32:
        raise ValueError(f"out_dtype of dot_scaled must be float32, but got {unwrap(out_dtype)!r}")
    left = _check_side("lhs", lhs, unwrap(lhs_scale), unwrap(lhs_format), unwrap(lhs_k_pack))
    right = _check_side("rhs", rhs, unwrap(rhs_scale), unwrap(rhs_format), unwrap(rhs_k_pack))
    shape = _check_shapes(left, right)
    start = _accumulator(unwrap(acc), shape)
    to = float16 if "fp16" in (left.format, right.format) else bfloat16
    a, b = (_scaled(side, to, bool(unwrap(fast_math))) for side in (left, right))
    return wrapped(builder().dot(a.handle, b.handle, start.handle), float32)
