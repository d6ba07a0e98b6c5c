"""Checks that integers of a kernel do not wrap around, where its assertions are enabled."""

from __future__ import annotations

import operator
from collections.abc import Callable

from emu.triton.language.arithmetic import greater_equal, less_equal, logical_and, promoted
from emu.triton.language.context import current
from emu.triton.language.conversion import cast_to
from emu.triton.language.debugging import device_assert
from emu.triton.language.types import int64, uint64
from emu.triton.language.values import tensor

_NAMES: dict[object, str] = {operator.add: "add", operator.sub: "sub", operator.mul: "mul"}


def check(function: Callable[..., object], x: object, y: object) -> None:
    """Assert that a sum, difference or product of integers fits into its dtype.

    Integers of 64 bits are not checked, as nothing wider is there to compute them in; neither are pointers, floats,
    and functions that are given to ``tl.reduce`` and the like.

    Args:
        function: ``operator.add``, ``sub`` or ``mul``; others need no check.
        x: The first operand; a tensor, or a number.
        y: The second one.
    """
    context = current()
    name = _NAMES.get(function)
    if name is None or not (context.debug and context.sanitize_overflow):
        return
    tensors = [value for value in (x, y) if isinstance(value, tensor)]
    if not tensors or not all(t.dtype.is_int() and t.dtype.int_bitwidth <= 64 for t in tensors):
        return
    if not all(isinstance(value, (tensor, int)) for value in (x, y)):
        return
    a, b = promoted(name, x, y)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # checked above
    kind = a.dtype
    if kind.is_bool() or kind.int_bitwidth >= 64:
        return
    if kind.is_int_unsigned() and name == "sub":
        fits = greater_equal(a, b)
    else:
        wide = uint64 if kind.is_int_unsigned() else int64
        exact = function(cast_to(a, wide), cast_to(b, wide))
        assert isinstance(exact, tensor)
        fits = logical_and(
            less_equal(exact, kind.get_int_max_value()),
            greater_equal(exact, kind.get_int_min_value()),
        )
    device_assert(fits, f"device-side assert triggered: {kind} overflow in {name}")
