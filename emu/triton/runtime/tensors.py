"""Stand-ins for tensors: of another dtype, or without memory."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton.runtime import checks
from emu.triton.runtime.arguments import Tensor, dtype_name


class MockTensor:
    """Stand-in for a tensor of a dtype where a kernel is only compiled.

    Attributes:
        dtype: The dtype.
        shape: The shape.
    """

    def __init__(self, dtype: object, shape: Sequence[int] | None = None) -> None:
        self.dtype = dtype
        self.shape = [1] if shape is None else checks.as_list("shape", shape)
        for extent in self.shape:
            checks.as_integer("extents of shape", extent, 0)

    @staticmethod
    def wrap_dtype(arg: object) -> Any:
        """Return a stand-in for a dtype of torch, anything else as it is."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(arg, getattr(torch, "dtype", ())):
            return MockTensor(arg)
        return arg

    def stride(self) -> tuple[int, ...]:
        """Return the strides of a dense tensor of the shape."""
        strides = [1]
        for extent in reversed(self.shape[1:]):
            strides.append(strides[-1] * extent)
        return tuple(reversed(strides))

    @staticmethod
    def data_ptr() -> int:
        """Return 0."""
        return 0

    @staticmethod
    def ptr_range() -> int:
        """Return 0."""
        return 0


class TensorWrapper:
    """A tensor whose memory kernels read as elements of another dtype.

    Attributes:
        base: The tensor.
        dtype: The other dtype.

    Raises:
        TypeError: ``base`` is not a tensor.
    """

    def __init__(self, base: Tensor, dtype: object) -> None:
        if isinstance(base, type) or not hasattr(base, "data_ptr"):
            raise TypeError(f"base must be a tensor, but got {shown(base, with_type=True)}")
        # The attributes that programs read of a tensor, as it was when it was wrapped.
        self.base = base
        self.dtype = dtype
        self.data = base.data
        self.device = base.device
        self.shape = base.shape

    def data_ptr(self) -> int:
        """Return the address of the tensor's first element."""
        return int(self.base.data_ptr())

    def stride(self, *args: int) -> Any:
        """Return the tensor's strides."""
        return self.base.stride(*args)

    def element_size(self) -> int:
        """Return the size of an element of the tensor in bytes."""
        return int(self.base.element_size())

    def cpu(self) -> TensorWrapper:
        """Return a wrapper of the tensor in host memory."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def to(self, device: object) -> TensorWrapper:
        """Return a wrapper of the tensor on a device."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def clone(self) -> TensorWrapper:
        """Return a wrapper of a copy."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Copy the elements of another."""
        self.base.copy_(other.base)

    def new_empty(self, sizes: Sequence[int]) -> TensorWrapper:
        """Return an uninitialised wrapper of another shape."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Tensor | TensorWrapper, dtype: object) -> Tensor | TensorWrapper:
    """Return a tensor with the same memory, which kernels read as elements of another dtype.

    Args:
        tensor: A tensor, or a result of this function.
        dtype: A dtype of torch or of ``triton.language``.

    Raises:
        TypeError: ``tensor`` is not a tensor, or kernels do not know the dtype.
    """
    if isinstance(tensor, TensorWrapper):
        tensor = tensor.base
        if dtype == tensor.dtype:
            return tensor
    if isinstance(tensor, type) or not hasattr(tensor, "data_ptr"):
        raise TypeError(f"tensor must be one, but got {type(tensor).__name__}")
    if dtype_name(dtype) is None:
        raise TypeError(
            f"dtype must be one that kernels know, but got {shown(dtype, with_type=True)}"
        )
    return TensorWrapper(tensor, dtype)
