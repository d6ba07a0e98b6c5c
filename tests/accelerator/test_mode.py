"""The general rule: tensors on one device, and results there too."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional


def default_devices():
    with torch.device("cuda:1"):
        assert torch.zeros(2).device.index == 1
        assert nn.Linear(2, 2).weight.device.index == 1
    assert not torch.zeros(2).is_cuda
    torch.set_default_device("npu")
    try:
        assert torch.ones(2).is_npu
        assert torch.get_default_device() == torch.device("npu", 0)
    finally:
        torch.set_default_device(None)
    torch.cuda.set_device(1)
    try:
        assert torch.zeros(1, device="cuda").device.index == 1
        with torch.cuda.device(0):
            assert torch.zeros(1).cuda().device.index == 0
        assert torch.cuda.current_device() == 1
    finally:
        torch.cuda.set_device(0)


def results_follow():
    x = torch.randn(4, 6, device="cuda")
    index = torch.tensor([0, 1])
    results = (
        *x.sort(),
        *x.topk(2),
        x.max(1).indices,
        torch.einsum("ij,kj->ik", x, x),
        *torch.linalg.svd(x),
        x[index],
        x[x > 0],
        *x.unbind(),
        next(iter(x)),
        torch.multinomial(x.abs(), 2),
        *x.split(2),
        torch.where(x > 0, x, 0.0),
        x.T,
        x.mT,
        x.data,
        x.detach(),
        *torch.meshgrid(x[0], x[1], indexing="ij"),
        *x.unique(return_counts=True),
        torch.stack([x, x]),
        x.half(),
        x.nonzero(),
        torch.rand_like(x),
        x * torch.tensor(2.0),
        nn.Parameter(x),
        F.scaled_dot_product_attention(x, x, x),
        torch.vmap(lambda row: row @ x.T)(x),
        x.to_sparse(),
        copy.deepcopy(x),
    )
    for result in results:
        assert result.is_cuda, result


def between_devices():
    x, host = torch.randn(4, 6, device="cuda"), torch.randn(4, 6)
    x[0] = torch.zeros(6)
    x.copy_(host)
    assert x.is_cuda
    host.copy_(x)
    assert not host.is_cuda
    host.numpy()
    both = "found at least two devices"
    refused(lambda: x + host, RuntimeError, both)
    refused(lambda: host @ x.T, RuntimeError, both)
    refused(lambda: torch.cat([x, host]), RuntimeError, both)
    refused(lambda: nn.Linear(6, 2)(x), RuntimeError, both)
    refused(lambda: x + x.to("cuda:1"), RuntimeError, both)
    refused(lambda: x + x.npu(), RuntimeError, both)
    refused(lambda: torch.add(x, x, out=host), RuntimeError, both)
    refused(lambda: x.numpy(), TypeError, r"Use Tensor.cpu\(\)")
    refused(lambda: x.__array__(), TypeError, r"Use Tensor.cpu\(\)")
    assert x.numpy(force=True).shape == (4, 6)
    refused(lambda: np.from_dlpack(x), BufferError, "copy the tensor to the host")
    refused(
        lambda: torch.randn(2, device="cuda", generator=torch.Generator()),
        RuntimeError,
        "generator",
    )


def test_factories_follow_the_default_device() -> None:
    check_on_devices(default_devices)


def test_results_are_on_the_device_of_the_operands() -> None:
    check_on_devices(results_follow)


def test_devices_do_not_mix() -> None:
    check_on_devices(between_devices)
