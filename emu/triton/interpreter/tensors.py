"""Values of kernels that run as Python: tensors that know, and show, their elements."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from emu.tile import ir
from emu.tile.types import Type
from emu.triton.interpreter.errors import LanesNeeded
from emu.triton.interpreter.spinning import Seen
from emu.triton.language.values import tensor

Array = np.ndarray[Any, Any]


def _is_called_by_language() -> bool:
    """Return whether the caller of the calling function is part of ``emu``, which names a tensor by its type."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    return str(name).partition(".")[0] == "emu"


class ValueTensor(tensor):
    """A tensor whose elements are known.

    ``repr`` gives dtype, shape and elements; ``str`` and f-strings the elements alone. In messages of
    errors it is named by dtype and shape.
    """

    handle: Known

    def numpy(self) -> Array:
        """Return the elements as an array, a copy; pointers as uint64 addresses."""
        return np.array(self.handle.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __repr__(self) -> str:
        return f"tensor({tensor.__str__(self)}, {_elements(self.handle.array)})"

    def __str__(self) -> str:
        if _is_called_by_language():
            return tensor.__str__(self)
        return str(self.handle.array)

    def __format__(self, spec: str) -> str:
        if not spec:
            return tensor.__str__(self) if _is_called_by_language() else str(self.handle.array)
        return format(_single(self).item(), spec)

    def __bool__(self) -> bool:
        return bool(_single(self))

    def __index__(self) -> int:
        if not self.dtype.is_int():
            raise TypeError(f"an index must be an integer, but got {tensor.__str__(self)}")
        return int(_single(self))

    def __int__(self) -> int:
        return int(_single(self))

    def __float__(self) -> float:
        return float(_single(self))

    __hash__ = tensor.__hash__


class Known(ir.Value):
    """A value of the tile IR with its elements.

    In a combine function it may be a scalar by its type and hold an array, one element for each call.

    Attributes:
        array: The elements.
        origin: Name of the argument that a pointer came from; None if that is unknown.
        reads: What it depends on of memory, as far as a ``while`` loop wants to know.
    """

    __slots__ = ("array", "origin", "reads")
    tensor_class = ValueTensor

    def __init__(self, type_: Type, array: Array, origin: str | None = None) -> None:
        super().__init__(type_)
        self.array = array
        self.origin = origin
        self.reads: tuple[Seen, ...] = ()

    @property
    def data(self) -> Array:
        """The elements as Triton's interpreter holds them: those of a scalar in an array of one."""
        return np.atleast_1d(self.array)


def _elements(array: Array) -> str:
    return " ".join(str(array).split()) if array.ndim < 2 else "\n" + str(array)


def _single(x: ValueTensor) -> Array:
    array = x.handle.array
    if array.size != 1:
        if not x.extents:
            raise LanesNeeded
        raise ValueError(
            f"the truth and the number of a tensor need a single element, but got {tensor.__str__(x)}; "
            "use tl.where to choose by elements"
        )
    return array.reshape(())
