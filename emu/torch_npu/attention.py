"""Operators of attention, which exist by name only.

Libraries import the name wherever ``torch_npu`` is there, and call it where a model runs on an NPU.
"""

from __future__ import annotations

from typing import NoReturn

from emu.accelerator.errors import NotEmulatedError


def npu_fusion_attention(*args: object, **kwargs: object) -> NoReturn:
    """Refuse.

    Raises:
        NotEmulatedError: Always; the message names what to call instead.
    """
    del args, kwargs
    raise NotEmulatedError(
        "torch_npu.npu_fusion_attention is not emulated: call "
        'torch.nn.functional.scaled_dot_product_attention (of transformers: attn_implementation="sdpa")'
    )
