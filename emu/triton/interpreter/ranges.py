"""Ranges of loops in kernels that run as Python."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from emu.triton.language.constants import unwrap
from emu.triton.language.conversion import cast_to, constant, to_tensor
from emu.triton.language.promotion import integer_promote
from emu.triton.language.values import tensor


class Counter:
    """A range whose indices are tensors, as those of compiled loops.

    Args:
        bounds: Start, end and step.

    Raises:
        TypeError: One is not an integer scalar.
    """

    def __init__(self, bounds: Sequence[object]) -> None:
        parts = [to_tensor(unwrap(b)) for b in bounds]
        for name, part in zip(("lower bound", "upper bound", "step"), parts, strict=True):
            if not part.dtype.is_int():
                raise TypeError(f"For {name} must be an int, but got {part}")
            if part.type.is_block():
                raise TypeError(f"For {name} must be a scalar, got {part.type}")
        type_ = parts[0].dtype
        for part in parts[1:]:
            type_ = integer_promote(type_, part.dtype)
        self._type = type_
        self._range = range(*[operator.index(cast_to(p, type_)) for p in parts])  # type: ignore[arg-type]  # tensors whose elements are known have __index__

    def __iter__(self) -> Iterator[tensor]:
        for index in self._range:
            yield constant(index, self._type)

    def __len__(self) -> int:
        return len(self._range)
