"""Quantisation in device memory, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from campaigns import TIMES
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.cuda.arrays import to_device
from emu.kernels.cuda.quant import dequantize, quant_scatter, quantize
from emu.kernels.errors import ArgumentError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
VALUES = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32)]
ZEROS = [*VALUES, np.dtype(np.int32), np.dtype(np.int8)]
COMBINATIONS = [(BFLOAT16, BFLOAT16, BFLOAT16), (np.float16, np.float32, np.int32)]


def widened(array):
    with np.errstate(all="ignore"):
        return array.astype(np.float32)


def quantised(x, scales, zeros, *, multiply=False):
    """The reference; scales and zeros broadcast against x."""
    with np.errstate(all="ignore"):
        x, scales = widened(x), widened(scales)
        value = x * scales if multiply else x / scales
        value = value + (np.float32(0) if zeros is None else widened(zeros))
        whole = np.clip(np.rint(value), -128, 127)
        return np.where(np.isnan(whole), 0, whole).astype(np.int8)


def restored(q, scales, zeros, dtype):
    with np.errstate(all="ignore"):
        zeros = np.float32(0) if zeros is None else widened(zeros)
        return ((q.astype(np.float32) + zeros) * widened(scales)).astype(dtype)


def values(rng, shape, dtype):
    """Numbers around the range of int8, and some of every kind of bits."""
    x = (rng.normal(size=shape) * 90).astype(dtype)
    wild = rng.integers(0, 256, x.size * dtype.itemsize, np.uint8).view(dtype).reshape(shape)
    return np.where(rng.random(shape) < 0.2, wild, x)


def channels(rng, n, dtype, zero=False):
    if zero:
        return rng.integers(-20, 20, n).astype(dtype)
    return rng.choice([0.5, 1, 2, 0.126, 3.1, -0.7, 0.0], n).astype(dtype)


def same(found, expected):
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(widened(found), widened(expected))


@pytest.mark.parametrize(
    ("u", "s", "q"),
    [
        (1.3203125, 0.203125, 6),  # the product with the reciprocal gives 7
        (1.1953125, 0.12597656, 9),  # a quotient rounded to bf16 gives 10
        (1.0625, 0.125, 8),  # half goes to even
        (np.nan, 1, 0),
        (np.inf, 1, 127),
        (-np.inf, 1, -128),
        (1, 0, 127),
        (0, 0, 0),
    ],
)
@pytest.mark.parametrize("n", [1, 8], ids=["one", "eight"])
def test_one_number(u, s, q, n):
    x = to_device(np.full(n, u, BFLOAT16))
    assert quantize(x, to_device(np.array(s, BFLOAT16))).copy_to_host().tolist() == [q] * n


def test_plain_numbers_are_scales_and_zero_points():
    x = np.linspace(-3, 3, 11, dtype=np.float32)
    for scale, zero in ((0.5, 3), (np.float32(0.25), np.int8(-2)), (np.float16(2), 0.5)):
        q = quantize(to_device(x), scale, zero)
        expected = quantised(x, np.float32(scale), np.float32(zero))
        same(q.copy_to_host(), expected)
        back = dequantize(q, scale, zero).copy_to_host()
        same(back, restored(expected, np.float32(scale), np.float32(zero), np.float32))
    assert quantize(to_device(np.array(7.6, np.float32)), 2).copy_to_host() == 4


def test_a_product_and_a_sum_are_rounded_one_by_one():
    # Fused, 4097 * 4097 - 16785408 would be 1 rather than 0.
    x, one = np.full(8, 4097, np.float32), np.array([4097], np.float32)
    zero = np.array([-16785408], np.int32)
    found = quantize(to_device(x), to_device(one), to_device(zero), multiply=True)
    assert found.copy_to_host().tolist() == [0] * 8


@settings(deadline=None, max_examples=48 * TIMES)
@given(
    shape=st.one_of(
        st.lists(st.integers(1, 5), min_size=1, max_size=5),
        st.sampled_from([[3, 16], [2, 24], [77], [8], [16, 3], [1, 2, 1, 2, 1, 2, 1, 2]]),
    ),
    data=st.data(),
    seed=st.integers(0, 1000),
)
def test_any_axis_dtype_and_layout(shape, data, seed):
    rng, shape = np.random.default_rng(seed), tuple(shape)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    kind, scale_kind = (data.draw(st.sampled_from(VALUES)) for _ in range(2))
    zero_kind = data.draw(st.sampled_from([None, *ZEROS]))
    multiply, single, permuted = (data.draw(st.booleans()) for _ in range(3))
    x = values(rng, shape, kind)
    single_zero = data.draw(st.booleans())
    scales = channels(rng, 1 if single else shape[axis], scale_kind)
    zeros = None
    if zero_kind is not None:
        zeros = channels(rng, 1 if single_zero else shape[axis], zero_kind, zero=True)
    along = [1] * len(shape)
    along[axis] = -1
    wide = scales.reshape(along), None if zeros is None else zeros.reshape(along)
    expected = quantised(x, *wide, multiply=multiply)

    order = rng.permutation(len(shape)) if permuted else np.arange(len(shape))
    back = np.argsort(order).tolist()
    device = to_device(x.transpose(order)).transpose(*back)
    parts = to_device(scales), None if zeros is None else to_device(zeros)
    found = quantize(device, *parts, axis=axis, multiply=multiply)
    same(found.copy_to_host(), expected)

    out = to_device(np.zeros([2 * n for n in shape], kind))
    view = out[tuple(slice(1, None, 2) if permuted else slice(n) for n in shape)]
    if view.shape == shape:
        assert dequantize(found, *parts, axis=axis, dtype=kind, out=view) is view
        same(view.copy_to_host(), restored(expected, *wide, kind))
    same(
        dequantize(found, *parts, axis=axis, dtype=kind).copy_to_host(),
        restored(expected, *wide, kind),
    )


def scattered(target, indices, updates, scales, zeros, axis):
    """The reference, one update after another."""
    result, axis = target.copy(), axis % target.ndim
    rows = quantised(updates, scales, zeros)
    for i, entry in enumerate(indices.tolist()):
        batch, start = (i, entry) if indices.ndim == 1 else entry
        box = [slice(None)] * target.ndim
        box[axis] = slice(start, start + updates.shape[axis])
        box[0] = batch
        result[tuple(box)] = rows[i]
    return result


EXAMPLE = np.array(
    [[1, 1.25, 1.75, -1.25, 2.5, -2.5, 100, -100], [0.5, 1.5, 2.5, 3.5, 4.5, -0.5, -1.5, -2.5]]
)


@pytest.mark.parametrize(
    ("indices", "zero", "rows"),
    [
        (
            [2, 0],
            None,
            {(0, 2): [2, 2, 4, -2, 2, -2, 127, -128], (1, 0): [1, 3, 5, 7, 4, 0, -3, -5]},
        ),
        (
            [[1, 3], [0, 1]],
            None,
            {(1, 3): [2, 2, 4, -2, 2, -2, 127, -128], (0, 1): [1, 3, 5, 7, 4, 0, -3, -5]},
        ),
        ([2, 0], 0.5, {(0, 2): [2, 3, 4, -2, 3, -2, 127, -128]}),
    ],
)
def test_the_worked_example(indices, zero, rows):
    target = to_device(np.zeros((2, 4, 8), np.int8))
    scales = np.array([0.5, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5], BFLOAT16)
    zeros = None if zero is None else to_device(np.full(8, zero, BFLOAT16))
    updates = to_device(EXAMPLE.reshape(2, 1, 8).astype(BFLOAT16))
    where = to_device(np.array(indices, np.int32))
    quant_scatter(target, where, updates, to_device(scales), zeros, align=8)
    found = target.copy_to_host()
    for place, row in rows.items():
        assert found[place].tolist() == row
        found[place] = 0
    if len(rows) == 2:
        assert not found.any()


@settings(deadline=None, max_examples=32 * TIMES)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_a_scatter_of_any_shape(data, seed):
    rng = np.random.default_rng(seed)
    rank = data.draw(st.integers(3, 8))
    axis = data.draw(st.integers(1, rank - 2))
    shape = [int(rng.integers(1, 4)) for _ in range(rank)]
    shape[axis] = int(rng.integers(1, 9))
    shape[-1] = data.draw(st.sampled_from([1, 5, 8, 32]))
    length = data.draw(st.integers(1, shape[axis]))
    pairs = data.draw(st.booleans())
    if pairs:  # places on a grid of segments cannot overlap
        places = [(b, k * length) for b in range(shape[0]) for k in range(shape[axis] // length)]
        n = data.draw(st.integers(0, len(places)))
        indices = np.array(places)[rng.permutation(len(places))[:n]].reshape(n, 2)
    else:
        n = data.draw(st.integers(0, shape[0]))
        indices = rng.integers(0, shape[axis] - length + 1, n)
    indices = indices.astype(data.draw(st.sampled_from([np.int32, np.int64])))
    kind, scale_kind, zero_kind = map(np.dtype, data.draw(st.sampled_from(COMBINATIONS)))
    extents = [n, *shape[1:]]
    extents[axis] = length
    updates = values(rng, tuple(extents), kind)
    scales = channels(rng, shape[-1], scale_kind)
    zeros = channels(rng, shape[-1], zero_kind, zero=True) if data.draw(st.booleans()) else None
    whole = rng.integers(-128, 128, [*shape[:1], *(n + 1 for n in shape[1:-1]), shape[-1]], np.int8)
    inside = (slice(None), *(slice(1, None) for _ in shape[1:-1]), slice(None))
    turned = data.draw(st.booleans())
    if turned:
        inside = (slice(None, None, -1), *inside[1:-1], slice(None, None, -1))
    expected = whole.copy()
    expected[inside] = scattered(whole[inside], indices, updates, scales, zeros, axis)
    device = to_device(whole)
    quant_scatter(
        device[inside],
        to_device(indices),
        to_device(updates.swapaxes(0, 1)).transpose(1, 0, *range(2, rank)),
        to_device(scales),
        None if zeros is None else to_device(zeros),
        axis=data.draw(st.sampled_from([axis, axis - rank])),
        quant_axis=data.draw(st.sampled_from([-1, rank - 1])),
        align=data.draw(st.sampled_from([1, None])),
    )
    np.testing.assert_array_equal(device.copy_to_host(), expected)


def test_where_updates_overlap_the_last_one_wins_if_allowed():
    rng = np.random.default_rng(3)
    target = rng.integers(-128, 128, (2, 20, 32), np.int8)
    updates = values(rng, (9, 4, 32), BFLOAT16)
    indices = np.array([[0, 3], [1, 3], [0, 5], [0, 2], [1, 16], [0, 16], [0, 12], [0, 3], [1, 0]])
    scales = channels(rng, 32, BFLOAT16)
    device = to_device(target)
    arguments = [to_device(array) for array in (indices, updates, scales)]
    with pytest.raises(
        ArgumentError, match=r"^indices must give segments that do not overlap, .* rows 0 and"
    ):
        quant_scatter(device, *arguments)
    np.testing.assert_array_equal(device.copy_to_host(), target)
    quant_scatter(device, *arguments, overlap="last")
    expected = scattered(target, indices, updates, scales, None, 1)
    np.testing.assert_array_equal(device.copy_to_host(), expected)


def scatter_arguments(**change):
    found = {
        "target": np.ones((3, 6, 32), np.int8),
        "indices": np.array([0, 4]),
        "updates": np.ones((2, 2, 32), np.float16),
        "scales": np.ones(32, np.float32),
        "zero_points": np.zeros(32, np.int32),
        **change,
    }
    return {
        name: to_device(value) if isinstance(value, np.ndarray) else value
        for name, value in found.items()
    }


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"target": np.ones((3, 6, 32), np.uint8)}, "^target must have dtype int8, but got uint8"),
        ({"target": np.ones((6, 32), np.int8)}, "^target must have 3 to 8 axes, but got shape"),
        ({"updates": np.ones((2, 2, 32), np.float32)}, "^updates must be bfloat16 or float16"),
        ({"updates": np.ones((2, 32), np.float16)}, "^updates must have 3 axes as target has"),
        ({"updates": np.ones((3, 2, 32), np.float16)}, "^updates must have 2 rows, one for each"),
        ({"updates": np.ones((2, 7, 32), np.float16)}, "^updates must have an extent of at most 6"),
        ({"updates": np.ones((2, 2, 31), np.float16)}, "^updates must have the extent 32 along"),
        ({"indices": np.array([0.0, 4.0])}, "^indices must be int32 or int64, but got float64"),
        ({"indices": np.zeros((2, 3), np.int32)}, r"^indices must have shape \[n\] or \[n, 2\]"),
        ({"indices": np.array([0, 5])}, r"^indices must be in 0..4, but got 5 in row 1"),
        ({"indices": np.array([-1, 0])}, r"^indices must be in 0..4, but got -1 in row 0"),
        ({"indices": np.array([[0, 0], [3, 0]])}, r"^indices\[:, 0\] must be in 0..2, but got 3"),
        ({"indices": np.array([[0, 0], [0, 5]])}, r"^indices\[:, 1\] must be in 0..4, but got 5"),
        (
            {"indices": np.array([[0, 0], [0, 1]])},
            r"^indices must give .* rows 0 and 1 at \[0, 0\]",
        ),
        ({"scales": np.ones(31, np.float32)}, "^scales must have 32 elements, one for each"),
        ({"scales": np.ones(1, np.float32)}, "^scales must have 32 elements, one for each"),
        ({"scales": np.ones(32, np.float16)}, "^scales must be float32 for float16 updates"),
        ({"zero_points": np.ones(3, np.int32)}, "^zero_points must have 32 elements"),
        ({"zero_points": np.ones(32, np.int8)}, "^zero_points must be int32 for float16 updates"),
        ({"axis": 0}, "^axis must be neither the first nor the last of 3 axes .*, but got 0"),
        ({"axis": -1}, "^axis must be neither the first nor the last of 3 axes .*, but got -1"),
        ({"axis": 2}, "^axis must be neither the first nor the last of 3 axes .*, but got 2"),
        ({"axis": -3}, "^axis must be neither the first nor the last of 3 axes .*, but got -3"),
        ({"quant_axis": 1}, "^quant_axis must be the last of 3 axes"),
        ({"align": 64}, "^updates must have a last extent that is a multiple of 64"),
        ({"align": 0}, "^align must be at least 1 or None, but got 0"),
        ({"overlap": "first"}, "^overlap must be 'refuse' or 'last', but got 'first'"),
    ],
)
def test_arguments_of_a_scatter_that_are_not_so_are_refused(change, match):
    arguments = scatter_arguments(**change)
    before = arguments["target"].copy_to_host()
    with pytest.raises(ArgumentError, match=match):
        quant_scatter(**arguments)
    np.testing.assert_array_equal(arguments["target"].copy_to_host(), before)


def test_more_indices_than_batches_are_refused_unless_they_name_theirs():
    four = scatter_arguments(indices=np.zeros(4, np.int64), updates=np.ones((4, 2, 32), np.float16))
    with pytest.raises(ArgumentError, match=r"^updates must have at most 3 rows, those of target"):
        quant_scatter(**four)
    places = np.array([[0, 0], [0, 2], [0, 4], [1, 0]])
    named = scatter_arguments(indices=places, updates=np.ones((4, 2, 32), np.float16))
    quant_scatter(**named)


def test_an_empty_update_changes_nothing_and_its_indices_are_not_looked_at():
    target = to_device(np.ones((3, 6, 32), np.int8))
    empty = scatter_arguments(indices=np.array([0, 99]), updates=np.ones((2, 0, 32), np.float16))
    assert quant_scatter(**{**empty, "target": target}) is target
    assert target.copy_to_host().all()


def test_memory_that_is_shared_is_refused():
    arguments = scatter_arguments()
    target = arguments["target"]
    arguments["updates"] = type(target)(
        target.address, (2, 2, 32), (128, 64, 2), np.dtype(np.float16), target
    )
    with pytest.raises(ArgumentError, match=r"^updates must share no memory with target"):
        quant_scatter(**arguments)


def test_arguments_of_a_conversion_that_are_not_so_are_refused():
    x, s = to_device(np.ones((2, 3), np.float32)), to_device(np.ones(3, np.float32))
    q = to_device(np.ones((2, 3), np.int8))
    for call, match in [
        (lambda: quantize(np.ones(3), s), "^x must be in device memory"),
        (
            lambda: quantize(q, s),
            "^x.dtype must be one of float16, bfloat16, float32, but got int8",
        ),
        (lambda: quantize(x, s, axis=0), "^scales must be a number or have one element for each"),
        (lambda: quantize(x, s, axis=2), r"^axis must be in -2..1 for shape"),
        (lambda: quantize(x, s, s[:2]), "^zero_points must be a number or have one element"),
        (lambda: quantize(x, s.bits.copy_to_host()), "^scales must be in device memory"),
        (lambda: quantize(x, np.int32(3)), "^scales must be one of float16, bfloat16, float32"),
        (lambda: quantize(x, s, out=x), "^out must have shape .* and dtype int8"),
        (lambda: quantize(x, s, out=q.T), r"^out must have shape \(2, 3\) and dtype int8"),
        (lambda: quantize(x[(None,) * 7], s), "^x must have at most 8 axes, but got 9"),
        (lambda: dequantize(x, s), "^q must have dtype int8, but got float32"),
        (lambda: dequantize(q, s, dtype=np.int32), "^dtype must be one of float16"),
        (lambda: dequantize(q, s, s.T[:2]), "^offsets must be a number or have one element"),
        (lambda: dequantize(q, s, out=x.T), "^out must have shape"),
        (lambda: dequantize(q, x[0], out=x), "^scales must share no memory with out"),
    ]:
        with pytest.raises(ArgumentError, match=match):
            call()
