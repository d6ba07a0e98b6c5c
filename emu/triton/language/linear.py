"""Products of matrices."""

from __future__ import annotations

import math
from typing import NamedTuple

from emu.triton.language.constants import ConstexprLike, unwrap
from emu.triton.language.context import builder, current
from emu.triton.language.conversion import cast_to
from emu.triton.language.creation import zeros
from emu.triton.language.operand_rounding import PRECISIONS, multiply
from emu.triton.language.shapes import reshape, wrapped
from emu.triton.language.small_floats import ENCODINGS
from emu.triton.language.types import bfloat16, dtype, float16, float32, float64, int32
from emu.triton.language.values import tensor

_NATIVE_COLUMNS = 16  # sums of one instruction
_INPUTS = ("int8", "uint8", "fp16", "bf16", "fp32", "fp64")


def _check_inputs(a: tensor, b: tensor) -> None:
    given: tuple[tuple[str, object], ...] = ("input", a), ("other", b)
    for name, operand in given:
        if not isinstance(operand, tensor) or not operand.extents:
            got = operand if isinstance(operand, tensor) else repr(unwrap(operand))
            raise TypeError(f"{name} of dot must be a tensor with axes, but got {got}")
    if a.dtype.is_fp8() and b.dtype.is_fp8():
        return
    for name, x in (("input", a), ("other", b)):
        if x.dtype.name not in _INPUTS:
            raise TypeError(
                f"{name} of dot must have a dtype of {', '.join(_INPUTS)}, or both one of fp8, but got "
                f"{x}"
            )
    if a.dtype != b.dtype:
        raise TypeError(f"input and other of dot must have one dtype, but got {a} and {b}")


def _checked_shapes(a: tensor, b: tensor) -> tuple[int, ...]:
    """Return the shape of the product."""
    if len(a.extents) != len(b.extents) or len(a.extents) < 2:
        raise ValueError(
            f"input and other of dot must have as many axes, at least 2, but got {a} and {b}"
        )
    if a.extents[:-2] != b.extents[:-2]:
        raise ValueError(f"input and other of dot must have the same batches, but got {a} and {b}")
    if a.extents[-1] != b.extents[-2]:
        raise ValueError(
            f"the last extent of input must be the second last of other, but dot got {a} and {b}: "
            f"{a.extents[-1]} and {b.extents[-2]}"
        )
    return (*a.extents[:-1], b.extents[-1])


class _Precision(NamedTuple):
    """How a product is computed.

    Attributes:
        fp32: Of operands of fp32: ``"ieee"`` unless the launch rounds them.
        bf16_native: bf16 is multiplied by the CPU's own instruction.
    """

    fp32: str
    bf16_native: bool


def _checked_precision(
    input_precision: ConstexprLike[str | None], allow_tf32: ConstexprLike[bool | None]
) -> _Precision:
    precision, allowed = unwrap(input_precision), unwrap(allow_tf32)
    if precision is not None and allowed is not None:
        raise ValueError(
            f"only one of input_precision and allow_tf32 may be given, but got {precision!r} and "
            f"{allowed!r}"
        )
    known = (*PRECISIONS, "native")
    if precision is not None and str(precision).lower() not in known:
        said = ", ".join(repr(p) for p in known)
        raise ValueError(f"input_precision must be one of {said}, but got {precision!r}")
    said_here = None if precision is None else str(precision).lower()
    native = said_here == "native" or (said_here != "ieee" and current().bf16_native)
    default = current().input_precision
    if default is None:
        return _Precision("ieee", native)
    if allowed is not None:
        return _Precision("tf32" if allowed else "ieee", native)
    return _Precision(default if said_here in (None, "native") else said_here, native)


def _result_dtype(a: tensor, out: dtype) -> dtype:
    if a.dtype.is_int():
        if a.dtype.name != "int8":
            raise TypeError(f"dot of integers must have int8, but got {a}")
        return int32
    if out.is_bf16():  # type: ignore[attr-defined]  # made by types._named
        raise ValueError(
            "out_dtype must be float32 or float16, but got bfloat16; cast the product instead"
        )
    if a.dtype.name in ("fp32", "bf16"):
        return float32
    if a.dtype.name == "fp64":
        return float64
    if out not in (float16, float32):
        raise ValueError(f"out_dtype must be float32 or float16, but got {out}")
    return out


def dot(
    input: tensor,
    other: tensor,
    acc: tensor | None = None,
    input_precision: ConstexprLike[str | None] = None,
    allow_tf32: ConstexprLike[bool | None] = None,
    max_num_imprecise_acc: ConstexprLike[int | None] = None,
    out_dtype: ConstexprLike[dtype | None] = None,
) -> tensor:
    """Multiply matrices: ``acc + input @ other``.

    Floats accumulate in fp32 (of fp64 in fp64), int8 in int32. Operands of fp32 are multiplied as they are, whatever
    ``input_precision`` allows, unless the kernel is launched with the option ``apply_input_precision``.

    Args:
        input: Of shape (..., m, k), any number of batch axes.
        other: Of shape (..., k, n) and the same dtype; fp8 dtypes may differ.
        acc: Accumulator, of shape (..., m, n) and the dtype of the result.
        input_precision: ``"tf32"``, ``"tf32x3"``, ``"ieee"``, ``"bf16x3"`` or ``"bf16x6"``. Default, where it is
            applied: ``TRITON_F32_DEFAULT``, or ``"tf32"``. ``"native"`` multiplies bf16 by the CPU's own
            instruction, if it has one, k is even and n a multiple of 16; so does the knob
            ``language.allow_bf16_native`` where ``"ieee"`` is not said.
        allow_tf32: The old form of ``input_precision``: ``"tf32"`` or ``"ieee"``.
        max_num_imprecise_acc: Accepted for fp8; accumulation is always fp32.
        out_dtype: Dtype of the result for fp16 and fp8: fp32 (the default, or that of ``acc``) or fp16.

    Returns:
        Of shape (..., m, n).

    Raises:
        TypeError: The dtypes do not fit.
        ValueError: The shapes do not fit, or a keyword has an unknown value.
    """
    precision = _checked_precision(input_precision, allow_tf32)
    _check_inputs(input, other)
    shape = _checked_shapes(input, other)
    start = acc if isinstance(acc, tensor) else unwrap(acc)
    wanted = unwrap(out_dtype)
    if wanted is None:
        wanted = float32 if start is None else start.dtype
    result = _result_dtype(input, wanted)
    imprecise = unwrap(max_num_imprecise_acc)
    if imprecise is not None and input.dtype.is_fp8() and imprecise > input.extents[-1]:
        raise ValueError(f"max_num_imprecise_acc ({imprecise}) must be <= K ({input.extents[-1]})")
    if start is None:
        start = zeros(shape, result)
    elif start.extents != shape or start.dtype != result:
        said = ", ".join(map(str, shape))
        raise ValueError(f"acc of dot must be {result}[{said}], but got {start}")
    return _multiplied(input, other, start, precision)


def _multiplied(a: tensor, b: tensor, c: tensor, precision: _Precision) -> tensor:
    shape = c.extents
    batches = math.prod(shape[:-2])
    if len(shape) > 3:
        a, b, c = (reshape(x, batches, *x.extents[-2:]) for x in (a, b, c))
    if a.dtype == float32:
        return reshape(multiply(a, b, c, precision.fp32), shape)
    native = (
        precision.bf16_native
        and a.dtype == b.dtype == bfloat16
        and b.extents[-2] % 2 == b.extents[-1] % _NATIVE_COLUMNS == 0
    )
    if a.dtype != b.dtype or a.dtype.name in ENCODINGS:  # fp16 holds the values of every fp8
        a, b = cast_to(a, float16), cast_to(b, float16)
    return reshape(wrapped(builder().dot(a.handle, b.handle, c.handle, native), c.dtype), shape)
