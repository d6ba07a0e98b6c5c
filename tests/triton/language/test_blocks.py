"""Blocks of tensors in memory: addresses of their elements, and which lie inside of the tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from language_harness import Pointer, Scalar, emit, evaluate, value

import emu.triton.language as tl
from emu.tile.ops import Code
from emu.triton.language import blocks

FAR = (-(2**31), -(2**31) + 3, 2**31 - 5, 2**31 - 1)


@st.composite
def _placed(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    rank = draw(st.integers(1, 4))
    block = [draw(st.sampled_from([1, 2, 4, 8])) for _ in range(rank)]
    extents = [draw(st.integers(1, 9)) for _ in range(rank)]
    starts = [draw(st.integers(-9, 10) | st.sampled_from(FAR)) for _ in range(rank)]
    return block, extents, starts


def _inside(block: list[int], extents: list[int], starts: list[int]) -> np.ndarray[Any, Any]:
    places = np.indices(block)
    found = np.ones(block, bool)
    for axis, (extent, start) in enumerate(zip(extents, starts, strict=True)):
        at = places[axis].astype(np.int64) + start
        found &= (at >= 0) & (at < extent)
    return found


@settings(deadline=None, max_examples=60)
@given(_placed(), st.booleans(), st.booleans())
def test_a_mask_says_what_is_inside(
    placed: tuple[list[int], list[int], list[int]], known: bool, native: bool
) -> None:
    block, extents, starts = placed

    def where(*numbers: Any) -> Any:
        if known:
            numbers = tuple(blocks.scalars("n", [*extents, *starts], tl.int32))
        rank = len(block)
        mask = blocks.mask(numbers[:rank], numbers[rank:], tuple(block))
        all_ = tl.full(block, True, tl.int1)
        return all_ if mask is None else all_ & mask

    given_ = [Scalar(n, "int32") for n in (*extents, *starts)]
    found = evaluate(where, *given_, native=native)
    np.testing.assert_array_equal(found, _inside(block, extents, starts))


def test_a_mask_of_some_axes_leaves_the_others_out() -> None:
    def where(axes: Any) -> Any:
        numbers = blocks.scalars("n", (3, 3), tl.int32), blocks.scalars("n", (-1, 2), tl.int32)
        mask = blocks.mask(*numbers, (4, 4), axes)
        return tl.full((4, 4), True, tl.int1) if mask is None else tl.broadcast_to(mask, (4, 4))

    rows, columns = np.array([0, 1, 1, 1], bool)[:, None], np.array([1, 0, 0, 0], bool)
    both = np.ones((4, 4), bool)
    np.testing.assert_array_equal(evaluate(lambda: where([0])), rows & both)
    np.testing.assert_array_equal(evaluate(lambda: where([1])), columns & both)
    np.testing.assert_array_equal(evaluate(lambda: where([])), both)


def test_what_is_known_to_be_inside_needs_no_mask() -> None:
    def mask(extents: Any, starts: Any, shape: Any) -> Any:
        numbers = (blocks.scalars("n", given, tl.int32) for given in (extents, starts))
        return blocks.mask(*numbers, shape)

    assert emit(lambda: mask((8, 1), (4, 0), (4, 1)))[0] is None
    assert emit(lambda: mask((8, 1), (5, 0), (4, 1)))[0] is not None
    assert emit(lambda: mask((8, 1), (4, 1), (4, 1)))[0] is not None


def test_only_scalars_depend_on_where_a_block_begins() -> None:
    def work(p: Any, m: Any, n: Any, stride: Any, i: Any, j: Any) -> Any:
        at = blocks.pointers(p, (stride, blocks.scalar("one", 1, tl.int64)), (i, j), (4, 64))
        return tl.load(at, blocks.mask((m, n), (i, j), (4, 64)))

    numbers = [Scalar(4, "int32")] * 2 + [Scalar(64, "int64")] + [Scalar(0, "int32")] * 2
    _, module = emit(work, Pointer(np.zeros((4, 64), np.float32)), *numbers)
    tiles = [o for o in module.kernel.body.walk() if o.results and o.result.shape]
    adding = [o for o in tiles if o.code is Code.ADD]
    assert not adding
    assert sum(o.code in (Code.LT, Code.GE) for o in tiles) == 4


def test_integers_are_checked_and_named() -> None:
    cases: list[tuple[type[Exception], str, Any]] = [
        (TypeError, "n must be a list or tuple, but got 3", lambda: blocks.sequence("n", 3)),
        (TypeError, r"n\[1\] must be an integer", lambda: blocks.scalars("n", (1, 2.5), tl.int32)),
        (
            TypeError,
            "n must be a list or tuple, but got 'a'",
            lambda: blocks.scalars("n", "a", tl.int32),
        ),
        (
            TypeError,
            "n must be an integer .* inf",
            lambda: blocks.scalar("n", float("inf"), tl.int32),
        ),
        (TypeError, "n must be an integer .* None", lambda: blocks.scalar("n", None, tl.int32)),
        (TypeError, "n must be an integer", lambda: blocks.scalar("n", value("fp32"), tl.int32)),
        (
            TypeError,
            "n must be an integer .* got int32",
            lambda: blocks.scalar("n", value("int32", (2,)), tl.int32),
        ),
        (ValueError, "n must fit into int32", lambda: blocks.scalar("n", 2**31, tl.int32)),
        (
            TypeError,
            r"n\[0\] must be an int that is known at compile time, but got int32\[\]",
            lambda: blocks.constants("n", (value("int32"),)),
        ),
        (TypeError, r"n\[0\] must be an int that is known", lambda: blocks.constants("n", (True,))),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)


def test_constants_are_known() -> None:
    assert emit(lambda: blocks.constants("n", (4, tl.constexpr(8))))[0] == (4, 8)
    assert emit(lambda: blocks.constants("n", tl.tuple([tl.full((), 2, tl.int32)])))[0] == (2,)
    assert emit(lambda: blocks.known(tl.program_id(0)))[0] is None
