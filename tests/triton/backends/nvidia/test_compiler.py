"""What programs look up in the back end of NVIDIA's GPUs."""

import pytest

import emu.triton.language as tl
from emu.triton.backends.compiler import GPUTarget
from emu.triton.backends.nvidia.compiler import min_dot_size

least = min_dot_size(GPUTarget("cuda", 80, 32))


@pytest.mark.parametrize(
    ("dtype", "k"), [(tl.int8, 32), (tl.float8e5, 32), (tl.float16, 16), (tl.float32, 16)]
)
def test_least_extents_depend_on_the_width(dtype, k):
    assert least(dtype, dtype) == (1, 1, k)


def test_wrong_operands_are_named():
    with pytest.raises(ValueError, match="equally wide, but got fp16 of 16 and fp32 of 32 bits"):
        least(tl.float16, tl.float32)
    with pytest.raises(TypeError, match=r"must be a dtype of triton.language, but got 'fp16'"):
        least("fp16", "fp16")
