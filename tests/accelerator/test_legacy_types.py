"""Legacy tensor types."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")


def legacy_types():
    Tensor = torch.cuda.FloatTensor
    x = Tensor([1, 2, 3])
    assert isinstance(x, Tensor)
    assert not isinstance(x, torch.cuda.LongTensor)
    assert not isinstance(x.cpu(), Tensor)
    assert x.type() == "torch.cuda.FloatTensor"
    assert Tensor(2, 3).shape == (2, 3)
    assert Tensor(np.ones((2, 2))).tolist() == [[1.0, 1.0]] * 2
    assert Tensor().numel() == 0
    for wanted in (torch.cuda.HalfTensor, "torch.cuda.HalfTensor"):
        half = torch.ones(2).type(wanted)
        assert (half.dtype, half.device) == (torch.float16, torch.device("cuda", 0))
    for wanted in (torch.FloatTensor, "torch.FloatTensor"):
        assert not x.type(wanted).is_cuda
    assert x.type(torch.float64).is_cuda
    assert torch.ones(1).type(torch.npu.IntTensor).is_npu
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls it deprecated
        torch.set_default_tensor_type("torch.cuda.FloatTensor")
        assert torch.ones(2).is_cuda
        torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.ones(2).is_cuda
    refused(lambda: Tensor(2, device="cpu"), RuntimeError, "expects device type: cuda")


def test_legacy_types_make_and_recognise_tensors() -> None:
    check_on_devices(legacy_types)
