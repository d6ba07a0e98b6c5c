"""What scripts for CUDA ask of torch beside tensors. All runs in one fresh process."""

from __future__ import annotations

import io
import threading
import traceback
import warnings

import numpy as np
import pytest
from emulated_devices import refused, run_with_devices

import emu

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

DEVICES = 2


def memory_is_counted():
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind)
        before = module.memory_allocated()
        module.reset_peak_memory_stats()
        kept = torch.zeros(1000, device=kind)
        views = [kept.view(10, 100), kept[5:], kept.detach(), nn.Parameter(kept)]
        assert module.memory_allocated() - before == 4000
        gone = kept + views[3]
        assert gone.requires_grad
        del gone
        assert module.memory_allocated() - before == 4000
        assert module.max_memory_allocated() - before == 8000
        stats = module.memory_stats()
        assert stats["allocated_bytes.all.current"] - before == 4000
        assert stats["allocated_bytes.all.peak"] == module.max_memory_reserved()
        assert stats["num_ooms"] == 0
        assert module.memory_stats_as_nested_dict()["allocation"]["all"]["current"] > 0
        assert str(module.max_memory_allocated()) in module.memory_summary()
        module.reset_peak_memory_stats()
        assert module.max_memory_allocated() - before == 4000
        assert module.memory_allocated(1) == 0
        moved = kept.to(f"{kind}:1")
        assert module.memory_allocated(1) == moved.nbytes
        del kept, views, moved
        assert module.memory_allocated() == before
        assert module.memory_allocated(1) == 0
        grown = torch.zeros(10, device=kind).resize_(1000)
        filled = torch.empty(0, device=kind)
        torch.add(grown, grown, out=filled)
        assert module.memory_allocated() - before == 8000
        grown.untyped_storage().resize_(0)
        assert module.memory_allocated() - before == 4000
        with pytest.raises(ValueError, match=r"fraction must be in \[0, 1\], but got 2.0"):
            module.set_per_process_memory_fraction(2.0)


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


def facts():
    assert tuple(map(int, torch.version.cuda.split("."))) >= (11, 0)
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind)
        found = module.get_device_properties(1)
        assert (found.major, found.minor) == module.get_device_capability(1)
        assert found.name == module.get_device_name(1)
        assert found.total_memory == module.mem_get_info()[1]
        assert found.multi_processor_count > 0
        refused(lambda m=module: m.get_device_properties(9), RuntimeError, "invalid device ordinal")
    assert torch.cuda.is_bf16_supported()
    assert torch.device(1) == torch.device("cuda", 1)


def packed_for_others():
    x = torch.arange(4.0, device="cuda:1")
    assert x.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLCUDA, 1)
    for same in (torch.from_dlpack(x), torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))):
        assert same.device == x.device
        same += 1
    assert x.tolist() == [2.0, 3.0, 4.0, 5.0]
    host = torch.from_dlpack(np.ones(2))
    assert not host.is_cuda


def autocast_of_cuda():
    x = torch.randn(3, 8, device="cuda")
    host = torch.randn(3, 8)
    target = torch.zeros(3, dtype=torch.long, device="cuda")
    with torch.autocast("cuda"):
        y = x @ torch.randn(8, 8, device="cuda")
        in_fp32 = (
            y.softmax(-1),
            F.softmax(y, -1),
            torch.sum(y),
            y.exp(),
            y**2,
            F.layer_norm(y, (8,)),
            F.cross_entropy(y, target),
            F.mse_loss(y, y),
            y.norm(),
        )
        assert [t.dtype for t in in_fp32] == [torch.float32] * len(in_fp32)
        assert all(t.is_cuda for t in in_fp32)
        assert [t.dtype for t in (y, F.relu(y), y + 1, y.t())] == [torch.float16] * 4
        big = torch.full((8,), 6e4, device="cuda", dtype=torch.float16)
        assert big.sum().item() == 8 * float(big[0])  # in fp16 it would be infinite
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (host @ host.T).softmax(-1).dtype == torch.bfloat16  # the CPU's own rules
    assert y.half().exp().dtype == torch.float16


def profiles():
    from torch.profiler import ProfilerActivity, profile, record_function

    x = torch.randn(8, 8, device="cuda")
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    for given in (activities, activities[1:]):
        with profile(activities=given, profile_memory=True) as seen, record_function("mine"):
            x @ x
        assert "aten::mm" in seen.key_averages().table(sort_by="cuda_time_total")


def custom_operators():
    @torch.library.custom_op("emutests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        out = torch.empty(x.shape, device=x.device)
        return out.copy_(x * 2)

    @torch.library.custom_op("emutests::of", mutates_args=(), device_types="cuda")
    def of(x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, 1.0)

    x = torch.ones(2, device="cuda")
    assert twice(x).tolist() == [2.0, 2.0]
    assert twice(x).is_cuda
    assert of(x).tolist() == [1.0, 1.0]
    refused(lambda: of(torch.ones(2)), NotImplementedError, "has kernels for cuda")
    of.register_kernel("cpu", lambda x: torch.full_like(x, 2.0))
    assert of(torch.ones(2)).tolist() == [2.0, 2.0]
    assert of(x).tolist() == [1.0, 1.0]
    library = torch.library.Library("emutests", "FRAGMENT")
    library.define("plain(Tensor x) -> Tensor")
    library.impl("plain", lambda x: x + 3, "CUDA")
    assert torch.ops.emutests.plain(x).tolist() == [4.0, 4.0]


def exported_programs():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return self.layer(x) + torch.arange(4, device=x.device) * torch.ones(4, device="cuda")

    warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, of what it imports
    x = torch.randn(3, 4, device="cuda")
    model = Model().cuda()
    for strict in (False, True):
        program = torch.export.export(model, (x,), strict=strict)
        assert torch.equal(program.module()(x), model(x))
        assert program.module()(x).is_cuda
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(x), model(x))
    rows = torch.export.Dim("rows")
    program = torch.export.export(model, (x,), dynamic_shapes=({0: rows},))
    assert program.module()(torch.cat([x, x])).shape == (6, 4)
    warnings.simplefilter("error")


def flexible_attention():
    from torch.nn.attention import flex_attention as flex

    warnings.simplefilter("ignore")  # that it is not compiled
    q, k, v = (torch.randn(1, 2, 128, 16, device="cuda", requires_grad=True) for _ in range(3))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = flex.create_block_mask(lambda b, h, i, j: i >= j, 1, 2, 128, 128, device="cuda")
    infinite = float("inf")
    results = (
        flex.flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s.where(i >= j, -infinite)),
        flex.flex_attention(q, k, v, block_mask=mask),
        torch.compile(flex.flex_attention)(q, k, v, block_mask=mask),
    )
    for result in results:
        assert result.is_cuda
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    results[-1].sum().backward()
    assert q.grad.is_cuda
    warnings.simplefilter("error")


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


CHECKS = [
    memory_is_counted,
    legacy_types,
    facts,
    packed_for_others,
    autocast_of_cuda,
    profiles,
    custom_operators,
    exported_programs,
    flexible_attention,
    threads_have_devices_of_their_own,
    backward_passes_work_on_their_device,
]


def run_checks() -> dict[str, str]:
    return run_with_devices(CHECKS, DEVICES)


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    return emu.launch(run_checks, 1, preload=["torch"])[0]


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_scripts_find(failures: dict[str, str], name: str) -> None:
    assert name not in failures, failures[name]
