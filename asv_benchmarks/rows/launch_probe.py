"""Start-up of ours: ``python launch_probe.py N`` launches N PEs that call a kernel, twice."""

from __future__ import annotations

import json
import sys
import time

import emu


def work() -> None:
    """Call one kernel (and leave no PE behind another)."""
    emu.world().barrier()


def private_bytes() -> int:
    """Return the bytes of memory that are this PE's alone, and were written."""
    emu.world().barrier()
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        found = next(
            1024 * int(line.split()[1]) for line in file if line.startswith("Private_Dirty:")
        )
    emu.world().barrier()
    return found


if __name__ == "__main__":
    emu.launch(work, int(sys.argv[1]))
    first = time.monotonic()
    emu.launch(work, int(sys.argv[1]))
    second = time.monotonic()
    private = max(emu.launch(private_bytes, int(sys.argv[1])))
    sys.stdout.write(json.dumps({"first": first, "second": second, "private": private}) + "\n")
