"""Compiling a kernel without launching it."""

import numpy as np
import pytest
from triton_kernels import copy

from emu import triton


def test_a_kernel_compiles_ahead_of_time():
    source = triton.compiler.ASTSource(
        copy, {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, {"BLOCK": 32}
    )
    kernel = triton.compile(source, target=None, options={"num_warps": 2})
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    kernel[(1,)](x, y, 4)
    assert y.tolist() == x.tolist()
    with pytest.raises(ValueError, match="signature must have the type of n"):
        triton.compiler.ASTSource(copy, {"x_ptr": "*fp32", "y_ptr": "*fp32"}, {"BLOCK": 32})
