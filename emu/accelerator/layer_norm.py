"""The backward pass of layer norm for 16-bit inputs, whose sums over rows torch adds in 16 bits on the CPU and in fp32 on CUDA."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.patches import record

_NARROW = (torch.float16, torch.bfloat16)
_NAME = "aten::native_layer_norm_backward"


def install() -> None:
    """Replace the operator's kernel for host memory, where emulated tensors lie; a torch that hides its own keeps it."""
    try:
        kernel = torch.library.get_kernel(_NAME, "CPU")
    except (AttributeError, RuntimeError):
        return
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def backward(
        slope: Tensor,
        given: Tensor,
        shape: list[int],
        mean: Tensor,
        rstd: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mask: list[bool],
    ) -> tuple[Tensor | None, ...]:
        def run(*tensors: Tensor | None) -> Any:
            slope, given, mean, rstd, weight, bias = tensors
            return kernel.call_boxed(keys, slope, given, shape, mean, rstd, weight, bias, mask)

        tensors = (slope, given, mean, rstd, weight, bias)
        if given.dtype not in _NARROW:
            found: tuple[Tensor | None, ...] = run(*tensors)
            return found
        wide = run(*(tensor if tensor is None else tensor.float() for tensor in tensors))
        dtypes = [given.dtype, *(given.dtype if t is None else t.dtype for t in (weight, bias))]
        return tuple(
            None if grad is None else grad.to(dtype)
            for grad, dtype in zip(wide, dtypes, strict=True)
        )

    library = torch.library.Library("aten", "IMPL", "CPU")  # the kernel ends with it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its own is replaced
        library.impl("native_layer_norm_backward", backward)
    record(f"torch.ops.{_NAME}", "torch adds 16-bit rows in 16 bits on the CPU", library._destroy)
