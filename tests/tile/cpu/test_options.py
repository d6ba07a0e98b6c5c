"""Options change how a kernel is compiled, not what it computes."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from emu.tile import cpu
from emu.tile.text import parse_module

SOFTMAX = """
func @softmax(%x: ptr<f32>, %y: ptr<f32>) {
  %0 = arange {start = 0, end = 200} : tile<200xi32>
  %1 = splat %x : tile<200xptr<f32>>
  %2 = ptr_add %1, %0 : tile<200xptr<f32>>
  %3 = load %2 : tile<200xf32>
  %4 = exp %3 : tile<200xf32>
  %5 = reduce %4 {axis = 0} : f32 (%6: f32, %7: f32) {
    %8 = add %6, %7 : f32
    yield %8
  }
  %9 = splat %5 : tile<200xf32>
  %10 = div %4, %9 : tile<200xf32>
  %11 = splat %y : tile<200xptr<f32>>
  %12 = ptr_add %11, %0 : tile<200xptr<f32>>
  store %12, %10
  return
}
"""


def result(options: cpu.Options, in_place: bool) -> np.ndarray:
    """Return what a kernel with these options computes."""
    kernel = cpu.compile(parse_module(SOFTMAX), options=options)
    x = np.linspace(-120, 60, 200).astype(np.float32)
    y = x if in_place else np.empty_like(x)
    packed = bytearray(struct.pack(kernel.format, x.ctypes.data, y.ctypes.data))
    kernel.launch(np.frombuffer(packed, np.uint8).ctypes.data, 1)
    return y


@pytest.mark.parametrize("in_place", [False, True])
def test_quick_compilation_gives_the_same_bits(in_place: bool) -> None:
    wanted = result(cpu.Options(), False)
    for options in (
        cpu.Options(optimise=False),
        cpu.Options(disjoint=True),
        cpu.Options(optimise=False, disjoint=True),
    ):
        assert result(options, in_place).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", ["contract", "optimise", "disjoint"])
def test_an_option_must_be_a_bool(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a bool, but got 1"):
        cpu.Options(**{name: 1})


def test_disjoint_leaves_out_the_copies() -> None:
    double = SOFTMAX.replace("store %12, %10", "store %12, %3")
    checked, promised = (
        cpu.compile(parse_module(double), options=cpu.Options(disjoint=disjoint)).llvm
        for disjoint in (False, True)
    )
    # The branch to the copy of what a store of the same loop would overwrite.
    assert 'label %"then"' in checked
    assert 'label %"then"' not in promised
