"""Tensors as flat NumPy arrays over their memory, the form that the World takes."""

from __future__ import annotations

import torch

from emu.accelerator.arrays import Array, as_shared_array
from emu.comm.errors import ArgumentError
from emu.kernels.core.dtype_table import BFLOAT16, KINDS

SHARED = frozenset(getattr(torch, dtype.name) for dtype in KINDS if dtype != BFLOAT16)
"""Dtypes that torch, NumPy and the World share by name."""


def as_flat_array(tensor: torch.Tensor) -> Array:
    """Return the tensor's memory as an array of one axis, of the same dtype.

    Dtypes that the World does not know (complex numbers, 8-bit floats) become bytes.

    Args:
        tensor: A strided tensor that fills its memory: contiguous, or in a channels-last format.

    Raises:
        ValueError: It does not; in the words of NCCL's backend.
    """
    with torch._C.DisableTorchFunction():
        if tensor.layout is not torch.strided:
            raise ValueError(f"Tensors must be dense, but got layout {tensor.layout}")
        line = tensor.detach()
        # Channels-last tensors fill their memory too: collectives may take it in that order.
        if line.is_contiguous():
            line = line.view(-1)
        elif _is_channels_last(line):
            line = line.as_strided((line.numel(),), (1,))
        else:
            raise ValueError(
                f"Tensors must be contiguous, but got shape {tuple(tensor.shape)} with strides "
                f"{tensor.stride()}"
            )
        dtype = line.dtype
        if dtype in SHARED:
            return as_shared_array(line)
        if dtype is torch.bfloat16:
            # NumPy has no bf16 of its own: the bits pass as int16.
            return as_shared_array(line.view(torch.int16)).view(BFLOAT16)
        if line.is_conj() or line.is_neg():
            raise ValueError(
                "Tensors must be in memory, but got a lazily conjugated or negated one"
            )
        return as_shared_array(line.view(torch.uint8))


def as_reducible_array(tensor: torch.Tensor) -> Array:
    """Return the array of :func:`as_flat_array` for a reduction.

    Raises:
        TypeError: The World does not reduce the tensor's dtype.
    """
    if tensor.dtype not in SHARED and tensor.dtype is not torch.bfloat16:
        raise TypeError(f"Input tensor data type is not supported for a reduction: {tensor.dtype}")
    return as_flat_array(tensor)


def check_same_dtype(*tensors: torch.Tensor) -> None:
    """Check that the tensors have one dtype.

    Raises:
        TypeError: They have not; in the words of NCCL's backend.
    """
    for tensor in tensors:
        if tensor.dtype is not tensors[0].dtype:
            raise TypeError(
                f"Tensors must have identical type, but got {tensors[0].dtype} and {tensor.dtype}"
            )


def check_element_count(tensor: torch.Tensor, wanted: int, name: str) -> None:
    """Check the number of elements of an argument.

    Raises:
        ArgumentError: It is not ``wanted``.
    """
    with torch._C.DisableTorchFunction():
        got = tensor.numel()
    if got != wanted:
        raise ArgumentError(f"{name} must have {wanted} elements, but got {got}")


def _is_channels_last(tensor: torch.Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    form = formats.get(tensor.dim())
    return form is not None and tensor.is_contiguous(memory_format=form)
