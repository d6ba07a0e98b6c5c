"""Our side of ``peers/jax_run.py``: runs the steps of the program in a folder on PEs, when asked.

    sdy_steps.py FOLDER STATE DEVICES

It first runs a tiny program on as many PEs, as JAX has started its devices before it compiles.
STATE is how many of the results replace the first inputs at each step, and are donated. The lines that it
writes and reads are those of ``jax_run.py``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import numpy as np


def main() -> None:
    import emu.sdy

    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    with np.load(folder / "arguments.npz") as file:
        arguments = [file[name] for name in file.files]
    module = emu.sdy.parse((folder / "module.mlir").read_text(encoding="utf-8"), file="module.mlir")
    _start(int(sys.argv[3]))
    start = time.perf_counter()
    with emu.sdy.compile(module, donate=range(count)) as program:
        compiling = time.perf_counter() - start
        start = time.perf_counter()
        *state, value = program(*arguments, gather=False)
        first = time.perf_counter() - start
        others = arguments[count:]
        told = {
            "compile": compiling,
            "first": first,
            "value": float(value.numpy().ravel()[0]),
        }
        print(json.dumps(told), flush=True)
        for line in sys.stdin:
            start, spent = time.perf_counter(), _processor_seconds()
            for _ in range(int(line)):
                *state, value = program(*state, *others, gather=False)
            times = time.perf_counter() - start, _processor_seconds() - spent
            print(json.dumps(times), flush=True)


_TINY = """
sdy.mesh @mesh = <["x"={devices}]>
func.func @main(%x: tensor<{devices}xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}}) -> tensor<{devices}xf32> {{
  return %x : tensor<{devices}xf32>
}}"""


def _start(devices: int) -> None:
    import emu.sdy

    emu.sdy.run(emu.sdy.parse(_TINY.format(devices=devices)), np.ones(devices, np.float32))


def _processor_seconds() -> float:
    """Return what this process and all below it have used; the resolution is 10 ms."""
    used: dict[int, float] = {}
    parents: dict[int, int] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of a process may hold spaces and brackets: the rest begins behind the last one.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(entry.name)] = int(fields[1])
        used[int(entry.name)] = (int(fields[11]) + int(fields[12])) / tick
    me = os.getpid()

    def is_below(pid: int) -> bool:
        while pid not in (0, me):
            pid = parents.get(pid, 0)
        return pid == me

    return sum(seconds for pid, seconds in used.items() if is_below(pid))


if __name__ == "__main__":
    main()
