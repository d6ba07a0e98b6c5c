"""Devices of saved tensors and of those sent to another process."""

from __future__ import annotations

import io
import multiprocessing

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")
nn = torch.nn


def saving():
    x = torch.randn(3, device="cuda:1")
    file = io.BytesIO()
    torch.save({"x": x, "model": nn.Linear(2, 2).npu().state_dict()}, file)

    def load(**options):
        file.seek(0)
        return torch.load(file, **options)

    assert load()["x"].device == torch.device("cuda", 1)
    assert load()["model"]["weight"].is_npu
    assert not load(map_location="cpu")["x"].is_cuda
    assert load(map_location="npu:1")["x"].device == torch.device("npu", 1)
    assert load(map_location=torch.device("cuda"))["x"].device.index == 0
    assert torch.equal(load()["x"], x)


def _double(tensors, results):
    results.put(tensors.get() * 2)
    tensors.get()  # the memory is shared: keep it until it has been read


def other_processes():
    context = multiprocessing.get_context("fork")
    tensors, results = context.Queue(), context.Queue()
    child = context.Process(target=_double, args=(tensors, results))
    child.start()
    tensors.put(torch.ones(2, device="cuda:1"))
    doubled = results.get(timeout=60)
    assert doubled.device == torch.device("cuda", 1)
    assert doubled.tolist() == [2.0, 2.0]
    tensors.put(None)
    child.join()


def test_saved_tensors_keep_their_device() -> None:
    check_on_devices(saving)


def test_tensors_sent_to_another_process_keep_their_device() -> None:
    check_on_devices(other_processes)
