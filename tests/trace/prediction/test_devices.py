"""Files of devices say where each number is from, and what cannot be is refused by name, value and bound."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.devices.files import (
    device_names,
    load_device,
    number_rows,
    parse_device,
    to_toml,
)
from emu.trace.prediction.devices.keys import KEYS
from emu.trace.prediction.errors import DeviceFileError, PredictionError

NAMES = ("a2", "a3", "h100", "h200", "mi300x")


@pytest.fixture(scope="module")
def h100() -> Device:
    return load_device("h100")


def test_the_devices_are_there_and_each_number_has_its_source() -> None:
    assert device_names() == NAMES
    for name in NAMES:
        device = load_device(name)
        assert not device.calibrated
        assert device.status == "uncalibrated"
        for key, number in device.numbers.items():
            assert len(number.source) > 8, (name, key)
            assert number.date, (name, key)
            assert not number.calibrated
            assert (number.density in ("dense", "sparse")) == key.startswith("dot.")


def test_names_are_read_in_any_case_and_rates_with_sparsity_count_half(h100: Device) -> None:
    assert load_device("H100").name == h100.name
    assert h100.numbers["dot.f8"].density == "sparse"
    assert h100["dot.f8"] == h100.numbers["dot.f8"].value / 2 == pytest.approx(1979e12)
    assert h100["dot.f16"] == pytest.approx(989.4e12)


@pytest.mark.parametrize("name", NAMES)
def test_a_device_is_the_same_after_it_was_written(name: str) -> None:
    device = load_device(name)
    again = parse_device(to_toml(device).encode(), device.file)
    assert again == device
    assert len(number_rows(device)) == len(device.numbers)


def test_strange_texts_survive_being_written(h100: Device) -> None:
    number = h100.numbers["hbm"]
    strange = Device(
        'a "b" \\ c\n\t\x00\x7f',
        "x",
        {**h100.numbers, "hbm": number.__class__(1.5, 'say "so"\r\n', "", True)},
    )
    assert parse_device(to_toml(strange).encode(), "x") == strange


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(
        DeviceFileError,
        match=r"device must be one of a2, a3, h100, h200, mi300x, or FILE.toml, but got 'b300'",
    ):
        load_device("b300")
    with pytest.raises(
        DeviceFileError, match=r"the device none/there.toml cannot be read: No such file"
    ):
        load_device("none/there.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "value = 3350000000000.0",
            "value = -1",
            r"value of \[hbm\] must be at least 1 \(B/s\), but got -1",
        ),
        (
            "value = 3350000000000.0",
            "value = nan",
            r"value of \[hbm\] must be at least 1 \(B/s\), but got nan",
        ),
        (
            "value = 3350000000000.0",
            "value = true",
            r"value of \[hbm\] must be a number, but got True",
        ),
        (
            "value = 3350000000000.0",
            "value = '3 TB'",
            r"value of \[hbm\] must be a number, but got '3 TB'",
        ),
        (
            "value = 0.82",
            "value = 1.5",
            r"value of \[link.efficiency\] must be at least 1e-06 and at most 1, but got 1.5",
        ),
        (
            "value = 132",
            "value = 0",
            r"value of \[sms\] must be at least 1 and at most 65536, but got 0",
        ),
        ("[hbm]\n", "[hbn]\n", r"there is no number 'hbn'; did you mean hbm\?"),
        ("[hbm]\n", "[x.y.z]\n", r"there is no number 'x.y.z'; there are sms, "),
        ("[special]\n", "[special]\nflavour = 1\n", r"\[special\] must have no field 'flavour'"),
        ("[special]\nvalue = 3900000000000.0", "[special]", r"\[special\] must have a value"),
        ('unit = "op/s"', 'unit = "GB"', r"unit of \[special\] must be 'op/s', but got 'GB'"),
        (
            'date = "2024-07-11"',
            'date = "July"',
            r"date of \[special\] must be YYYY-MM-DD, but got 'July'",
        ),
        (
            'date = "2024-07-11"\ncalibrated = false',
            'date = "2024-07-11"',
            r"calibrated of \[special\] must be true or false, but got None",
        ),
        (
            'density = "sparse"',
            'density = "thin"',
            r"density of \[dot.tf32\] must be 'dense' or 'sparse', but got 'thin'",
        ),
        ('name = "NVIDIA H100 SXM5 80GB"', "name = 5", r"must have a name, but got 5"),
        ("[hbm]\n", "[hbm\n", r"is no TOML"),
        (
            "[sms]",
            "sms = 132\n[threads2]",
            r"sms must be a table with value, unit, source, date and calibrated, but got 132",
        ),
    ],
)
def test_what_cannot_be_is_refused(h100: Device, old: str, new: str, message: str) -> None:
    text = to_toml(h100)
    assert old in text
    with pytest.raises(DeviceFileError, match=message):
        parse_device(text.replace(old, new, 1).encode(), "my.toml")


def test_what_is_missing_is_named(h100: Device) -> None:
    numbers = {key: number for key, number in h100.numbers.items() if key != "l2_size"}
    with pytest.raises(
        DeviceFileError, match=r"the device my.toml must have \[l2_size\], but has none"
    ):
        parse_device(to_toml(Device("x", "", numbers)).encode(), "my.toml")


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200), place=st.integers(0, 7000))
def test_damaged_files_are_refused_or_read_but_never_crash(data: bytes, place: int) -> None:
    text = to_toml(load_device("h100")).encode()
    for damaged in (data, text[:place] + data + text[place:], text[:place]):
        with contextlib.suppress(DeviceFileError):
            parse_device(damaged, "x.toml")


# What-ifs


def test_numbers_are_multiplied_or_replaced(h100: Device) -> None:
    device = h100.changed(
        ["hbm=2x", "launch.latency=2us", "l2_size=64MiB", "dot.f16=1P", "link=100GB/s"]
    )
    assert device["hbm"] == 2 * h100["hbm"]
    assert device["launch.latency"] == 2e-6
    assert device["l2_size"] == 64 * 2**20
    assert device["dot.f16"] == 1e15
    assert (device["link.bandwidth"], device["link.pair"]) == (1e11, 1e11)
    assert device.status.startswith("uncalibrated; changed: hbm=2x, launch.latency=2us")
    assert h100["hbm"] == 3.35e12


def test_more_multiprocessors_are_more_of_the_same(h100: Device) -> None:
    device = h100.changed(["sms=2x"])
    assert device["sms"] == 264
    for key in ("dot.f16", "dot.f8", "vector.f32", "special", "l2"):
        assert device[key] == pytest.approx(2 * h100[key])
    assert device["hbm"] == h100["hbm"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("hbm", "set must be KEY=VALUE, as in hbm=2x, but got 'hbm'"),
        ("hbx=2x", r"there is no number 'hbx'; did you mean hbm\?"),
        ("hbm=fast", r"hbm must be a number in B/s, or a factor as in 2x, but got 'fast'"),
        ("hbm=-2x", r"the factor of hbm must be a number of at least 0, as in 2x, but got '-2x'"),
        ("hbm=0x", r"set: hbm must be at least 1 \(B/s\), but got 0"),
        ("hbm=4GHz", r"hbm must be a number in B/s"),
        ("sms=-5", r"set: sms must be at least 1 and at most 65536, but got -5"),
        ("efficiency.dot=2x", r"efficiency.dot must be at least 1e-06 and at most 1, but got 1.6"),
        ("atomic=2x", r"NVIDIA H100 SXM5 80GB has no atomic that 2x could multiply"),
        (
            "launch.latency=1e9",
            r"launch.latency must be at least 0 and at most 1 \(s\), but got 1e\+09",
        ),
    ],
)
def test_impossible_changes_are_refused(h100: Device, setting: str, message: str) -> None:
    with pytest.raises(PredictionError, match=message):
        h100.changed([setting])


@settings(max_examples=80, deadline=None)
@given(
    key=st.sampled_from([*KEYS, "link", "x"]),
    text=st.text(max_size=8) | st.sampled_from(["2x", "inf", "1e400", "nan", "0", "5us", "x"]),
)
def test_any_change_is_made_or_refused(key: str, text: str) -> None:
    try:
        device = load_device("h100").changed([f"{key}={text}"])
    except PredictionError:
        return
    for part in ("link.bandwidth", "link.pair") if key == "link" else (key,):
        assert KEYS[part].low <= device[part] <= KEYS[part].high
