"""Generators of random numbers for emulated devices."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices

torch = pytest.importorskip("torch")


def generators():
    generator = torch.Generator(device="cuda:1").manual_seed(3)
    assert generator.device == torch.device("cuda", 1)
    drawn = torch.randn(2, device="cuda", generator=generator)
    assert drawn.is_cuda
    host = torch.Generator().manual_seed(3)
    assert host.device == torch.device("cpu")
    assert torch.equal(drawn.cpu(), torch.randn(2, generator=host))
    assert isinstance(generator, torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    assert not isinstance(torch, torch.Generator)


def test_a_generator_has_a_device_and_the_bits_of_the_hosts() -> None:
    check_on_devices(generators)
