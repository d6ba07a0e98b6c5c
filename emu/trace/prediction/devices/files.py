"""Devices: files of numbers, each with its source.

A file is TOML. Its top has ``name``; each number is a table, whose dotted path is its key (``[dot.f16]``):

===============  ==========================================================================
``value``        the number, in the unit of its key (:data:`~emu.trace.prediction.devices.keys.KEYS`)
``unit``         that unit, written out so that a reader sees it
``source``       where the number is from
``date``         when it was published, measured or noted: YYYY-MM-DD
``calibrated``   whether ``emu calibrate`` measured it on such a device
``density``      ``"dense"`` or ``"sparse"`` for products: a sparse rate counts half
===============  ==========================================================================

Internal: names may change in any release.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from emu.kernels.core.messages import shown
from emu.trace.prediction.devices.device import Device, Number
from emu.trace.prediction.devices.keys import KEYS, check_bounds, unknown
from emu.trace.prediction.errors import DeviceFileError
from emu.trace.prediction.units import scaled_text

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIELDS = frozenset({"value", "unit", "source", "date", "calibrated", "density"})


def device_names() -> tuple[str, ...]:
    """Return the names of the devices that ``emu`` knows."""
    folder = resources.files("emu.trace.prediction.devices")
    return tuple(
        sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))
    )


def load_device(name: str | Path) -> Device:
    """Read a device.

    Args:
        name: One of :func:`device_names`, or the path of a file that ends in ``.toml``.

    Raises:
        DeviceFileError: There is none, or the file says what cannot be.
    """
    text = str(name)
    if text.endswith(".toml"):
        path = Path(text)
        try:
            return parse_device(path.read_bytes(), text)
        except OSError as error:
            raise DeviceFileError(f"the device {text} cannot be read: {error.strerror}") from None
    known = device_names()
    if text.lower() not in known:
        raise DeviceFileError(
            f"device must be one of {', '.join(known)}, or FILE.toml, but got {shown(text)}"
        )
    found = resources.files("emu.trace.prediction.devices") / f"{text.lower()}.toml"
    return parse_device(found.read_bytes(), text.lower())


def parse_device(data: bytes, file: str) -> Device:
    """Read a device from the bytes of its file, which messages call ``file``.

    Raises:
        DeviceFileError: It says what cannot be.
    """
    try:
        content = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise DeviceFileError(f"the device {file} is no TOML: {error}") from None
    name = content.pop("name", None)
    if not isinstance(name, str) or not name.strip():
        raise DeviceFileError(f"the device {file} must have a name, but got {shown(name)}")
    numbers: dict[str, Number] = {}
    try:
        _collect(content, "", numbers, file)
    except RecursionError:
        raise DeviceFileError(f"the device {file} must have keys of at most three parts") from None
    missing = [key for key, each in KEYS.items() if each.default is None and key not in numbers]
    if missing:
        raise DeviceFileError(f"the device {file} must have [{missing[0]}], but has none")
    return Device(name, file, numbers)


def _collect(table: Mapping[str, Any], path: str, into: dict[str, Number], file: str) -> None:
    for part, entry in table.items():
        key = f"{path}.{part}" if path else part
        if not isinstance(entry, dict):
            raise DeviceFileError(
                f"the device {file}: {key} must be a table with value, unit, source, date and calibrated, but got {shown(entry)}"
            )
        if "value" in entry and not isinstance(entry["value"], dict):
            into[key] = _number(key, entry, file)
        elif key in KEYS:
            raise DeviceFileError(f"the device {file}: [{key}] must have a value, but has none")
        else:
            _collect(entry, key, into, file)


def _number(key: str, entry: Mapping[str, Any], file: str) -> Number:
    where = f"the device {file}: "
    if key not in KEYS:
        raise DeviceFileError(where + unknown(key))
    strange = [field for field in entry if field not in _FIELDS]
    if strange:
        raise DeviceFileError(f"{where}[{key}] must have no field {shown(strange[0])}")
    value = entry["value"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DeviceFileError(f"{where}value of [{key}] must be a number, but got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise DeviceFileError(
            f"{where}value of [{key}] must fit a float, but got {shown(value)}"
        ) from None
    check_bounds(DeviceFileError, f"{where}value of [{key}]", KEYS[key], number)
    unit = KEYS[key].unit or "1"
    if entry.get("unit") != unit:
        raise DeviceFileError(
            f"{where}unit of [{key}] must be {unit!r}, but got {shown(entry.get('unit'))}"
        )
    source, date = entry.get("source"), entry.get("date", "")
    if not isinstance(source, str) or not source.strip():
        raise DeviceFileError(
            f"{where}source of [{key}] must say where the number is from, but got {shown(source)}"
        )
    if not isinstance(date, str) or (date and _DATE.fullmatch(date) is None):
        raise DeviceFileError(f"{where}date of [{key}] must be YYYY-MM-DD, but got {shown(date)}")
    calibrated, density = entry.get("calibrated"), entry.get("density", "")
    if not isinstance(calibrated, bool):
        raise DeviceFileError(
            f"{where}calibrated of [{key}] must be true or false, but got {shown(calibrated)}"
        )
    allowed = ("dense", "sparse") if key.startswith("dot.") else ("",)
    if density not in allowed:
        wanted = " or ".join(map(repr, allowed)) if allowed[0] else "absent"
        raise DeviceFileError(
            f"{where}density of [{key}] must be {wanted}, but got {shown(density)}"
        )
    return Number(number, source, date, calibrated, density)


def to_toml(device: Device) -> str:
    """Return the text of a device's file."""
    lines = [f"name = {_quoted(device.name)}"]
    for key, number in device.numbers.items():
        lines += [
            "",
            f"[{key}]",
            f"value = {number.value!r}",
            f"unit = {_quoted(KEYS[key].unit or '1')}",
        ]
        lines.append(f"source = {_quoted(number.source)}")
        if number.date:
            lines.append(f"date = {_quoted(number.date)}")
        if number.density:
            lines.append(f"density = {_quoted(number.density)}")
        lines.append(f"calibrated = {str(number.calibrated).lower()}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'
    )


def number_rows(device: Device) -> list[tuple[str, str, str, str, str]]:
    """Return a row for each number: key, value, calibrated or not, date, source."""
    return [
        (
            key,
            scaled_text(number.value, KEYS[key].unit)
            + (f" {number.density}" if number.density else ""),
            "calibrated" if number.calibrated else "uncalibrated",
            number.date,
            number.source,
        )
        for key, number in device.numbers.items()
    ]
