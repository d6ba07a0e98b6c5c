"""Loads, stores and atomic operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import DTYPES, Pointer, Scalar, emit, evaluate, value

import emu.triton.language as tl


def test_masked_loads_give_the_other() -> None:
    x = np.arange(8, dtype=np.float32)

    def load(p: Any, n: Any) -> Any:
        at = p + tl.arange(0, 8)
        keep = tl.arange(0, 8) < n
        return tl.load(at, mask=keep), tl.load(at, keep, other=-1), tl.load(at, keep, 2.5)

    zero, minus, float_ = evaluate(load, Pointer(x), Scalar(3, "int32"))
    np.testing.assert_array_equal(zero, [0, 1, 2, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(minus, [0, 1, 2, -1, -1, -1, -1, -1])
    np.testing.assert_array_equal(float_, [0, 1, 2, 2.5, 2.5, 2.5, 2.5, 2.5])


def test_the_other_becomes_the_dtype_of_the_elements() -> None:
    x = np.arange(4, dtype=np.float16)
    got = evaluate(
        lambda p: tl.load(p + tl.arange(0, 4), tl.arange(0, 4) < 2, other=2.0**-30 + 1), Pointer(x)
    )
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, np.array([0, 1, 1, 1], np.float16))


def test_masks_of_rows_and_columns_broadcast() -> None:
    x = np.arange(32, dtype=np.int32).reshape(4, 8)

    def load(p: Any) -> Any:
        rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
        at = p + rows * 8 + columns
        return tl.load(at, mask=rows < 3, other=columns)

    wanted = x.copy()
    wanted[3] = np.arange(8)
    np.testing.assert_array_equal(evaluate(load, Pointer(x)), wanted)


def test_a_mask_of_more_axes_widens_the_pointers() -> None:
    x = np.arange(8, dtype=np.int32)
    got = evaluate(
        lambda p: tl.load(p + tl.arange(0, 8), mask=(tl.arange(0, 4) < 2)[:, None]), Pointer(x)
    )
    np.testing.assert_array_equal(got, [x, x, x * 0, x * 0])


def test_bools_are_bytes_in_memory() -> None:
    x, out = np.array([0, 1, 1, 0], bool), np.zeros(4, bool)

    def invert(p: Any, q: Any) -> Any:
        flags = tl.load(p + tl.arange(0, 4), tl.arange(0, 4) < 3, other=True)
        tl.store(q + tl.arange(0, 4), ~flags)
        return flags

    flags = evaluate(invert, Pointer(x), Pointer(out))
    np.testing.assert_array_equal(flags, [False, True, True, True])
    np.testing.assert_array_equal(out, [True, False, False, False])


def test_stores_convert_broadcast_and_mask() -> None:
    out = np.full((4, 8), 9, np.int32)

    def store(p: Any) -> None:
        rows, columns = tl.arange(0, 4)[:, None], tl.arange(0, 8)[None, :]
        tl.store(p + rows * 8 + columns, rows * 1.5, mask=columns < 3)

    evaluate(store, Pointer(out))
    wanted = np.full((4, 8), 9)
    wanted[:, :3] = np.array([0, 1, 3, 4])[:, None]
    np.testing.assert_array_equal(out, wanted)


def test_scalars_are_loaded_and_stored() -> None:
    x = np.array([5, 6], np.int64)

    def swap(p: Any) -> None:
        first, second = tl.load(p), tl.load(p + 1, mask=True)
        tl.store(p, second)
        tl.store(p + 1, first, mask=False)

    evaluate(swap, Pointer(x))
    np.testing.assert_array_equal(x, [6, 6])


def test_methods_of_pointers() -> None:
    x = np.zeros(4, np.int32)

    def work(p: Any) -> Any:
        at = p + tl.arange(0, 4)
        at.store(7)
        at.atomic_add(tl.arange(0, 4))
        return tl.load(at)

    np.testing.assert_array_equal(evaluate(work, Pointer(x)), [7, 8, 9, 10])


def test_bad_loads_and_stores_are_named() -> None:
    p, block, mask = value("*fp32"), value("*fp32", (8,)), value("int1", (4,))
    const = tl.tensor(p.handle, tl.pointer_type(tl.float32, const=True))
    cases: list[tuple[type[Exception], str, Any]] = [
        (
            TypeError,
            r"load needs a pointer .* but got fp32\[8\]",
            lambda: tl.load(value("fp32", (8,))),
        ),
        (TypeError, "load needs a pointer .* but got 3", lambda: tl.load(3)),
        (ValueError, "other must only be given with a mask", lambda: tl.load(block, other=0)),
        (
            ValueError,
            r"cannot load pointer<fp32>\[8\] with int1\[4\]",
            lambda: tl.load(block, mask),
        ),
        (ValueError, "mask of load must be a scalar", lambda: tl.load(p, mask)),
        (TypeError, "mask of load must be int1, but got int32", lambda: tl.load(p, value("int32"))),
        (ValueError, "value of store must be a scalar", lambda: tl.store(p, mask)),
        (ValueError, "value of store must broadcast", lambda: tl.store(block, mask)),
        (ValueError, "mask of store must broadcast", lambda: tl.store(block, 1.0, mask)),
        (
            ValueError,
            "value of store must broadcast",
            lambda: tl.store(block, value("fp32", (2, 8))),
        ),
        (TypeError, "Cannot store to a constant pointer", lambda: tl.store(const, 1.0)),
        (ValueError, "boundary_check must only", lambda: tl.load(block, boundary_check=(0,))),
        (
            ValueError,
            "boundary_check must only",
            lambda: tl.load(block, boundary_check=tl.tuple([0])),
        ),
        (ValueError, "boundary_check must only", lambda: tl.store(block, 0, boundary_check=(0,))),
        (ValueError, "padding_option must only", lambda: tl.load(block, padding_option="zero")),
        (ValueError, "cache_modifier must be", lambda: tl.load(block, cache_modifier=".wb")),
        (ValueError, "cache_modifier must be", lambda: tl.store(block, 1, cache_modifier=".ca")),
        (ValueError, "eviction_policy must be", lambda: tl.load(block, eviction_policy="later")),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)


def test_accepted_keywords_change_nothing() -> None:
    x = np.arange(4, dtype=np.float32)

    def work(p: Any) -> Any:
        at = p + tl.arange(0, 4)
        got = tl.load(at, cache_modifier=".cg", eviction_policy="evict_last", volatile=True)
        tl.store(at, got + 1, cache_modifier=".wt", eviction_policy="evict_first")
        return got

    np.testing.assert_array_equal(evaluate(work, Pointer(x)), [0, 1, 2, 3])
    np.testing.assert_array_equal(x, [1, 2, 3, 4])


ATOMICS: dict[str, Any] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "xchg": lambda old, new: new,
}


@pytest.mark.parametrize("kind", list(ATOMICS))
@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64", "fp32", "fp64"])
def test_atomics_give_what_was_there(kind: str, name: str) -> None:
    function = getattr(tl, f"atomic_{kind}")
    if kind in ("and", "or", "xor") and name.startswith("fp"):
        with pytest.raises(TypeError, match=f"atomic_{kind} does not support {name}"):
            emit(lambda p: function(p, 1), value(f"*{name}"))
        return
    x = np.array([5, 3, 12, 7], DTYPES[name])
    by, before = np.array([6, 1, 10, 9], DTYPES[name]), x.copy()

    def work(p: Any, v: Any) -> Any:
        return function(p + tl.arange(0, 4), v, tl.arange(0, 4) != 2, sem="relaxed", scope="cta")

    old = evaluate(work, Pointer(x), by)
    keep = np.array([1, 1, 0, 1], bool)
    np.testing.assert_array_equal(old, np.where(keep, before, 0))
    np.testing.assert_array_equal(x, np.where(keep, ATOMICS[kind](before, by), before))


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("name", ["fp32", "fp64"])
def test_extremes_of_floats_go_by_their_bits(name: str, private: bool, native: bool) -> None:
    dtype: Any = np.dtype(DTYPES[name]).type
    order = np.array([-np.inf, -2, -0.0, 0.0, 1, np.inf, np.nan], dtype)
    order = np.concatenate([[np.copysign(dtype(np.nan), -1)], order]).astype(dtype)
    old, new = (part.ravel() for part in np.meshgrid(order, order))
    places = np.arange(64)
    rank = {value.tobytes(): at for at, value in enumerate(order)}

    def work(kind: str, p: Any, v: Any) -> Any:
        return getattr(tl, f"atomic_{kind}")(p + tl.arange(0, 64), v)

    for kind, choose in (("max", max), ("min", min)):
        x = old.copy()
        # With several programs the updates are made by a loop that swaps, with one in private memory.
        grid = (1,) if private else (2,)
        evaluate(
            lambda p, v, kind=kind: work(kind, p, v), Pointer(x), new, grid=grid, native=native
        )
        for at in places:
            wanted = choose(old[at : at + 1], new[at : at + 1], key=lambda v: rank[v.tobytes()])
            assert x[at].tobytes() == wanted[0].tobytes(), (kind, old[at], new[at], x[at])


def test_atomics_of_one_address_add_up() -> None:
    x = np.zeros(1, np.float32)
    evaluate(lambda p: tl.atomic_add(p + tl.arange(0, 32) * 0, 1.0), Pointer(x), grid=(3, 2))
    assert x[0] == 192


def test_atomic_add_of_halves() -> None:
    x = np.ones(2, np.float16)
    evaluate(lambda p: tl.atomic_add(p + tl.arange(0, 2), 0.5), Pointer(x))
    np.testing.assert_array_equal(x, [1.5, 1.5])


def test_compare_and_swap_of_scalars_and_tiles() -> None:
    x = np.array([0, 1, 0, 3], np.int32)

    def work(p: Any) -> Any:
        return tl.atomic_cas(p + tl.arange(0, 4), 0, tl.arange(10, 14)), tl.atomic_cas(p + 1, 1, 9)

    tile, scalar = evaluate(work, Pointer(x))
    np.testing.assert_array_equal(tile, [0, 1, 0, 3])
    assert scalar == 1
    np.testing.assert_array_equal(x, [10, 9, 12, 3])


def test_atomic_loads_and_stores() -> None:
    x = np.arange(4, dtype=np.int32)

    def work(p: Any) -> Any:
        old = tl.atomic_load(p + tl.arange(0, 4), sem="acquire")
        tl.atomic_store(p + tl.arange(0, 4), old * 2, sem="release", scope="sys")
        return old

    np.testing.assert_array_equal(evaluate(work, Pointer(x)), [0, 1, 2, 3])
    np.testing.assert_array_equal(x, [0, 2, 4, 6])


def test_bad_atomics_are_named() -> None:
    p = value("*int32", (4,))
    cases: list[tuple[type[Exception], str, Any]] = [
        (ValueError, "sem must be one of 'acquire'", lambda: tl.atomic_add(p, 1, sem="seq_cst")),
        (ValueError, "scope must be one of 'gpu'", lambda: tl.atomic_add(p, 1, scope="node")),
        (ValueError, "sem must be one of", lambda: tl.atomic_load(p, sem="release")),
        (ValueError, "sem must be one of", lambda: tl.atomic_store(p, 1, sem="acquire")),
        (TypeError, "atomic_add does not support int16", lambda: tl.atomic_add(value("*int16"), 1)),
        (TypeError, "atomic_add does not support int8", lambda: tl.atomic_add(value("*int8"), 1)),
        (TypeError, "atomic_max does not support fp16", lambda: tl.atomic_max(value("*fp16"), 1)),
        (TypeError, "of 16, 32 or 64 bits", lambda: tl.atomic_cas(value("*int8"), 0, 1)),
        (TypeError, "atomic_add needs a pointer", lambda: tl.atomic_add(value("int32"), 1)),
        (ValueError, "value of atomic_add must", lambda: tl.atomic_add(p, value("int32", (8,)))),
        (TypeError, "mask of atomic_add", lambda: tl.atomic_add(p, 1, value("int32", (4,)))),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)
