"""The predicted time of a library's call, such as an operator of torch: of its kernels one after the other.

Its products have the tiles that are predicted to be the fastest, as libraries choose theirs. What else it computes and moves is divided
evenly among its other kernels.

Internal: names may change in any release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.kernels import COMPUTE, LAUNCH, MEMORY, KernelTime, kernel_time
from emu.trace.prediction.products import ITEMSIZE, fastest_product
from emu.trace.prediction.work import Product, Traffic, Work

BLOCK = 16384
"""Bytes that a program of another kernel moves."""


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
    def _longest(self) -> KernelTime:
        return max(self.parts, key=lambda part: part[0].execution * part[1])[0]

    @property
    def bound(self) -> str:
        """What bounds the part that takes the longest."""
        if self.latency >= self.execution:
            return LAUNCH
        part = self._longest
        if part.memory >= part.compute + part.start:
            return MEMORY
        return COMPUTE if part.compute >= part.start else LAUNCH

    @property
    def unit(self) -> str:
        """What of it."""
        bound, part = self.bound, self._longest
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
    parts = [(_product(p, device), p.times) for p in work.products if p.times]
    others = max(0, work.kernels - round(sum(times for _, times in parts)))
    rest = _rest(work, others)
    if rest is not None:
        parts.append((kernel_time(rest, device), max(1, others)))
    elif not parts:
        parts.append((kernel_time(Work(programs=1), device), work.kernels))
    units: dict[str, float] = {}
    for part, times in parts:
        for name, time in part.units:
            units[name] = units.get(name, 0.0) + time * times
    widest = max(parts, key=lambda part: part[0].execution * part[1])[0]
    return SequenceTime(
        latency=device["launch.latency"],
        start=_sum(parts, "start"),
        units=tuple(units.items()),
        compute=_sum(parts, "compute"),
        hbm=_sum(parts, "hbm"),
        l2=_sum(parts, "l2"),
        moved=_sum(parts, "moved"),
        waves=widest.waves,
        tail=widest.tail,
        occupancy=widest.occupancy,
        parts=tuple(parts),
    )


def _product(product: Product, device: Device) -> KernelTime:
    dtype = product.dtype if product.dtype in ITEMSIZE else "f32"
    return fastest_product(product.m, product.n, product.k, dtype, device)


def _sum(parts: list[tuple[KernelTime, float]], name: str) -> float:
    return sum(float(getattr(part, name)) * times for part, times in parts)


def _rest(work: Work, others: int) -> Work | None:
    """Return the work of one kernel of those that do no product; None if nothing is left for them."""
    moved = work.total - sum(_bytes(p) * p.times for p in work.products)
    vector = {dtype: count for dtype, count in work.vector.items() if count}
    if not others and not vector and not work.special and moved <= 0:
        return None
    share = 1 / max(1, others)
    each = max(0.0, moved) * share
    return Work(
        programs=max(1, math.ceil(each / BLOCK)),
        vector={dtype: count * share for dtype, count in vector.items()},
        special=work.special * share,
        tensors=(Traffic(each, each),) if each else (),
    )


def _bytes(product: Product) -> float:
    """Return the bytes of a product's operands and its result, each once."""
    m, n, k, dtype, _ = product
    return float(m * k + k * n + m * n) * ITEMSIZE.get(dtype, 4)
