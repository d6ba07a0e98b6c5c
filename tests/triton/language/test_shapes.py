"""Shapes: every function against NumPy's of the same meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import Scalar, emit, evaluate, value

import emu.triton.language as tl

X = np.arange(32, dtype=np.int32).reshape(2, 4, 4)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: x[:, None], X[:, None]),
        (lambda x: x[None], X[None]),
        (lambda x: x[None, :, :, None, :], X[None, :, :, None, :]),
        (lambda x: x[:, :, :], X),
        (lambda x: x[tl.constexpr(None), tl.slice(None, None, None)], X[None]),
        (lambda x: x.expand_dims(-1), X[..., None]),
        (lambda x: tl.expand_dims(x, (0, 2)), X[None, :, None]),
        (lambda x: tl.unsqueeze(x, -2), X[:, :, None]),
        (lambda x: tl.squeeze(x[:, None], 1), X),
        (lambda x: tl.reshape(x, 8, 4), X.reshape(8, 4)),
        (lambda x: tl.reshape(x, (tl.constexpr(8), 4)), X.reshape(8, 4)),
        (lambda x: x.reshape([32], can_reorder=True), X.reshape(32)),
        (lambda x: x.view(4, 8), X.reshape(4, 8)),
        (lambda x: x.ravel(), X.ravel()),
        (lambda x: tl.ravel(x), X.ravel()),
        (lambda x: x.permute(2, 0, 1), X.transpose(2, 0, 1)),
        (lambda x: tl.permute(x, (1, 0, 2)), X.transpose(1, 0, 2)),
        (lambda x: tl.trans(x), X.transpose(0, 2, 1)),
        (lambda x: x.trans(1, 2, 0), X.transpose(1, 2, 0)),
        (lambda x: x.T, X.transpose(0, 2, 1)),
        (lambda x: x.flip(), X[..., ::-1]),
        (lambda x: tl.flip(x, 0), X[::-1]),
        (lambda x: tl.flip(x, -2), X[:, ::-1]),
        (lambda x: tl.broadcast_to(x[:, None], 2, 8, 4, 4), np.repeat(X[:, None], 8, 1)),
        (lambda x: tl.join(x, x + 1), np.stack([X, X + 1], -1)),
        (lambda x: tl.join(x, 7), np.stack([X, X * 0 + 7], -1)),
        (lambda x: tl.interleave(x, -x), np.stack([X, -X], -1).reshape(2, 4, 8)),
        (lambda x: tl.cat(x, x + 1), np.concatenate([X, X + 1])),
        (lambda x: tl.cat(x, x + 1, can_reorder=True), np.concatenate([X, X + 1])),
        (lambda x: tl.cat(x, x + 1, dim=-1), np.concatenate([X, X + 1], -1)),
    ],
)
def test_functions_of_shape(function: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(evaluate(function, X), wanted)


def test_split_undoes_join() -> None:
    first, second = evaluate(lambda x: tl.split(tl.join(x, x * 2)), X)
    np.testing.assert_array_equal(first, X)
    np.testing.assert_array_equal(second, 2 * X)
    low, high = evaluate(lambda x: x.split(), np.array([3, 4], np.float16))
    assert (low.shape, low, high) == ((), 3, 4)


def test_interleaving_scalars_gives_two() -> None:
    got = evaluate(lambda: tl.interleave(tl.to_tensor(1), tl.to_tensor(2)))
    np.testing.assert_array_equal(got, [1, 2])


def test_broadcast_gives_both() -> None:
    rows, columns = X[0, :, :1], X[1, :1]
    a, b = evaluate(tl.broadcast, np.ascontiguousarray(rows), np.ascontiguousarray(columns))
    wanted = np.broadcast_arrays(rows, columns)
    np.testing.assert_array_equal(a, wanted[0])
    np.testing.assert_array_equal(b, wanted[1])
    got = evaluate(lambda s: tl.broadcast_to(s, (2, 4)), Scalar(3, "int8"))
    np.testing.assert_array_equal(got, np.full((2, 4), 3, np.int8))


def test_one_element_becomes_a_scalar() -> None:
    for function in (lambda x: x.reshape(()), lambda x: x.item(), lambda x: tl.reshape(x, [])):
        got = evaluate(function, np.array([[5]], np.int32))
        assert (got.shape, got) == ((), 5)
    with pytest.raises(ValueError, match=r"one element has an item, but got fp32\[2\]"):
        emit(lambda x: x.item(), value("fp32", (2,)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_picks_along_an_axis(axis: int) -> None:
    rng = np.random.default_rng(0)
    shape = [4, 8]
    shape[axis] = 16
    source, index = rng.normal(size=(4, 8)), rng.integers(0, (4, 8)[axis], shape).astype(np.int32)
    got = evaluate(lambda s, i: tl.gather(s, i, axis), source, index)
    np.testing.assert_array_equal(got, np.take_along_axis(source, index, axis))


def test_bad_shapes_are_named() -> None:
    x = value("fp32", (4, 8))
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, r"cannot reshape fp32\[4, 8\] to shape \(16,\)", lambda: x.reshape(16)),
        (ValueError, "Shape element 0 must be a power of 2", lambda: tl.zeros((3,), tl.int32)),
        (ValueError, "must have at most 1048576", lambda: tl.zeros((2048, 1024), tl.int32)),
        (TypeError, "known at compile time", lambda: tl.zeros((value("int32"),), tl.int32)),
        (ValueError, "arange's range must be a power of 2", lambda: tl.arange(0, 3)),
        (ValueError, "end of arange must be above", lambda: tl.arange(4, 4)),
        (TypeError, "end of arange must be an int known", lambda: tl.arange(0, value("int32"))),
        (ValueError, "start of arange must fit int32", lambda: tl.arange(2**31, 2**31 + 2)),
        (ValueError, "ranks are 2 and 3", lambda: tl.broadcast_to(x, (2, 4, 8))),
        (ValueError, "extent 4 of axis 0 is neither 1", lambda: tl.broadcast_to(x, 8, 8)),
        (ValueError, r"invalid axis 3: axis must be in \[-3, 3\)", lambda: x.expand_dims(3)),
        (ValueError, "axis must name different axes", lambda: tl.expand_dims(x, (0, -4))),
        (ValueError, "dim must be an axis of extent 1", lambda: tl.squeeze(x, 0)),
        (ValueError, "dims must name each of the 2 axes", lambda: x.permute(0, 0)),
        (ValueError, "trans needs a tensor of at least two", lambda: value("fp32", (4,)).trans()),
        (ValueError, r"last extent is 2, but got fp32\[4, 8\]", lambda: x.split()),
        (TypeError, "join needs tensors of one dtype", lambda: tl.join(x, value("int32"))),
        (ValueError, "cat needs tensors of one shape", lambda: tl.cat(x, value("fp32", (4, 4)))),
        (TypeError, "index must be a tensor of integers", lambda: tl.gather(x, x, 0)),
        (
            ValueError,
            "index must have the shape of src but along axis 0",
            lambda: tl.gather(x, value("int32", (2, 4)), 0),
        ),
        (
            TypeError,
            "unsupported tensor index: it must consist of ':' and None, but got 1",
            lambda: x[1],
        ),
        (TypeError, "must consist of ':' and None", lambda: x[0:2, :]),
        (ValueError, r"too many indices for fp32\[4, 8\] of rank 2: 3", lambda: x[:, :, :]),
        (TypeError, "dtype must be a dtype", lambda: tl.full((2,), 0, 7)),
        (TypeError, "a constant of int32 must be an integer", lambda: tl.full((2,), 1.5, tl.int32)),
        (ValueError, "a constant of int8 must be in", lambda: tl.full((2,), 300, tl.int8)),
        (TypeError, "value must be a number", lambda: tl.full((2,), "x", tl.int8)),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)


def test_whole_axes_of_a_scalar_name_nothing() -> None:
    got = evaluate(lambda x: tl.sum(x)[None, None, :] + 0, np.arange(4, dtype=np.int32))
    np.testing.assert_array_equal(got, [[6]])
