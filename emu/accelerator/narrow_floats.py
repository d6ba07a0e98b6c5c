"""Layer norm, softmax and NLL loss of 16-bit inputs: CUDA computes them in fp32 and rounds once.

On the CPU torch keeps the statistics of a layer norm, and adds its gradients, in 16 bits, and one in ten results of
``log_softmax`` is not what fp32 rounds to. The losses of a batch it adds in 16 bits: of 2048 the mean is off by 2 %.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.patches import record

_NARROW = (torch.float16, torch.bfloat16)
_NAMES = (
    *("native_layer_norm", "native_layer_norm_backward", "_softmax", "_log_softmax"),
    *("nll_loss_forward", "nll_loss2d_forward"),
)


def install() -> None:
    """Replace the operators' kernels for host memory, where emulated tensors lie; a torch that hides its own keeps them."""
    try:
        forward, backward, *others = (kernel_of_torch(name) for name in _NAMES)
    except (AttributeError, RuntimeError):
        return
    library = torch.library.Library("aten", "IMPL", "CPU")  # the kernels end with it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that its own are replaced
        softmaxes, losses = map(_softmax, others[:2]), map(_nll_loss, others[2:])
        kernels = (_forward(forward), _backward(backward), *softmaxes, *losses)
        for name, made in zip(_NAMES, kernels, strict=True):
            library.impl(name, made)
    what = "torch.ops.aten.native_layer_norm*, _softmax, _log_softmax, nll_loss*_forward"
    record(what, "torch has 16 bits on the CPU", library._destroy)


def kernel_of_torch(name: str) -> Callable[..., Any]:
    """Return torch's own kernel of an operator for host memory."""
    kernel = torch.library.get_kernel(f"aten::{name}", "CPU")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return functools.partial(kernel.call_boxed, keys)


def _wide(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.float()


def _forward(run: Callable[..., Any]) -> Callable[..., Any]:
    def forward(
        given: Tensor, shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
    ) -> Any:
        if given.dtype not in _NARROW:
            return run(given, shape, weight, bias, eps)
        result, mean, rstd = run(given.float(), shape, _wide(weight), _wide(bias), eps)
        return result.to(given.dtype), mean, rstd

    return forward


def _backward(run: Callable[..., Any]) -> Callable[..., Any]:
    def backward(
        slope: Tensor, given: Tensor, shape: list[int], mean: Tensor, rstd: Tensor, *rest: Any
    ) -> Any:
        weight, bias, mask = rest
        if given.dtype not in _NARROW:
            return run(slope, given, shape, mean, rstd, weight, bias, mask)
        wide = [_wide(tensor) for tensor in (slope, given, mean, rstd, weight, bias)]
        grads = run(wide[0], wide[1], shape, *wide[2:], mask)
        dtypes = (
            given.dtype if tensor is None else tensor.dtype for tensor in (given, weight, bias)
        )
        return tuple(
            None if grad is None else grad.to(dtype)
            for grad, dtype in zip(grads, dtypes, strict=True)
        )

    return backward


def _softmax(run: Callable[..., Any]) -> Callable[..., Any]:
    def softmax(given: Tensor, axis: int, to_float: bool) -> Any:
        if given.dtype not in _NARROW:
            return run(given, axis, to_float)
        result = run(given.float(), axis, False)
        return result if to_float else result.to(given.dtype)

    return softmax


def _nll_loss(run: Callable[..., Any]) -> Callable[..., Any]:
    def nll_loss(
        given: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int
    ) -> Any:
        if given.dtype not in _NARROW:
            return run(given, target, weight, reduction, ignored)
        results = run(given.float(), target, _wide(weight), reduction, ignored)
        return tuple(result.to(given.dtype) for result in results)

    return nll_loss
