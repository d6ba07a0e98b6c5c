"""Tensors and tuples, and how they consist of values of the IR."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from language_harness import emit, evaluate, value

import emu.triton.language as tl
from emu.triton.language.constants import unwrap


def test_tensors_say_what_they_are() -> None:
    x = value("fp16", (4, 8))
    assert (str(x), x.dtype, x.numel.value) == ("fp16[4, 8]", tl.float16, 32)
    assert x.type == tl.block_type(tl.float16, [4, 8])
    assert [s.value for s in x.shape] == [4, 8]
    assert isinstance(x.shape[0], tl.constexpr)
    assert len(x.shape) == 2
    assert [unwrap(s) for s in [*x.shape[:-1], 2]] == [4, 2]
    assert (x.shape == [4, 8]).value
    assert value("int1").shape.values == []


def test_shapes_can_be_built_of_shapes() -> None:
    def double(x: Any) -> Any:
        twice = [2 * x.shape[-1]]
        return tl.zeros(x.shape[:-1] + twice, x.dtype), x.reshape(x.shape[::-1])

    wide, turned = evaluate(double, np.zeros((2, 4), np.float16))
    assert (wide.shape, turned.shape) == ((2, 8), (4, 2))


def test_tuples() -> None:
    x = value("fp32", (4,))
    t = tl.tuple([1, x, tl.constexpr(3)])
    assert len(t) == 3
    assert t[1] is x
    assert t[tl.constexpr(0)] == 1
    assert t[1:][0] is x
    assert [*t[tl.slice(0, 1, None)]] == [1]
    two = (4, 5)
    assert len(t + two) == 5
    assert len(two + t) == 5
    assert len(t * tl.constexpr(2)) == 6
    assert t.type.types == [tl.constexpr_type(1), x.type, tl.constexpr_type(3)]
    assert (tl.tuple([1, 2]) == (1, tl.constexpr(2))).value
    assert (tl.tuple([1, 2]) != [1, 3]).value
    with pytest.raises(TypeError, match="index of a tuple must be an int"):
        _ = t[value("int32")]


Pair = namedtuple("Pair", ["first", "second"])


def test_named_tuples_keep_their_fields() -> None:
    t = tl.tuple([1, 2], tl.tuple_type([tl.int32, tl.int32], ["left", "right"]))
    assert (t.left, t.right) == (1, 2)
    named = tl.tuple(Pair(3, tl.constexpr(4)))
    assert (named.first, named.second.value) == (3, 4)
    assert named.type.fields == ["first", "second"]
    with pytest.raises(AttributeError, match="no attribute 'middle'"):
        _ = t.middle


def test_values_are_flattened_and_put_together_again() -> None:
    x, y, z = value("fp32", (4,)), value("int32"), value("*fp16")
    void, _ = emit(lambda p: tl.store(p, 1), value("*int32"))
    nested = (x, tl.constexpr(3), tl.tuple([y, (z, None), [x]]), Pair(y, 5), void)
    flat = tl.flatten(nested)
    assert flat == [x.handle, y.handle, z.handle, x.handle, y.handle]
    others = [value("fp32", (4,)).handle, *(value("int32").handle for _ in range(4))]
    again = tl.unflatten(nested, others)
    assert tl.flatten(again) == others
    assert isinstance(again, tuple)
    assert again[1].value == 3
    assert isinstance(again[2], tl.tuple)
    assert again[2][1][1] is None
    assert again[3].first.handle is others[4]
    assert again[0].type == x.type
    with pytest.raises(ValueError, match="values must be"):
        tl.unflatten(nested, others[:-1])
    with pytest.raises(ValueError, match="values must be 5, but got 6"):
        tl.unflatten(nested, [*others, others[0]])
    assert tl.flatten(tl.constexpr(3)) == []
