"""State of threads and of backward passes."""

from __future__ import annotations

import threading
import traceback

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def threads_have_devices_of_their_own():
    problems: list[str] = []
    seen: dict[int, tuple[int, ...]] = {}
    together = threading.Barrier(2)

    def work(index: int) -> None:
        try:
            first = torch.cuda.current_device()
            torch.cuda.set_device(index)
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(300):
                    together.wait()
                    x = torch.ones(3, device="cuda", requires_grad=True)
                    y = (x * 2).sum()
                    y.register_hook(lambda grad: check(index, grad, torch.ones(1, device="cuda")))
                    y.backward()
                    check(index, x, y, x.grad)
                assert torch.cuda.current_stream() is stream
            seen[index] = first, torch.cuda.current_device()
        except Exception:  # noqa: BLE001 - told to the main thread
            together.abort()
            problems.append(traceback.format_exc())

    def check(index: int, *tensors: torch.Tensor) -> None:
        for tensor in tensors:
            assert tensor.device.index == index, tensor.device

    torch.cuda.set_device(1)
    try:
        workers = [threading.Thread(target=work, args=(index,)) for index in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not problems, problems[0]
        assert seen == {
            0: (0, 0),
            1: (0, 1),
        }  # a thread begins with device 0, whatever others have set
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
    finally:
        torch.cuda.set_device(0)


def backward_passes_work_on_their_device():
    seen = []
    x = torch.ones(2, device="cuda:1", requires_grad=True)
    x.register_hook(lambda grad: seen.append((grad.device.index, torch.cuda.current_device())))
    (x * 2).sum().backward()
    assert seen == [(1, 1)]
    assert torch.cuda.current_device() == 0

    class Deep(
        torch.autograd.Function
    ):  # a pass within a pass, so often that torch takes other threads
        @staticmethod
        def forward(ctx, a, depth):
            ctx.depth = depth
            return a.clone()

        @staticmethod
        def backward(ctx, grad):
            assert grad.device.index == torch.cuda.current_device() == 1, threading.get_ident()
            if ctx.depth:
                with torch.enable_grad():
                    inner = torch.ones(1, device="cuda", requires_grad=True)
                    Deep.apply(inner, ctx.depth - 1).sum().backward()
            return grad, None

    Deep.apply(x, 100).sum().backward()
    assert x.grad.device.index == 1


def test_threads_have_devices_of_their_own() -> None:
    check_on_devices(threads_have_devices_of_their_own)


def test_backward_passes_work_on_their_device() -> None:
    check_on_devices(backward_passes_work_on_their_device)
