"""A fresh process that calls every kernel: ``python kernel_probe.py [FIRST]`` prints seconds.

``first`` is from before ``import emu.kernels`` to the end of the first step's first call; ``loads`` are the
seconds that each further compiled function took to come from the cache.
"""

from __future__ import annotations

import time

START = time.perf_counter()

import json
import sys
from typing import Any

from emu.kernels.core import jit
from emu.kernels.precompile import STEPS


def main() -> None:
    names = list(STEPS)
    if len(sys.argv) > 1:
        names.sort(key=lambda name: name != sys.argv[1])
    STEPS[names[0]]()
    first = time.perf_counter() - START
    load, loads = jit._DigestCache.load_overload, {}

    def timed(self: Any, *arguments: Any) -> Any:
        start = time.perf_counter()
        found = load(self, *arguments)
        if found is not None:
            loads[self._py_func.__qualname__] = time.perf_counter() - start
        return found

    jit._DigestCache.load_overload = timed  # type: ignore[method-assign]
    for name in names[1:]:
        STEPS[name]()
    sys.stdout.write(json.dumps({"first": first, "loads": loads}) + "\n")


if __name__ == "__main__":
    main()
