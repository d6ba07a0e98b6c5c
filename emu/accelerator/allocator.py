"""Memory functions of the device modules: exact byte counts.

Bytes are those of the storages that live tensors have on a device. A real allocator rounds them up and
caches freed blocks; here ``memory_reserved`` is ``memory_allocated``.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from emu.accelerator.annotations import DeviceLike, Namespace
from emu.accelerator.usage import USAGE, Usage
from emu.kernels.core.environment import device_model

IndexOf = Callable[[str, DeviceLike | None], int]

_EVENTS = (
    "num_alloc_retries",
    "num_ooms",
    "num_sync_all_streams",
    "num_device_alloc",
    "num_device_free",
    "max_split_size",
)
_NEVER = ("inactive_split", "inactive_split_bytes", "oversize_allocations", "oversize_segments")


def make_functions(kind: str, index_of: IndexOf) -> Namespace:
    """Return the memory functions of a device module.

    Args:
        kind: The device type.
        index_of: Returns the device index that an argument ``device`` stands for, given the type.
    """

    def usage(device: DeviceLike | None) -> Usage:
        return USAGE[torch.device(kind, index_of(kind, device))]

    def set_fraction(fraction: float, device: DeviceLike | None = None) -> None:
        index_of(kind, device)
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be in [0, 1], but got {fraction}")

    def now(device: DeviceLike | None = None) -> int:
        return usage(device).now_bytes

    def peak(device: DeviceLike | None = None) -> int:
        return usage(device).peak_bytes

    def reset_peaks(device: DeviceLike | None = None) -> None:
        usage(device).reset_peaks()

    return {
        "memory_allocated": now,
        "memory_reserved": lambda device=None: now(device),
        "memory_cached": lambda device=None: now(device),
        "max_memory_allocated": peak,
        "max_memory_reserved": lambda device=None: peak(device),
        "max_memory_cached": lambda device=None: peak(device),
        "reset_peak_memory_stats": reset_peaks,
        "reset_max_memory_allocated": lambda device=None: reset_peaks(device),
        "reset_max_memory_cached": lambda device=None: reset_peaks(device),
        "reset_accumulated_memory_stats": lambda device=None: usage(device).reset_totals(),
        "memory_stats": lambda device=None: _stats(usage(device)),
        "memory_stats_as_nested_dict": lambda device=None: _nested(_stats(usage(device))),
        "memory_summary": lambda device=None, abbreviated=False: _summary(
            f"{kind}:{index_of(kind, device)}", usage(device)
        ),
        "mem_get_info": lambda device=None: _free_and_total(usage(device), kind),
        "set_per_process_memory_fraction": set_fraction,
        "get_per_process_memory_fraction": lambda device=None: 1.0,
        "get_allocator_backend": lambda: "native",
        "empty_cache": lambda: None,
        "ipc_collect": lambda: None,
    }


def total_memory(kind: str) -> int:
    """Return the bytes of a device's memory: of the model that CUDA devices answer as, else of the host's."""
    model = device_model() if kind == "cuda" else None
    if model is not None:
        return model.memory_mib << 20
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _free_and_total(usage: Usage, kind: str) -> tuple[int, int]:
    """Return what the host has free, but no more than the device would have, and all bytes of the device."""
    total = total_memory(kind)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(free, max(total - usage.now_bytes, 0)), total


def _stats(usage: Usage) -> OrderedDict[str, int]:
    """Return the statistics of an allocator under torch's names."""
    counts = (usage.now, usage.peak, usage.made, usage.made - usage.now)
    sizes = (
        usage.now_bytes,
        usage.peak_bytes,
        usage.made_bytes,
        usage.made_bytes - usage.now_bytes,
    )
    found: dict[str, int] = dict.fromkeys(_EVENTS, 0)
    families = dict.fromkeys(("allocation", "segment", "active"), counts)
    families |= dict.fromkeys(
        ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"), sizes
    )
    families |= dict.fromkeys(_NEVER, (0, 0, 0, 0))
    # Torch's keys are family.pool.counter, but the oversize families have no pools.
    for family, values in families.items():
        for pool in ("all", "large_pool", "small_pool"):
            mine = values if pool != "small_pool" else (0, 0, 0, 0)  # there is one pool
            for name, value in zip(("current", "peak", "allocated", "freed"), mine, strict=True):
                key = f"{family}.{pool}.{name}"
                found[key.replace(".all", "") if family.startswith("oversize") else key] = value
    return OrderedDict(sorted(found.items()))


def _nested(stats: OrderedDict[str, int]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in stats.items():
        *path, last = key.split(".")
        level = nested
        for name in path:
            level = level.setdefault(name, {})
        level[last] = value
    return nested


def _summary(device: str, usage: Usage) -> str:
    lines = [
        f"| {f'memory of {device} (emulated, in host memory)':<71} |",
        f"| {'':<20} | {'now':>14} | {'at most':>14} | {'in all':>14} |",
    ]
    rows = (
        ("bytes", usage.now_bytes, usage.peak_bytes, usage.made_bytes),
        ("tensors' storages", usage.now, usage.peak, usage.made),
    )
    lines += [
        f"| {name:<20} | {now:>14} | {peak:>14} | {made:>14} |" for name, now, peak, made in rows
    ]
    rule = "=" * 75
    return "\n".join([rule, *lines, rule, ""])
