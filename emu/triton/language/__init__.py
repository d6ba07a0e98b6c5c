"""Triton's language: dtypes, tensors, and the functions that programs call.

Names that Triton keeps in ``tl.core``, ``tl.standard`` and ``tl.random`` are listed there, and only there.
"""

# mypy: implicit-reexport
# ruff: noqa: F401 - ``__all__`` is made of the imports

from emu.triton.language import core, extra, math, random, standard, target_info
from emu.triton.language.context import Context, building, current
from emu.triton.language.core import *
from emu.triton.language.random import *
from emu.triton.language.standard import *
from emu.triton.language.types import MAX_NUMEL as TRITON_MAX_TENSOR_NUMEL

_ONLY_IN_CORE = {
    *("CONSTEXPR_0", "builtin", "builtin_max", "builtin_min", "is_builtin", "slice_type"),
    *("extern", "extern_elementwise", "validate_block_shape"),
    *("tensor_descriptor_base", "tensor_descriptor_base_type"),
}
for _name in _ONLY_IN_CORE:
    del globals()[_name]

# By way of globals(), as type checkers take a list that is computed for an empty one.
globals()["__all__"] = sorted(
    {
        *({*vars(core)["__all__"]} - _ONLY_IN_CORE),
        *({*vars(standard)["__all__"]} - {"_log2"}),
        *random.__all__,
        *("Context", "TRITON_MAX_TENSOR_NUMEL", "building", "current"),
        *("core", "extra", "math", "random", "standard", "target_info"),
    }
)
