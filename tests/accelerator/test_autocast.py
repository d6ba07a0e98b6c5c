"""Autocast on emulated devices."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

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
