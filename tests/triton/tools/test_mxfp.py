"""Tensors of microscaling formats, against their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from emu.triton.tools.mxfp import MXFP4Tensor, MXScaleTensor  # after the check for torch

VALUES = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def all_codes() -> MXFP4Tensor:
    tensor = MXFP4Tensor(size=16)
    tensor.data = torch.arange(16, dtype=torch.uint8)
    return tensor


def test_every_code_of_e2m1_has_its_value_and_comes_back() -> None:
    values = all_codes().to(torch.float32)
    assert values.tolist() == [*VALUES, *(-v for v in VALUES)]
    assert torch.signbit(values).tolist() == [False] * 8 + [True] * 8
    assert MXFP4Tensor(values).data.tolist() == list(range(16))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_floats_are_rounded_to_the_nearest_code(dtype: str) -> None:
    numbers = np.concatenate([np.arange(0, 7, 0.125), [7, 1e4, math.inf, 1e-7]])
    numbers = np.concatenate([numbers, np.nextafter(numbers, 0.0), np.nextafter(numbers, 9.0)])
    given = torch.tensor(numbers).to(getattr(torch, dtype))

    def nearest(x: float) -> int:
        # Of two as near, the even code; beyond the largest, the largest.
        return min(range(8), key=lambda c: (abs(VALUES[c] - min(x, 6.0)), c % 2))

    wanted = [nearest(x) for x in given.double().tolist()]
    assert MXFP4Tensor(given).data.tolist() == wanted
    assert MXFP4Tensor(-given).data.tolist() == [w | 8 for w in wanted]
    assert MXFP4Tensor(torch.tensor([math.nan, -3])).data.tolist()[0] & 7 == 7
    assert MXFP4Tensor(torch.tensor([2, -3])).data.tolist() == [4, 13]


@pytest.mark.parametrize(("shape", "dim"), [((16,), 0), ((7, 5), 0), ((7, 5), 1), ((2, 3, 4), 1)])
def test_two_codes_are_packed_into_a_byte(shape: tuple[int, ...], dim: int) -> None:
    tensor = MXFP4Tensor(size=shape).random()
    packed = tensor.to_packed_tensor(dim=dim)
    assert packed.dtype == torch.uint8
    assert packed.shape[dim] == (shape[dim] + 1) // 2
    assert torch.equal(packed.select(dim, 0) & 15, tensor.data.select(dim, 0))
    assert torch.equal(packed.select(dim, 0) >> 4, tensor.data.select(dim, 1))
    assert torch.equal(tensor.unpack_packed_tensor(packed, dim, shape), tensor.data)


def test_every_scale_has_its_value_and_comes_back() -> None:
    scale = MXScaleTensor(size=256)
    scale.data = torch.arange(256, dtype=torch.uint8)
    values = scale.to(torch.float32)
    assert values[:255].tolist() == [2.0 ** (c - 127) for c in range(255)]
    assert values[255].isnan()
    assert torch.equal(MXScaleTensor(values).data, scale.data)


def test_scales_are_rounded_down_and_must_be_positive() -> None:
    below = np.nextafter(np.float32(8), np.float32(0))
    given = [3.9, 4.0, float(below), 1e-45, 0.0, -1.0, math.nan, math.inf]
    assert MXScaleTensor(torch.tensor(given)).data.tolist() == [128, 129, 129, 0, *[255] * 4]


def test_random_tensors_have_every_code_and_stay_within_bounds() -> None:
    torch.manual_seed(0)
    assert set(MXFP4Tensor(size=(64, 64)).random().data.unique().tolist()) == set(range(16))
    scales = MXScaleTensor(size=(4096,)).random().data
    assert int(scales.max()) <= 254
    bounded = MXScaleTensor(size=4096).random(low=0.3, high=9.0)
    assert bounded.data.unique().tolist() == [125, 126, 127, 128, 129, 130]
    assert bounded.to(torch.float32).max() == 8


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="data or size must be given"):
        MXFP4Tensor()
    with pytest.raises(TypeError, match="data must be a tensor of real numbers, but got list"):
        MXScaleTensor([1.0])  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(TypeError, match=r"but got torch\.complex64"):
        MXFP4Tensor(torch.zeros(2, dtype=torch.complex64))
    tensor = MXFP4Tensor(size=(4, 4)).random()
    with pytest.raises(AssertionError, match=r"dim must be in \[0, 2\), but got 2"):
        tensor.to_packed_tensor(dim=2)
    with pytest.raises(ValueError, match=r"dtype must be torch\.float32, but got torch\.float16"):
        tensor.to(torch.float16)
    scale = MXScaleTensor(size=4)
    with pytest.raises(ValueError, match="low must be at most high = 1, but got 4"):
        scale.random(low=4, high=1)
    with pytest.raises(ValueError, match="high must be positive and finite, but got -1"):
        scale.random(high=-1)
    assert not hasattr(scale, "data")
