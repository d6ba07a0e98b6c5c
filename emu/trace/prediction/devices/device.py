"""A device as numbers with their sources, and other numbers for what-ifs.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from emu.kernels.core.messages import shown
from emu.trace.prediction.devices.keys import FITTED, KEYS, SHORT, check_bounds, unknown
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.units import quantity


@dataclass(frozen=True)
class Number:
    """A number of a device.

    Attributes:
        value: In the unit of its key; a rate of products with sparsity as it was printed.
        source: Where it is from.
        date: YYYY-MM-DD; empty: not known.
        calibrated: Whether it was measured by ``emu calibrate``.
        density: "dense", "sparse", or empty where that means nothing.
    """

    value: float
    source: str
    date: str = ""
    calibrated: bool = False
    density: str = ""

    @property
    def effective(self) -> float:
        """The value that counts for dense operands."""
        return self.value / 2 if self.density == "sparse" else self.value


@dataclass(frozen=True)
class Device:
    """A device.

    Attributes:
        name: Its name.
        file: Where it was read from.
        numbers: By key, those that the file has.
        changes: What ``--set`` and ``--link`` have changed.
    """

    name: str
    file: str
    numbers: Mapping[str, Number]
    changes: tuple[str, ...] = ()

    def __getitem__(self, key: str) -> float:
        """Return a number, or its default; NaN: the device has none of that kind."""
        found = self.numbers.get(key)
        if found is not None:
            return found.effective
        default = KEYS[key].default
        assert default is not None, key
        return default

    @property
    def calibrated(self) -> bool:
        """Whether all that ``emu calibrate`` fits was fitted."""
        return all(key in self.numbers and self.numbers[key].calibrated for key in FITTED)

    @property
    def status(self) -> str:
        """What every output says: "calibrated" or "uncalibrated", and what was changed."""
        word = "calibrated" if self.calibrated else "uncalibrated"
        return f"{word}; changed: {', '.join(self.changes)}" if self.changes else word

    def changed(self, settings: Iterable[str]) -> Device:
        """Return the device with other numbers.

        Args:
            settings: ``KEY=VALUE``: a factor (``hbm=2x``) or a number in the key's unit (``hbm=4.8TB/s``, ``sms=144``).

        Raises:
            PredictionError: There is no such key, or the value is none or out of bounds.
        """
        device = self
        for setting in settings:
            device = device._with(setting)
        return device

    def _with(self, setting: str) -> Device:
        if not isinstance(setting, str) or "=" not in setting:
            raise PredictionError(f"set must be KEY=VALUE, as in hbm=2x, but got {shown(setting)}")
        name, _, text = (part.strip() for part in setting.partition("="))
        numbers = dict(self.numbers)
        for key in SHORT.get(name, (name,)):
            value = self._value(key, text)
            check_bounds(PredictionError, f"set: {key}", KEYS[key], value)
            numbers[key] = _set(key, value, text)
            if key == "sms":  # more or fewer multiprocessors, each as fast as before
                numbers |= self._per_multiprocessor(value / self["sms"], text)
        return replace(self, numbers=numbers, changes=(*self.changes, f"{name}={text}"))

    def _per_multiprocessor(self, factor: float, text: str) -> dict[str, Number]:
        """Return the rates that multiprocessors have together, for another number of them."""
        rates = ("dot", "vector", "special", "atomic", "l2")
        return {
            key: _set(key, number.effective * factor, f"sms={text}")
            for key, number in self.numbers.items()
            if key.split(".")[0] in rates
        }

    def _value(self, key: str, text: str) -> float:
        if key not in KEYS:
            raise PredictionError(f"set: {unknown(key)}")
        if text.endswith("x"):
            factor = quantity(text[:-1], "")
            if factor is None or not 0 <= factor < math.inf:
                raise PredictionError(
                    f"set: the factor of {key} must be a number of at least 0, as in 2x, but got {shown(text)}"
                )
            if math.isnan(self[key]):
                raise PredictionError(f"set: {self.name} has no {key} that {text} could multiply")
            return self[key] * factor
        found = quantity(text, KEYS[key].unit)
        if found is None:
            unit = f" in {KEYS[key].unit}" if KEYS[key].unit else ""
            raise PredictionError(
                f"set: {key} must be a number{unit}, or a factor as in 2x, but got {shown(text)}"
            )
        return found


def _set(key: str, value: float, text: str) -> Number:
    return Number(value, f"set to {text}", density="dense" if key.startswith("dot.") else "")
