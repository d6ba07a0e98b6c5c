"""The quantised scatter against its definition in NumPy: ranks, layouts, indices, refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.kernels.errors import ArgumentError
from emu.kernels.quant import quant_scatter

BF16, F16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
F32, I8, I32 = np.dtype(np.float32), np.dtype(np.int8), np.dtype(np.int32)
COMBINATIONS = {"bf16": (BF16, BF16, BF16), "fp16": (F16, F32, I32)}


@np.errstate(all="ignore")
def reference(
    target: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    scales: np.ndarray,
    zero_points: np.ndarray | None,
    axis: int,
) -> None:
    """What the operation means: quantise in fp32, then assign row by row in order."""
    value = updates.astype(np.float32) / scales.reshape(-1).astype(np.float32)
    if zero_points is not None:
        value = value + zero_points.reshape(-1).astype(np.float32)
    value = np.clip(np.rint(value), -128, 127)
    q = np.where(np.isnan(value), 0, value).astype(np.int8)
    for i, index in enumerate(indices.tolist()):
        batch, start = (i, index) if indices.ndim == 1 else index
        segment = [slice(None)] * target.ndim
        segment[0] = batch
        segment[axis] = slice(start, start + updates.shape[axis])
        target[tuple(segment)] = q[i]


def cut(base: np.ndarray, steps: list[int]) -> np.ndarray:
    """Every step-th element along each axis, from the other end where the step is negative."""
    return base[tuple(slice(None, None, step) for step in steps)]


def spread(shape: list[int], steps: list[int], dtype: np.dtype[Any], seed: int) -> np.ndarray:
    """Memory from which :func:`cut` takes an array of that shape, its axes in some order."""
    order = np.random.default_rng(seed).permutation(len(shape)) if seed % 2 else range(len(shape))
    full = [(n - 1) * abs(s) + 1 if n else 0 for n, s in zip(shape, steps, strict=True)]
    return np.zeros([full[i] for i in order], dtype).transpose(np.argsort(np.array(order)))


def factors(rng: np.random.Generator, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype == I32:
        return rng.integers(-100, 100, n, np.int32)
    choice = np.array([0.5, 0.203125, 1.0, 0.126, 3.7, -0.25, 0.0, np.inf, np.nan, 1e-40])
    return rng.choice(choice, n, p=[0.2, 0.2, 0.1, 0.2, 0.1, 0.1, *[0.025] * 4]).astype(dtype)


def pairs(
    rng: np.random.Generator, batches: int, extent: int, length: int, n: int, overlap: bool
) -> np.ndarray:
    """Draw (batch, start) of n segments, or of fewer where n don't fit without overlap."""
    if overlap:
        starts = rng.integers(0, extent - length + 1, n)
        return np.stack([rng.integers(0, batches, n), starts], 1)
    per_batch = extent // max(length, 1)
    places = rng.permutation(batches * per_batch)[:n]
    slack = rng.integers(0, extent - per_batch * length + 1)
    return np.stack([places // per_batch, places % per_batch * length + slack], 1)


STEPS = st.lists(st.sampled_from([1, 1, 1, 2, -1]), min_size=8, max_size=8)


@settings(deadline=None, max_examples=300)
@given(
    rank=st.integers(3, 8),
    extents=st.lists(st.integers(1, 3), min_size=8, max_size=8),
    run=st.tuples(st.integers(1, 9), st.integers(0, 9)),
    last=st.sampled_from([1, 5, 32, 64, 130]),
    axis=st.integers(1, 6),
    steps=st.tuples(STEPS, STEPS),
    form=st.sampled_from(["1-D", "pairs", "overlapping pairs"]),
    combination=st.sampled_from(list(COMBINATIONS)),
    wide_indices=st.booleans(),
    zero=st.booleans(),
    negative=st.booleans(),
    seed=st.integers(0, 99999),
)
def test_against_the_definition(
    rank: int,
    extents: list[int],
    run: tuple[int, int],
    last: int,
    axis: int,
    steps: tuple[list[int], list[int]],
    form: str,
    combination: str,
    wide_indices: bool,
    zero: bool,
    negative: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    axis = min(axis, rank - 2)
    shape = [*extents[: rank - 1], last]
    length, room = run
    shape[axis] = length + room
    n = int(rng.integers(0, shape[0] + 1)) if form == "1-D" else int(rng.integers(0, 7))
    if form == "1-D":
        indices = rng.integers(0, room + 1, n)
    else:
        overlapping = form == "overlapping pairs"
        indices = pairs(rng, shape[0], shape[axis], length, n, overlapping)
    indices = np.repeat(indices, 2, 0)[::2].astype(np.int64 if wide_indices else np.int32)
    part = [len(indices), *shape[1:]]
    part[axis] = length
    types = COMBINATIONS[combination]
    updates = cut(spread(part, steps[1][:rank], types[0], seed + 1), steps[1][:rank])
    draws = rng.standard_normal(part) * 10.0 ** rng.integers(-2, 3, part)
    updates[...] = np.where(rng.random(part) < 0.02, rng.choice([np.nan, np.inf, -np.inf]), draws)
    scales = factors(rng, last, types[1]).reshape(1, -1)
    zero_points = factors(rng, last, types[2]) if zero else None
    base = spread(shape, steps[0][:rank], I8, seed)
    base[...] = rng.integers(-128, 128, base.shape)
    expected = base.copy(order="K")
    reference(cut(expected, steps[0][:rank]), indices, updates, scales, zero_points, axis)
    target = cut(base, steps[0][:rank])
    result = quant_scatter(
        target,
        indices,
        updates,
        scales,
        zero_points,
        axis=axis - rank if negative else axis,
        quant_axis=rank - 1 if negative else -1,
        align=None,
        overlap="last" if form == "overlapping pairs" else "refuse",
    )
    assert result is target
    assert np.array_equal(base, expected)


ROWS = [[1, 1.25, 1.75, -1.25, 2.5, -2.5, 100, -100], [0.5, 1.5, 2.5, 3.5, 4.5, -0.5, -1.5, -2.5]]
SCALES = np.array([0.5, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5], BF16)


@pytest.mark.parametrize(
    ("indices", "places"),
    [([2, 0], [(0, 2), (1, 0)]), ([[1, 3], [0, 1]], [(1, 3), (0, 1)])],
    ids=["1-D", "pairs"],
)
@pytest.mark.parametrize("zero_point", [None, 0.5])
def test_worked_example(
    indices: list[Any], places: list[tuple[int, int]], zero_point: float | None
) -> None:
    target = np.zeros((2, 4, 8), np.int8)
    updates = np.array(ROWS, BF16).reshape(2, 1, 8)
    zeros = None if zero_point is None else np.full((1, 1, 8), zero_point, BF16)
    quant_scatter(target, np.array(indices, np.int32), updates, SCALES, zeros, align=1)
    first = [2, 2, 4, -2, 2, -2, 127, -128] if zeros is None else [2, 3, 4, -2, 3, -2, 127, -128]
    assert target[places[0]].tolist() == first
    if zeros is None:
        assert target[places[1]].tolist() == [1, 3, 5, 7, 4, 0, -3, -5]
    rest = np.ones((2, 4), bool)
    rest[places[0]] = rest[places[1]] = False
    assert not target[rest].any()


def test_the_published_sample_runs() -> None:
    """Its indices and cache are all zeros; each row goes to its own batch, so nothing overlaps."""
    rng = np.random.default_rng(0)
    target = np.zeros((24, 4096, 128), np.int8)
    updates = rng.uniform(1, 2, (24, 1, 128)).astype(F16).astype(BF16)
    scales = rng.uniform(0, 1, (1, 1, 128)).astype(F16).astype(BF16)
    zeros = rng.uniform(0, 1, (1, 1, 128)).astype(F16).astype(BF16)
    expected = target.copy()
    indices = np.zeros(24, np.int32)
    reference(expected, indices, updates, scales, zeros, -2)
    quant_scatter(target, indices, updates, scales, zeros, axis=-2, quant_axis=-1)
    assert np.array_equal(target, expected)
    assert target[:, 0].any()


def test_every_bf16_update() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(BF16).reshape(8, 64, 128)
    for scale in (0.203125, 0.12597656, 0.125, 3.0, -0.7, 0.0, np.inf, np.nan, 1e-39, 2e38):
        for zero in (None, 0.5, -3.0):
            target = np.zeros((8, 70, 128), np.int8)
            expected = target.copy()
            scales = np.full(128, scale, BF16)
            zeros = None if zero is None else np.full(128, zero, BF16)
            indices = np.arange(7, -1, -1) % 7
            reference(expected, indices, every, scales, zeros, 1)
            quant_scatter(target, indices, every, scales, zeros)
            assert np.array_equal(target, expected)


def test_both_ends_of_the_range_of_starts() -> None:
    target = np.zeros((2, 6, 32), np.int8)
    quant_scatter(target, np.array([0, 4]), np.ones((2, 2, 32), BF16), np.ones(32, BF16))
    assert target.any(-1).tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1]]


def test_the_later_row_wins() -> None:
    target = np.zeros((2, 9, 32), np.int8)
    updates = np.ones((4, 3, 32), BF16) * np.arange(1, 5).astype(BF16).reshape(4, 1, 1)
    indices = np.array([[0, 0], [1, 6], [0, 2], [0, 1]])
    quant_scatter(target, indices, updates, np.ones(32, BF16), overlap="last")
    assert target[:, :, 0].tolist() == [[1, 4, 4, 4, 3, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 2, 2, 2]]


@pytest.mark.parametrize("shape", [(0, 2, 32), (3, 0, 32), (3, 2, 0)])
def test_nothing_to_do(shape: tuple[int, ...]) -> None:
    target = np.ones((3, 5, shape[-1]), np.int8)
    count = np.ones(shape[-1], BF16)
    for indices in (np.full(shape[0], 99), np.full((shape[0], 2), 99)):
        quant_scatter(target, indices, np.ones(shape, BF16), count)
    assert (target == 1).all()


def test_many_segments_are_checked_fast_enough_to_be_tested() -> None:
    """200 000 pairs: comparing each with each would take minutes."""
    rng = np.random.default_rng(0)
    n, length = 200_000, 2
    target = np.zeros((4, n, 1), np.int8)
    indices = pairs(rng, 4, n, length, n, overlap=False)
    updates = np.ones((n, length, 1), BF16)
    quant_scatter(target, indices, updates, np.ones(1, BF16), align=None)
    assert target.sum() == n * length
    indices[123_456] = indices[77] + [0, 1 if indices[77, 1] + length < n else -1]
    before = target.copy()
    with pytest.raises(ArgumentError, match=r"rows 77 and 123456 at|123456 and \d+ at"):
        quant_scatter(target, indices, updates * BF16.type(2), np.ones(1, BF16), align=None)
    assert np.array_equal(target, before)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([[0, 1], [1, 1], [0, 3]], r"rows 0 and 2 at \[0, 1\] and \[0, 3\], each 3 long"),
        ([[1, 2], [0, 0], [1, 2]], r"rows 0 and 2 at \[1, 2\] and \[1, 2\], each 3 long"),
        ([[1, 4], [1, 2], [0, 0]], r"rows 0 and 1 at \[1, 4\] and \[1, 2\], each 3 long"),
    ],
)
def test_overlaps_are_refused_by_the_pair(places: list[list[int]], message: str) -> None:
    target = np.zeros((2, 9, 32), np.int8)
    updates = np.ones((3, 3, 32), BF16)
    with pytest.raises(ArgumentError, match=f"indices must give .* overlap, but got {message}"):
        quant_scatter(target, np.array(places), updates, np.ones(32, BF16))
    assert not target.any()


def test_segments_that_only_touch_are_allowed() -> None:
    target = np.zeros((2, 9, 32), np.int8)
    indices = np.array([[0, 3], [1, 0], [0, 0], [0, 6]])
    quant_scatter(target, indices, np.ones((4, 3, 32), BF16), np.ones(32, BF16))
    assert target.sum() == 4 * 3 * 32


def _readonly() -> np.ndarray:
    target = np.zeros((2, 6, 32), np.int8)
    target.flags.writeable = False
    return target


_SHARED = np.zeros(2 * 6 * 32, np.int8)
U, S = np.ones((2, 3, 32), BF16), np.ones(32, BF16)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"target": [[[1]]]}, "target must be a NumPy array, but got list"),
    ({"target": np.zeros((2, 6, 32), np.uint8)}, "target must have dtype int8, but got uint8"),
    ({"target": np.zeros((6, 32), I8)}, r"target must have 3 to 8 axes, but got shape \(6, 32\)"),
    ({"target": np.zeros((1,) * 9, I8)}, "target must have 3 to 8 axes"),
    ({"target": _readonly()}, "target must be writable"),
    (
        {"target": np.broadcast_to(np.zeros((1, 6, 32), I8), (2, 6, 32))},
        "target must be writable, but got a read-only array",
    ),
    (
        {"target": np.lib.stride_tricks.as_strided(np.zeros(300, I8), (2, 6, 32), (32, 32, 1))},
        "target must not overlap itself",
    ),
    ({"updates": np.ones((2, 32), BF16)}, r"updates must have 3 axes .*, but got shape \(2, 32\)"),
    ({"updates": np.ones((2, 3, 32), F32)}, "updates must be bfloat16 or float16, but got float32"),
    ({"updates": np.ones((3, 3, 32), BF16)}, r"updates must have 2 rows.*got shape \(3, 3, 32\)"),
    (
        {"updates": np.ones((3, 3, 32), BF16), "indices": np.zeros(3, np.int32)},
        r"updates must have at most 2 rows, those of target, but got shape \(3, 3, 32\)",
    ),
    (
        {"updates": np.ones((2, 7, 32), BF16)},
        r"updates must have an extent of at most 6 along axis 1.*got shape \(2, 7, 32\)",
    ),
    (
        {"updates": np.ones((2, 3, 64), BF16)},
        r"updates must have the extent 32 along axis 2.*got shape \(2, 3, 64\)",
    ),
    (
        {"target": np.zeros((2, 6, 40), I8), "updates": np.ones((2, 3, 40), BF16)},
        r"updates must have a last extent that is a multiple of 32.*got shape \(2, 3, 40\)",
    ),
    ({"align": 0}, "align must be at least 1 or None, but got 0"),
    ({"axis": 0}, "axis must be neither the first nor the last of 3 axes .*, but got 0"),
    ({"axis": 2}, "axis must be neither .*, but got 2"),
    ({"axis": -1}, "axis must be neither .*, but got -1"),
    ({"axis": -3}, "axis must be neither .*, but got -3"),
    ({"axis": -4}, "axis must be neither .*, but got -4"),
    ({"axis": 3}, "axis must be neither .*, but got 3"),
    ({"quant_axis": 1}, r"quant_axis must be the last of 3 axes \(-1 or 2\), but got 1"),
    ({"scales": np.ones(31, BF16)}, r"scales must have 32 elements.*got shape \(31,\)"),
    ({"scales": np.ones(32, F32)}, "scales must be bfloat16 for bfloat16 updates, but got float32"),
    ({"scales": 1.0}, "scales must be a NumPy array, but got float"),
    (
        {"updates": np.ones((2, 3, 32), F16)},
        "scales must be float32 for float16 updates, but got bfloat16",
    ),
    ({"zero_points": np.ones(33, BF16)}, r"zero_points must have 32 elements.*shape \(33,\)"),
    (
        {"zero_points": np.ones(32, I32)},
        "zero_points must be bfloat16 for bfloat16 updates, but got int32",
    ),
    ({"indices": [0, 1]}, "indices must be a NumPy array, but got list"),
    ({"indices": np.zeros(2, np.int16)}, "indices must be int32 or int64, but got int16"),
    ({"indices": np.zeros((2, 3), I32)}, r"indices must have shape \[n\] or .*got \(2, 3\)"),
    ({"indices": np.zeros((2, 2, 2), I32)}, r"indices must have shape .*got \(2, 2, 2\)"),
    ({"indices": np.array([0, 4])}, r"indices must be in 0\.\.3, but got 4 in row 1"),
    ({"indices": np.array([-1, 0])}, r"indices must be in 0\.\.3, but got -1 in row 0"),
    ({"indices": np.array([[0, 0], [2, 0]])}, r"indices\[:, 0\] must be in 0\.\.1, but got 2 in"),
    ({"indices": np.array([[-1, 0], [0, 0]])}, r"indices\[:, 0\] must be in 0\.\.1, but got -1"),
    ({"indices": np.array([[0, 0], [1, 4]])}, r"indices\[:, 1\] must be in 0\.\.3, but got 4 in"),
    ({"overlap": "first"}, "overlap must be 'refuse' or 'last', but got 'first'"),
    (
        {"target": _SHARED.reshape(2, 6, 32), "updates": _SHARED.view(BF16).reshape(2, 3, 32)},
        "target must not share memory with updates",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=lambda x: x if type(x) is str else "")
def test_refused_and_nothing_changed(arguments: dict[str, Any], message: str) -> None:
    target = np.arange(2 * 6 * 32, dtype=np.int64).astype(I8).reshape(2, 6, 32)
    full = {"target": target, "indices": np.array([1, 2]), "updates": U, "scales": S, **arguments}
    before = np.asarray(full["target"]).tobytes()
    with pytest.raises(ArgumentError, match=message):
        quant_scatter(**full)
    assert np.asarray(full["target"]).tobytes() == before
