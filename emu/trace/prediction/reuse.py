"""How many bytes come from memory, and how many from the L2 cache: an estimate with two parameters.

A launch's p programs run in waves of w. Each byte of a tensor is moved ``r = moved / unique`` times. If the programs of a wave touched what nobody else touches, they would touch ``w · r / p`` of
the tensor; if they shared all they can, ``w / p``. Between lies ``w^reuse.spread · r / p``: 1 is no sharing, 0.5 that of programs which stand in a square, as those of a product whose order is
grouped. A later wave finds in the cache what the one before has touched, as far as the cache holds it: ``reuse.share`` of its size counts. If all tensors fit, each is read once.

Internal: names may change in any release.
"""

from __future__ import annotations

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.work import Work


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
    parts = [
        _part(moved, unique, wave, work.programs, device["reuse.spread"])
        for moved, unique in work.tensors
    ]
    touched = sum(part * tensor.unique for part, tensor in zip(parts, work.tensors, strict=True))
    held = min(1.0, capacity / touched) if touched else 1.0
    found = 0.0
    for part, (moved, unique) in zip(parts, work.tensors, strict=True):
        read = part * unique * (1.0 + (waves - 1.0) * (1.0 - part * held))
        found += min(moved, max(unique, read))
    return found


def _part(moved: float, unique: float, wave: float, programs: int, spread: float) -> float:
    """Return the part of a tensor that a wave touches."""
    if not unique:
        return 0.0
    shared: float = wave**spread * moved / unique
    return min(1.0, max(wave, shared) / programs)
