"""Programs on emulated devices. All run in one fresh process, which has them from the start."""

from __future__ import annotations

import copy
import io
import multiprocessing
import threading
import warnings

import numpy as np
import pytest
from emulated_devices import refused, run_with_devices

import emu

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

DEVICES = 2


# --- where tensors are -------------------------------------------------------------------------


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


def bits_are_the_cpus():
    torch.manual_seed(1)
    host = torch.randn(64, 32)
    layer = nn.Linear(32, 16)
    expected = F.gelu(layer(host)).softmax(-1)
    got = F.gelu(layer.cuda()(host.cuda())).softmax(-1).cpu()
    assert torch.equal(got, expected)


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


def shown():
    x = torch.zeros(2, device="cuda")
    assert repr(x) == "tensor([0., 0.], device='cuda:0')"
    assert f"{x.npu()}" == "tensor([0., 0.], device='npu:0')"
    assert f"{x.sum():.1f}" == "0.0"
    assert "device='cuda:0', requires_grad=True" in repr(nn.Parameter(x))
    assert x.type() == "torch.cuda.FloatTensor"
    assert repr(x.cpu()) == "tensor([0., 0.])"


def scripted_functions_run_eagerly():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own, for every script
        scripted = torch.jit.script(plus_one)
    assert scripted(torch.zeros(2, device="cuda")).is_cuda


def plus_one(x):
    return x + 1


# --- training ----------------------------------------------------------------------------------


def training_is_as_on_the_cpu():
    def train(device: str) -> list[float]:
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
        x, y = torch.randn(16, 4).to(device), torch.randn(16, 1).to(device)
        model.to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        assert all(p.grad.device == x.device for p in model.parameters())
        return losses

    assert train("cpu") == train("cuda") == train("npu:1")


def optimizers():
    model = nn.Linear(3, 3).cuda()
    average = copy.deepcopy(model)

    def closure() -> torch.Tensor:
        loss = model(torch.ones(2, 3, device="cuda")).square().sum()
        model.zero_grad()
        loss.backward()
        return loss

    adam = torch.optim.Adam
    for make in (adam, torch.optim.SGD, torch.optim.RMSprop, torch.optim.LBFGS):
        optimizer = make(model.parameters())
        optimizer.step(closure)
        optimizer.load_state_dict(optimizer.state_dict())
    for options in ({"foreach": True}, {"fused": True}):
        optimizer = adam(model.parameters(), **options)
        closure()
        optimizer.step()
    with torch.no_grad():
        for mean, value in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(value, 0.5)
            assert mean.is_cuda


def modules_move():
    model = nn.BatchNorm1d(3).cuda()
    assert model.running_mean.is_cuda
    assert not model.cpu().weight.is_cuda
    assert model.npu().weight.is_npu
    assert isinstance(model.weight, nn.Parameter)
    layer = nn.Linear(2, 2, device="meta").to_empty(device="cuda")
    layer.load_state_dict(nn.Linear(2, 2).state_dict())
    assert layer.weight.is_cuda
    assert layer.half().weight.is_cuda
    assert layer.to(torch.device("npu", 0), torch.float32).bias.is_npu


def hooks_and_functions():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            assert grad.device == a.device
            return 2 * grad + torch.zeros(a.shape, device=grad.device) * a

    x = torch.randn(3, device="cuda", requires_grad=True)
    seen = []
    y = Twice.apply(x)
    y.register_hook(lambda grad: seen.append(grad.device) or grad * torch.ones(3, device="cuda"))
    y.sum().backward()
    assert seen == [x.device]
    assert x.grad.device == x.device
    (grad,) = torch.autograd.grad((x**2).sum(), x, create_graph=True)
    assert grad.is_cuda
    grad.sum().backward()
    host = torch.ones(3, requires_grad=True)
    (host.cuda() * x).sum().backward()
    assert not host.grad.is_cuda
    assert torch.func.grad(lambda a: (a * x.detach()).sum())(x.detach()).is_cuda


def checkpoints():
    from torch.utils.checkpoint import checkpoint

    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).cuda()
    for reentrant in (False, True):
        x = torch.randn(3, 4, device="cuda", requires_grad=True)
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        assert x.grad.is_cuda


def recurrent_and_attention():
    x = torch.randn(3, 5, 4, device="cuda")
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]), batch_first=True)
    out, (hidden, _) = nn.LSTM(4, 6, batch_first=True).cuda()(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    assert hidden.is_cuda
    assert padded.is_cuda
    assert not lengths.is_cuda
    padded.sum().backward()
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1).cuda()
    tokens = torch.randn(2, 5, 16, device="cuda")
    encoder(tokens).sum().backward()
    with torch.no_grad():
        assert encoder.eval()(tokens).is_cuda


def mixed_precision():
    model = nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    x = torch.randn(3, 4, device="cuda")
    for options, dtype in (({}, torch.float16), ({"dtype": torch.bfloat16}, torch.bfloat16)):
        for kind in ("cuda", "npu"):
            with torch.autocast(kind, **options):
                assert (x @ x.T).dtype == dtype
    with torch.autocast("cuda"):
        loss = model(x).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


# --- around tensors ----------------------------------------------------------------------------


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


def data_loaders():
    data = torch.utils.data.TensorDataset(torch.randn(20, 4), torch.randint(0, 2, (20,)))
    for x, _ in torch.utils.data.DataLoader(data, batch_size=5, pin_memory=True):
        assert x.is_pinned()
        assert x.to("cuda", non_blocking=True).is_cuda
    refused(lambda: torch.zeros(1, device="cuda").pin_memory(), RuntimeError, "cannot pin")


def threads():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.zeros(2, device="cuda").device))
    thread.start()
    thread.join()
    assert seen == [torch.device("cuda", 0)]


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


def device_modules():
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind)
        assert module.is_available()
        assert module.device_count() == DEVICES
        module.synchronize()
        module.empty_cache()
        begin, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
        begin.record()
        stream = module.Stream()
        with module.stream(stream):
            assert module.current_stream() is stream
        assert module.current_stream() == module.default_stream() != stream
        torch.ones(2, device=kind).record_stream(stream)
        assert isinstance(stream, torch.Stream)
        assert isinstance(torch.Stream(device=kind), module.Stream)
        assert isinstance(torch.Event(device=kind), torch.Event)
        module.current_stream().wait_stream(stream)
        end.record()
        assert begin.elapsed_time(end) >= 0.0
        refused(lambda m=module: m.Event().elapsed_time(m.Event()), ValueError, "enable_timing")
        before = module.memory_allocated()
        held = torch.zeros(1000, device=kind)
        assert module.memory_allocated() - before == held.nbytes
        refused(module.memory_snapshot, NotImplementedError, "is not emulated: the memory is")
        refused(module.CUDAGraph, NotImplementedError, "nothing of it is captured")
        refused(lambda m=module: m.set_device(9), RuntimeError, "invalid device ordinal")
        state = module.get_rng_state()
        first = torch.randn(3, device=kind)
        module.set_rng_state(state)
        assert torch.equal(first, torch.randn(3, device=kind))
        module.manual_seed_all(5)
        assert module.initial_seed() == 5
    refused(torch.cuda.current_blas_handle, NotImplementedError, "is not emulated")
    spread = nn.DataParallel(nn.Linear(3, 3).cuda())
    refused(lambda: spread(torch.ones(2, 3).cuda()), NotImplementedError, "is not emulated")
    assert not hasattr(torch._C, "_cuda_of_no_build")
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert generator.device.type == "cuda"
    assert torch.randn(2, device="cuda", generator=generator).is_cuda
    assert isinstance(torch.default_generator, torch.Generator)
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert torch.cuda.get_device_properties(0).total_memory > 0


CHECKS = [
    factories,
    default_devices,
    results_follow,
    bits_are_the_cpus,
    memory_is_apart,
    between_devices,
    shown,
    scripted_functions_run_eagerly,
    training_is_as_on_the_cpu,
    optimizers,
    modules_move,
    hooks_and_functions,
    checkpoints,
    recurrent_and_attention,
    mixed_precision,
    saving,
    data_loaders,
    threads,
    other_processes,
    device_modules,
]


def run_checks() -> dict[str, str]:
    return run_with_devices(CHECKS, DEVICES)


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    return emu.launch(run_checks, 1)[0]


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_on_emulated_devices(failures: dict[str, str], name: str) -> None:
    assert name not in failures, failures[name]


def test_nothing_is_installed_by_importing():
    import emu.accelerator

    assert not emu.accelerator.installed()
