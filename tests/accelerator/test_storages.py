"""Storages on emulated devices."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def storages():
    from emu.accelerator.device_tags import TAG

    def place(storage):
        return getattr(storage, TAG, None)

    storage = torch.arange(4.0, device="cuda:1").untyped_storage()
    assert place(storage) == torch.device("cuda", 1)
    assert storage.to(device="cuda:1") is storage
    moved = storage.cuda()  # to the current device
    assert place(moved) == torch.device("cuda", 0)
    assert moved.data_ptr() != storage.data_ptr()
    assert moved.tolist() == storage.tolist()
    host = storage.cpu()
    assert place(host) is None
    assert host.cpu() is host
    assert place(host.to(device="npu")) == torch.device("npu", 0)
    before = torch.cuda.memory_allocated(1)
    storage.resize_(160)
    assert torch.cuda.memory_allocated(1) == before + 160 - 16


def test_storages_move_and_are_counted_as_their_tensors_are() -> None:
    check_on_devices(storages)
