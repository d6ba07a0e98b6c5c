"""The functions that Triton keeps in ``tl.standard``."""

from emu.triton.language.composites import (
    softmax,
    swizzle2d,
)
from emu.triton.language.creation import (
    zeros,
    zeros_like,
)
from emu.triton.language.mathematics import (
    cdiv,
    sigmoid,
)
from emu.triton.language.reductions import (
    argmax,
    argmin,
    max,
    min,
    reduce_or,
    sum,
    xor_sum,
)
from emu.triton.language.scans import (
    _log2,
    bitonic_merge,
    cumprod,
    cumsum,
    sort,
    topk,
)
from emu.triton.language.shapes import (
    flip,
    interleave,
    ravel,
    squeeze,
    unsqueeze,
)

__all__ = [
    "_log2",
    "argmax",
    "argmin",
    "bitonic_merge",
    "cdiv",
    "cumprod",
    "cumsum",
    "flip",
    "interleave",
    "max",
    "min",
    "ravel",
    "reduce_or",
    "sigmoid",
    "softmax",
    "sort",
    "squeeze",
    "sum",
    "swizzle2d",
    "topk",
    "unsqueeze",
    "xor_sum",
    "zeros",
    "zeros_like",
]
