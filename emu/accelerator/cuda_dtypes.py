"""Functions that torch has for more dtypes on CUDA than on the CPU: ``histc`` of integers, ``trace`` of booleans."""

from __future__ import annotations

from typing import Any

import torch

from emu.accelerator.annotations import Args, Handler, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import set_tag, tag_of
from emu.accelerator.mode import HANDLERS, follow
from emu.accelerator.patches import replace_item

_REASON = "torch has the dtype for CUDA only"


def install() -> None:
    """Handle the functions under the names by which a script calls them."""
    for owner in (torch, Tensor):
        for name, handle in (("histc", _histogram), ("trace", _trace)):
            function = getattr(owner, name)
            where = f"emu.accelerator.mode.HANDLERS[{name}]"
            replace_item(HANDLERS, function, _on_cuda(handle), where, _REASON)


def _on_cuda(compute: Any) -> Handler:
    """Return a handler that computes for tensors of emulated GPUs, unless that has no result where torch has."""

    def handle(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        given = args[0] if args else kwargs.get("input")
        if not isinstance(given, torch.Tensor):
            return follow(func, args, kwargs)
        tag = tag_of(given)
        if tag is None or tag.type != "cuda" or given.is_floating_point() or "out" in kwargs:
            return follow(func, args, kwargs)
        rest = {name: value for name, value in kwargs.items() if name != "input"}
        result = compute(given, *args[1:], **rest)
        if result is None:
            return follow(func, args, kwargs)
        set_tag(result, tag)
        return result

    return handle


def _trace(given: Tensor) -> Tensor | None:
    return given.diagonal().sum() if given.dtype == torch.bool and given.dim() == 2 else None


def _histogram(given: Tensor, bins: int = 100, min: int = 0, max: int = 0) -> Tensor | None:
    """Return how many integers each bin has; a value's bin is a whole quotient, and values outside have none."""
    if given.dtype == torch.bool or given.is_complex() or bins <= 0 or min > max:
        return None  # torch's own error
    values = given.reshape(-1).to(torch.int64)
    low, high = int(min), int(max)
    if low == high and values.numel():
        low, high = int(values.min()), int(values.max())
    if low == high:
        low, high = low - 1, high + 1
    values = values[(values >= low) & (values <= high)]
    found = ((values - low) * bins // (high - low)).clamp_(max=bins - 1)
    return torch.bincount(found, minlength=bins).to(given.dtype)
