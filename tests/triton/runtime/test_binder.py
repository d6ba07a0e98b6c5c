"""What a launch makes of its arguments, for programs that compile kernels by themselves before they launch them."""

from __future__ import annotations

import pytest
import torch

import emu.triton.language as tl
from emu import triton
from emu.triton._utils import find_paths_if, get_iterable_path


@triton.jit
def scaled(x_ptr, y_ptr, n, factor: tl.float32, how: tl.constexpr, BLOCK: tl.constexpr = 16):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if how == "plus":
        x += factor
    else:
        x *= factor
    tl.store(y_ptr + i, x, mask=i < n)


def test_arguments_are_bound_and_described():
    x, y = torch.zeros(16), torch.zeros(16, dtype=torch.float64)
    *_, binder = scaled.device_caches[0]
    bound, meanings, options = binder(x, y, 32, how="plus", factor=2, num_warps=8)
    assert list(bound) == ["x_ptr", "y_ptr", "n", "factor", "how", "BLOCK"]
    assert bound["y_ptr"] is y
    assert (bound["factor"], bound["BLOCK"]) == (2, 16)
    assert [kind for kind, _ in meanings] == [
        *("*fp32", "*fp64", "i32", "fp32", "constexpr", "constexpr")
    ]
    assert meanings[2:] == [("i32", "D"), ("fp32", None), ("constexpr", "plus"), ("constexpr", 16)]
    assert options == {"num_warps": 8}
    assert binder(x, y, 1, 2.0, "plus")[1][2] == ("constexpr", 1)
    with pytest.raises(TypeError, match=r"arguments of kernel scaled: missing .* 'how'"):
        binder(x, y, 32, 2.0)


def test_a_program_compiles_by_itself_what_it_launches():
    x, y = torch.arange(16, dtype=torch.float32), torch.zeros(16)
    given = (x, y, 11, 3.0, "times")
    table, *_, target, backend, binder = scaled.device_caches[0]
    bound, meanings, options = binder(*given, num_warps=2)
    kinds, values = zip(*meanings, strict=True)
    constants = {
        path: get_iterable_path(list(bound.values()), path)
        for path in find_paths_if(kinds, lambda _, kind: kind == "constexpr")
    }
    attributes = {
        path: backend.parse_attr(get_iterable_path(values, path))
        for path in find_paths_if(values, lambda _, value: isinstance(value, str))
    }
    assert attributes[0,] in ([], [["tt.divisibility", 16]])
    source = scaled.ASTSource(scaled, dict(zip(bound, kinds, strict=True)), constants, attributes)
    made = scaled.compile(source, target=target, options=vars(backend.parse_options(options)))
    made._init_handles()
    table["of the program's own"] = made
    scaled[(1,)](*given, num_warps=2)
    assert y.tolist() == [3.0 * v if v < 11 else 0.0 for v in range(16)]
