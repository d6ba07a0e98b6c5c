"""The caches of this machine.

Internal: names may change in any release.
"""

from __future__ import annotations

import functools
from pathlib import Path

_LAST_CACHE = 32 << 20
"""Bytes of the last cache where the system does not say."""


@functools.cache
def last_cache() -> int:
    """Return the size of this machine's last cache in bytes."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    sizes = []
    try:
        for index in folder.glob("index*"):
            text = (index / "size").read_text("ascii").strip()
            level = int((index / "level").read_text("ascii"))
            if level >= 3 and text.endswith("K"):
                sizes.append(int(text[:-1]) << 10)
    except (OSError, ValueError):
        return _LAST_CACHE
    return max(sizes, default=_LAST_CACHE)
