"""What is a kernel's, not Python's, in a kernel that runs as Python."""

from __future__ import annotations

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton


@triton.aggregate
class Complex:
    re: tl.tensor
    im: tl.tensor

    @triton.jit
    def __add__(self, other):
        return Complex(self.re + other.re, self.im + other.im)

    @triton.jit
    def __rmul__(self, factor):
        return Complex(self.re * factor, self.im * factor)

    @triton.jit
    def __getitem__(self, which):
        return self.re if which == 0 else self.im

    @triton.constexpr_function
    def parts(self):
        return 2


@triton.jit
def add_pairs(re_ptr, im_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    z = Complex(tl.load(re_ptr + i), tl.load(im_ptr + i))
    total = z + 3.0 * z
    tl.store(re_ptr + i, total[0])
    tl.store(im_ptr + i, total[1] * z.parts())


@pytest.mark.parametrize("interpret", [False, True])
def test_operators_of_an_aggregate_are_bound_to_it(interpret: bool) -> None:
    re, im = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    add_pairs[(1,)](re, im, BLOCK=8, interpret=interpret)
    assert re.tolist() == [4.0 * x for x in range(8)]
    assert im.tolist() == [8.0] * 8


@triton.jit
def compares(out_ptr, pair, BLOCK: tl.constexpr):
    x = tl.zeros((2, BLOCK), tl.int32)
    if x.shape == [2, BLOCK]:
        tl.store(out_ptr, 1)
    if [2, BLOCK] != (2, BLOCK):
        tl.store(out_ptr + 1, 1)
    if [2, [3, 4]] == (2, (3, 4)):
        tl.store(out_ptr + 2, 1)
    if x.shape == [BLOCK, 2]:
        tl.store(out_ptr + 3, 1)


@pytest.mark.parametrize("interpret", [False, True])
def test_a_list_is_equal_to_a_tuple_with_its_items(interpret: bool) -> None:
    out = np.zeros(4, np.int32)
    compares[(1,)](out, (1, 2), BLOCK=16, interpret=interpret)
    assert out.tolist() == [1, 0, 1, 0]


@triton.jit(interpret=True)
def appends(out_ptr):
    seen = []
    seen.append(int(tl.load(out_ptr)))
    seen.extend([1, 2])
    tl.store(out_ptr, len(seen))


def test_lists_remain_pythons_where_a_program_looks_at_values() -> None:
    out = np.zeros(1, np.int32)
    appends[(1,)](out)
    assert out[0] == 3
