"""``emu.Link``: its values and its text."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import emu
from emu.comm.errors import ArgumentError
from emu.comm.link_model import Link


def test_a_link_is_frozen_and_free_by_default():
    link = emu.Link()
    assert (link.bandwidth, link.latency) == (math.inf, 0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        link.latency = 1.0  # type: ignore[misc] # the mistake under test
    assert emu.Link is Link


def test_numbers_of_any_kind_become_floats():
    link = Link(bandwidth=np.int64(25), latency=np.float32(0.5))
    assert (link.bandwidth, link.latency) == (25.0, 0.5)
    assert {type(link.bandwidth), type(link.latency)} == {float}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bandwidth": 0}, r"bandwidth must be more than 0 \(bytes a second\), but got 0.0"),
        ({"bandwidth": -1.5}, "bandwidth must be more than 0 .*, but got -1.5"),
        ({"bandwidth": math.nan}, "bandwidth must be more than 0 .*, but got nan"),
        ({"bandwidth": "25GB/s"}, "bandwidth must be a number, but got '25GB/s'"),
        ({"bandwidth": True}, "bandwidth must be a number, but got True"),
        ({"bandwidth": 10**400}, "bandwidth must fit a float, but got 1000"),
        ({"latency": -1e-9}, r"latency must be in \[0, 3600\] \(seconds\), but got -1e-09"),
        ({"latency": math.inf}, "latency must be in .*, but got inf"),
        ({"latency": math.nan}, "latency must be in .*, but got nan"),
        ({"latency": None}, "latency must be a number, but got None"),
    ],
)
def test_values_out_of_bounds_are_refused(arguments, message):
    with pytest.raises(ArgumentError, match=message):
        Link(**arguments)


@pytest.mark.parametrize(
    ("latency", "nanoseconds"),
    [(0, 0), (2e-6, 2000), (3e-6, 3000), (7e-9, 7), (1.5e-9, 2), (1e-10, 1), (3600, 3600 * 10**9)],
)
def test_a_latency_is_rounded_up_to_nanoseconds(latency, nanoseconds):
    assert Link(latency=latency).latency_ns == nanoseconds


@pytest.mark.parametrize(
    ("text", "bandwidth", "latency"),
    [
        ("25GB/s,2us", 25e9, 2e-6),
        ("25 GB/s , 3 µs", 25e9, 3e-6),
        ("1B/s", 1.0, 0.0),
        ("1.5kB/s,10ms", 1500.0, 0.01),
        ("3MB/s,1.5s", 3e6, 1.5),
        (".5TB/s,700ns", 5e11, 7e-7),
        ("2KiB/s", 2048.0, 0.0),
        ("1MiB/s", 2.0**20, 0.0),
        ("1GiB/s", 2.0**30, 0.0),
        ("1TiB/s", 2.0**40, 0.0),
        ("200Gbit/s", 25e9, 0.0),
        ("200Gb/s", 25e9, 0.0),
        ("8bit/s", 1.0, 0.0),
        ("25e9B/s", 25e9, 0.0),
        ("inf,1us", math.inf, 1e-6),
    ],
)
def test_a_link_is_read_from_text(text, bandwidth, latency):
    assert Link.parse(text) == Link(bandwidth=bandwidth, latency=latency)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bandwidth must be a number with a unit, as in 25GB/s, but got ''"),
        ("fast", "bandwidth must be a number with a unit, as in 25GB/s, but got 'fast'"),
        ("25", "bandwidth must be in one of B/s, kB/s, .*, but got '25'"),
        ("25gb/s", "bandwidth must be in one of .*, but got '25gb/s'"),
        ("25GB", "bandwidth must be in one of .*, but got '25GB'"),
        ("25GB/s,2", "latency must be in one of s, ms, us, ns, but got '2'"),
        ("25GB/s,", "latency must be a number with a unit, as in 2us, but got ''"),
        ("25GB/s,2us,3us", "latency must be in one of .*, but got '2us,3us'"),
        ("0GB/s", "bandwidth must be more than 0"),
        ("1GB/s,-1us", "latency must be in"),
        ("1GB/s,2h", "latency must be in one of"),
    ],
)
def test_text_that_is_no_link_is_refused(text, message):
    with pytest.raises(ArgumentError, match=message):
        Link.parse(text)


def test_launch_refuses_what_is_no_link():
    with pytest.raises(ArgumentError, match=r"link must be an emu\.Link or None, but got 25"):
        emu.launch(print, 1, link=25)  # type: ignore[arg-type] # the mistake under test
