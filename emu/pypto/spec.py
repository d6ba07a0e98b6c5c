"""Annotations of kernel parameters: rank, extents and data type of an argument."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from types import EllipsisType

import numpy as np

from emu.kernels.core.messages import shown
from emu.pypto.dtypes import DataType, DTypeLike, as_dtype
from emu.pypto.errors import ArgumentError, KernelError, PyptoWarning
from emu.pypto.symbolic import Shape, as_text


class _Dynamic:
    """The type of :data:`DYNAMIC`."""

    def __repr__(self) -> str:
        return "DYNAMIC"


DYNAMIC = _Dynamic()
"""An extent that may differ from call to call."""


class TensorSpec:
    """Description of a tensor, as ``pypto.Tensor(shape, dtype)`` makes it.

    Args:
        shape: Extents: an integer is fixed, ``DYNAMIC`` (or None, or -1) is any. One ``...`` stands for
            any number of axes, several stand for one axis each. None: any shape.
        dtype: Data type. None: any.
        name: For messages.
    """

    __slots__ = ("dtype", "name", "shape")

    def __init__(
        self, shape: object = None, dtype: DTypeLike | None = None, name: str = ""
    ) -> None:
        self.dtype: DataType | None = None if dtype is None else as_dtype(dtype)
        self.shape: tuple[int | _Dynamic | EllipsisType, ...] | None = None
        self.name = as_text(name, "name")
        if shape is None:
            return
        if not isinstance(shape, list | tuple):
            raise ArgumentError(f"shape of an annotation must be a list, but got {shown(shape)}")
        entries: list[int | _Dynamic | EllipsisType] = []
        for axis, entry in enumerate(shape):
            whole = isinstance(entry, int | np.integer)
            # PyPTO's programs write a dynamic extent in all three ways.
            if entry is None or entry is DYNAMIC or (whole and entry == -1):
                entries.append(DYNAMIC)
            elif entry is Ellipsis or (whole and entry >= 0):
                entries.append(int(entry) if whole else entry)
            else:
                raise ArgumentError(
                    f"shape[{axis}] of an annotation must be an extent, DYNAMIC or ..., but got {shown(entry)}"
                )
        self.shape = tuple(entries)

    def __repr__(self) -> str:
        if self.shape is None:
            shape = ""
        else:
            shape = f"[{', '.join('...' if e is Ellipsis else repr(e) for e in self.shape)}]"
        dtype = f", {self.dtype!r}" if self.dtype is not None else ""
        return f"pypto.Tensor({shape}{dtype})"

    def check(self, shape: Shape, dtype: DataType, argument: str) -> None:
        """Check the shape and data type of a tensor argument.

        Raises:
            KernelError: Naming the argument, the annotation and what was given.
        """
        if self.dtype is not None and dtype is not self.dtype:
            raise KernelError(f"{argument} must have dtype {self.dtype!r}, but got {dtype!r}")
        if self.shape is None:
            return
        wanted = self._expand(len(shape))
        if len(wanted) != len(shape):
            raise KernelError(
                f"{argument} must have {len(wanted)} axes as in {self}, "
                f"but got {len(shape)}: {list(shape)}"
            )
        for axis, (want, have) in enumerate(zip(wanted, shape, strict=True)):
            if isinstance(want, int) and want != have:
                raise KernelError(
                    f"{argument} must have extent {want} on axis {axis} as in {self}, "
                    f"but got {have}: {list(shape)}"
                )

    def _expand(self, rank: int) -> tuple[int | _Dynamic | EllipsisType, ...]:
        shape = self.shape or ()
        if shape.count(Ellipsis) != 1:
            return shape
        at = shape.index(Ellipsis)
        return (*shape[:at], *[DYNAMIC] * (rank - len(shape) + 1), *shape[at + 1 :])


def specs_of(function: Callable[..., object]) -> dict[str, TensorSpec]:
    """Return the tensor annotations of a kernel's parameters."""
    try:
        hints = inspect.get_annotations(function, eval_str=True)
    except Exception as error:  # noqa: BLE001 - an annotation may be any expression
        name = getattr(function, "__name__", "kernel")
        warnings.warn(
            f"the annotations of {name} cannot be evaluated and are not checked: {error}",
            PyptoWarning,
            stacklevel=3,
        )
        return {}
    return {name: hint for name, hint in hints.items() if isinstance(hint, TensorSpec)}
