"""Shuffles, votes, matches and reductions of a warp, against what PTX says of each lane."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from emu import triton
from emu.triton import language as tl
from emu.triton.language.threads import simt_exec_region, thread_index
from tests.support import warp_reference as meaning

WARPS = 2
LANES = 32 * WARPS
INT = np.int32


@triton.jit
def two_operands(x, y, members, out, seen, asm: tl.constexpr):
    index = thread_index(0)
    got = tl.inline_asm_elementwise(
        asm,
        "=r,=r,r,r,r",
        [tl.load(x + index), tl.load(y + index), tl.load(members)],
        dtype=(tl.int32, tl.int32),
        is_pure=False,
        pack=1,
    )
    tl.store(out + index, got[0])
    tl.store(seen + index, got[1])


@triton.jit
def warp_by_warp(x, y, members, out, seen, asm: tl.constexpr):
    index = thread_index(0)
    for warp in range(index // 32, 2, 2):
        at = warp * 32 + index % 32
        got = tl.inline_asm_elementwise(
            asm,
            "=r,=r,r,r,r",
            [tl.load(x + at), tl.load(y + at), tl.load(members)],
            dtype=(tl.int32, tl.int32),
            is_pure=False,
            pack=1,
        )
        tl.store(out + at, got[0])
        tl.store(seen + at, got[1])


KERNELS = (two_operands, warp_by_warp)


def run(kernel: Any, asm: str, x: Any, y: Any, members: int = 0xFFFFFFFF) -> tuple[Any, Any]:
    """Return what `$0` and `$1` are; the operands are `$2`, `$3` and the mask `$4`."""
    out, seen = np.full(LANES, -7, INT), np.full(LANES, -7, INT)
    mask = np.array([members], np.uint32).view(INT)
    kernel[(1,)](x.view(INT), y.view(INT), mask, out, seen, asm, num_warps=WARPS)
    return out.view(np.uint32).reshape(WARPS, 32), seen.reshape(WARPS, 32)


def words(generator: np.random.Generator, high: int = 1 << 32) -> Any:
    return generator.integers(0, high, LANES, np.uint32)


def shuffles() -> list[tuple[str, int]]:
    widths = (32, 16, 8, 4, 2, 1)
    bounds = [
        (32 - width) << 8 | (31 if mode != "up" else 0) for width in widths for mode in ("x",)
    ]
    cases = [(mode, c) for mode in ("down", "bfly", "idx") for c in bounds]
    cases += [("up", (32 - width) << 8) for width in widths]
    return [*cases, ("idx", 20), ("down", 7), ("bfly", 0x1C0F), ("up", 3), ("up", 0x0C05)]


@pytest.mark.parametrize(("mode", "c"), shuffles())
def test_a_shuffle_reads_the_lane_that_ptx_says(mode: str, c: int) -> None:
    generator = np.random.default_rng(c)
    asm = f"{{.reg .pred p; shfl.sync.{mode}.b32 $0|p, $2, $3, {c}, 0xffffffff; selp.b32 $1, 1, 0, p;}}"
    x, by = words(generator), words(generator, 64)
    out, inside = run(two_operands, asm, x, by)
    for warp in range(WARPS):
        part = slice(32 * warp, 32 * warp + 32)
        expected, ok = meaning.shfl(mode, x[part], by[part], c)
        assert out[warp].tolist() == expected.tolist()
        assert inside[warp].tolist() == ok.tolist()


@triton.jit
def by_a_number(x, out, by, c: tl.constexpr, mode: tl.constexpr):
    index = thread_index(0)
    got = tl.inline_asm_elementwise(
        "shfl.sync." + mode + ".b32 $0, $1, $2, " + c + ", $3;",
        "=r,r,r,r",
        [tl.load(x + index), by, 0xFFFFFFFF],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(out + index, got)


@pytest.mark.parametrize("mode", ["up", "idx"])
def test_all_lanes_may_go_by_one_number(mode: str) -> None:
    x, c = np.arange(100, 100 + LANES, dtype=INT), 0 if mode == "up" else 31
    for by in (0, 5, 31, 40):
        out = np.zeros(LANES, INT)
        by_a_number[(1,)](x, out, by, str(c), mode, num_warps=WARPS)
        steps = np.full(32, by, np.uint32)
        expected = [meaning.shfl(mode, x[w : w + 32].view(np.uint32), steps, c)[0] for w in (0, 32)]
        assert out.tolist() == np.concatenate(expected).tolist()


MEMBERS = (0xFFFFFFFF, 0x0000FFFF, 0x80000001, 0x12345678, 1)


def test_votes_count_those_that_have_a_say() -> None:
    asm = (
        "{.reg .pred p, q, r, s; setp.ne.b32 p, $2, 0; vote.sync.ballot.b32 $0, p, $4; "
        "vote.sync.all.pred q, p, $4; vote.sync.any.pred r, p, $4; vote.sync.uni.pred s, p, $4; "
        "selp.b32 $1, 1, 0, q; @r add.s32 $1, $1, 2; @s add.s32 $1, $1, 4;}"
    )
    generator = np.random.default_rng(5)
    for members in MEMBERS:
        for said in (words(generator, 2), np.zeros(LANES, np.uint32), np.ones(LANES, np.uint32)):
            for kernel in KERNELS:
                out, seen = run(kernel, asm, said, said, members)
                for warp in range(WARPS):
                    holds = said[32 * warp : 32 * warp + 32] != 0
                    assert set(out[warp].tolist()) == {meaning.ballot(holds, members)}
                    votes = [meaning.vote(what, holds, members) for what in ("all", "any", "uni")]
                    assert set(seen[warp].tolist()) == {votes[0] + 2 * votes[1] + 4 * votes[2]}


def test_lanes_find_those_with_the_same_bits() -> None:
    any_, all_ = (
        "match.any.sync.b32 $0, $2, $4; mov.u32 $1, 0;",
        "{.reg .pred p; match.all.sync.b32 $0|p, $2, $4; selp.b32 $1, 1, 0, p;}",
    )
    generator = np.random.default_rng(6)
    x = words(generator, 4) << np.uint32(20)
    same = np.where(np.arange(LANES) < 32, 5, x).astype(np.uint32)
    for members in MEMBERS:
        member = [lane for lane in range(32) if members >> lane & 1]
        for kernel in KERNELS:
            out, _ = run(kernel, any_, x, x, members)
            for warp in range(WARPS):
                expected = meaning.match_any(x[32 * warp : 32 * warp + 32], members)
                assert out[warp][member].tolist() == expected[member].tolist()
            out, held = run(kernel, all_, same, same, members)
            for warp in range(WARPS):
                word, is_same = meaning.match_all(same[32 * warp : 32 * warp + 32], members)
                assert set(out[warp].tolist()) == {word}
                assert set(held[warp].tolist()) == {int(is_same)}


REDUCTIONS = [
    *((what, type_) for what in ("add", "min", "max") for type_ in ("s32", "u32")),
    *((what, "b32") for what in ("and", "or", "xor")),
]


@pytest.mark.parametrize(("what", "type_"), REDUCTIONS)
def test_reductions_combine_those_that_have_a_say(what: str, type_: str) -> None:
    x = words(np.random.default_rng(8))
    kernel = KERNELS[type_ == "u32"]
    asm = f"redux.sync.{what}.{type_} $0, $2, $4; mov.u32 $1, 0;"
    for members in MEMBERS:
        out, _ = run(kernel, asm, x, x, members)
        for warp in range(WARPS):
            part = x[32 * warp : 32 * warp + 32]
            held = part.view(INT) if type_ == "s32" else part
            expected = meaning.redux(what, held, members) & 0xFFFFFFFF
            assert set(out[warp].tolist()) == {expected}


def test_the_first_member_is_elected() -> None:
    asm = "{.reg .pred p; elect.sync $0|p, $4; selp.b32 $1, 1, 0, p;}"
    none = np.zeros(LANES, np.uint32)
    for members in MEMBERS:
        out, elected = run(two_operands, asm, none, none, members)
        first = (members & -members).bit_length() - 1
        assert out.tolist() == [[first] * 32] * WARPS
        assert elected.tolist() == [[int(lane == first) for lane in range(32)]] * WARPS


@triton.jit
def of_alike(x, out, asm: tl.constexpr):
    # All threads have one number: the result is one, too, which a tile can use.
    got = tl.inline_asm_elementwise(
        asm, "=r,r", [tl.load(x)], dtype=tl.int32, is_pure=False, pack=1
    )
    tl.store(out + tl.arange(0, 4), got + tl.arange(0, 4))


@pytest.mark.parametrize(
    ("asm", "expected"),
    [
        ("shfl.sync.bfly.b32 $0, $1, 3, 31, 0xffffffff;", 6),
        ("redux.sync.add.s32 $0, $1, 0xff;", 48),
        ("redux.sync.xor.b32 $0, $1, 0x7;", 6),
        ("redux.sync.xor.b32 $0, $1, 0x3;", 0),
        ("redux.sync.max.s32 $0, $1, 0x3;", 6),
        ("match.any.sync.b32 $0, $1, 0x55;", 0x55),
        ("{.reg .pred p; setp.gt.s32 p, $1, 5; vote.sync.ballot.b32 $0, p, 0xf0;}", 0xF0),
        ("{.reg .pred p; setp.gt.s32 p, $1, 6; vote.sync.ballot.b32 $0, p, 0xf0;}", 0),
        ("activemask.b32 $0;", -1),
        ("vote.ballot.b32 $0, 1;", -1),
        ("bar.warp.sync 0xffffffff; mov.b32 $0, $1;", 6),
    ],
)
def test_what_all_threads_have_alike_is_a_scalar(asm: str, expected: int) -> None:
    out = np.zeros(4, INT)
    of_alike[(1,)](np.array([6], INT), out, asm)
    assert out.tolist() == [expected + i for i in range(4)]


@triton.jit
def asks(x, out, asm: tl.constexpr):
    index = thread_index(0)
    got = tl.inline_asm_elementwise(
        asm, "=r,r", [tl.load(x + index)], dtype=tl.int32, is_pure=False, pack=1
    )
    tl.store(out + index, got)


@triton.jit
def asks_of_a_tile(x, out, asm: tl.constexpr):
    tile = tl.load(x + tl.arange(0, 32))
    got = tl.inline_asm_elementwise(asm, "=r,r", [tile], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + tl.arange(0, 32), got)


@triton.jit
def asks_in_a_branch(x, out, asm: tl.constexpr):
    index = thread_index(0)
    if index < 3:
        got = tl.inline_asm_elementwise(
            asm, "=r,r", [tl.load(x + index)], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.store(out + index, got)


@triton.jit
def asks_in_a_region(x, out, asm: tl.constexpr):
    with simt_exec_region() as (index, _size):
        got = tl.inline_asm_elementwise(
            asm, "=r,r", [tl.load(x + index)], dtype=tl.int32, is_pure=False, pack=1
        )
        tl.store(out + index, got)


SHUFFLE = "shfl.sync.idx.b32 $0, $1, 0, 31, 0xffffffff;"
REFUSED = [
    (asks_of_a_tile, SHUFFLE, "but got a tile"),
    (asks_in_a_branch, SHUFFLE, "a shuffle of a warp's threads must stand where all threads"),
    (asks_in_a_region, SHUFFLE, "nor in a region of threads"),
    (
        asks_in_a_branch,
        "bar.warp.sync 1; mov.b32 $0, $1;",
        "a barrier of a warp's threads must stand",
    ),
    (asks_in_a_branch, "redux.sync.add.s32 $0, $1, 1;", "a reduction of a warp's threads"),
    (asks, "shfl.sync.idx.b32 $0, $1, 0, $1, 0xffffffff;", "third operand"),
    (asks, "shfl.sync.idx.b64 $0, $1, 0, 31, 0xffffffff;", "the type"),
    (asks, "shfl.sync.b32 $0, $1, 0, 31, 0xffffffff;", "the mode"),
    (asks, "shfl.sync.idx.b32 $0, $1, 0, 31;", "the number of operands"),
    (asks, "vote.sync.most.pred $0, $1, 1;", "the vote"),
    (asks, "match.none.sync.b32 $0, $1, 1;", "the comparison"),
    (asks, "redux.sync.mul.s32 $0, $1, 1;", "the reduction"),
    (asks, "redux.sync.add.f32 $0, $1, 1;", "the type"),
    (asks, "{.reg .pred p; redux.sync.add.s32 $0|p, $1, 1;}", "the second destination"),
    (
        asks,
        "{.reg .pred p; setp.eq.s32 p, $1, 1; @p redux.sync.add.s32 $0, $1, 1;}",
        "the predicate",
    ),
]


@pytest.mark.parametrize(("kernel", "asm", "text"), REFUSED)
def test_what_has_no_meaning_is_refused(kernel: Any, asm: str, text: str) -> None:
    with pytest.raises(triton.CompilationError) as caught:
        kernel[(1,)](np.zeros(32, INT), np.zeros(32, INT), asm, num_warps=1)
    assert re.search(text, str(caught.value)), caught.value


def test_random_masks_and_values_agree_with_the_reference() -> None:
    generator = np.random.default_rng(7)
    asm = (
        "{.reg .pred p; and.b32 $1, $3, 31; setp.gt.u32 p, $2, $1; "
        "vote.sync.ballot.b32 $0, p, 0xffffffff; shfl.sync.bfly.b32 $1, $2, $1, 31, 0xffffffff;}"
    )
    for _ in range(10):
        x, y = words(generator, 64), words(generator)
        out, read = run(two_operands, asm, x, y)
        for warp in range(WARPS):
            part = slice(32 * warp, 32 * warp + 32)
            limits = y[part] & 31
            assert set(out[warp].tolist()) == {meaning.ballot(x[part] > limits, 0xFFFFFFFF)}
            found, _ = meaning.shfl("bfly", x[part], limits, 31)
            assert read[warp].tolist() == found.view(INT).tolist()
