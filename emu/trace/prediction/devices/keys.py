"""The numbers of a device: what each is called and what it must be.

Internal: names may change in any release.
"""

from __future__ import annotations

import difflib
import math
from typing import NamedTuple

from emu.kernels.core.messages import shown


class Key(NamedTuple):
    """What a number must be."""

    unit: str
    low: float
    """Least value."""
    high: float
    default: float | None
    """Value where a file has none; None: a file must have it."""
    whole: bool = False
    """Whether it must be a whole number."""


_RATE = Key("", 1.0, math.inf, None)


def _rate(unit: str, default: float | None = None) -> Key:
    return _RATE._replace(unit=unit, default=default)


def _part(default: float | None = None) -> Key:
    return Key("", 1e-6, 1.0, default)


def _time(default: float | None = None) -> Key:
    return Key("s", 0.0, 1.0, default)


KEYS: dict[str, Key] = {
    "sms": Key("", 1, 1 << 16, None, whole=True),
    "threads": Key("", 1, 1 << 16, 2048, whole=True),
    "occupancy.dot": Key("", 1, 64, 1, whole=True),
    "occupancy.most": Key("", 1, 64, 16, whole=True),
    **{f"dot.{dtype}": _rate("FLOP/s", math.nan) for dtype in ("f64", "f32", "tf32", "f8", "i8")},
    "dot.f16": _rate("FLOP/s"),
    "dot.bf16": _rate("FLOP/s"),
    "vector.f32": _rate("FLOP/s"),
    **{f"vector.{dtype}": _rate("FLOP/s", math.nan) for dtype in ("f64", "f16", "i32")},
    "special": _rate("op/s"),
    "atomic": _rate("op/s", math.nan),
    "hbm": _rate("B/s"),
    "hbm_size": Key("B", 1, math.inf, None),
    "l2": _rate("B/s"),
    "l2_size": Key("B", 0, math.inf, None),
    "efficiency.dot": _part(),
    "efficiency.vector": _part(),
    "efficiency.special": _part(),
    "efficiency.hbm": _part(),
    "efficiency.l2": _part(),
    "overlap": Key("", 0.0, 1.0, 0.0),
    "launch.latency": _time(),
    "launch.issue": _time(),
    "program.start": _time(),
    "program.op": _time(0.0),
    "reuse.spread": Key("", 0.0, 1.0, 0.5),
    "reuse.share": Key("", 0.0, 1.0, 0.5),
    "link.bandwidth": _rate("B/s"),
    "link.pair": _rate("B/s"),
    "link.efficiency": _part(1.0),
    "link.latency": _time(),
    "link.devices": Key("", 1, 1 << 20, 8, whole=True),
    **{f"collective.{name}.base": _time(math.nan) for name in ("ll", "ll128", "simple", "switch")},
    **{f"collective.{name}.step": _time(math.nan) for name in ("ll", "ll128", "simple", "switch")},
    **{
        f"collective.{name}.share": Key("", 1e-6, 4, math.nan)
        for name in ("ll", "ll128", "simple", "switch")
    },
}
"""Every key of a file. A default of NaN: the device has none of that kind."""

FITTED = (
    *("launch.latency", "program.start", "program.op"),
    *(
        "efficiency.dot",
        "efficiency.vector",
        "efficiency.special",
        "efficiency.hbm",
        "efficiency.l2",
    ),
)
"""What ``emu calibrate`` fits: times, then efficiencies."""

SHORT = {"link": ("link.bandwidth", "link.pair")}
"""Short forms of ``--set``: several keys at once."""


def check_bounds(error: type[Exception], what: str, key: Key, value: float) -> None:
    """Raise an error unless a value is within the bounds of its key."""
    if math.isnan(value) or not key.low <= value <= key.high:
        most = "" if key.high == math.inf else f" and at most {key.high:g}"
        unit = f" ({key.unit})" if key.unit else ""
        raise error(f"{what} must be at least {key.low:g}{most}{unit}, but got {value:g}")
    if key.whole and value != int(value):
        raise error(f"{what} must be a whole number, but got {value:g}")


def unknown(key: str) -> str:
    """Return what to say of a key that there is not."""
    near = difflib.get_close_matches(key, [*KEYS, *SHORT], 1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(KEYS)}"
    return f"there is no number {shown(key)}{hint}"
