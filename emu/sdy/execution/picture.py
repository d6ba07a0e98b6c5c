"""Text figures of shardings: which devices hold which block of an array."""

from __future__ import annotations

import math

from emu.sdy.execution.shards import Placement

_MOST_DEVICES = 8
"""Devices that a block names; of more the first and their number."""


def picture(name: str, placement: Placement, n_devices: int) -> str:
    """Return a figure of an array: a cell per block, in lines where several dimensions are divided.

    Args:
        name: What the array is called.
        placement: Where its elements are.
        n_devices: Number of devices.
    """
    blocks: dict[tuple[int, ...], list[int]] = {}
    for device in range(n_devices):
        start = placement.starts(device)
        blocks.setdefault(start, []).append(device)
    shape, local = placement.type.static_shape, placement.local_shape
    title = f"{name} {_sizes(shape)}"
    if len(blocks) == 1:
        return f"{title}: whole on {'every device' if n_devices > 1 else 'the device'}"
    divided = [d for d, count in enumerate(placement.counts) if count > 1]
    rows: dict[int, list[str]] = {}
    for start, devices in sorted(blocks.items()):
        row = start[divided[0]] if len(divided) > 1 else 0
        rows.setdefault(row, []).append(_devices(devices))
    width = max(len(cell) for cells in rows.values() for cell in cells)
    lines = [f"  | {' | '.join(cell.center(width) for cell in cells)} |" for cells in rows.values()]
    share = len(blocks) * math.prod(local) / max(math.prod(shape), 1)
    uneven = "" if share == 1 else ", the last ones padded"
    return "\n".join([f"{title}, in blocks of {_sizes(local)}{uneven}, on devices", *lines])


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) if shape else "scalar"


def _devices(devices: list[int]) -> str:
    if len(devices) <= _MOST_DEVICES:
        return " ".join(map(str, devices))
    return f"{devices[0]} {devices[1]} … ({len(devices)})"
