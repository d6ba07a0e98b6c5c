"""Functions that Triton keeps in ``tl.standard``; the imports are the list, as in ``core``."""

# mypy: implicit-reexport
# ruff: noqa: F401 - ``__all__`` is made of the imports

from emu.triton.language.combine_functions import (
    _argmax_combine,
    _argmax_combine_tie_break_fast,
    _argmax_combine_tie_break_left,
    _argmin_combine,
    _argmin_combine_tie_break_fast,
    _argmin_combine_tie_break_left,
    _elementwise_max,
    _elementwise_min,
    _or_combine,
    _prod_combine,
    _sum_combine,
    _xor_combine,
)
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
    cumprod,
    cumsum,
)
from emu.triton.language.shapes import (
    flip,
    interleave,
    ravel,
    squeeze,
    unsqueeze,
)
from emu.triton.language.sorting import (
    _log2,
    bitonic_merge,
    sort,
    topk,
)

# By way of globals(), as type checkers take a list that is computed for an empty one.
globals()["__all__"] = sorted(name for name in globals() if name[0] != "_" or name == "_log2")
