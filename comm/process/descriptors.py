"""The limit of open files, which a launch of many PEs needs to be higher than it mostly is."""

from __future__ import annotations

import contextlib
import os


def allow_descriptors(n_pes: int) -> None:
    """Raise the soft limit of open files if this many PEs need it, beside what is open already."""
    import resource

    there = 0
    with contextlib.suppress(OSError):  # without procfs: sessions may have many
        there = len(os.listdir("/proc/self/fd"))
    needed = 8 * n_pes + 128 + there
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
