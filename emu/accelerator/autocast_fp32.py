"""Functions that autocast computes in fp32 for CUDA, but in 16 bits for the CPU.

The list follows the ``torch.amp`` manual: functions that autocast to fp32 with CUDA, less those that the CPU's
autocast treats the same way. Inside autocast their 16-bit device tensors are converted to fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch._C import _nn, _VariableFunctions  # pyright: ignore[reportAttributeAccessIssue] # not in its stub

from emu.accelerator.annotations import Args, Handler, Kwargs, TorchFunction
from emu.accelerator.device_tags import tag_of
from emu.accelerator.mode import HANDLERS, follow
from emu.accelerator.patches import replace_item

HALVES = (torch.float16, torch.bfloat16)
"""Types that are converted."""
NAMES = (
    *(
        "__pow__",
        "__rdiv__",
        "__rpow__",
        "__rtruediv__",
        "acos",
        "asin",
        "cosh",
        "cosine_similarity",
    ),
    *("cosine_embedding_loss", "cross_entropy", "cross_entropy_loss", "cumprod", "cumsum", "dist"),
    *(
        "erfinv",
        "exp",
        "expm1",
        "gaussian_nll_loss",
        "group_norm",
        "hinge_embedding_loss",
        "kl_div",
    ),
    *("l1_loss", "layer_norm", "log", "log10", "log1p", "log2", "log_softmax", "logsumexp"),
    *(
        "margin_ranking_loss",
        "mse_loss",
        "multi_margin_loss",
        "nll_loss",
        "norm",
        "normalize",
        "pdist",
    ),
    *("poisson_nll_loss", "pow", "prod", "reciprocal", "renorm", "rsqrt", "sinh", "smooth_l1_loss"),
    *("soft_margin_loss", "softmax", "softmin", "softplus", "sum", "tan", "triplet_margin_loss"),
    "huber_loss",
    "binary_cross_entropy_with_logits",
)
"""Names of the functions, among those of tensors too."""


def install() -> None:
    """Handle the functions under all names by which a script may call them."""
    for function in functions():
        replace_item(
            HANDLERS,
            function,
            _handler(HANDLERS.get(function, follow)),
            f"emu.accelerator.mode.HANDLERS[{getattr(function, '__name__', function)}]",
            "the CPU's autocast leaves the function in 16 bits",
        )


def functions() -> Iterator[TorchFunction]:
    """Yield the functions under all names by which a script may call them."""
    owners = (torch, torch.Tensor, F, _nn, _VariableFunctions)
    for owner in owners:
        for name in NAMES:
            function = getattr(owner, name, None)
            if callable(function):
                yield function


def _handler(handle: Handler) -> Handler:
    def in_fp32(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        if not torch.is_autocast_enabled("cpu") or not args or tag_of(args[0]) is None:
            return handle(func, args, kwargs)
        args = tuple(map(_widen, args))
        kwargs = {name: _widen(value) for name, value in kwargs.items()}
        enabled = torch.is_autocast_enabled("cpu")
        torch.set_autocast_enabled("cpu", False)
        try:
            return handle(func, args, kwargs)
        finally:
            torch.set_autocast_enabled("cpu", enabled)

    return in_fp32


def _widen(value: Any) -> object:
    if not isinstance(value, torch.Tensor) or value.dtype not in HALVES:
        return value
    tag = tag_of(value)
    return value if tag is None else follow(torch.Tensor.float, (value,), None)
