"""Exported programs of emulated devices."""

from __future__ import annotations

import io
import warnings

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")
nn = torch.nn


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


def test_exported_programs_keep_their_devices() -> None:
    check_on_devices(exported_programs)
