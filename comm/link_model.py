"""``Link``: bandwidth and latency of the emulated link between PEs. Importing this loads neither NumPy nor Numba."""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass

from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown

MAX_LATENCY_S = 3600.0

_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BYTES_PER_S = {
    **{f"{prefix}B/s": factor for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}iB/s": 1024.0**power for power, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}bit/s": factor / 8 for prefix, factor in _PREFIXES.items()},
    **{f"{prefix}b/s": factor / 8 for prefix, factor in _PREFIXES.items()},
}
# As divisors: 2 / 1e6 is 2e-6 to the last bit, 3 * 1e-6 is not always 3e-6.
_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*")


@dataclass(frozen=True, kw_only=True)
class Link:
    """An emulated link: ``launch(..., link=Link(bandwidth=25e9, latency=2e-6))``.

    Every ordered pair of PEs has one of its own. A transfer of n bytes occupies the link of its pair
    for n / bandwidth seconds, after those that came before it, and is complete ``latency`` later.

    Raises:
        ArgumentError: A value is not a number, or out of its bounds.
    """

    bandwidth: float = math.inf
    """Bytes per second; more than 0. Default: ``math.inf``, transfers take the latency only."""

    latency: float = 0.0
    """Seconds from 0 to 3600 between the end of the sending and the arrival. Default: 0."""

    def __post_init__(self) -> None:
        for name in ("bandwidth", "latency"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise ArgumentError(f"{name} must be a number, but got {value!r}")
            try:
                object.__setattr__(self, name, float(value))
            except OverflowError:
                raise ArgumentError(f"{name} must fit a float, but got {value!r}") from None
        if not self.bandwidth > 0:
            raise ArgumentError(
                f"bandwidth must be more than 0 (bytes a second), but got {self.bandwidth!r}"
            )
        if not 0 <= self.latency <= MAX_LATENCY_S:
            raise ArgumentError(
                f"latency must be in [0, {MAX_LATENCY_S:g}] (seconds), but got {self.latency!r}"
            )

    @property
    def latency_ns(self) -> int:
        """The latency in whole nanoseconds, rounded up."""
        return math.ceil(round(self.latency * 1e9, 3))

    @classmethod
    def parse(cls, text: str) -> Link:
        """Read ``BANDWIDTH[,LATENCY]``, as in ``25GB/s,2us``.

        Args:
            text: The bandwidth in B/s, kB/s, MB/s, GB/s, TB/s (powers of 1000), KiB/s, MiB/s, GiB/s,
                TiB/s (powers of 1024), or in bits: bit/s to Tbit/s, also written b/s to Tb/s; or ``inf``.
                The latency in s, ms, us or ns; default 0. Units are case-sensitive.

        Returns:
            The link.

        Raises:
            ArgumentError: The text cannot be read, or a value is out of bounds.
        """
        if not isinstance(text, str):
            raise ArgumentError(f"text must be a string, as in '25GB/s,2us', but got {shown(text)}")
        rate, comma, delay = text.partition(",")
        if rate.strip() == "inf":
            bandwidth = math.inf
        else:
            number, factor = _quantity("bandwidth", rate, _BYTES_PER_S, "25GB/s")
            bandwidth = number * factor
        latency = 0.0
        if comma:
            number, divisor = _quantity("latency", delay, _PER_S, "2us")
            latency = number / divisor
        return cls(bandwidth=bandwidth, latency=latency)


def _quantity(name: str, text: str, units: dict[str, float], example: str) -> tuple[float, float]:
    """Return the number and the factor (or divisor) that its unit stands for."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ArgumentError(
            f"{name} must be a number with a unit, as in {example}, but got {shown(text.strip())}"
        )
    unit = units.get(match[2])
    if unit is None:
        known = ", ".join(u for u in units if not (u.endswith("b/s") or u == "µs"))
        raise ArgumentError(f"{name} must be in one of {known}, but got {shown(text.strip())}")
    return float(match[1]), unit
