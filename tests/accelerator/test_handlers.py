"""Functions of torch that move tensors, query their device or print it."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")
nn = torch.nn


def factories():
    host = torch.randn(3, 4)
    x = torch.randn(3, 4, device="cuda")
    assert x.device == torch.device("cuda", 0)
    assert (x.is_cuda, x.is_cpu, x.is_npu, x.get_device()) == (True, False, False, 0)
    assert type(x) is torch.Tensor
    made = (
        torch.zeros_like(x),
        x.new_zeros(3),
        torch.tensor([1.0], device=x.device),
        torch.as_tensor(host, device="cuda"),
        torch.arange(3, device=0),
        torch.empty_like(host, device="cuda:0"),
        torch.full((2,), 1.0, device=torch.device("cuda")),
        torch.eye(2).cuda(),
        host.to("cuda"),
        host.to(x),
        host.type_as(x),
    )
    assert all(t.device == x.device for t in made)
    assert not host.is_cuda
    assert not torch.zeros_like(x, device="cpu").is_cuda
    assert torch.randn(2, device="npu:1").device == torch.device("npu", 1)
    assert host.npu().is_npu
    assert host.npu(1).device.index == 1
    refused(
        lambda: torch.zeros(1, device="cuda:7"), RuntimeError, r"must be in \[0, 2\), but got 7"
    )
    refused(lambda: host.cuda("npu"), RuntimeError, "must be cuda device")


def meta_tensors_stay_meta():
    x = torch.empty(3, device="meta")
    assert x.to(torch.int32).device.type == "meta"
    assert x.to(torch.int32).dtype == torch.int32
    assert x.to(copy=True).device.type == "meta"
    refused(lambda: x.to("cpu"), NotImplementedError, "meta tensor")
    refused(lambda: x.to("cuda"), NotImplementedError, "meta tensor")


def memory_is_apart():
    host = torch.zeros(4)
    array = np.zeros(4, np.float32)
    for device in (
        host.cuda(),
        torch.as_tensor(host, device="cuda"),
        torch.tensor([0.0] * 4).npu(),
    ):
        device += 1
        back = device.cpu()
        device += 1
        assert back.tolist() == [1.0] * 4
    torch.as_tensor(array, device="cuda").add_(1)
    torch.asarray(array, device="cuda").add_(1)
    assert host.tolist() == [0.0] * 4
    assert array.tolist() == [0.0] * 4
    x = torch.zeros(2, device="cuda")
    assert x.to("cuda") is x
    assert x.cuda() is x
    assert x.to("cuda:1") is not x
    assert x.to("cuda", copy=True) is not x
    assert torch.as_tensor(x, device="cuda") is x
    half = x.to("cuda:1", torch.float16)
    assert (half.dtype, half.device.index) == (torch.float16, 1)
    assert x.to("cpu", torch.float64, True).dtype == torch.float64
    view = x[:1]
    view += 5
    assert x.tolist() == [5.0, 0.0]


def shown():
    x = torch.zeros(2, device="cuda")
    assert repr(x) == "tensor([0., 0.], device='cuda:0')"
    assert f"{x.npu()}" == "tensor([0., 0.], device='npu:0')"
    assert f"{x.sum():.1f}" == "0.0"
    assert "device='cuda:0', requires_grad=True" in repr(nn.Parameter(x))
    assert x.type() == "torch.cuda.FloatTensor"
    assert repr(x.cpu()) == "tensor([0., 0.])"


def data_loaders():
    data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.randint(0, 2, (20,)))
    for x, _ in torch.utils.data.DataLoader(data, batch_size=5, pin_memory=True):
        assert x.is_pinned()
        assert x.to("cuda", non_blocking=True).is_cuda
    refused(lambda: torch.zeros(1, device="cuda").pin_memory(), RuntimeError, "cannot pin")


def test_every_query_tells_the_device() -> None:
    check_on_devices(factories)


def test_moving_copies_and_staying_does_not() -> None:
    check_on_devices(memory_is_apart)


def test_a_meta_tensor_is_converted_where_it_is() -> None:
    check_on_devices(meta_tensors_stay_meta)


def test_printed_tensors_show_their_device() -> None:
    check_on_devices(shown)


def test_pinned_memory_is_noted() -> None:
    check_on_devices(data_loaders)


def gradients_in_python_functions():
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append((gradient.device, gradient.is_cuda, gradient.is_cpu, gradient.is_npu))
            seen.append(gradient.get_device())
            return gradient * 2

    x = torch.randn(3, 4, device="cuda:1", requires_grad=True)
    Double.apply(x).t().contiguous().sum().backward()
    assert seen == [(torch.device("cuda", 1), True, False, False), 1]
    host = torch.randn(3, requires_grad=True)
    Double.apply(host).sum().backward()
    assert seen[2:] == [(torch.device("cpu"), False, True, False), -1]


def test_gradients_that_autograd_made_say_where_they_are() -> None:
    check_on_devices(gradients_in_python_functions)


def modules_by_keyword():
    for options in ({}, {"dtype": torch.float32}, {"dtype": torch.float16}):
        for device in ("cuda", torch.device("cuda", 1), "npu", "cpu"):
            layer = nn.Linear(2, 3).to(device=device, **options)
            expected = torch.empty(0, device=device)
            assert layer.weight.device == layer.bias.device == expected.device
            assert layer.weight.dtype == options.get("dtype", torch.float32)


def test_modules_move_by_keyword() -> None:
    check_on_devices(modules_by_keyword)
