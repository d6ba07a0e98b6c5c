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


def traced_functions():
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x):
        filled = torch.full((4,), 2.0, device=x.device) + torch.where(x > 0, x, 0.0)
        return filled + x.new_zeros(4) + torch.ones(4, device="cpu").to(x.device)

    x = torch.randn(4, device="cuda:1")
    for mode in ("real", "fake"):
        graph = make_fx(function, tracing_mode=mode)(x)
        devices = {node.target: node.kwargs.get("device") for node in graph.graph.nodes}
        aten = torch.ops.aten
        for made in (aten.full.default, aten.scalar_tensor.default, aten._to_copy.default):
            assert devices[made] == x.device, (mode, made)
        assert devices[aten.ones.default] == torch.device("cpu")
        assert torch.equal(graph(x), function(x))
        assert graph(x).device == x.device


def test_traced_functions_keep_their_devices() -> None:
    check_on_devices(traced_functions)


@pytest.mark.slow
def test_exported_programs_keep_their_devices() -> None:
    check_on_devices(exported_programs)
