"""Products of fp32 with operands rounded as ``input_precision`` says: what tensor cores of a GPU multiply.

``"tf32"`` keeps 10 bits of each mantissa, rounded to nearest and ties away from zero. ``"tf32x3"``, ``"bf16x3"`` and
``"bf16x6"`` split an operand into parts, each the rounded rest of those before, and add the products of parts that
matter, the smallest first. ``"ieee"`` rounds nothing. All products are summed in fp32.
"""

from __future__ import annotations

from collections.abc import Callable

from emu.triton.language.arithmetic import add, and_, equal, less_than, sub, where
from emu.triton.language.context import builder
from emu.triton.language.conversion import bitcast_to, cast_to
from emu.triton.language.creation import zeros_like
from emu.triton.language.mathematics import abs as absolute
from emu.triton.language.shapes import wrapped
from emu.triton.language.types import bfloat16, float32, uint32
from emu.triton.language.values import tensor

PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
"""Values of ``input_precision``."""

_DROPPED = 13  # bits of fp32's mantissa that tf32 does not have


def _to_tf32(x: tensor) -> tensor:
    bits = bitcast_to(x, uint32)
    up = and_(add(bits, 1 << (_DROPPED - 1)), (1 << 32) - (1 << _DROPPED))
    return where(_is_finite(x), bitcast_to(up, float32), x)


def _to_bf16(x: tensor) -> tensor:
    return cast_to(cast_to(x, bfloat16), float32)


def _is_finite(x: tensor) -> tensor:
    return less_than(absolute(x), float("inf"))


def _parts(x: tensor, rounded: Callable[[tensor], tensor], count: int) -> list[tensor]:
    """Return that many parts of a number, the largest first; infinities and NaN have but one that is not 0."""
    parts = [rounded(x)]
    for _ in range(count - 1):
        rest = sub(x, parts[-1])
        x = where(_is_finite(parts[-1]), rest, zeros_like(rest))
        parts.append(rounded(x))
    return parts


def _product(a: tensor, b: tensor, c: tensor) -> tensor:
    return wrapped(builder().dot(a.handle, b.handle, c.handle), float32)


def multiply(a: tensor, b: tensor, c: tensor, precision: str) -> tensor:
    """Return ``c + a @ b`` of fp32 with rounded operands.

    Args:
        a: Of shape (m, k) or (batches, m, k).
        b: Of shape (k, n) or (batches, k, n).
        c: Of shape (m, n) or (batches, m, n).
        precision: One of :data:`PRECISIONS`.
    """
    if precision == "ieee":
        return _product(a, b, c)
    rounded = _to_tf32 if precision.startswith("tf32") else _to_bf16
    if precision == "tf32":
        return _product(rounded(a), rounded(b), c)
    count = 3 if precision == "bf16x6" else 2
    left, right = _parts(a, rounded, count), _parts(b, rounded, count)
    couples = [(i, order - i) for order in range(count - 1, -1, -1) for i in range(order, -1, -1)]
    total = zeros_like(c)
    for i, j in couples[:-1]:
        total = _product(left[i], right[j], total)
    # A small part times an infinity is no number, where the product of the largest parts is one.
    total = where(equal(total, total), total, zeros_like(total))
    return add(_product(left[0], right[0], total), c)
