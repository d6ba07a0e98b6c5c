"""Functions that torch has for more dtypes on CUDA than on the CPU."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices, refused

torch = pytest.importorskip("torch")


def histograms():
    torch.manual_seed(0)
    for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
        x = torch.randint(0, 100, (7, 1000), device="cuda").to(dtype)
        for bins, low, high in ((100, 0, 99), (10, 0, 100), (7, 3, 90), (5, 20, 20), (4, 0, 0)):
            got = torch.histc(x, bins=bins, min=low, max=high)
            assert (got.dtype, got.device) == (x.dtype, x.device)
            if dtype == torch.uint8:
                continue  # counts wrap around
            if high == low:
                low, high = int(x.min()), int(x.max())
            counts = [0] * bins
            for value in x.flatten().tolist():
                if low <= value <= high:
                    counts[min((value - low) * bins // (high - low), bins - 1)] += 1
            assert got.tolist() == counts
    assert x.histc(3, 0, 2).tolist() == torch.histc(input=x, bins=3, max=2).tolist()
    constant = torch.full((5,), 3, device="cuda")
    assert constant.histc(2).tolist() == [0, 5]
    refused(lambda: x.histc(0), RuntimeError, "bins must be")
    refused(lambda: x.cpu().histc(), NotImplementedError, "histogram_cpu")
    floats = torch.rand(100, device="cuda")
    assert torch.equal(floats.histc(10).cpu(), floats.cpu().histc(10))


def traces():
    x = torch.eye(5, 3, device="cuda").bool()
    assert torch.trace(x) == 3
    assert (x.trace().dtype, x.trace().device) == (torch.int64, x.device)
    assert x.int().trace() == 3


def test_histograms_of_integers() -> None:
    check_on_devices(histograms)


def test_traces_of_booleans() -> None:
    check_on_devices(traces)
