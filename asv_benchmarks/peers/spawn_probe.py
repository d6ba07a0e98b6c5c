"""Start-up of the peer: ``python spawn_probe.py N`` spawns N processes that call a kernel, twice."""

from __future__ import annotations

import json
import multiprocessing
import sys
import time


def work() -> None:
    """Import Numba and call one kernel from its disk cache."""
    import spawn_kernel

    spawn_kernel.work()


def start(count: int) -> None:
    """Spawn ``count`` processes and wait for them."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            sys.exit(f"a process ended with {process.exitcode}")


if __name__ == "__main__":
    start(int(sys.argv[1]))
    first = time.monotonic()
    start(int(sys.argv[1]))
    sys.stdout.write(json.dumps({"first": first, "second": time.monotonic()}) + "\n")
