"""DLPack of tensors on emulated devices."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def packed_for_others():
    x = torch.arange(4.0, device="cuda:1")
    assert x.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLCUDA, 1)
    for same in (torch.from_dlpack(x), torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))):
        assert same.device == x.device
        same += 1
    assert x.tolist() == [2.0, 3.0, 4.0, 5.0]
    host = torch.from_dlpack(np.ones(2))
    assert not host.is_cuda


def test_packed_tensors_keep_their_device() -> None:
    check_on_devices(packed_for_others)
