"""A fresh process that launches Triton kernels: ``python triton_probe.py NAME...`` prints seconds.

``first`` is from before ``import emu.triton`` (torch is imported earlier, as programs do) to the end of the
first kernel's first launch, ``launches`` has the first launch of each by itself.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch  # not ours to make faster

START = time.perf_counter()

from emu import triton  # noqa: F401

IMPORTED = time.perf_counter()

from rows.triton import LARGE, SMALL


def main() -> None:
    launches: dict[str, float] = {}
    first = 0.0
    for name in sys.argv[1:]:
        launch = (SMALL | LARGE)[name]()
        start = time.perf_counter()
        launch()
        launches[name] = time.perf_counter() - start
        first = first or IMPORTED - START + launches[name]
    sys.stdout.write(json.dumps({"first": first, "launches": launches}) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
