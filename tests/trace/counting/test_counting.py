"""Counts of kernels: by hand, beside torch's, and beside an interpreter that counts element by element."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import counting_reference
import numpy as np
import pytest
import triton_programs
from campaigns import shares

import emu.triton.language as tl
from emu import triton
from emu.trace.counting import Counts, collect, count
from emu.triton import knobs


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    tl.store(out + o, tl.load(x + o, mask=m) + tl.load(y + o, mask=m), mask=m)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    v = tl.load(x + row + o, mask=o < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v))
    tl.store(out + row + o, e / tl.sum(e), mask=o < n)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        x = tl.load(
            a + i[:, None] * K + kk[None, :], mask=(i[:, None] < M) & (kk[None, :] < K), other=0.0
        )
        y = tl.load(
            b + kk[:, None] * N + j[None, :], mask=(kk[:, None] < K) & (j[None, :] < N), other=0.0
        )
        acc = tl.dot(x, y, acc)
    tl.store(c + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))


@triton.jit
def attention(q, k, v, out, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(1) * N * D
    d = tl.arange(0, D)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    x = tl.load(q + at + rows[:, None] * D + d[None, :])
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for begin in range(0, N, BN):
        columns = begin + tl.arange(0, BN)
        y = tl.load(k + at + columns[None, :] * D + d[:, None])
        s = tl.dot(x, y)
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        scale = tl.exp(top - new)
        total = total * scale + tl.sum(p, 1)
        z = tl.load(v + at + columns[:, None] * D + d[None, :])
        acc = tl.dot(p, z, acc * scale[:, None])
        top = new
    tl.store(out + at + rows[:, None] * D + d[None, :], acc / total[:, None])


@triton.jit
def collatz(x, out):
    p = tl.program_id(0)
    v = tl.load(x + p)
    n = 0
    while v != 1:
        v = tl.where(v % 2 == 0, v // 2, 3 * v + 1)
        n += 1
    tl.store(out + p, n)


@triton.jit
def pick(table, index, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i = tl.load(index + o, mask=o < n, other=-1)
    tl.store(out + o, tl.load(table + i, mask=i >= 0, other=0.0), mask=o < n)


@triton.jit
def histogram(x, out, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = o < n
    tl.atomic_add(out + tl.load(x + o, mask=m), 1.0, mask=m)


@triton.jit
def nested(x, n, step):
    total = 0
    for i in range(n):
        for j in range(n, i, step):
            total += j
        for j in range(i, n, 3):
            total -= j
    tl.store(x, total)


def tensors(counts: Counts) -> dict[str, Any]:
    return {t.name: t for t in counts.tensors}


def test_vector_add() -> None:
    x, y, out = (np.arange(1000, dtype=np.float32) for _ in range(3))
    found = count(add, (8,), x, y, out, 1000, BLOCK=128)
    np.testing.assert_array_equal(out, 2 * np.arange(1000))
    assert (found.launches, found.programs, found.flops) == (1, 8, 1024)
    assert found.work["vector"] == {"f32": 1024}
    assert (found.loaded, found.stored, found.unique) == (8000, 4000, 12000)
    assert (found.lanes, found.masked_off) == (3 * 1024, 3 * 24)
    assert found.intensity == 1024 / 12000
    whole, ragged = found.by_program
    assert (whole.programs, whole.loaded, whole.stored) == (7, 7 * 1024, 7 * 512)
    assert (ragged.programs, ragged.loaded, ragged.stored) == (1, 832, 416)


def test_in_place_memory_counts_once() -> None:
    x = np.ones(100, np.float32)
    found = count(add, (1,), x, x, x, 100, BLOCK=128)
    assert (found.loaded, found.stored, found.unique) == (800, 400, 400)
    apart = count(add, (1,), x[:50], x[30:], x[40:], 50, BLOCK=64)
    assert apart.unique == 360  # elements 0 to 89


def test_softmax() -> None:
    x = np.random.default_rng(0).standard_normal((5, 100)).astype(np.float32)
    out = np.zeros_like(x)
    found = count(softmax, (5,), x, out, 100, BLOCK=128)
    # A row: 127 maxima, 128 differences, 128 exponentials, 127 sums, 128 quotients.
    assert found.work["special"] == {"f32": 5 * 128}
    assert found.work["vector"] == {"f32": 5 * (127 + 128 + 127 + 128)}
    assert (found.loaded, found.stored, found.unique) == (2000, 2000, 4000)


def test_ragged_matmul() -> None:
    m, n, k = 100, 70, 90
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    plain, counted = np.zeros((2, m, n), np.float32)
    sizes = {"BM": 64, "BN": 64, "BK": 32}
    matmul[(2, 2)](a, b, plain, m, n, k, **sizes)
    found = count(matmul, (2, 2), a, b, counted, m, n, k, **sizes)
    np.testing.assert_array_equal(counted, plain)
    assert found.work["dot"] == {"f32": 2 * 128 * 128 * 96}
    (dot,) = found.dots
    assert (dot.m, dot.n, dot.k, dot.a, dot.accumulator, dot.times) == (
        64,
        64,
        32,
        "f32",
        "f32",
        12,
    )
    of = tensors(found)
    assert (of["a"].loaded, of["a"].unique) == (2 * 4 * m * k, 4 * m * k)
    assert (of["b"].loaded, of["b"].unique) == (2 * 4 * n * k, 4 * n * k)
    assert (of["c"].stored, of["c"].unique_stored) == (4 * m * n, 4 * m * n)


def test_torch_counts_the_same_flops() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    a, b, c = (torch.randn(128, 128) for _ in range(3))
    found = count(matmul, (2, 2), a, b, c, 128, 128, 128, BM=64, BN=64, BK=32)
    with FlopCounterMode(display=False) as counter:
        a @ b
    assert found.work["dot"]["f32"] == counter.get_total_flops()
    q, k, v, out = (torch.randn(1, 2, 128, 32) for _ in range(4))
    found = count(attention, (4, 2), q, k, v, out, 128, D=32, BM=32, BN=32)
    with FlopCounterMode(display=False) as counter:
        wanted = torch.softmax(q @ k.transpose(2, 3), 3) @ v
    torch.testing.assert_close(out, wanted, rtol=1e-4, atol=1e-5)
    assert found.work["dot"]["f32"] == counter.get_total_flops()


def test_loops_that_depend_on_data() -> None:
    x, out = np.array([1, 7, 27], np.int32), np.zeros(3, np.int32)
    found = count(collatz, (3,), x, out)
    assert out.tolist() == [0, 16, 111]
    assert found.work["select"] == {"i32": 127}
    assert [p.programs for p in found.by_program] == [1, 1, 1]


def test_gather_under_a_mask() -> None:
    table, index = np.arange(10, dtype=np.float32), np.array([3, -1, 3, 9, -1], np.int32)
    out = np.ones(5, np.float32)
    found = count(pick, (1,), table, index, out, 5, BLOCK=8)
    assert out.tolist() == [3, 0, 3, 9, 0]
    of = tensors(found)["table"]
    assert (of.loaded, of.unique_loaded, of.lanes, of.masked_off) == (12, 8, 8, 5)


def test_atomic_operations() -> None:
    x, out = np.array([1, 1, 0, 1, 2], np.int32), np.zeros(4, np.float32)
    found = count(histogram, (2,), x, out, 5, BLOCK=4)
    assert out.tolist() == [1, 3, 1, 0]
    assert found.atomics == {"add f32": 5}
    of = tensors(found)["out"]
    assert (of.atomic, of.unique_loaded, of.unique_stored, of.unique) == (20, 12, 12, 12)
    assert found.bytes == 20 + 20


@pytest.mark.parametrize("step", [-1, -2, 1, 2])
def test_trips_of_nested_loops(step: int) -> None:
    out = np.zeros(1, np.int32)
    found = count(nested, (1,), out, 7, step)
    trips = sum(len(range(7, i, step)) + len(range(i, 7, 3)) for i in range(7))
    wanted = sum(sum(range(7, i, step)) - sum(range(i, 7, 3)) for i in range(7))
    assert out[0] == wanted
    assert found.work["integer"]["i32"] == trips


def _compare(seeds: range, folder: Path) -> None:
    for seed in seeds:
        program = triton_programs.make(seed)
        kernel = triton_programs.load(program, folder / f"program_{seed}.py")
        plain, counted, reference = ([o.copy() for o in program.outputs] for _ in range(3))
        compiled = kernel[(program.grid,)](*program.inputs, *plain, *program.scalars)
        found = count(kernel, (program.grid,), *program.inputs, *counted, *program.scalars)
        for want, got in zip(
            map(triton_programs.bits, plain), map(triton_programs.bits, counted), strict=True
        ):
            np.testing.assert_array_equal(got, want, err_msg=f"seed {seed}:\n{program.source}")
        module = compiled._build.request.module()
        given = dict(
            zip(kernel.arg_names, (*program.inputs, *reference, *program.scalars), strict=True)
        )
        values = [given[a.name] for a in module.kernel.body.arguments]
        numbers = [v.ctypes.data if isinstance(v, np.ndarray) else v for v in values]
        wanted = counting_reference.run(module, numbers, (program.grid,))
        try:
            counting_reference.same(wanted, found)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n{program.source}") from error


def test_random_programs_count_as_the_reference_does(tmp_path: Path) -> None:
    _compare(range(1), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("share", shares(4))
def test_many_random_programs_count_as_the_reference_does(share: int, tmp_path: Path) -> None:
    _compare(range(2000 + 8 * share, 2008 + 8 * share), tmp_path)


def test_counts_as_json_and_together() -> None:
    x, y, out = (np.arange(100, dtype=np.float32) for _ in range(3))
    with collect() as found:
        for _ in range(3):
            add[(1,)](x, y, out, 100, BLOCK=128)
    assert len(found) == 3
    assert found[0] == found[1]
    both = found[0] + found[1]
    assert (both.launches, both.flops, both.unique) == (2, 256, 2400)
    assert Counts.from_json(json.loads(json.dumps(both.to_json()))) == both
    assert "arithmetic intensity 0.11" in both.table()
    assert knobs.runtime.check is None


def test_wrong_arguments() -> None:
    x = np.zeros(4, np.float32)
    with pytest.raises(TypeError, match="kernel must be decorated"):
        count(len, (1,), x)
    with pytest.raises(ValueError, match="grid must be one to three"):
        count(add, None, x, x, x, 4, BLOCK=4)
    with pytest.raises(ValueError, match="at least one program"):
        count(add, (0,), x, x, x, 4, BLOCK=4)
    with pytest.raises(ValueError, match="check must be None or False"):
        count(add, (1,), x, x, x, 4, BLOCK=4, check="bounds")
    with pytest.raises(ValueError, match="interpret must be False"):
        count(add, (1,), x, x, x, 4, BLOCK=4, interpret=True)
    with pytest.raises(ValueError, match=r"whose kernels can be counted.*'cuda'"):
        count(add, (1,), x, x, x, 4, BLOCK=4, backend="cuda")
    with pytest.raises(TypeError):
        count(add, (1,), x, x)
    for wrong in (None, 3, {}, {"version": 1}, {"version": 1, "dots": 3}):
        with pytest.raises(ValueError, match="stored must be"):
            Counts.from_json(wrong)
    found = count(add, (1,), x, x, x, 4, BLOCK=4)
    with pytest.raises(ValueError, match="other must be of kernel add"):
        found + count(histogram, (1,), np.zeros(4, np.int32), x, 4, BLOCK=4)
    assert knobs.runtime.check is None
