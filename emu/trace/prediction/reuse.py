"""How many bytes come from memory, and how many from the L2 cache.

A launch's programs run in waves of w. A wave reads each line that it touches once, however many of its programs do; what it touches is its *working
set* W(w), counted for windows of programs that follow each other (:mod:`emu.tile.counting.working_sets`). A later wave finds in the cache what the programs
before it have touched, as far back as the cache holds that: the h programs for which W(h) of all tensors is ``reuse.share`` of the cache's
size. So it reads W(h + w) - W(h). Where the cache holds less than one wave touches, a part c of it, then of what two waves in succession both touch,
2 W(w) - W(2 w), the part c² is still there when the second asks for it: c was there when the second began, and c of that is not pushed out before.

Where working sets are not known (an operator of a library) they are estimated: of p programs, w touch the part ``w^reuse.spread · r / p`` of a tensor whose
bytes are moved r times. 1 is no sharing, 0.5 that of programs which stand in a square, as those of a product whose order is grouped. Of that part
the next wave touches the same part again, as if by chance. If all tensors fit into the cache, each is read once.

Internal: names may change in any release.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TypeAlias

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.work import Traffic, Work

_Curve: TypeAlias = Callable[[float], float]
"""The working set of a number of programs, in bytes."""

_HALVINGS = 50


def memory_bytes(work: Work, device: Device, slots: float) -> float:
    """Return the bytes that a launch moves between memory and the L2 cache, from its footprint to all bytes.

    Args:
        work: The launch.
        device: The device.
        slots: Programs that run at once.
    """
    capacity = device["l2_size"] * device["reuse.share"]
    if work.programs == 1 or work.footprint <= capacity:
        return work.footprint
    wave = min(float(work.programs), slots)
    waves = work.programs / wave
    curves = [_curve(tensor, work.programs, device["reuse.spread"]) for tensor in work.tensors]
    touched = sum(curve(wave) for curve in curves)
    held = min(1.0, capacity / touched) if touched else 1.0
    history = _history(curves, wave, capacity, work.programs)
    found = 0.0
    for curve, tensor in zip(curves, work.tensors, strict=True):
        first = curve(wave)
        if not tensor.unique:
            continue
        if not tensor.sets:
            again = first * (1.0 - first / tensor.unique * held)
        elif held < 1.0:
            again = first - held**2 * max(0.0, 2.0 * first - curve(2.0 * wave))
        else:
            again = curve(history + wave) - curve(history)
        found += min(tensor.moved, max(tensor.unique, first + (waves - 1.0) * again))
    return found


def _history(curves: list[_Curve], wave: float, capacity: float, programs: int) -> float:
    """Return how many programs' working sets the cache holds, from a wave to all."""
    low, high = wave, float(programs)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if sum(curve(middle) for curve in curves) <= capacity:
            low = middle
        else:
            high = middle
    return low


def _curve(tensor: Traffic, programs: int, spread: float) -> _Curve:
    """Return the working sets of a tensor."""
    if not tensor.sets:
        return lambda count: tensor.unique * _part(tensor, count, programs, spread)
    whole = tensor.sets[-1][1] / tensor.unique if tensor.unique else 1.0  # lines, by bytes of it
    sets = [(n, size / whole) for n, size in tensor.sets]
    if sets[0][0] > 1.0:
        sets = [(1.0, min(sets[0][1], tensor.moved / programs)), *sets]

    def curve(count: float) -> float:
        if count <= 1.0:
            return sets[0][1] * count
        for (n, size), (more, larger) in itertools.pairwise(sets):
            if count <= more:
                if more <= 2.0 * n or not size:
                    return size + (larger - size) * (count - n) / (more - n)
                power = math.log(larger / size) / math.log(more / n)
                return float(size * (count / n) ** power)
        return sets[-1][1]

    return curve


def _part(tensor: Traffic, count: float, programs: int, spread: float) -> float:
    """Return the part of a tensor that so many programs touch, where that was not counted."""
    if not tensor.unique:
        return 0.0
    shared: float = count**spread * tensor.moved / tensor.unique
    return min(1.0, max(count, shared) / programs)
