"""Plugin of pytest that runs kernels a second time with ``backend="cuda"``, and compares all memory.

``NUMBA_ENABLE_CUDASIM=1 pytest -p triton_on_cuda FILES`` is how ``tests/triton/backends/test_cuda_corpus.py`` uses
it. What a test does is the same as without it: it sees what it asked for, and its launches count and print once.
Differences are collected and printed. Launches by the CPU back end and modules that the reference runs take part.

Integers must be equal. Floats may differ as sums in another order and other libraries' functions do: by
``TOLERANCES`` relative to the largest number of the array's finite ones. Launches that are too large for the simulator
are counted, not run.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import io
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from campaigns import keep_one_in

from emu.tile import reference
from emu.tile.ir import Module
from emu.tile.ops import Code
from emu.tile.types import Pointer, Tile
from emu.triton.backends.cuda import CudaExecutable
from emu.triton.runtime import compiled
from emu.triton.runtime.backends import PassedTensor
from emu.triton.runtime.storages import Storage, live_storages, merged

TOLERANCES: dict[str, float] = {
    "float64": 1e-12,
    "float32": 2e-5,
    "float16": 4e-3,
    "bfloat16": 3e-2,
}
"""Largest difference of floats by dtype; of 8-bit floats one step (0.26)."""

# Tests whose launches may not run twice, or whose programs wait for each other.
NOT_TWICE = ("test_threads_launch", "test_spinning", "test_crashes", "test_polling")
LARGEST = int(os.environ.get("EMU_CUDA_LARGEST", "8192"))
"""Most elements that all programs of a launch have, by their largest tile; of a dot, products."""

EVERY = int(os.environ.get("EMU_CUDA_EVERY", "1"))
"""One test in so many runs."""

COUNTS = {"launches": 0, "same": 0, "too large": 0}
DIFFERENT: list[str] = []
_test = "?"
_within = False


def _work(module: Module) -> int:
    """Return the elements of a module's largest tile, or the products of its largest dot."""
    largest = 1
    for function in module.functions.values():
        for operation in function.body.walk():
            for value in operation.results:
                if isinstance(value.type, Tile):
                    largest = max(largest, math.prod(value.type.shape))
            if operation.code is Code.DOT:
                product = math.prod(operation.result.shape) * operation.operands[0].shape[-1]
                largest = max(largest, product)
            if operation.code is Code.SORT:
                largest *= 16
    return largest


def _reached(values: Sequence[Any]) -> list[Storage]:
    """Return the memory that arguments point to, and what addresses in it point to.

    Only what a launch holds stays allocated while it runs twice: other memory must not be written back.
    """
    # What compiled a kernel leaves 100,000s of objects in circles, and all objects are looked through.
    gc.collect()
    live = merged(live_storages())

    def holding(addresses: Any) -> set[Storage]:
        starts = np.array([s.start for s in live], np.uint64)
        at = np.searchsorted(starts, addresses, side="right") - 1
        return {live[i] for a, i in zip(addresses, at, strict=True) if i >= 0 and a < live[i].end}

    numbers = [v for v in values if isinstance(v, int) and 0 < v < 1 << 63]
    found = holding(np.array(numbers, np.uint64)) if live and numbers else set()
    for storage in list(found):
        first = storage.start + -storage.start % 8
        words = np.frombuffer(
            ctypes.string_at(first, max(0, storage.end - first) // 8 * 8), np.uint64
        )
        found |= holding(words[(words > 1 << 32) & (words < 1 << 47)])
    return sorted(found, key=lambda s: s.start)


def _save(storages: Sequence[Storage]) -> list[bytes]:
    return [ctypes.string_at(s.start, s.end - s.start) for s in storages]


def _restore(storages: Sequence[Storage], saved: Sequence[bytes]) -> None:
    for storage, data in zip(storages, saved, strict=True):
        ctypes.memmove(storage.start, data, len(data))


def _differs(one: bytes, other: bytes, dtype: np.dtype[Any]) -> str | None:
    """Return how arrays differ; None if they are alike."""
    if len(one) % dtype.itemsize:
        dtype = np.dtype(np.uint8)
    a, b = np.frombuffer(one, dtype), np.frombuffer(other, dtype)
    if dtype.kind in "iub":
        bad = a != b
    else:
        with np.errstate(all="ignore"):
            a, b = a.astype(np.float64), b.astype(np.float64)
            finite = np.isfinite(a)
            scale = np.abs(a[finite]).max(initial=0)
            least = float(ml_dtypes.finfo(dtype).smallest_subnormal)
            bound = TOLERANCES.get(dtype.name, 0.26) * scale + 2 * least
            same = (a == b) | (np.isnan(a) & np.isnan(b))
            bad = ~same & ~(finite & np.isfinite(b) & (np.abs(a - b) <= bound))
    if not bad.any():
        return None
    at = int(np.flatnonzero(bad)[0])
    return f"{int(bad.sum())} of {bad.size} {dtype.name}: [{at}] is {b[at]}, not {a[at]}"


def _compare(
    module: Callable[[], Module],
    name: str,
    grid: Sequence[int],
    values: Sequence[Any],
    run: Callable[[], Any],
) -> Any:
    """Run a kernel as it is to be run, and again on CUDA; note whether both leave the same."""
    global _within
    if _within or any(n in _test for n in NOT_TWICE):
        return run()
    made = module()
    if math.prod(grid) * _work(made) > LARGEST:
        COUNTS["too large"] += 1
        return run()
    storages = _reached(values)
    if sum(s.end - s.start for s in storages) > 1 << 27:
        COUNTS["too large"] += 1
        return run()
    before = _save(storages)
    _within = True
    try:
        result = run()
        after = _save(storages)
        _restore(storages, before)
        COUNTS["launches"] += 1
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                said = _on_cuda(made, grid, values, storages, after)
        except BaseException as error:  # noqa: BLE001 - reported with the test's name
            said = f"{type(error).__name__}: {error}"
        finally:
            _restore(storages, after)
    finally:
        _within = False
    if said is None:
        COUNTS["same"] += 1
    else:
        DIFFERENT.append(f"{_test}: {name}: {said}"[:400].replace("\n", " "))
    return result


def _on_cuda(
    module: Module,
    grid: Sequence[int],
    values: Sequence[Any],
    storages: Sequence[Storage],
    wanted: Sequence[bytes],
) -> str | None:
    """Run a module on CUDA; return how its memory differs from what is wanted."""
    x, y, z = (*grid, 1, 1)[:3]
    types = [a.type for a in module.kernel.body.arguments]
    dtypes: dict[Storage, np.dtype[Any]] = {}
    tensors: list[PassedTensor | None] = []
    for type_, value in zip(types, values, strict=True):
        tensor = None
        if isinstance(type_, Pointer):
            inside = [s for s in storages if s.start <= value < s.end]
            element = np.dtype(np.uint64)
            if not isinstance(type_.element, Pointer):
                element = type_.element.numpy
            for storage in inside:
                dtypes.setdefault(storage, element)
            if inside:
                size = inside[0].end - inside[0].start
                at = (ctypes.c_uint8 * size).from_address(inside[0].start)
                tensor = PassedTensor("x", np.ctypeslib.as_array(at), True)
        tensors.append(tensor)
    CudaExecutable(module).bind_device(4)((x, y, z), values, tensors)
    for storage, data in zip(storages, wanted, strict=True):
        got = ctypes.string_at(storage.start, len(data))
        if got == data:
            continue
        if storage in dtypes:
            said = _differs(data, got, dtypes[storage])
            if said is not None:
                return said
    return None


def _reference_run(original: Any, module: Any, arguments: Any, grid: Any, **options: Any) -> Any:
    return _compare(
        lambda: module,
        module.kernel.name,
        tuple(grid) if isinstance(grid, tuple | list) else (grid,),
        arguments,
        lambda: original(module, arguments, grid, **options),
    )


def _made_run(original: Any, build: Any, kernel: Any, threads: int) -> Any:
    run = original(build, kernel, threads)
    request = build.request
    if request.backend != "cpu" or request.check is not None:
        return run
    select = compiled._selection(build)

    def both(x: int, y: int, z: int, values: Any, given: Any = None) -> None:
        flat = list(values) if select is None else select(values)
        _compare(request.module, kernel.name, (x, y, z), flat, lambda: run(x, y, z, values, given))

    return both


@pytest.fixture(autouse=True)
def _named(request: pytest.FixtureRequest) -> None:
    global _test
    _test = request.node.nodeid
    gc.freeze()  # the memory of a test's launches is made by the test


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    keep_one_in(EVERY, config, items)


def pytest_configure(config: pytest.Config) -> None:
    """Let kernels run twice."""
    compiled._make_launch = functools.partial(_made_run, compiled._make_launch)
    reference.run = functools.partial(_reference_run, reference.run)  # type: ignore[assignment]  # the same call


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what was compared."""
    for line in DIFFERENT:
        terminalreporter.write_line(f"DIFFERENT {line}")
    terminalreporter.write_line(
        f"COMPARED: {COUNTS['same']} of {COUNTS['launches']}, {COUNTS['too large']} too large"
    )
