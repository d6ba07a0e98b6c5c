"""What pytest loads beside the tests: Inductor writes Triton for the CPU, unless C++ is to be compared with."""

from __future__ import annotations

import os

import record

if os.environ["CONFORMANCE_BACKEND"] == "triton":
    import emu.inductor

    emu.inductor.install()

record.absent += [
    "AssertionError: Jiterator is only supported on CUDA",
    "requires GPU",
    "requires triton GPU",
    "requires cuda",
    "requires CUDA",
]
