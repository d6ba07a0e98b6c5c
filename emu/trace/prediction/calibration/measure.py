"""Run the micro-kernels on a GPU, by torch and Triton.

Internal: names may change in any release.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from emu.trace.prediction.calibration.suite import BLOCK, Case
from emu.trace.prediction.errors import PredictionError

_KERNELS = """
import triton
import triton.language as tl


@triton.jit
def empty(x, y, rounds, BLOCK: tl.constexpr):
    if tl.program_id(0) < 0:
        tl.store(y, rounds)


@triton.jit
def copy(x, y, rounds, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))


@triton.jit
def reread(x, y, rounds, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(rounds):
        total += tl.load(x + (tl.program_id(0) + i) % 16 * BLOCK + lanes, volatile=True)
    if tl.max(total) == 12345.0:
        tl.store(y + lanes, total)


@triton.jit
def fma(x, y, rounds, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    total = value
    for _ in range(rounds):
        total = total * value + value
    if tl.max(total) == 12345.0:
        tl.store(y + lanes, total)


@triton.jit
def exp(x, y, rounds, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes)
    for _ in range(rounds):
        value = tl.exp2(value)
    if tl.max(value) == 12345.0:
        tl.store(y + lanes, value)


@triton.jit
def dot(x, y, rounds, BLOCK: tl.constexpr):
    rows, depth = tl.arange(0, 128), tl.arange(0, 64)
    a = tl.load(x + rows[:, None] * 64 + depth[None, :])
    b = tl.load(x + depth[:, None] * 128 + rows[None, :])
    total = tl.zeros((128, 128), tl.float32)
    for _ in range(rounds):
        total = tl.dot(a, b, total)
    if tl.max(tl.max(total, 1), 0) == 12345.0:
        tl.store(y + rows[:, None] * 128 + rows[None, :], total)


@triton.jit
def chain(x, y, rounds, BLOCK: tl.constexpr):
    at = 0
    for _ in range(rounds):
        at = tl.load(x + at, volatile=True).to(tl.int32)
    if at == 12345:
        tl.store(y, at)
"""
_RUNS = 20


def measure(
    cases: Sequence[Case], progress: Callable[[Case], None]
) -> tuple[str, dict[str, float]]:
    """Return the name of the GPU, and the median time of each case in seconds.

    Args:
        cases: The micro-kernels.
        progress: Called before each.

    Raises:
        PredictionError: There is no GPU, or no torch or Triton to run on it.
    """
    torch, kernels, folder = _open()
    try:
        found = {}
        for case in cases:
            progress(case)
            found[case.name] = _median(torch, case, _launcher(torch, kernels, case))
        return str(torch.cuda.get_device_name()), found
    finally:
        folder.cleanup()


def _open() -> tuple[Any, Any, tempfile.TemporaryDirectory[str]]:
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            raise PredictionError(
                f"calibrating needs {name} on a machine with a GPU; or give times that were measured: --timings FILE.json"
            )
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise PredictionError(
            "calibrating needs a GPU, and torch sees none here; or give times that were measured: --timings FILE.json"
        )
    # Triton reads a kernel's source from its file.
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "emu_calibration_kernels.py"
    path.write_text(_KERNELS)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    kernels = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    return torch, kernels, folder


def _launcher(torch: Any, kernels: Any, case: Case) -> Callable[[], None]:
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(case.dtype, torch.float32)
    size = max(BLOCK * 16, BLOCK * case.programs if case.family == "copy" else 0)
    x = torch.zeros(size, dtype=dtype, device="cuda")
    y = torch.zeros(size, dtype=torch.float32, device="cuda")
    kernel = getattr(kernels, case.family)
    block = 1 if case.family == "chain" else BLOCK

    def launch() -> None:
        kernel[(case.programs,)](x, y, case.rounds, BLOCK=block)

    return launch


def _median(torch: Any, case: Case, launch: Callable[[], None]) -> float:
    """Return the median time between two events around a launch; the cache holds nothing of an earlier one, unless it is what is measured."""
    flush = torch.zeros(64 * 2**20, dtype=torch.int32, device="cuda")
    for _ in range(3):
        launch()
    times: list[float] = []
    for _ in range(_RUNS):
        if case.family == "copy":
            flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return sorted(times)[_RUNS // 2]
