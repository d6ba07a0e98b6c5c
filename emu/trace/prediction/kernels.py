"""The predicted time of a launch: a roofline with waves, start-up and launch cost, and what bounds it.

With p programs on s multiprocessors, of which each holds o programs at once::

    compute = ceil(p / s) · (units one after the other, less what overlaps) of a program
    start   = ceil(p / (s · o)) · (program.start + ops · program.op)
    memory  = max(bytes from memory / hbm, ceil(p / s) · bytes of a program / (l2 / s))
    time    = launch.latency + max(memory, compute + start)

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.reuse import memory_bytes
from emu.trace.prediction.work import Work

COMPUTE, MEMORY, LAUNCH = "compute", "memory", "launch"

_WIDER = {
    # Which unit multiplies what a device has no rate for.
    "f16": ("bf16", "f32"),
    "bf16": ("f16", "f32"),
    "f8": ("f16",),
    "i8": ("f16",),
    "tf32": ("f32",),
    "f32": ("tf32",),
    "f64": ("f32",),
    "i32": ("f32",),
    "i64": ("i32", "f32"),
}


@dataclass(frozen=True)
class KernelTime:
    """A launch's predicted time; times in seconds.

    Attributes:
        latency: From the call until its first program runs.
        start: Start-up of programs, wave by wave.
        units: Time of each unit that has work, as ``"dot f16"``, ``"vector f32"``, ``"special"``, ``"atomic"``.
        compute: That of all units together.
        hbm: Time of the bytes between memory and the cache.
        l2: Time of the bytes between the cache and programs.
        moved: Bytes between memory and the cache.
        waves: Waves of programs.
        tail: Part of the multiprocessors' time that has programs, where all take as long.
        occupancy: Programs that a multiprocessor holds at once.
    """

    latency: float
    start: float
    units: tuple[tuple[str, float], ...]
    compute: float
    hbm: float
    l2: float
    moved: float
    waves: int
    tail: float
    occupancy: int

    @property
    def memory(self) -> float:
        """Time of memory and cache."""
        return max(self.hbm, self.l2)

    @property
    def execution(self) -> float:
        """Time on the device."""
        return max(self.memory, self.compute + self.start)

    @property
    def seconds(self) -> float:
        """Time of the launch alone, from its call on."""
        return self.latency + self.execution

    @property
    def bound(self) -> str:
        """What takes the longest: ``"compute"``, ``"memory"`` or ``"launch"`` (start-up of programs included)."""
        if self.latency >= self.execution:
            return LAUNCH
        if self.memory >= self.compute + self.start:
            return MEMORY
        return COMPUTE if self.compute >= self.start else LAUNCH

    @property
    def unit(self) -> str:
        """What of it: a unit, ``"hbm"``, ``"l2"``, ``"launch"`` or ``"start"``."""
        bound = self.bound
        if bound == MEMORY:
            return "hbm" if self.hbm >= self.l2 else "l2"
        if bound == COMPUTE:
            return max(self.units, key=lambda each: each[1])[0]
        return "launch" if self.latency >= self.execution else "start"


def kernel_time(work: Work, device: Device) -> KernelTime:
    """Predict a launch."""
    sms = device["sms"]
    occupancy = occupancy_of(work, device)
    each = math.ceil(work.programs / sms)
    rounds = max(float(each), work.most)  # others fill the time that the busiest program takes
    waves = math.ceil(work.programs / (sms * occupancy))
    units = tuple(_units(work, device))
    share = rounds * sms / work.programs
    together = max((time for _, time in units), default=0.0)
    apart = sum(time for _, time in units)
    compute = share * (apart - device["overlap"] * (apart - together))
    moved = memory_bytes(work, device, sms * occupancy)
    return KernelTime(
        latency=device["launch.latency"],
        start=waves * (device["program.start"] + work.ops * device["program.op"]),
        units=tuple((name, share * time) for name, time in units),
        compute=compute,
        hbm=moved / (device["hbm"] * device["efficiency.hbm"]),
        l2=share * work.total / (device["l2"] * device["efficiency.l2"]),
        moved=moved,
        waves=waves,
        tail=work.programs / (each * sms),
        occupancy=occupancy,
    )


def occupancy_of(work: Work, device: Device) -> int:
    """Return how many programs a multiprocessor holds at once.

    Kernels with products hold ``occupancy.dot``, since their operands fill it; others what their warps leave room for.
    """
    most = int(device["occupancy.most"])
    if work.dot:
        return min(most, int(device["occupancy.dot"]))
    return max(1, min(most, int(device["threads"]) // (32 * (work.warps or 4))))


def rate_of(device: Device, unit: str, dtype: str) -> float:
    """Return a unit's rate for a dtype; where the device names none, that of the nearest wider one.

    Args:
        device: The device.
        unit: "dot" or "vector".
        dtype: As in the keys of a device: ``"f16"``.
    """
    seen = [dtype]
    for name in seen:
        rate = device[f"{unit}.{name}"] if f"{unit}.{name}" in _KNOWN else math.nan
        if not math.isnan(rate):
            return rate
        seen += [other for other in _WIDER.get(name, ("f32",)) if other not in seen]
    return device["vector.f32"]


def _units(work: Work, device: Device) -> list[tuple[str, float]]:
    """Return the time of each unit on the whole device, all multiprocessors busy."""
    found = []
    for dtype, flops in work.dot.items():
        found.append(
            (f"dot {dtype}", flops / (rate_of(device, "dot", dtype) * device["efficiency.dot"]))
        )
    for dtype, count in work.vector.items():
        rate = rate_of(device, "vector", dtype)
        found.append((f"vector {dtype}", count / (rate * device["efficiency.vector"])))
    found.append(("special", work.special / (device["special"] * device["efficiency.special"])))
    atomic = device["atomic"]
    if math.isnan(atomic):  # a word that is read and written in the cache
        atomic = device["l2"] * device["efficiency.l2"] / 64
    found.append(("atomic", work.atomics / atomic))
    return [(name, time) for name, time in found if time > 0]


_KNOWN = frozenset(
    f"{unit}.{dtype}"
    for unit, dtypes in (
        ("dot", ("f64", "f32", "tf32", "f16", "bf16", "f8", "i8")),
        ("vector", ("f64", "f32", "f16", "i32")),
    )
    for dtype in dtypes
)
