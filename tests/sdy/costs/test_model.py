"""Closed forms of the alpha-beta model."""

from __future__ import annotations

import math

import pytest

from emu.comm.link_model import Link
from emu.sdy.costs.model import Payload, transfer

MIB = 1 << 20
FAST = Link(bandwidth=1e9)  # no latency: bytes decide


@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 64])
def test_a_ring_sends_what_the_formulas_say(size: int) -> None:
    elements = size * 1000
    whole = Payload(elements, 4)
    found = transfer("all_reduce", size, [whole], FAST)
    assert found.algorithm == "ring"
    assert found.bytes_sent * size == 2 * (size - 1) * whole.nbytes
    assert found.steps == 2 * (size - 1)
    found = transfer("reduce_scatter", size, [whole], FAST)
    assert (found.bytes_sent * size, found.steps) == ((size - 1) * whole.nbytes, size - 1)
    part = Payload(1000, 4)
    found = transfer("all_gather", size, [part], FAST)
    assert found.bytes_sent * size == (size - 1) * (size * part.nbytes)  # of the whole result
    found = transfer("all_to_all", size, [whole], FAST)
    assert (found.bytes_sent * size, found.steps) == ((size - 1) * whole.nbytes, size - 1)


def test_time_is_steps_times_latency_and_bytes_over_bandwidth() -> None:
    link = Link(bandwidth=100e9, latency=1e-6)
    found = transfer("all_reduce", 8, [Payload(64 * MIB, 4)], link)
    sent = 2 * 7 * 256 * MIB // 8
    assert found.bytes_sent == sent
    assert math.isclose(found.seconds, 14e-6 + sent / 100e9)
    found = transfer("collective_permute", 8, [Payload(10, 8)], link)
    assert (found.steps, found.bytes_sent) == (1, 80)
    assert math.isclose(found.seconds, 1e-6 + 80 / 100e9)


@pytest.mark.parametrize(
    ("kind", "sent"), [("all_reduce", 3 * 384), ("all_gather", 7 * 384), ("reduce_scatter", 7 * 48)]
)
def test_small_arrays_take_few_steps(kind: str, sent: int) -> None:
    slow = Link(bandwidth=100e9, latency=1e-3)
    found = transfer(kind, 8, [Payload(96, 4)], slow)
    assert (found.algorithm, found.steps, found.bytes_sent) == ("recursive doubling", 3, sent)
    assert "starting the" in found.reason
    odd = transfer(kind, 6, [Payload(96, 4)], slow)
    assert odd.algorithm == "ring"
    assert "6 is no power of two" in odd.reason


def test_doubling_is_not_chosen_where_it_sends_too_much() -> None:
    # 126 steps of 1 us against 2 * 63 / 64 of 60 us: start-ups prevail, but six whole arrays are worse.
    link = Link(bandwidth=1e9, latency=1e-6)
    found = transfer("all_reduce", 64, [Payload(60_000, 1)], link)
    assert found.algorithm == "ring"
    assert "more bytes" in found.reason
    assert found.seconds < 6 * (1e-6 + 60e-6)


@pytest.mark.parametrize("elements", [0, 1, 2, 5, 7, 8, 9])
def test_chunks_of_an_uneven_ring_are_whole_elements(elements: int) -> None:
    # The sum over a ring of four: what each device spares are two neighbouring chunks.
    chunks = [elements // 4 + (i < elements % 4) for i in range(4)]
    busiest = max(2 * elements - chunks[i] - chunks[(i + 1) % 4] for i in range(4))
    assert transfer("all_reduce", 4, [Payload(elements, 4)], FAST).bytes_sent == 4 * busiest


def test_a_tree_sends_from_the_first_device_in_each_step() -> None:
    found = transfer("collective_broadcast", 5, [Payload(100, 4)], FAST)
    assert (found.algorithm, found.steps, found.bytes_sent) == ("binomial tree", 3, 1200)


def test_several_arrays_go_together() -> None:
    both = transfer("all_gather", 4, [Payload(10, 4), Payload(5, 2)], FAST)
    assert (both.bytes_sent, both.steps) == (3 * 50, 3)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no algorithm is known for stablehlo\.send"):
        transfer("send", 4, [], FAST)
