"""Random kernels whose programs are ordered by atomic operations and fences: the check says what the definition says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import shares
from grid_order_definition import give_order, races, trace

from emu.triton.errors import GridRaceError
from emu.triton.runtime.build import Request

HEAD = """
import emu.triton.language as tl
from emu import triton

@triton.jit
def kernel(x, flag, to):
    p = tl.program_id(0)
    i = tl.arange(0, 4)
"""
FENCE = (
    "tl.inline_asm_elementwise('fence.acq_rel.gpu; mov.u32 $0, 0;', '=r', [], tl.int32, False, 1)"
)
SIGNATURE = {"x": "*i32", "flag": "*i32", "to": "*i32"}


class Text:
    """A random kernel in which each program does something else."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._loads = 0
        self._values = 100
        self.programs = int(rng.integers(2, 5))
        self._is_careful = rng.integers(2) == 0
        self.lines: list[str] = []
        for p in range(self.programs):
            self.lines.append(f"    {'if' if p == 0 else 'elif'} p == {p}:")
            parts = [self._syncs(), [self._data()], self._syncs()]
            if rng.integers(4) == 0:
                parts += [[self._data()], self._syncs()]
            self.lines += [f"        {line}" for part in parts for line in part]

    def _pick(self, *choices: str) -> str:
        return choices[int(self._rng.integers(len(choices)))]

    def _keep(self, value: str) -> str:
        self._loads += 1
        return f"tl.store(to + {self._loads}, {value})"

    def _data(self) -> str:
        self._values += 10
        cell, kind = int(self._rng.integers(2)), int(self._rng.integers(12))
        if kind < 5:
            return f"tl.store(x + {cell}, {self._values})"
        if kind < 10:
            return self._keep(f"tl.load(x + {cell})")
        return (
            f"tl.store(x + i, {self._values} + i)"
            if kind == 10
            else self._keep("tl.sum(tl.load(x + i))")
        )

    def _syncs(self) -> list[str]:
        if self._is_careful and self._rng.integers(8) != 0:
            sem = self._pick("acq_rel", "acq_rel", "relaxed")
            update = f"tl.atomic_add(flag, 1, sem='{sem}')"
            return [update] if sem == "acq_rel" else [FENCE, update, FENCE]
        return [self._sync() for _ in range(int(self._rng.integers(3)))]

    def _sync(self) -> str:
        self._values += 10
        flag = f"flag + {int(self._rng.integers(8) == 0)}"
        sem = self._pick("relaxed", "relaxed", "acquire", "release", *["acq_rel"] * 3)
        scope = self._pick(*["gpu"] * 16, "sys", "cta")
        how = f"sem='{sem}', scope='{scope}'"
        kind = int(self._rng.integers(28))
        if kind < 9:
            return f"tl.atomic_add({flag}, 1, {how})"
        if kind < 12:
            return f"tl.atomic_xchg({flag}, 1, {how})"
        if kind < 15:
            return f"tl.atomic_cas({flag}, {self._pick('0', '1', '2')}, 1, {how})"
        if kind < 17:
            return f"tl.atomic_add(flag + i, 1, mask=i < {int(self._rng.integers(1, 4))}, {how})"
        if kind < 18:
            return (
                f"tl.atomic_store({flag}, {self._values}, sem='{self._pick('release', 'relaxed')}')"
            )
        if kind < 20:
            return self._keep(f"tl.atomic_load({flag}, sem='{self._pick('acquire', 'relaxed')}')")
        if kind < 21:
            return self._keep(f"tl.load({flag}, volatile=True)")
        if kind < 22:
            return f"tl.store({flag}, {self._values})"
        name = self._pick("fence.acq_rel.gpu", "fence.sc.sys", "membar.gl", "fence.acq_rel.cta")
        return FENCE.replace("fence.acq_rel.gpu", name)

    def __str__(self) -> str:
        return HEAD + "\n".join(self.lines) + "\n"


def _load(text: str, path: Path) -> Any:
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def _arrays() -> list[np.ndarray[Any, Any]]:
    return [np.zeros(4, np.int32), np.zeros(4, np.int32), np.zeros(256, np.int32)]


def _compare(seed: int, folder: Path, backend: str) -> tuple[bool, bool]:
    """Compare one kernel; return whether it races, and whether it would if no operation gave an order."""
    made = Text(np.random.default_rng(seed))
    text, grid = str(made), (made.programs, 1, 1)
    kernel = _load(text, folder / f"orders_{seed}.py")
    request = Request(kernel, SIGNATURE, {}, False, "cpu", check="race")  # type: ignore[arg-type]
    arrays = _arrays()
    events = trace(request.module(), [a.ctypes.data for a in arrays], grid)
    without = bool(races(events))
    give_order(events)
    pairs = races(events)
    found: set[frozenset[int]] = set()
    try:
        kernel[grid](*_arrays(), check="bounds,race:all", backend=backend)
    except GridRaceError as error:
        found = {frozenset((r.line, r.other_line)) for r in error.races if r.kind == "race"}
    assert found <= pairs, (text, found - pairs)
    assert bool(found) == bool(pairs), (text, pairs)
    return bool(pairs), without


@pytest.mark.parametrize("share", shares(2))
def test_random_kernels_are_ordered_as_the_definition_says(share: int, tmp_path: Path) -> None:
    results = [
        _compare(seed, tmp_path, "cpu" if seed % 20 == 0 else "reference")
        for seed in range(1000 * share, 1000 * share + 60)
    ]
    assert results.count((True, True)) > 5
    assert results.count((False, True)) > 5  # order decides


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(4))
def test_many_more_of_them(share: int, tmp_path: Path) -> None:
    for seed in range(10_000 + 1000 * share, 10_000 + 1000 * share + 100):
        _compare(seed, tmp_path, "reference" if seed % 10 else "cpu")
