"""Storages on emulated devices."""

from __future__ import annotations

import copy
import io
import warnings

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


def devices_of_storages():
    x = torch.arange(4.0, device="cuda:1")
    storage = x.untyped_storage()
    assert storage.device == x.device == storage.clone().device == copy.deepcopy(storage).device
    assert storage.is_cuda
    typed = x._typed_storage()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch deprecates them
        assert (typed.device, typed.tolist()) == (x.device, [0, 1, 2, 3])
    assert torch.ones(1, device="npu").untyped_storage().device == torch.device("npu", 0)
    assert storage.cpu().device == torch.ones(1).untyped_storage().device == torch.device("cpu")
    assert copy.deepcopy(x).device == x.device
    file = io.BytesIO()
    torch.save({"x": x, "view": x[1:]}, file)
    for wanted, place in ((x.device, None), (torch.device("cpu"), "cpu")):
        file.seek(0)
        found = torch.load(file, map_location=place)
        assert found["x"].device == found["view"].untyped_storage().device == wanted
        assert found["view"].tolist() == [1, 2, 3]
    seen = []
    file.seek(0)
    torch.load(file, map_location=lambda s, where: seen.append((s.device, where)) or s.cuda(0))
    assert seen == [(torch.device("cpu"), "cuda:1")]


def test_storages_say_where_they_are() -> None:
    check_on_devices(devices_of_storages)


def test_storages_move_and_are_counted_as_their_tensors_are() -> None:
    check_on_devices(storages)
