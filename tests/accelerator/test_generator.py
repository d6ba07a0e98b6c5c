"""Generators of random numbers for emulated devices."""

from __future__ import annotations

import pytest
from emulated_devices import check_on_devices, refused

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


def default_generators():
    assert len(torch.cuda.default_generators) == torch.cuda.device_count() == 2
    generator = torch.cuda.default_generators[1]
    assert isinstance(generator, torch.Generator)
    assert generator is torch.cuda.default_generators[-1]
    assert generator.device == torch.device("cuda", 1)
    assert len(torch.npu.default_generators[:]) == 2
    torch.manual_seed(7)
    assert (generator.initial_seed(), generator.get_offset()) == (7, 0)
    expected = torch.randn(3, device="cuda")
    generator.manual_seed(7)
    assert torch.equal(torch.randn(3, device="cuda"), expected)
    torch.manual_seed(7)
    assert torch.equal(torch.randn(3, device="cuda", generator=generator), expected)
    state = generator.get_state()
    expected = torch.randn(3, device="cuda")
    generator.set_state(state)
    assert torch.equal(torch.randn(3, device="cuda"), expected)
    generator.set_offset(12)
    assert generator.get_offset() == 12
    assert generator.seed() == generator.initial_seed()
    assert generator.get_offset() == 0
    for wrong in (-4, 3, "4", 4.0):
        refused(
            lambda w=wrong: generator.set_offset(w), ValueError, "offset must be a multiple of 4"
        )
    refused(lambda: torch.cuda.default_generators[2], IndexError, "out of range")


def test_the_default_generators_are_those_of_the_host() -> None:
    check_on_devices(default_generators)


def test_a_generator_has_a_device_and_the_bits_of_the_hosts() -> None:
    check_on_devices(generators)
