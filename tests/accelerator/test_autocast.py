"""Autocast on emulated devices."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")
nn = torch.nn


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


def test_mixed_precision_trains() -> None:
    check_on_devices(mixed_precision)


class Doubled(torch.autograd.Function):
    """Notes what a kernel written by hand sees of autocast."""

    seen: list = []  # noqa: RUF012  # the tests read it

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.bfloat16)
    def forward(ctx, x):
        Doubled.seen.append((x.dtype, torch.is_autocast_enabled()))
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, slope):
        Doubled.seen.append((slope.dtype, torch.is_autocast_enabled("cuda")))
        return slope * 2


def answers():
    before = torch.get_autocast_dtype("cuda")
    assert before == torch.float16
    for kind, other in (("cuda", "npu"), ("npu", "cuda")):
        with torch.autocast(kind, dtype=torch.bfloat16):
            assert torch.is_autocast_enabled(kind)
            assert not torch.is_autocast_enabled(other)
            assert torch.get_autocast_dtype(kind) == torch.bfloat16
            with torch.autocast(kind, enabled=False):
                assert not torch.is_autocast_enabled(kind)
            assert torch.is_autocast_enabled(kind)
            with torch.autocast(kind):  # as outside, unless it says otherwise
                assert torch.get_autocast_dtype(kind) == torch.bfloat16
        assert not torch.is_autocast_enabled(kind)
        assert torch.get_autocast_dtype(kind) == before
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled()  # without an argument it asks for CUDA's
    assert torch.autocast("cuda")(torch.is_autocast_enabled)()
    refused(lambda: raise_inside(torch.autocast("cuda")), ZeroDivisionError, "division")
    assert not torch.is_autocast_enabled()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not torch.is_autocast_enabled("cuda")
        assert torch.is_autocast_enabled("cpu")


def raise_inside(context):
    with context:
        return 1 / 0


def casts():
    x = torch.ones(4, device="cuda", requires_grad=True)
    assert Doubled.apply(x).dtype == torch.float32
    with torch.autocast("cuda"):
        result = Doubled.apply(x)
    assert result.dtype == torch.bfloat16
    result.sum().backward()
    assert x.grad.tolist() == [2] * 4
    assert Doubled.seen == [
        (torch.float32, False),
        (torch.bfloat16, False),
        (torch.bfloat16, False),
    ]


def test_scripts_are_told_of_autocast() -> None:
    check_on_devices(answers)


def test_functions_written_by_hand_are_given_cast_inputs() -> None:
    check_on_devices(casts)
