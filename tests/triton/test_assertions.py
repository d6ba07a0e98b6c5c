"""Assertions in kernels: the error names the program, the lane and the values, compiled and interpreted."""

from __future__ import annotations

import ast
import pickle
from typing import Any

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.tile.cpu import ProgramAssertionError
from emu.triton.assertions import operands_of

WAYS = [{}, {"backend": "reference"}, {"interpret": True}]


@pytest.mark.parametrize(
    ("condition", "operands"),
    [
        ("x < n", ["x", "n"]),
        ("x < 3", ["x"]),
        ("(x < n) & (x >= -1) & ok", ["x", "n", "ok"]),
        ("0 <= x < n or not done", ["x", "n", "done"]),
        ("~(a[:, None] * 2 == b + 1)", ["a[:, None] * 2", "b + 1"]),
        ("tl.load(p) != 0", ["tl.load(p)"]),
        ("ok", []),
        ("True", []),
    ],
)
def test_operands_are_what_a_condition_compares(condition: str, operands: list[str]) -> None:
    assert list(operands_of(ast.parse(condition, mode="eval").body)) == operands


def _error(kernel: Any, grid: int, *arguments: Any, **options: Any) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of the three ways each has its own
        # One thread: with more, a later program may be the first to fail.
        kernel[(grid,)](*arguments, debug=True, num_threads=1, **options)
    return str(caught.value)


@triton.jit
def below(x_ptr, n, skipped, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.device_assert((x < n) & (x >= 0), "x must be below n", mask=i != skipped)
    tl.store(x_ptr + i, x + 1)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("block", [1, 2, 8, 32, 128, 1024])
def test_the_first_lane_that_fails_and_its_values(way: dict[str, Any], block: int) -> None:
    x = np.arange(4 * block, dtype=np.int32)
    bad = sorted({2 * block, 2 * block + block // 2, 3 * block - 1})
    x[bad] = 9000
    x[3 * block :] = -1
    text = _error(below, 4, x, 8000, bad[0] if block > 1 else -1, BLOCK=block, **way)
    failing = bad[1:] if block > 1 else bad
    assert "x must be below n" in text
    assert "program (2, 0, 0)" in text
    assert "x = 9000, n = 8000" in text
    verb = "fail" if len(failing) > 1 else "fails"
    first = f"first lane {failing[0] - 2 * block} of ({block},)"
    assert f"{len(failing)} of {block} lanes {verb}, {first}" in text


@triton.jit
def squares(x_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    a = tl.arange(0, ROWS)[:, None]
    b = tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + a * COLUMNS + b)
    assert x == a.to(tl.float16), "rows differ"


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("shape", [(2, 64), (64, 2), (16, 32), (4, 1), (1, 4)])
def test_lanes_of_matrices_have_two_indices(way: dict[str, Any], shape: tuple[int, int]) -> None:
    rows, columns = shape
    x = np.repeat(np.arange(rows, dtype=np.float32), columns)
    row, column = rows - 1, columns // 2
    x[row * columns + column :] = 0.1
    text = _error(squares, 1, x, *shape, **way)
    count = columns - column
    assert f"{count} of {rows * columns} lanes fail" in text
    assert f"first lane ({row}, {column}) of {shape}" in text
    assert f"x = 0.1, a.to(tl.float16) = {float(row)}" in text


@triton.jit
def numbers(p, n, m, flag, scale, BLOCK: tl.constexpr):
    assert n + 1 < m and scale < 2 and BLOCK == 16  # noqa: PT018 - the parts of one condition are the test
    tl.device_assert(flag)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_scalars_and_constants_are_shown(way: dict[str, Any]) -> None:
    p = np.zeros(1, np.float32)
    text = _error(numbers, 1, p, 7, 8, True, 0.5, BLOCK=16, **way)
    assert "n + 1 = 8, m = 8" in text
    assert "lanes" not in text
    assert "BLOCK = 32" in _error(numbers, 1, p, 7, 80, True, 0.5, BLOCK=32, **way)
    numbers[(1,)](p, 7, 80, True, 0.5, BLOCK=16, debug=True, **way)
    text = _error(numbers, 1, p, 7, 80, False, 0.5, BLOCK=16, **way)
    assert "program (0, 0, 0)" in text


@triton.jit
def pointers(p, q):
    tl.device_assert(p.to(tl.int64) == q.to(tl.int64), "they differ")
    tl.device_assert(q != q, "the same")  # noqa: PLR0124 - a pointer equals itself


def test_pointers_are_shown_in_base_sixteen() -> None:
    p = np.zeros(1, np.float32)
    assert f"q = {p.ctypes.data:#x}" in _error(pointers, 1, p, p)


@triton.jit
def _checked(x, n):
    tl.device_assert(x < n, "of the callee")
    return x + n


@triton.jit
def calls(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    for i in range(n):
        assert _checked(x, 1000) + i < 1100, "of the caller"


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_assertions_in_loops_and_in_functions_that_are_called(way: dict[str, Any]) -> None:
    x = np.zeros(64, np.int32)
    x[40] = 97
    text = _error(calls, 1, x, 9, BLOCK=64, **way)
    assert "of the caller" in text
    assert "first lane 40 of (64,): _checked(x, 1000) + i = 1100" in text
    x[50] = 2000
    assert "1 of 64 lanes fails, first lane 50 of (64,): x = 2000, n = 1000" in _error(
        calls, 1, x, 9, BLOCK=64, **way
    )


def test_the_error_has_the_facts_and_can_be_pickled() -> None:
    x = np.full(64, 5, np.int64)
    with pytest.raises(ProgramAssertionError) as caught:
        below[(2,)](x, 3, -1, BLOCK=32, debug=True, num_threads=2)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.kernel == "below"
    assert error.message == "x must be below n"
    assert error.failure.values == {"x": 5, "n": 3}
    assert (error.failure.lane, error.failure.count) == (0, 32)
    assert str(error) == str(caught.value)
