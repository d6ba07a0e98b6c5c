"""What pytest loads beside the tests: Inductor writes Triton for the CPU, unless C++ is to be compared with."""

from __future__ import annotations

import os
import sys
import unittest
from typing import Any, Never

import pytest
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
record.wrong += ["Tensor-likes are not close", "Scalars are not close"]


def _give_moved_names() -> None:
    """Give PyTorch's suites of other releases the names that they import, where this release has them no more."""
    from torch._inductor import compile_fx  # not earlier: it looks for Triton

    if not hasattr(compile_fx, "complex_memory_overlap"):  # one test calls it
        vars(compile_fx)["complex_memory_overlap"] = _absent


def _absent(*_: object) -> Never:
    raise unittest.SkipTest("absent in this release of torch")


_give_moved_names()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests run that skip themselves, or parts of them, where the back end is Triton for a CPU."""
    if not os.environ["CONFORMANCE_WITHOUT_SKIPS"]:
        return
    suite: Any = next(m for name, m in sys.modules.items() if name.endswith("test_torchinductor"))
    ask = suite.is_triton_cpu_backend

    def is_triton_cpu_backend(device: str) -> bool:
        # Others that ask count kernels, and those of Triton are not C++'s.
        skips = sys._getframe(1).f_code.co_name in ("wrapper", "test_dtypeview", "test_pointwise")
        return not skips and bool(ask(device))

    suite.is_triton_cpu_backend = is_triton_cpu_backend
