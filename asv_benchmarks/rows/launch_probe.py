"""Start-up of ours: ``python launch_probe.py N`` launches N PEs that call a kernel, twice."""

from __future__ import annotations

import json
import sys
import time

import emu


def work() -> None:
    """Call one kernel (and leave no PE behind another)."""
    emu.world().barrier()


if __name__ == "__main__":
    emu.launch(work, int(sys.argv[1]))
    first = time.monotonic()
    emu.launch(work, int(sys.argv[1]))
    sys.stdout.write(json.dumps({"first": first, "second": time.monotonic()}) + "\n")
