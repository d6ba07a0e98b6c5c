"""Quantised scatter, slices by index and cache writes against their definitions, and what is refused."""

from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import operand_kinds as kinds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu import torch_npu
from emu.comm.errors import ArgumentError

give, take = kinds.give, kinds.take
BF16, F16 = kinds.BF16, np.dtype(np.float16)
F32, I8, I32 = np.dtype(np.float32), np.dtype(np.int8), np.dtype(np.int32)
KINDS = ["numpy", *(["torch"] if importlib.util.find_spec("torch") else [])]
SETTINGS = settings(deadline=None, max_examples=120)


def assign(target: Any, indices: Any, q: Any, axis: int) -> None:
    """Where quantised updates go, row by row in order."""
    for i, index in enumerate(indices.tolist()):
        batch, start = (i, index) if indices.ndim == 1 else index
        segment = [slice(None)] * target.ndim
        segment[0] = batch
        segment[axis] = slice(start, start + q.shape[axis])
        target[tuple(segment)] = q[i]


@SETTINGS
@given(
    kind=st.sampled_from(KINDS),
    rank=st.integers(3, 8),
    last=st.sampled_from([0, 1, 7, 32, 64]),
    run=st.integers(0, 4),
    room=st.integers(0, 5),
    form=st.sampled_from(["1-D", "pairs", "overlapping"]),
    bf16=st.booleans(),
    zero=st.booleans(),
    seed=st.integers(0, 99999),
)
def test_quant_scatter_is_its_formula_in_place_and_on_a_copy(
    kind: str,
    rank: int,
    last: int,
    run: int,
    room: int,
    form: str,
    bf16: bool,
    zero: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    axis = int(rng.integers(1, rank - 1))
    shape = [int(n) for n in rng.integers(1, 4, rank - 1)] + [last]
    shape[axis] = run + room
    n = int(rng.integers(0, shape[0] + 1))
    if form == "1-D":
        indices = rng.integers(0, room + 1, n)
    elif form == "pairs":
        batches = rng.permutation(shape[0])[:n]
        indices = np.stack([batches, rng.integers(0, room + 1, n)], 1)
    else:
        n += 2
        indices = np.stack([rng.integers(0, shape[0], n), rng.integers(0, room + 1, n)], 1)
    indices = np.repeat(indices, 2, 0)[::2].astype(rng.choice([np.int32, np.int64]))
    types = (BF16, BF16, BF16) if bf16 else (F16, F32, I32)
    part = [n, *shape[1:]]
    part[axis] = run
    updates = kinds.values(rng, part, types[0])
    scales = kinds.factors(rng, [1, 1, last], types[1])
    zeros = kinds.factors(rng, [last], types[2]) if zero else None
    target = kinds.strided(rng, shape, I8)
    target[...] = rng.integers(-128, 128, shape)
    before = target.copy()
    expected = before.copy()
    assign(expected, indices, kinds.quantized(updates, scales.reshape(-1), zeros), axis)
    given_self = give(kind, target)
    rest = [give(kind, a) for a in (indices, updates, scales, zeros)]
    options: dict[str, Any] = {
        "axis": axis - rank if seed % 2 else axis,
        "quant_axis": -1 if seed % 2 else rank - 1,
        "align": None,
        "overlap": "last" if form == "overlapping" else "refuse",
    }
    copy = torch_npu.npu_quant_scatter(given_self, *rest, **options)
    assert np.array_equal(take(kind, copy), expected)
    assert np.array_equal(target, before)
    assert torch_npu.npu_quant_scatter_(given_self, *rest, **options) is given_self
    assert np.array_equal(target, expected)


ROWS = [[1, 1.25, 1.75, -1.25, 2.5, -2.5, 100, -100], [0.5, 1.5, 2.5, 3.5, 4.5, -0.5, -1.5, -2.5]]
SCALES = np.array([0.5, 0.5, 0.5, 0.5, 1, 1, 0.5, 0.5], BF16)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("indices", "places"),
    [([2, 0], [(0, 2), (1, 0)]), ([[1, 3], [0, 1]], [(1, 3), (0, 1)])],
    ids=["1-D", "pairs"],
)
@pytest.mark.parametrize("zero_point", [None, 0.5])
def test_the_worked_example(kind: str, indices: Any, places: Any, zero_point: float | None) -> None:
    target = np.zeros((2, 4, 8), np.int8)
    updates = np.array(ROWS, BF16).reshape(2, 1, 8)
    zeros = None if zero_point is None else np.full((1, 1, 8), zero_point, BF16)
    rest = [give(kind, a) for a in (np.array(indices, np.int32), updates, SCALES, zeros)]
    torch_npu.npu_quant_scatter_(give(kind, target), *rest, axis=-2, quant_axis=-1, align=None)
    first = [2, 2, 4, -2, 2, -2, 127, -128] if zeros is None else [2, 3, 4, -2, 3, -2, 127, -128]
    assert target[places[0]].tolist() == first
    if zeros is None:
        assert target[places[1]].tolist() == [1, 3, 5, 7, 4, 0, -3, -5]
    rest_of_it = np.ones((2, 4), bool)
    rest_of_it[places[0]] = rest_of_it[places[1]] = False
    assert not target[rest_of_it].any()


@pytest.mark.parametrize(
    ("update", "scale", "expected"),
    [
        (1.3203125, 0.203125, 6),  # 7 by the reciprocal
        (1.1953125, 0.12597656, 9),  # 10 with the quotient rounded to bf16
        (1.0625, 0.125, 8),  # 9 with halves away from zero
        (np.inf, 0.5, 127),
        (-np.inf, 0.5, -128),
        (np.nan, 0.5, 0),
        (0.0, 0.0, 0),
        (1.0, 0.0, 127),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_traps_of_rounding(kind: str, update: float, scale: float, expected: int) -> None:
    target = np.full((1, 1, 32), 55, np.int8)
    indices, updates = np.zeros(1, np.int64), np.full((1, 1, 32), update, BF16)
    rest = [give(kind, a) for a in (indices, updates, np.full(32, scale, BF16))]
    torch_npu.npu_quant_scatter_(give(kind, target), *rest, axis=1, quant_axis=2)
    assert (target == expected).all()


def legal() -> dict[str, Any]:
    """Arguments that break no rule."""
    return {
        "self": np.full((3, 6, 32), 77, np.int8),
        "indices": np.array([0, 4], np.int32),
        "updates": np.ones((2, 2, 32), BF16),
        "quant_scales": np.ones(32, BF16),
        "quant_zero_points": np.ones(32, BF16),
        "axis": -2,
        "quant_axis": -1,
        "reduce": "update",
    }


def pair(*rows: list[int]) -> dict[str, Any]:
    return {"indices": np.array(rows, np.int32), "updates": np.ones((len(rows), 2, 32), BF16)}


BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"self": np.zeros((3, 6, 32), np.int16)}, "self must have dtype int8, but got int16"),
    ({"self": np.zeros((3, 32), np.int8)}, "self must have 3 to 8 axes"),
    ({"self": np.zeros((1,) * 8 + (32,), np.int8)}, "self must have 3 to 8 axes"),
    ({"updates": np.ones((2, 32), BF16)}, "updates must have 3 axes as self has"),
    ({"updates": np.ones((3, 2, 32), BF16)}, "updates must have 2 rows, one for each index"),
    (
        {"updates": np.ones((4, 2, 32), BF16), "indices": np.zeros(4, np.int32)},
        "updates must have at most 3 rows, those of self",
    ),
    ({"updates": np.ones((2, 7, 32), BF16)}, "updates must have an extent of at most 6"),
    ({"updates": np.ones((2, 2, 64), BF16)}, "updates must have the extent 32 along axis 2"),
    ({"updates": np.ones((2, 2, 32), F32)}, "updates must be bfloat16 or float16"),
    ({"updates": np.ones((2, 2, 32), F16)}, "quant_scales must be float32 for float16 updates"),
    (
        {"updates": np.ones((2, 2, 32), F16), "quant_scales": np.ones(32, F32)},
        "quant_zero_points must be int32 for float16 updates",
    ),
    ({"quant_scales": np.ones(31, BF16)}, "quant_scales must have 32 elements"),
    ({"quant_zero_points": np.ones(1, BF16)}, "quant_zero_points must have 32 elements"),
    ({"axis": 0}, "axis must be neither the first nor the last"),
    ({"axis": 2}, "axis must be neither the first nor the last"),
    ({"axis": -3}, "axis must be neither the first nor the last"),
    ({"axis": 1.0}, "axis must be an integer, but got 1.0"),
    ({"quant_axis": 1}, "quant_axis must be the last of 3 axes"),
    ({"reduce": "add"}, "reduce must be 'update', but got 'add'"),
    ({"reduce": None}, "reduce must be 'update', but got None"),
    ({"indices": np.array([0, 4], np.int16)}, "indices must be int32 or int64"),
    ({"indices": np.zeros((2, 3), np.int32)}, "indices must have shape"),
    ({"indices": np.array([0, 5], np.int32)}, r"indices must be in 0\.\.4, but got 5 in row 1"),
    ({"indices": np.array([-1, 0], np.int32)}, r"indices must be in 0\.\.4, but got -1 in row 0"),
    (pair([0, 0], [3, 0]), r"indices\[:, 0\] must be in 0\.\.2, but got 3 in row 1"),
    (pair([0, 0], [2, 5]), r"indices\[:, 1\] must be in 0\.\.4, but got 5 in row 1"),
    (pair([1, 2], [0, 0], [1, 3]), "do not overlap, but got rows 0 and 2"),
    ({"overlap": "first"}, "overlap must be 'refuse' or 'last'"),
    ({"align": 0}, "align must be at least 1"),
    ({"align": 2.5}, "align must be an integer"),
    (
        {
            "self": np.full((3, 6, 8), 77, np.int8),
            "updates": np.ones((2, 2, 8), BF16),
            "quant_scales": np.ones(8, BF16),
            "quant_zero_points": None,
        },
        "multiple of 32",
    ),
    ({"self": [1]}, "self must be a NumPy array or a torch tensor, but got list"),
    ({"indices": None}, "indices must be a NumPy array or a torch tensor"),
    ({"quant_scales": 0.5}, "quant_scales must be a NumPy array or a torch tensor"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["npu_quant_scatter_", "npu_quant_scatter"])
@pytest.mark.parametrize(("change", "message"), BROKEN, ids=range(len(BROKEN)))
def test_each_rule_that_is_broken_is_named_and_self_untouched(
    kind: str, name: str, change: dict[str, Any], message: str
) -> None:
    arguments = {**legal(), **change}
    target = arguments["self"]
    before = np.array(target)
    arguments = {
        key: give(kind, value) if isinstance(value, np.ndarray) else value
        for key, value in arguments.items()
    }
    with pytest.raises(ArgumentError, match=message):
        getattr(torch_npu, name)(**arguments)
    assert np.array_equal(target, before)


def test_the_arguments_that_the_rules_are_tried_on_are_legal() -> None:
    arguments = legal()
    torch_npu.npu_quant_scatter_(**arguments)
    assert (arguments["self"][0, :2] == 2).all()


def test_the_printed_defaults_are_refused() -> None:
    arguments = legal()
    del arguments["axis"], arguments["quant_axis"]
    with pytest.raises(ArgumentError, match=r"axis must be neither .* but got 0"):
        torch_npu.npu_quant_scatter_(**arguments)


def test_self_that_cannot_be_written_in_place_is_refused() -> None:
    arguments = legal()
    arguments["self"].flags.writeable = False
    with pytest.raises(ArgumentError, match="self must be writable"):
        torch_npu.npu_quant_scatter_(**arguments)
    arguments["self"] = np.broadcast_to(np.zeros((1, 1, 32), np.int8), (3, 6, 32)).view()
    arguments["self"].flags.writeable = True
    with pytest.raises(ArgumentError, match="self must not overlap itself"):
        torch_npu.npu_quant_scatter_(**arguments)


WORDS = [np.bool_, I8, np.int64, F32, F16, np.float64, BF16, np.dtype(ml_dtypes.float8_e5m2)]


@SETTINGS
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(WORDS),
    rank=st.integers(1, 5),
    lead=st.lists(st.integers(0, 4), max_size=2),
    overlap=st.booleans(),
    seed=st.integers(0, 99999),
)
def test_scatter_nd_update_assigns_slices(
    kind: str, dtype: Any, rank: int, lead: list[int], overlap: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(1, rank + 1))
    shape = [int(n) for n in rng.integers(1, 5, rank)]
    places = np.array(list(itertools.product(*map(range, shape[:depth]))))
    count = int(np.prod(lead))
    if not overlap and count > len(places):
        lead, count = [len(places)], len(places)
    chosen = places[rng.choice(len(places), count, replace=overlap)]
    indices = kinds.strided(rng, [*lead, depth], rng.choice([np.int32, np.int64]))
    indices[...] = chosen.reshape(indices.shape)
    target = kinds.strided(rng, shape, dtype)
    target[...] = rng.integers(0, 3, shape).astype(dtype)
    updates = kinds.strided(rng, [*lead, *shape[depth:]], dtype)
    updates[...] = rng.integers(-3, 100, updates.shape).astype(dtype)
    before = target.copy()
    expected = before.copy()
    for place in np.ndindex(*lead):
        expected[tuple(indices[place])] = updates[place]
    arguments = [give(kind, a) for a in (target, indices, updates)]
    how = "last" if overlap else "refuse"
    copy = torch_npu.npu_scatter_nd_update(*arguments, overlap=how)
    assert np.array_equal(take(kind, copy), expected)
    assert np.array_equal(target, before)
    assert torch_npu.npu_scatter_nd_update_(*arguments, overlap=how) is arguments[0]
    assert np.array_equal(target, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.array([[4]])}, r"indices must be in 0\.\.3, but got 4 in row 0"),
        ({"indices": np.array([[-1]])}, r"indices must be in 0\.\.3, but got -1 in row 0"),
        ({"indices": np.array([[1], [1]])}, r"indices must name each place once.*rows 0 and 1"),
        ({"indices": np.array([[0.0]])}, "indices must have dtype int32, int64"),
        ({"indices": np.zeros((1, 3), np.int64)}, r"indices must have a last extent in 1\.\.2"),
        ({"indices": np.zeros((1, 0), np.int64)}, r"indices must have a last extent in 1\.\.2"),
        ({"updates": np.ones((1, 4), F32)}, r"updates must have shape \(1, 5\)"),
        ({"updates": np.ones((1, 5), F16)}, "updates must have dtype float32, but got float16"),
        ({"overlap": "any"}, "overlap must be 'refuse' or 'last', but got 'any'"),
        (
            {"self": np.ones((4, 5), np.complex128), "updates": np.ones((1, 5), np.complex128)},
            "self must be of integers, bool or floating point",
        ),
    ],
)
def test_slices_that_break_a_rule_change_nothing(
    kind: str, change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {"self": np.zeros((4, 5), F32), "indices": np.array([[2]])}
    arguments["updates"] = np.ones((1, 5), F32)
    if "rows 0 and 1" in message:
        arguments["updates"] = np.ones((2, 5), F32)
    arguments.update(change)
    before = arguments["self"].copy()
    ready = {k: give(kind, v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    with pytest.raises(ArgumentError, match=message):
        torch_npu.npu_scatter_nd_update_(**ready)
    assert np.array_equal(arguments["self"], before)


def test_updates_in_the_memory_of_self_are_refused() -> None:
    target = np.zeros((4, 5), F32)
    with pytest.raises(ArgumentError, match="self must not share memory with updates"):
        torch_npu.npu_scatter_nd_update_(target, np.array([[2]]), target[:1])


@SETTINGS
@given(
    kind=st.sampled_from(KINDS),
    dtypes=st.tuples(st.sampled_from([F16, BF16, I8]), st.sampled_from([F16, BF16, I8])),
    sizes=st.tuples(*[st.integers(1, 4)] * 5),
    overlap=st.booleans(),
    seed=st.integers(0, 99999),
)
def test_a_cache_write_puts_each_token_in_its_slot(
    kind: str, dtypes: tuple[Any, Any], sizes: tuple[int, ...], overlap: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    blocks, size, heads, width, other = sizes
    slots = rng.choice(blocks * size, int(rng.integers(0, blocks * size + 1)), replace=overlap)
    slots = slots.astype(rng.choice([np.int32, np.int64]))
    new, caches, expected = [], [], []
    for dtype, last in zip(dtypes, (width, other), strict=True):
        cache = kinds.strided(rng, [blocks, size, heads, last], dtype)
        cache[...] = rng.integers(0, 9, cache.shape).astype(dtype)
        rows = kinds.strided(rng, [len(slots), heads, last], dtype)
        rows[...] = rng.integers(-99, 99, rows.shape).astype(dtype)
        wanted = cache.copy()
        for token, slot in enumerate(slots.tolist()):
            wanted[slot // size, slot % size] = rows[token]
        new.append(rows)
        caches.append(cache)
        expected.append(wanted)
    arguments = [give(kind, a) for a in (*new, *caches, slots)]
    torch_npu.npu_scatter_pa_kv_cache(*arguments, overlap="last" if overlap else "refuse")
    for cache, wanted in zip(caches, expected, strict=True):
        assert np.array_equal(cache, wanted)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slot_mapping": np.array([0, 6])}, r"slot_mapping must be in 0\.\.5, but got 6 in row 1"),
        ({"slot_mapping": np.array([-1, 5])}, r"slot_mapping must be in 0\.\.5, but got -1"),
        ({"slot_mapping": np.array([3, 3])}, r"slot_mapping must name each place once"),
        ({"slot_mapping": np.array([[3, 4]])}, r"slot_mapping must have shape \[tokens\]"),
        ({"slot_mapping": np.array([3, 4], np.int16)}, "slot_mapping must have dtype"),
        ({"key": np.ones((3, 4, 5), F16)}, r"key must have shape \(2, 4, 5\)"),
        ({"value": np.ones((2, 4, 5), F32)}, "value must have dtype float16"),
        ({"value_cache": np.zeros((2, 3, 4), F16)}, "value_cache must have shape"),
        ({"value_cache": np.zeros((1, 3, 4, 5), F16)}, r"slot_mapping must be in 0\.\.2"),
    ],
)
def test_cache_writes_that_break_a_rule_change_neither_cache(
    change: dict[str, Any], message: str
) -> None:
    arguments: dict[str, Any] = {
        "key": np.ones((2, 4, 5), F16),
        "value": np.ones((2, 4, 5), F16),
        "key_cache": np.zeros((2, 3, 4, 5), F16),
        "value_cache": np.zeros((2, 3, 4, 5), F16),
        "slot_mapping": np.array([1, 5]),
        **change,
    }
    with pytest.raises(ArgumentError, match=message):
        torch_npu.npu_scatter_pa_kv_cache(**arguments)
    assert not arguments["key_cache"].any()
    assert not arguments["value_cache"].any()


def test_two_caches_in_one_memory_are_refused() -> None:
    cache, token = np.zeros((2, 3, 4, 5), F16), np.ones((1, 4, 5), F16)
    with pytest.raises(ArgumentError, match="key_cache must not share memory with value_cache"):
        torch_npu.npu_scatter_pa_kv_cache(token, token, cache, cache, np.array([0]))
