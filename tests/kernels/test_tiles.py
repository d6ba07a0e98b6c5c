"""SET and ADD of tiles against NumPy: ranks, strides, tails, dtypes, special values, bad arguments."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from emu.kernels.core.dtypes import BFLOAT16, KINDS
from emu.kernels.errors import ArgumentError
from emu.kernels.tiles import FLOAT8, add_tile, set_tile

DTYPES = pytest.mark.parametrize("dtype", KINDS, ids=str)
Array = np.ndarray[Any, Any]


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Draw values over the whole range of a dtype: NaN, infinities and subnormals among them."""
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    with np.errstate(all="ignore"):
        raw = (rng.standard_normal(shape) * 10.0 ** rng.integers(-7, 6, shape)).astype(dtype)
        tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -3 * tiny]).astype(dtype)
    return np.where(rng.random(shape) < 0.1, rng.choice(special, shape), raw).astype(dtype)


def reference_add(target: Array, source: Array) -> Array:
    """What ADD means: one addition in the dtype, rounded to nearest even; integers wrap."""
    with np.errstate(all="ignore"):
        if target.dtype in (np.float16, BFLOAT16):
            return (target.astype(np.float32) + source.astype(np.float32)).astype(target.dtype)
        return target + source


def assert_same(actual: Array, expected: Array) -> None:
    """Bit for bit; NaN is NaN whatever its bits."""
    assert actual.dtype == expected.dtype
    if actual.dtype.kind in "fV":
        nan = np.isnan(expected)
        np.testing.assert_array_equal(np.isnan(actual), nan)
        actual, expected = actual.copy(), expected.copy()
        actual[nan] = expected[nan] = 0
    assert actual.tobytes() == expected.tobytes()


def check(whole: Array, window: Any, source: Array) -> None:
    """Compare both operations on ``window(whole)`` with NumPy, and look at all that lies around."""
    for operation, expect in ((set_tile, lambda t, s: s), (add_tile, reference_add)):
        if operation is add_tile and whole.dtype not in KINDS:
            continue
        expected, actual = whole.copy(), whole.copy()
        window(expected)[...] = expect(window(expected), source)
        for _ in range(2):  # the second time the layout is known
            actual[...] = whole
            assert operation(window(actual), source) is None
            assert_same(actual, expected)


axes = st.lists(
    st.tuples(st.integers(1, 20), st.sampled_from([1, 1, 1, 2, 3, -1, -2]), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@DTYPES
@settings(deadline=None, max_examples=30)
@given(target=axes, data=st.data(), seed=st.integers(0, 999))
def test_any_tile(
    dtype: np.dtype[Any], target: list[tuple[int, int, int]], data: st.DataObject, seed: int
) -> None:
    """Any order of axes, steps of either sign, gaps and broadcast axes."""
    rng = np.random.default_rng(seed)
    rank = len(target)
    limit = max(2, round(4000 ** (1 / rank)))
    shape = tuple(min(n, limit) for n, _, _ in target)
    steps = [step for _, step, _ in target]
    order = data.draw(st.permutations(range(rank)))
    source_steps = data.draw(
        st.lists(st.sampled_from([1, 1, 2, -1, 5]), min_size=rank, max_size=rank)
    )
    source_order = data.draw(st.permutations(range(rank)))
    repeated = data.draw(st.lists(st.booleans(), min_size=rank, max_size=rank))

    def strided(base: Array, steps: list[int], order: list[int]) -> Array:
        view = base.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
        return view[tuple(slice(0, n) for n in shape)]

    gaps = [gap for _, _, gap in target]
    whole = values(rng, tuple(shape[i] * abs(steps[i]) + gaps[i] for i in order), dtype)
    base = values(rng, tuple(shape[i] * abs(source_steps[i]) for i in source_order), dtype)
    source = strided(base, source_steps, source_order)
    if sum(repeated) < rank:
        source = source[tuple(slice(0, 1) if r else slice(None) for r in repeated)]
        source = np.broadcast_to(source, shape)
    check(whole, lambda array: strided(array, steps, order), source)


@DTYPES
@pytest.mark.parametrize("shape", [(16, 16), (40, 70), (17, 33), (129, 65), (3, 200), (200, 5)])
def test_a_transposed_source(dtype: np.dtype[Any], shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    whole = values(rng, (shape[0] + 2, shape[1] + 3), dtype)
    source = values(rng, shape[::-1], dtype)
    for turned in (source.T, source[::-1].T, source[:, ::-1].T, source[::-1, ::-1].T):
        check(whole, lambda array: array[1:-1, 2:-1], turned)
        check(whole, lambda array: array[-2:0:-1, -2:1:-1], turned)


@DTYPES
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7, 12, 16, 17, 33, 64, 65, 150])
def test_columns_of_a_wider_array(dtype: np.dtype[Any], columns: int) -> None:
    rng = np.random.default_rng(2)
    whole = values(rng, (37, columns + 9), dtype)
    check(whole, lambda array: array[:, 4 : 4 + columns], values(rng, (37, columns), dtype))


@DTYPES
@pytest.mark.parametrize("count", [7, 8, 31, 32, 33, 64, 100, 2500])
def test_rows_that_are_reversed_thinned_or_repeated(dtype: np.dtype[Any], count: int) -> None:
    rng = np.random.default_rng(3)
    whole = values(rng, (3, count + 1), dtype)
    source = values(rng, (3, 2 * count), dtype)
    for view in (
        source[:, ::2],
        source[:, 1::2],
        source[:, ::-2],
        source[:, count - 1 :: -1],
        np.broadcast_to(source[:, 3:4], (3, count)),
    ):
        check(whole, lambda array: array[:, 1:], view)


@DTYPES
def test_large_tiles(dtype: np.dtype[Any]) -> None:
    """Larger than what is done with the GIL held."""
    rng = np.random.default_rng(4)
    whole, source = values(rng, (300, 400), dtype), values(rng, (300, 400), dtype)
    check(whole, lambda array: array, source)
    check(whole, lambda array: array[:, 100:], source[::-1, :300])


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_eight_bit_floats_are_set_and_not_added(dtype: np.dtype[Any]) -> None:
    whole = np.arange(256, dtype=np.uint8).view(dtype).reshape(16, 16)
    target = np.zeros((16, 16), np.uint8).view(dtype)
    set_tile(target, whole.T)
    assert target.view(np.uint8).tobytes() == whole.view(np.uint8).T.tobytes()
    with pytest.raises(ArgumentError, match=r"target must have dtype .* but got float8"):
        add_tile(target, whole)


@DTYPES
def test_elements_at_odd_addresses(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(5)
    source = values(rng, (6, 40), dtype)

    def odd(array: Array) -> Array:
        copy = np.zeros(array.nbytes + 1, np.uint8)[1:].view(dtype).reshape(array.shape)
        copy[...] = array
        return copy

    check(values(rng, (6, 40), dtype), lambda array: array, odd(source))
    whole, expected = odd(source), reference_add(source, source[:, ::-1])
    add_tile(whole, source[:, ::-1])
    assert_same(whole.copy(), expected)
    set_tile(whole, source[:, ::-1])
    assert_same(whole.copy(), source[:, ::-1].copy())


def test_strides_that_are_no_multiple_of_an_element() -> None:
    record = np.dtype([("flag", np.uint8), ("value", np.float32)])
    table, source = np.zeros((5, 40), record), np.zeros((40, 5), record)
    source["value"] = np.arange(200).reshape(40, 5)
    set_tile(table["value"], source["value"].T)
    add_tile(table["value"], source["value"].T)
    np.testing.assert_array_equal(table["value"], 2 * source["value"].T)
    assert not table["flag"].any()


def test_tiles_of_one_element_and_of_none() -> None:
    target = np.zeros((1,) * 8, np.float32)
    set_tile(target, np.full((1,) * 8, 3, np.float32))
    add_tile(target, np.full((1,) * 8, 4, np.float32))
    assert target.ravel()[0] == 7
    empty = np.zeros((3, 0), np.float32)
    set_tile(empty, empty.copy())
    add_tile(empty, empty)
    frozen = as_strided(target, (4,), (0,))[:1]
    set_tile(frozen, np.ones(1, np.float32))  # one element cannot overlap itself
    assert target.ravel()[0] == 1


def test_tiles_of_one_array_that_lie_between_each_other() -> None:
    whole = np.arange(200, dtype=np.int32)
    odd = whole[1::2].copy()
    set_tile(whole[::2], whole[1::2])
    np.testing.assert_array_equal(whole, np.repeat(odd, 2))
    add_tile(whole[::2], whole[1::2])
    np.testing.assert_array_equal(whole[::2], 2 * odd)
    np.testing.assert_array_equal(whole[1::2], odd)


@pytest.mark.parametrize("operation", [set_tile, add_tile])
def test_an_unusual_array_class_is_an_array(operation: Any) -> None:
    class Named(np.ndarray):
        pass

    target = np.zeros(4, np.int64)
    operation(target.view(Named), np.arange(4).view(Named))
    assert target.tolist() == [0, 1, 2, 3]


GOOD = np.zeros((4, 6), np.float32)
TANGLED = as_strided(np.zeros(64, np.int64), (2, 3), (24, 16))  # 0 16 32, 24 40 56: apart


def frozen() -> Array:
    array = GOOD.copy()
    array.flags.writeable = False
    return array


BAD = [
    (3, GOOD, "target must be a NumPy array, but got int"),
    (GOOD.tolist(), GOOD, "target must be a NumPy array, but got list"),
    (GOOD, GOOD.tolist(), "source must be a NumPy array, but got list"),
    (frozen(), GOOD, "target must be writable, but got a read-only array"),
    (np.zeros(()), np.zeros(()), "target must have rank 1 to 8, but got rank 0"),
    (np.zeros((1,) * 9), np.zeros((1,) * 9), "target must have rank 1 to 8, but got rank 9"),
    (
        GOOD,
        np.zeros((6, 4), np.float32),
        r"source must have target's shape \(4, 6\), but got \(6, 4\)",
    ),
    (GOOD, np.zeros((1, 6), np.float32), r"source must have target's shape \(4, 6\), but got"),
    (
        GOOD,
        np.zeros((4, 6), np.float64),
        "source must have target's dtype float32, but got float64",
    ),
    (GOOD, np.zeros((4, 6), np.int32), "source must have target's dtype float32, but got int32"),
    (GOOD.astype(">f4"), GOOD.astype(">f4"), "target must have dtype .* but got >f4"),
    (GOOD.astype(complex), GOOD.astype(complex), "target must have dtype .* but got complex128"),
    (GOOD.astype(object), GOOD.astype(object), "target must have dtype .* but got object"),
    (
        as_strided(GOOD, (4, 6), (0, 4)),
        np.ones((4, 6), np.float32),
        "target must not overlap itself",
    ),
    (
        as_strided(GOOD, (4, 6), (4, 4)),
        np.ones((4, 6), np.float32),
        "target must not overlap itself",
    ),
    (as_strided(GOOD, (4,), (2,)), np.ones(4, np.float32), "target must not overlap itself"),
]


@pytest.mark.parametrize("operation", [set_tile, add_tile])
@pytest.mark.parametrize(("target", "source", "text"), BAD, ids=map(str, range(len(BAD))))
def test_bad_arguments(operation: Any, target: Any, source: Any, text: str) -> None:
    for array in (GOOD, np.zeros((4, 6), np.float32)):  # the layout of good ones is known by now
        operation(array, np.ones((4, 6), np.float32))
        array[...] = 0
    with pytest.raises(ArgumentError, match=text):
        operation(target, source)
    assert not GOOD.any()


@pytest.mark.parametrize("operation", [set_tile, add_tile])
def test_a_source_in_the_target_is_refused(operation: Any) -> None:
    whole = np.arange(48, dtype=np.int16).reshape(6, 8)
    before = whole.copy()
    for target, source in (
        (whole, whole),
        (whole[:, 1:], whole[:, :-1]),
        (whole[::2], whole[::-2][:3]),
        (whole[:3], np.broadcast_to(whole[2:3], (3, 8))),
        (whole.T, whole.T[::-1]),
    ):
        if np.shares_memory(target, source):
            with pytest.raises(ArgumentError, match="source must share no memory with target"):
                operation(target, source)
    np.testing.assert_array_equal(whole, before)


def test_what_is_too_tangled_to_tell_is_refused() -> None:
    memory = np.zeros(200_000, np.int8)
    shape = (3, 3, 4, 4, 2, 3)
    target = as_strided(memory, shape, (11269, 3749, 940, 233, 108, 51))
    source = as_strided(memory[4763:], shape, (11251, 8853, 5521, 4150, 1370, 110))
    with pytest.raises(ArgumentError, match="too tangled to tell"):
        set_tile(target, source)
    assert not memory.any()


def test_a_target_too_large_to_compare_its_elements_is_refused() -> None:
    memory = np.zeros(8192, np.float32)
    target = as_strided(memory, (1500, 1500), (8, 12))
    with pytest.raises(ArgumentError, match="target must be an array whose elements are known"):
        set_tile(target, np.broadcast_to(np.ones(1, np.float32), (1500, 1500)))
    assert not memory.any()


def test_a_target_whose_strides_interlock_is_taken() -> None:
    source = np.arange(6).reshape(2, 3)
    set_tile(TANGLED, source)
    np.testing.assert_array_equal(TANGLED, source)
