"""CPU kernels of the five operators behind ``SyncBatchNorm``, which torch has for CUDA only.

Statistics are in fp32 for 16-bit inputs, as CUDA's are.
"""

from __future__ import annotations

import torch

from emu.accelerator.annotations import Tensor, TorchFunction
from emu.accelerator.patches import record


def install() -> None:
    """Register the operators for host memory, where emulated tensors lie."""
    library = torch.library.Library("aten", "IMPL", "CPU")  # the kernels end with it
    for name, function in _OPERATORS.items():
        library.impl(name, function)
    record("torch.ops.aten.batch_norm_*", "torch has these for CUDA only", library._destroy)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _along(line: Tensor, like: Tensor) -> Tensor:
    """Return per-channel values in a shape that broadcasts against [batch, channel, ...]."""
    return _wide(line).reshape(1, -1, *[1] * (like.dim() - 2))


def _axes(tensor: Tensor) -> list[int]:
    return [axis for axis in range(tensor.dim()) if axis != 1]


def _stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    variance, mean = torch.var_mean(_wide(input), _axes(input), correction=0)
    return mean, (variance + eps).rsqrt()


def _gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    # Each rank's mean and variance count by its number of elements: the ranks' batches may differ.
    weights = counts.to(mean.dtype).reshape(-1, 1)
    total = weights.sum()
    together = (mean * weights).sum(0) / total
    squares = ((invstd.square().reciprocal() - eps) * weights).sum(0)
    squares = squares + ((mean - together).square() * weights).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(together.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        unbiased = squares / (total - 1)
        running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
    return together, (squares / total + eps).rsqrt()


def _elemt(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    eps: float,
) -> Tensor:
    result = (_wide(input) - _along(mean, input)) * _along(invstd, input)
    if weight is not None:
        result = result * _along(weight, input)
    if bias is not None:
        result = result + _along(bias, input)
    return result.to(input.dtype)


def _backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grad = _wide(grad_out)
    total = grad.sum(_axes(grad))
    aligned = (grad * (_wide(input) - _along(mean, input))).sum(_axes(grad))
    kind = aligned.dtype if weight is None else weight.dtype
    return total, aligned, (aligned * invstd).to(kind), total.to(kind)


def _backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    n = count.sum()
    slope = _along(sum_dy_xmu / n * invstd.square(), input)
    grad = _wide(grad_out) - _along(sum_dy / n, input)
    grad = (grad - (_wide(input) - _along(mean, input)) * slope) * _along(invstd, input)
    if weight is not None:
        grad = grad * _along(weight, input)
    return grad.to(input.dtype)


_OPERATORS: dict[str, TorchFunction] = {
    "batch_norm_stats": _stats,
    "batch_norm_gather_stats_with_counts": _gather_stats_with_counts,
    "batch_norm_elemt": _elemt,
    "batch_norm_backward_reduce": _backward_reduce,
    "batch_norm_backward_elemt": _backward_elemt,
}
