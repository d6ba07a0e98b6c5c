"""The predicted time of a library's call, such as an operator of torch or a batch of PyPTO: of its kernels one after the other.

Its products have the tiles that are predicted to be the fastest, as libraries choose theirs. What else it computes and moves is divided
evenly among its other kernels.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.kernels import (
    COMPUTE,
    LAUNCH,
    MEMORY,
    KernelTime,
    kernel_time,
    occupancy_of,
)
from emu.trace.prediction.products import ITEMSIZE, fastest_product
from emu.trace.prediction.work import Product, Traffic, Work

BLOCK = 16384
"""Least bytes that a program of another kernel moves; a kernel of more than a device holds at once has no more programs than that: they loop."""


@dataclass(frozen=True)
class SequenceTime(KernelTime):
    """Kernels one after the other; the other attributes are sums of theirs.

    Attributes:
        parts: Each, and how often it runs.
    """

    parts: tuple[tuple[KernelTime, float], ...] = ()

    @property
    def execution(self) -> float:
        """Time on the device."""
        return sum(part.execution * times for part, times in self.parts)

    @property
    def _longest(self) -> KernelTime | None:
        if not self.parts:
            return None
        return max(self.parts, key=lambda part: part[0].execution * part[1])[0]

    @property
    def bound(self) -> str:
        """What bounds the part that takes the longest."""
        part = self._longest
        if part is None or self.latency >= self.execution:
            return LAUNCH
        if part.memory >= part.compute + part.start:
            return MEMORY
        return COMPUTE if part.compute >= part.start else LAUNCH

    @property
    def unit(self) -> str:
        """What of it."""
        bound, part = self.bound, self._longest
        if part is None:
            return "nothing"
        if bound == MEMORY:
            return "hbm" if part.hbm >= part.l2 else "l2"
        if bound == COMPUTE:
            return max(part.units, key=lambda each: each[1])[0]
        return "launch" if self.latency >= self.execution else "start"


def operator_time(work: Work, device: Device) -> SequenceTime:
    """Predict a library's call.

    Args:
        work: Its work; ``kernels`` is at least 1.
        device: The device.
    """
    parts = _parts_of(work, device)
    units: dict[str, float] = {}
    for part, times in parts:
        for name, time in part.units:
            units[name] = units.get(name, 0.0) + time * times
    widest = max(parts, key=lambda part: part[0].execution * part[1])[0] if parts else None
    return SequenceTime(
        latency=device["launch.latency"] if parts else 0.0,
        start=_sum(parts, "start"),
        units=tuple(units.items()),
        compute=_sum(parts, "compute"),
        hbm=_sum(parts, "hbm"),
        l2=_sum(parts, "l2"),
        moved=_sum(parts, "moved"),
        waves=widest.waves if widest else 0,
        tail=widest.tail if widest else 0.0,
        occupancy=widest.occupancy if widest else 0,
        parts=parts,
    )


_Parts = tuple[tuple[KernelTime, float], ...]


def _parts_of(work: Work, device: Device) -> _Parts:
    """Return the kernels of a call, or of calls one after the other, and how often each runs."""
    if work.parts is not None:
        return tuple(
            (kernel, times * often)
            for part, often in work.parts
            for kernel, times in _parts_of(part, device)
        )
    products = [p for p in work.products if p.times]
    others = max(0, work.kernels - round(sum(p.times for p in products)))
    rest = _rest(work, others, device)
    if not products:
        return ((kernel_time(rest or Work(programs=1), device), float(max(1, others))),)
    if others or rest is None:
        multiplied = [(_product(p, device), p.times) for p in products]
        return (*multiplied, *([(kernel_time(rest, device), float(others))] if rest else ()))
    # Nothing else is launched: products do the rest on the way.
    share = 1 / sum(p.times for p in products)
    more = replace(
        rest,
        vector={dtype: count * share for dtype, count in rest.vector.items()},
        special=rest.special * share,
        tensors=tuple(Traffic(t.moved * share, t.unique * share) for t in rest.tensors),
    )
    return tuple((_product(p, device, more), p.times) for p in products)


def _product(product: Product, device: Device, more: Work | None = None) -> KernelTime:
    dtype = product.dtype if product.dtype in ITEMSIZE else "f32"
    return fastest_product(product.m, product.n, product.k, dtype, device, more)


def _sum(parts: _Parts, name: str) -> float:
    return sum(float(getattr(part, name)) * times for part, times in parts)


def _rest(work: Work, others: int, device: Device) -> Work | None:
    """Return the work of one kernel of those that do no product, of all of it where there are none; None if nothing is left."""
    moved = work.total - sum(_bytes(p) * p.times for p in work.products)
    vector = {dtype: count for dtype, count in work.vector.items() if count}
    if not others and not vector and not work.special and moved <= 0:
        return None
    share = 1 / max(1, others)
    each = max(0.0, moved) * share
    kernel = Work(
        programs=1,
        vector={dtype: count * share for dtype, count in vector.items()},
        special=work.special * share,
        tensors=(Traffic(each, each),) if each else (),
    )
    most = int(device["sms"]) * occupancy_of(kernel, device)
    return replace(kernel, programs=max(1, min(math.ceil(each / BLOCK), most)))


def _bytes(product: Product) -> float:
    """Return the bytes of a product's operands and its result, each once."""
    m, n, k, dtype, _ = product
    return float(m * k + k * n + m * n) * ITEMSIZE.get(dtype, 4)
