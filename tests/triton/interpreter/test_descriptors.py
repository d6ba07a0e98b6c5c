"""Tensor descriptors in kernels that run as Python."""

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def transposed(source, target_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    target = tl.make_tensor_descriptor(target_ptr, [N, M], [M, 1], [BN, BM])
    target.store([column, row], source.load([row, column]).T)


@pytest.mark.parametrize("shape", [(16, 16), (20, 12)])
def test_descriptors_of_host_and_device_give_the_same_bits(shape):
    m, n = shape
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = []
    for interpret in (False, True):
        y = np.zeros((n, m), np.float32)
        source = TensorDescriptor(x, list(shape), [n, 1], [8, 8])
        transposed[(-(-m // 8), -(-n // 8))](source, y, m, n, BM=8, BN=8, interpret=interpret)
        found.append(y)
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0].tobytes() == np.ascontiguousarray(x.T).tobytes()
