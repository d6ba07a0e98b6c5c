"""Four PEs of which one is slow pass strips around a ring: the trace says who waited for whom, and what the end had to wait for.

Run with: python examples/trace/where_time_goes.py
"""

import tempfile
import time
from pathlib import Path

import numpy as np

import emu
from emu.trace import read_trace
from emu.trace.statistics.summary import statistics_of

N_PES, STEPS, SLOW = 4, 5, 2


def ring():
    world = emu.world()
    strip = world.alloc(1 << 14, np.float32, name="strip")
    flag = world.alloc(1, np.int64, name="flag")
    ahead = (world.my_pe + 1) % world.n_pes
    world.barrier()
    for step in range(1, STEPS + 1):
        with emu.trace.range("compute"):
            time.sleep(0.08 if world.my_pe == SLOW else 0.01)
        world.put_signal(strip, np.full(1 << 14, step, np.float32), ahead, flag, step)
        world.wait_until(flag, emu.Cmp.GE, step)
        world.barrier()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ring.emutrace")
        emu.launch(ring, N_PES, trace=path)
        found = statistics_of(read_trace(path))
    for source, target in zip(*found.moved.calls.nonzero(), strict=True):
        print(f"PE {source} -> PE {target}: {found.moved.bytes[source, target] / 1024:.0f} KiB")
    longest = max(found.path_rows, key=lambda row: row.time if row.name == "compute" else 0)
    print(f"the end waited longest for {longest.name!r} of PE {longest.pe}")
    waits = [each.bubble for each in found.activities]
    print(f"PE {waits.index(min(waits))} waited least: {min(waits) / 1e6:.0f} ms")
