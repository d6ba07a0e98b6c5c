"""Launches with ``check="race"``: what is proved, what is said apart, and how the check goes with others."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import emu.triton.language as tl
from emu import triton
from emu.triton import knobs
from emu.triton.errors import GridRaceError, OutOfBoundsError
from emu.triton.runtime import grid_race

F, I = np.float32, np.int32


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    found: list[bool] = []
    monkeypatch.setattr(grid_race, "listener", lambda kernel, is_proved: found.append(is_proved))
    return found


@triton.jit
def add(x, y, to, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(to + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def rows(x, to, stride, count, columns, B: tl.constexpr):
    for row in range(tl.program_id(0), count, tl.num_programs(0)):
        i = tl.arange(0, B)
        value = tl.load(x + row * stride + i, mask=i < columns, other=-float("inf"))
        power = tl.exp(value - tl.max(value, axis=0))
        tl.store(to + row * stride + i, power / tl.sum(power, axis=0), mask=i < columns)


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    wide = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    per_group = 2 * wide
    first = pid // per_group * 2
    size = min(tl.cdiv(M, BM) - first, 2)
    m = first + pid % per_group % size
    n = pid % per_group // size
    rm, rn, rk = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + (rm % M)[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + (rn % N)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        left = tl.load(pa, mask=rk[None, :] < K - k * BK, other=0.0)
        right = tl.load(pb, mask=rk[:, None] < K - k * BK, other=0.0)
        total = tl.dot(left, right, total)
        pa += BK
        pb += BK * N
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c + rm[:, None] * N + rn[None, :], total, mask=inside)


@triton.jit
def persistent(x, to, n, B: tl.constexpr):
    at = tl.program_id(0) * B
    pointer = x + at + tl.arange(0, B)
    for _ in range(tl.program_id(0), tl.cdiv(n, B), tl.num_programs(0)):
        tl.store(to + at + tl.arange(0, B), tl.load(pointer) * 2)
        at += tl.num_programs(0) * B
        pointer += tl.num_programs(0) * B


@triton.jit
def blocks(x, to, N: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B * B)
    at = (tl.program_id(1) * B + i // B) * N + tl.program_id(0) * B + i % B
    wide = tl.reshape(tl.arange(0, B * B), (B, B))
    to += tl.program_id(1) * B * N * 0
    tl.store(
        to + (tl.program_id(1) * (N // B) + tl.program_id(0)) * B * B + wide,
        tl.load(x + at).reshape(B, B),
    )


def test_launches_of_common_kernels_are_proved_and_their_results_are_right(
    proofs: list[bool],
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(1000, F), rng.random(1000, F)
    to = np.zeros(1000, F)
    add[(4,)](x, y, to, 1000, B=256, check="race")
    np.testing.assert_array_equal(to, x + y)
    add[(4,)](x, y, x, 1000, B=256, check="race")  # in place
    np.testing.assert_array_equal(to, x)
    square = rng.random((37, 50), F)
    made = np.zeros_like(square)
    rows[(5,)](square, made, 50, 37, 50, B=64, check="race")
    np.testing.assert_allclose(made.sum(axis=1), 1, rtol=1e-5)
    a, b, c = rng.random((70, 40), F), rng.random((40, 50), F), np.zeros((70, 50), F)
    product[(20,)](a, b, c, 70, 50, 40, BM=16, BN=16, BK=16, check="race")
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    persistent[(3,)](x, to, 1000 // 8 * 8, B=8, check="race")
    np.testing.assert_array_equal(to, x * 2)
    blocks[(4, 4)](rng.random(1024, F), np.zeros(1024, F), N=32, B=8, check="race")
    assert proofs == [True] * 6


def test_views_of_one_array_are_compared_with_each_other(proofs: list[bool]) -> None:
    memory = np.zeros(1100, F)
    add[(4,)](memory[:1000], memory[:1000], memory[:1000], 1000, B=256, check="race")
    with pytest.raises(GridRaceError) as caught:
        add[(4,)](memory[:1000], memory[:1000], memory[1:1001], 1000, B=256, check="race:all")
    assert {r.argument for r in caught.value.races} <= {"x", "y", "to"}
    assert proofs == [True, False]


@triton.jit
def same_bits(to, read, VALUE: tl.constexpr):
    if read is not None:
        tl.store(read + tl.program_id(0), tl.load(to))
    tl.store(to, VALUE)


def test_stores_of_the_same_bits_are_reported_apart() -> None:
    cell = np.zeros(1, I)
    same_bits[(4,)](cell, None, VALUE=5, check="race")
    with pytest.raises(GridRaceError, match="a benign candidate") as caught:
        same_bits[(4,)](cell, None, VALUE=5, check="race:all")
    assert all(r.is_benign for r in caught.value.races)
    seen, cell = np.zeros(4, I), np.zeros(1, I)
    with pytest.raises(GridRaceError) as caught:  # some programs read 0, some may read 5
        same_bits[(4,)](cell, seen, VALUE=5, check="race")
    first, *rest = caught.value.races
    assert not first.is_benign
    assert {first.verb, first.other_verb} == {"load", "store"}
    assert all(r.is_benign for r in rest)


@triton.jit
def shifted(to, BARRIER: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(to + i, i)
    if BARRIER:
        tl.debug_barrier()
    tl.store(to + i + 1, i * 2)


@triton.jit
def halves(to, B: tl.constexpr, EQUAL: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(to + i // 2, i * 0 if EQUAL else i)


def test_lanes_of_one_program_that_meet_without_a_barrier_are_found() -> None:
    to = np.zeros(40, I)
    with pytest.raises(GridRaceError, match=r"tl.debug_barrier") as caught:
        shifted[(1,)](to, BARRIER=False, B=32, check="race")
    (race,) = caught.value.races
    assert race.kind == "lanes"
    assert race.program == race.other_program == (0, 0, 0)
    assert race.line != race.other_line
    assert race.element == 1
    shifted[(1,)](to, BARRIER=True, B=32, check="race:all")
    with pytest.raises(GridRaceError, match="each element must be stored by one lane") as caught:
        halves[(1,)](to, B=32, EQUAL=False, check="race")
    assert [r.kind for r in caught.value.races] == ["lanes"]
    halves[(1,)](to, B=32, EQUAL=True, check="race:all")


@triton.jit
def neighbours(x, to, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(to + i + 1, tl.load(x + i, mask=i < n) + 1, mask=i < n)
    tl.store(to + i, 0.0, mask=i < n)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_report_names_programs_lines_element_and_what_would_order_them(backend: str) -> None:
    x, to = np.ones(64, F), np.zeros(80, F)
    with pytest.raises(GridRaceError) as caught:
        neighbours[(2, 2)](x, to[8:], 32, B=16, check="race", backend=backend)
    race = next(r for r in caught.value.races if r.kind == "race" and r.line != r.other_line)
    assert (race.argument, race.element, race.size) == ("to", 16, 4)
    assert race.address == to[8:].ctypes.data + 64
    assert {race.program[0], race.other_program[0]} == {0, 1}
    assert race.file == __file__
    for part in (
        "tl.store(to + i + 1",
        "tl.store(to + i, 0.0",
        "to[16] (bytes 64 to 67 from to",
        "(2, 2, 1)",
    ):
        assert part in race.text
    assert "programs of a grid run in any order" in race.text
    assert str(caught.value).startswith(caught.value.races[0].text)
    with pytest.raises(dataclasses.FrozenInstanceError):
        race.line = 3  # type: ignore[misc]


def test_it_goes_with_other_checks(proofs: list[bool]) -> None:
    x, to = np.ones(64, F), np.zeros(40, F)
    with pytest.raises(OutOfBoundsError):
        add[(4,)](x, x, to, 64, B=16, check="bounds,race")
    with pytest.raises(OutOfBoundsError):
        neighbours[(4,)](x, to, 64, B=16, check="bounds,race")
    with pytest.raises(GridRaceError):
        neighbours[(4,)](x, np.zeros(80, F), 64, B=16, check="bounds,uninit,race,streams")
    assert proofs == [True, False, False]


def test_the_knob_checks_all_launches_and_false_none() -> None:
    x, to = np.ones(64, F), np.zeros(80, F)
    with knobs.runtime.scope():
        knobs.runtime.check = "race"
        with pytest.raises(GridRaceError):
            neighbours[(4,)](x, to, 64, B=16)
    neighbours[(4,)](x, to, 64, B=16, check=False)


@triton.jit
def bytes_and_words(to, WIDE: tl.constexpr):
    me = tl.program_id(0)
    wide = (to + 4 * me + 1).to(tl.pointer_type(tl.int32))  # not aligned
    tl.store(wide, me)
    tl.store(to + 4 * me + (5 if WIDE else 1), me.to(tl.int8))


def test_elements_that_are_not_aligned_are_compared_byte_by_byte() -> None:
    to = np.zeros(64, np.int8)
    with pytest.raises(GridRaceError) as caught:
        bytes_and_words[(4,)](to, WIDE=True, check="race")
    (race,) = caught.value.races
    assert {race.verb, race.other_verb} == {"store"}
    bytes_and_words[(4,)](np.zeros(64, np.int8), WIDE=False, check="race:all")


@triton.jit
def scattered(index, to, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(to + tl.load(index + i, mask=i < n), i, mask=i < n)


def test_a_permutation_is_silent_over_many_pages_and_one_double_is_found() -> None:
    index = np.random.default_rng(1).permutation(1 << 16).astype(I)
    to = np.zeros(1 << 16, I)
    scattered[(64,)](index, to, 1 << 16, B=1024, check="race:all")
    index[5000] = index[60000]
    with pytest.raises(GridRaceError) as caught:
        scattered[(64,)](index, to, 1 << 16, B=1024, check="race")
    (race,) = caught.value.races
    assert race.element == index[5000]
    assert (race.other_program, race.program) == ((4, 0, 0), (58, 0, 0))


@triton.jit
def fenced(data, flag, to, GIVES: tl.constexpr, TAKES: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(data, 7)
        if GIVES:
            tl.inline_asm_elementwise(
                "fence.acq_rel.gpu; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1
            )
        tl.atomic_xchg(flag, 1, sem="relaxed")
    else:
        while tl.atomic_add(flag, 0, sem="relaxed") == 0:
            pass
        if TAKES:
            tl.inline_asm_elementwise("membar.gl; mov.u32 $0, 0;", "=r", [], tl.int32, False, 1)
        tl.store(to, tl.load(data))


@pytest.mark.parametrize(
    ("gives", "takes", "said"),
    [
        (False, False, r"the relaxed atomic operation at line \d+ orders nothing\n"),
        (True, False, r"orders nothing without a fence between it and that"),
        (False, True, r"orders nothing without a fence between it and that"),
    ],
)
def test_a_fence_that_lacks_on_either_side_is_missed(gives: bool, takes: bool, said: str) -> None:
    cells = [np.zeros(1, I) for _ in range(3)]
    with pytest.raises(GridRaceError, match=said):
        fenced[(2,)](*cells, GIVES=gives, TAKES=takes, check="race")


def test_fences_of_inline_assembly_order_programs() -> None:
    fenced[(2,)](*[np.zeros(1, I) for _ in range(3)], GIVES=True, TAKES=True, check="race:all")


KERNEL = """
import sys
import numpy as np
import emu.triton.language as tl
from emu import triton

@triton.jit
def double(x):
    i = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.store(x + i, tl.load(x + i) * 2)

double[(4,)](np.ones(64, np.float32))
print(any("grid_" in m or "footprints" in m or "access_shadow" in m for m in sys.modules))
double[(4,)](np.ones(64, np.float32), check="race")
print(any("grid_race" in m for m in sys.modules))
"""


def test_without_the_check_nothing_of_it_is_loaded(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KERNEL)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
