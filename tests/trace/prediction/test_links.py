"""Messages over shared ports, and collectives as libraries choose them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.trace.prediction.devices.files import load_device
from emu.trace.prediction.links import Message, Ports, barrier_time, collective_time, message

H100 = load_device("h100")
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "strange")


def test_a_message_takes_its_bytes_and_the_latency() -> None:
    what = message(369_000, H100)
    assert (what.port, what.path, what.latency) == (1000, 1000, 1500)
    mesh = message(48_000, load_device("mi300x"))
    assert mesh.path == 1000
    assert mesh.port == pytest.approx(1000 / 7, abs=1)


def test_messages_of_one_port_follow_each_other_and_others_do_not() -> None:
    ports, what = Ports(), Message(10, 10, 3)
    assert ports.pass_message(0, 0, 1, what) == (10, 13)
    assert ports.pass_message(0, 0, 2, what) == (20, 23)  # the port out of 0
    assert ports.pass_message(0, 3, 2, what) == (30, 33)  # the port into 2
    assert ports.pass_message(0, 4, 5, what) == (10, 13)


def test_in_a_mesh_messages_to_different_devices_go_at_once() -> None:
    ports, what = Ports(), Message(2, 14, 0)
    assert [ports.pass_message(0, 0, target, what)[0] for target in (1, 2, 3)] == [14, 16, 18]
    assert ports.pass_message(0, 0, 1, what)[0] == 28  # the same path


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    nbytes=st.integers(0, 1 << 34),
    members=st.integers(1, 2000),
    name=st.sampled_from(["h100", "mi300x", "a2", "a3"]),
)
def test_collectives_take_longer_with_more_bytes_and_never_less_than_moving_them(
    kind, nbytes, members, name
) -> None:
    device = load_device(name)
    time = collective_time(kind, nbytes, members, device)
    assert time.seconds <= collective_time(kind, 2 * nbytes, members, device).seconds
    if members > 1:
        least = (
            nbytes
            * (members - 1)
            / members
            / (device["link.bandwidth"] * device["link.efficiency"])
        )
        assert time.seconds >= least * 0.999
    faster = device.changed(["link=2x"])
    assert collective_time(kind, nbytes, members, faster).seconds <= time.seconds * (1 + 1e-12)


def test_small_all_reduces_take_few_steps_and_large_ones_few_bytes() -> None:
    assert collective_time("all_reduce", 8, 8, H100).algorithm == "tree"
    assert collective_time("all_reduce", 8, 8, H100).protocol == "ll"
    assert collective_time("all_reduce", 1 << 33, 8, H100).algorithm == "switch"
    a2 = load_device("a2")
    assert collective_time("all_reduce", 1 << 33, 8, a2).algorithm == "ring"


def test_the_bandwidth_of_large_all_reduces_is_that_of_nccl() -> None:
    # NVIDIA/nccl-tests#212: 370 GB/s of a ring, 275 of the algorithm where the switch reduces.
    nbytes = 1 << 34
    gathered = nbytes * 7 / 8 / collective_time("all_gather", nbytes, 8, H100).seconds
    assert gathered == pytest.approx(370e9, rel=0.02)
    assert nbytes / collective_time("all_reduce", nbytes, 8, H100).seconds == pytest.approx(
        275e9, rel=0.02
    )


def test_one_member_takes_no_time() -> None:
    assert collective_time("all_reduce", 1 << 30, 1, H100).seconds == 0
    assert barrier_time(1, H100) == 0
    assert barrier_time(8, H100) == pytest.approx(3 * 1.5e-6)


def test_a_link_without_limits_takes_no_time_for_bytes() -> None:
    device = H100.changed(["link=inf", "link.latency=0"])
    assert message(1 << 40, device) == Message(0, 0, 0)
    assert collective_time("all_gather", 1 << 40, 8, device).seconds < 20e-6
