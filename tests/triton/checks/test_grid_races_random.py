"""Random kernels: what the check of races says is what the accesses of every program say, byte by byte."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import shares
from grid_accesses import races, trace

from emu.triton.errors import GridRaceError
from emu.triton.runtime import grid_race
from emu.triton.runtime.build import Request

HEAD = """
import emu.triton.language as tl
from emu import triton

@triton.jit
def kernel(x, y, table, n, m, B: tl.constexpr):
    p, q = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, B)
    v = tl.load(table + (p * B + i) % 64)
"""


class Text:
    """A random kernel."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.lines: list[str] = []
        for _ in range(int(rng.integers(1, 4))):
            self._statement("    ")

    def _pick(self, *choices: str) -> str:
        return choices[int(self._rng.integers(len(choices)))]

    def _scalar(self) -> str:
        return self._pick(
            *(
                "p",
                "p",
                "q",
                "p * n",
                "p // 2",
                "p % 2",
                "p * 2 + q",
                "(p + q * 2)",
                "p * B",
                "p * B",
                "p * B",
            ),
            *(
                "p * (B - 1)",
                "p * m",
                "(p ^ 1) * B",
                "tl.minimum(p, 1) * B",
                "n",
                "0",
                "(p % 2) * B + q * 2 * B",
            ),
        )

    def _offsets(self) -> str:
        lanes = self._pick(
            *(
                "i",
                "i",
                "i",
                "i * 2",
                "i // 2",
                "i % 4",
                "(B - 1 - i)",
                "v",
                "i * n",
                "(i & 3)",
                "i * 0",
            )
        )
        return f"{self._scalar()} + {lanes}"

    def _mask(self) -> str:
        return self._pick(
            "",
            "",
            ", mask=i < n",
            ", mask=p * B + i < m",
            ", mask=i + p < n",
            ", mask=p < 2",
            ", mask=v > 3",
        )

    def _statement(self, indent: str) -> None:
        kind = int(self._rng.integers(10))
        at, mask = f"{self._pick('x', 'x', 'y')} + {self._offsets()}", self._mask()
        if kind < 3:
            value = self._pick("v", "p + v * 0", "i", "v * 0 + 7", "(p // 2) + v * 0")
            self.lines.append(f"{indent}tl.store({at}, {value}{mask})")
        elif kind < 5:
            source = f"{self._pick('x', 'y')} + {self._offsets()}"
            self.lines.append(f"{indent}tl.store({at}, tl.load({source}) + 1{mask})")
        elif kind == 5:
            self.lines.append(f"{indent}tl.atomic_add({at}, 1{mask}, sem='relaxed')")
        elif kind == 6:
            self.lines.append(f"{indent}tl.store(({at}).to(tl.pointer_type(tl.int16)), 3{mask})")
        elif len(indent) < 12:
            heads = (
                "for k in range(2):",
                "for k in range(p, 4, 2):",
                "if p > 0:",
                "if tl.load(table + p) > 3:",
            )
            self.lines.append(indent + self._pick(*heads))
            self._statement(indent + "    ")
        else:
            self.lines.append(f"{indent}tl.store({at}, v{mask})")

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


def _compare(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, bool]:
    """Compare one kernel; return whether it was proved to have no race, and whether it has one."""
    rng = np.random.default_rng(seed)
    text = str(Text(rng))
    kernel = _load(text, folder / f"races_{seed}.py")
    grid = (int(rng.integers(1, 5)), int(rng.integers(1, 3)), 1)
    numbers = {"n": int(rng.integers(2, 10)), "m": int(rng.integers(2, 40))}
    first = rng.integers(0, 8, 512).astype(np.int32)
    table = rng.integers(0, 8, 64).astype(np.int32)
    shared = bool(rng.integers(4) == 0)

    def arrays() -> list[np.ndarray[Any, Any]]:
        memory = first.copy()
        return [memory[:256], memory[128:] if shared else first[256:].copy(), table]

    x, y, t = arrays()
    signature = {
        "x": "*i32",
        "y": "*i32",
        "table": "*i32",
        "n": "i32",
        "m": "i32",
        "B": "constexpr",
    }
    module = Request(kernel, signature, {"B": 8}, False, "cpu").module()  # type: ignore[arg-type]
    values = [a.ctypes.data for a in (x, y, t)] + list(numbers.values())
    bad, pairs = races(trace(module, values, grid))
    proofs: list[bool] = []
    monkeypatch.setattr(grid_race, "listener", lambda kernel, is_proved: proofs.append(is_proved))
    x, y, t = arrays()
    found: set[frozenset[int]] = set()
    try:
        kernel[grid](x, y, t, *numbers.values(), B=8, check="race", num_warps=4)
    except GridRaceError as error:
        real = [r for r in error.races if r.kind == "race" and not r.is_benign]
        found = {frozenset((r.line, r.other_line)) for r in real}
        for race in real:
            span = range(race.address, race.address + race.size)
            assert race.argument in ("x", "y", None), text
            assert len(span) == race.size
    assert bool(found) == bool(bad), (text, grid, numbers, shared, found, pairs)
    assert found <= pairs, (text, grid, numbers, shared, found, pairs)
    if proofs[0]:
        assert not bad, text
    return proofs[0], bool(bad)


@pytest.mark.parametrize("share", shares(4))
def test_random_kernels_race_where_their_accesses_say_so(
    share: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [
        _compare(seed, tmp_path, monkeypatch) for seed in range(1000 * share, 1000 * share + 15)
    ]
    assert len({*results}) > 1  # not all of them are alike
