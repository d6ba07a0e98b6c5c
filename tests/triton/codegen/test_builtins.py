"""Python's builtin functions in kernels."""

import pytest
from triton_kernels import ints

from emu.triton import language as tl
from emu.triton.codegen.builtins import BUILTINS
from emu.triton.source import JITCallable as jit


@jit
def builtin_functions(x, out, B: tl.constexpr):
    a = tl.load(x)
    tl.store(out + 0, min(a, 5))
    tl.store(out + 1, max(a, 2, B))
    tl.store(out + 2, min(B, 3) + max((1, 9, 4)) + int(2.7) + len((1, 2)) + abs(-4))
    tl.store(out + 3, tl.where(a > 3, 0.5, float("inf")) > 1e30)
    tl.static_assert(isinstance(B, int) and not isinstance(B, float))
    tl.static_assert(isinstance(a, tl.tensor))
    tl.static_assert(getattr(a, "dtype") == tl.int32)
    tl.static_assert(hasattr(a, "shape") and not hasattr(a, "nothing"))


@pytest.mark.parametrize("a", [1, 4, 9])
def test_pythons_builtin_functions(launch, a):
    out = ints(0, 0, 0, 0)
    launch(builtin_functions, ints(a), out, B=4)
    assert out.tolist() == [min(a, 5), max(a, 2, 4), 3 + 9 + 2 + 2 + 4, int(a <= 3)]


@pytest.mark.parametrize("values", [(1.0, float("nan")), (1.0, -0.0)])
def test_max_and_min_of_known_values_refuse_what_has_no_order(values):
    for function in (BUILTINS["max"], BUILTINS["min"]):
        with pytest.raises(ValueError, match="takes neither NaN nor -0.0"):
            function(*values)
