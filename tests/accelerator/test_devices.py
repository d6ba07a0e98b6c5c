"""Programs on emulated devices. All run in one fresh process, which has them from the start."""

from __future__ import annotations

import copy
import threading
import warnings

import pytest
from emulated_devices import LOADED_ONCE, run_with_devices

import emu

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional

DEVICES = 2


# --- results and threads -----------------------------------------------------------------------


def bits_are_the_cpus():
    torch.manual_seed(1)
    host = torch.randn(64, 32)
    layer = nn.Linear(32, 16)
    expected = F.gelu(layer(host)).softmax(-1)
    got = F.gelu(layer.cuda()(host.cuda())).softmax(-1).cpu()
    assert torch.equal(got, expected)


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


def threads():
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.zeros(2, device="cuda").device))
    thread.start()
    thread.join()
    assert seen == [torch.device("cuda", 0)]


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


CHECKS = [
    bits_are_the_cpus,
    scripted_functions_run_eagerly,
    training_is_as_on_the_cpu,
    optimizers,
    modules_move,
    hooks_and_functions,
    checkpoints,
    recurrent_and_attention,
    threads,
    flexible_attention,
]


def run_checks() -> dict[str, str]:
    return run_with_devices(CHECKS, DEVICES)


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    return emu.launch(run_checks, 1, preload=LOADED_ONCE)[0]


@pytest.mark.parametrize("name", [check.__name__ for check in CHECKS])
def test_on_emulated_devices(failures: dict[str, str], name: str) -> None:
    assert name not in failures, failures[name]


def test_nothing_is_installed_by_importing():
    import emu.accelerator

    assert not emu.accelerator.installed()
