"""CPU kernels of products of 16-bit matrices with results in fp32: ``out_dtype=``, which torch has for CUDA only."""

from __future__ import annotations

from typing import Any

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.patches import record


def install() -> None:
    """Register the operators for host memory, where emulated tensors lie."""
    library = torch.library.Library("aten", "IMPL", "CPU")  # the kernels end with it
    for name, product in _PRODUCTS.items():
        library.impl(f"{name}.dtype", _returning(product))
        library.impl(f"{name}.dtype_out", _writing(product))
    record("torch.ops.aten.mm.dtype", "torch has these for CUDA only", library._destroy)


_PRODUCTS = {
    "mm": torch.mm,
    "bmm": torch.bmm,
    "addmm": torch.addmm,
    "baddbmm": torch.baddbmm,
}


def _returning(product: Any) -> Any:
    """Return a product that adds in its result's dtype, as a GPU does."""

    def multiply(*operands: Any, **factors: Any) -> Tensor:
        *tensors, out_dtype = operands
        result: Tensor = product(*_widened(tensors, out_dtype), **factors)
        return result

    return multiply


def _writing(product: Any) -> Any:
    multiply = _returning(product)

    def write(*operands: Any, out: Tensor, **factors: Any) -> Tensor:
        result = multiply(*operands, **factors)
        if out.dtype != result.dtype:
            raise RuntimeError(
                f"out must have the dtype of out_dtype, {result.dtype}, but got {out.dtype}"
            )
        return (
            out.resize_(result.shape).copy_(result)
            if out.shape != result.shape
            else out.copy_(result)
        )

    return write


def _widened(tensors: list[Tensor], out_dtype: torch.dtype) -> list[Tensor]:
    """Return the operands in the dtype of the result.

    Raises:
        RuntimeError: CUDA has no such product.
    """
    dtype = tensors[-1].dtype
    is_narrow = dtype in (torch.float16, torch.bfloat16)
    if out_dtype != dtype and not (out_dtype == torch.float32 and is_narrow):
        raise RuntimeError(
            "out_dtype must be the dtype of the operands, or torch.float32 for operands of fp16 or bf16, "
            f"but got {out_dtype} for {dtype}"
        )
    return [tensor.to(out_dtype) for tensor in tensors]
