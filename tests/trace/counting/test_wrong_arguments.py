"""Wrong arguments of ``emu.trace.counting`` are refused by name, and nothing is counted from then on."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from fuzzing import Fuzzer, Target

import emu.trace.counting
import emu.triton.language as tl
from emu import triton
from emu.tile.counting.state import Counting
from emu.trace.counting import Counts, DotCounts, ProgramCounts, TensorCounts, collect, count
from emu.triton.errors import TritonError


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(x + o, mask=o < n), mask=o < n)


def _counts() -> Counts:
    return Counts(
        *("copy", "copy.py", 1, 1, 1, 6, {"vector": {"f32": 4}}),
        (DotCounts(1, 2, 3, 4, "f32", "f32", "f32", 5),),
        (TensorCounts("x", "f32", 16, 0, 0, 16, 0, 16, 4, 0),),
        {},
        16,
        (ProgramCounts(1, 6, 4, 16, 0, True),),
    )


def _collect(operators: Any) -> None:
    with collect(operators):
        pass


def _launch(**given: Any) -> dict[str, Any]:
    return {"kernel": copy, "grid": (1,), "x": np.ones(4, np.float32), "out": np.ones(4, np.float32), **given}  # fmt: skip


TARGETS = [
    Target(
        name="count",
        function=lambda kernel, grid, **given: count(kernel, grid, **given, n=4, BLOCK=4),
        arguments=_launch,
        # Arguments of kernels are emu.triton's, which its own fuzzer calls.
        keep=frozenset({"x", "out", "grid"}),  # a wrong grid may be a large one
    ),
    Target(name="collect", function=_collect, arguments=lambda: {"operators": False}),
    Target(
        name="Counts.from_json",
        function=Counts.from_json,
        arguments=lambda: {"stored": _counts().to_json()},
    ),
    *(
        Target(
            name=f"Counts.from_json, {field}",
            function=lambda field, **given: Counts.from_json(_counts().to_json() | {field: given[field]}),
            arguments=lambda field=field: {"field": field, field: _counts().to_json()[field]},
            positional=("field",),
            keep=frozenset({"field"}),
            also={field: ("stored",)},
        )
        for field in ("version", "dots", "tensors", "by_program")
    ),
    Target(
        name="+",
        function=lambda other: _counts().__add__(other),
        arguments=lambda: {"other": _counts()},
    ),
]  # fmt: skip


def test_all_that_is_public_is_called() -> None:
    data = {"Counts", "DotCounts", "ProgramCounts", "TensorCounts"}
    assert set(emu.trace.counting.__all__) == {"count", "collect"} | data


def test_wrong_arguments_are_refused_and_leave_nothing_behind() -> None:
    calls = int(os.environ.get("EMU_FUZZ_CALLS", "300"))
    errors = (TypeError, ValueError, TritonError)
    state = lambda: (Counting.sink, Counting.operators)
    Fuzzer(TARGETS, errors, seed=3, state=state).run(calls).check()
