"""Counts become work: by unit and dtype, by launch, by what is read and written; what is none is refused."""

from __future__ import annotations

from typing import Any

import pytest
from trace_counts import counts_json

from emu.trace.events import Site
from emu.trace.prediction.counts import work_of_site
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.work import Traffic, Work


def work(counts: Any, **details: Any) -> Work:
    found = work_of_site(Site("k", details={"counts": counts, **details}))
    assert found is not None
    return found


def test_units_and_dtypes_are_those_of_devices() -> None:
    found = work(
        counts_json(
            programs=4,
            dot={"f32": 10, "f16": 20, "f8e4m3fn": 30, "f8e5m2": 1, "u8": 40},
            vector={"bf16": 5, "f64": 7},
            special=3,
        ),
        num_warps=8,
    )
    assert found.dot == {"tf32": 10, "f16": 20, "f8": 31, "i8": 40}
    assert found.vector == {"f32": 5, "f64": 7}
    assert (found.special, found.programs, found.ops, found.warps) == (3, 4, 10, 8)


def test_masks_and_addresses_do_not_count_but_comparisons_of_floats_do() -> None:
    units = {
        "compare": {"i32": 100, "f32": 2},
        "integer": {"i32": 100},
        "select": {"f16": 3},
        "cast": {"bf16": 4, "i64": 9},
    }
    assert work(counts_json(programs=1, work=units)).vector == {"f32": 9}


def test_sums_of_products_are_the_products_own_where_a_kernel_does_little_else() -> None:
    dots = [
        {
            "batch": 1,
            "m": 16,
            "n": 8,
            "k": 4,
            "a": "f16",
            "b": "f16",
            "accumulator": "f32",
            "times": 5,
        }
    ]

    def of(vector: int, special: int) -> dict[str, float]:
        return dict(
            work(
                counts_json(
                    programs=1, dot={"f16": 9}, vector={"f32": vector}, special=special, dots=dots
                )
            ).vector
        )

    assert of(16 * 8 * 5 + 3, 0) == {"f32": 3}
    assert of(16 * 8 * 5, 64) == {}
    assert of(100, 0) == {}
    assert of(16 * 8 * 5, 65) == {"f32": 16 * 8 * 5}  # attention: it scales what it has summed


def test_memory_that_is_changed_in_place_moves_twice() -> None:
    row = {
        "name": "x",
        "loaded": 80,
        "stored": 40,
        "atomic": 10,
        "unique_loaded": 50,
        "unique_stored": None,
        "unique": 60,
    }
    found = work(counts_json(programs=1) | {"tensors": [row], "atomics": {"add f32": 5}})
    assert found.tensors == (Traffic(90, 50), Traffic(50, 50))
    assert found.atomics == 5


def test_several_launches_are_divided() -> None:
    found = work(counts_json(programs=30, dot={"f16": 300}, tensors=[(90, 60)], launches=3))
    assert (found.programs, found.dot, found.tensors) == (10, {"f16": 100}, (Traffic(30, 20),))


def test_the_busiest_class_of_programs_is_seen() -> None:
    def of(programs: int, flops: int, nbytes: int) -> dict[str, Any]:
        return {
            "programs": programs,
            "operations": 1,
            "flops": flops,
            "loaded": nbytes,
            "stored": 0,
            "is_uniform": True,
        }

    assert work(counts_json(programs=4, by_program=[of(3, 30, 1), of(1, 50, 1)])).most == 50 / 20
    assert work(counts_json(programs=4, by_program=[of(3, 0, 30), of(1, 0, 50)])).most == 50 / 20
    assert work(counts_json(programs=4, by_program=[of(4, 0, 0)])).most == 1


def test_a_launch_without_counts_has_no_work() -> None:
    assert work_of_site(Site("k")) is None
    assert work_of_site(Site("k", details={"grid": [1, 1, 1]})) is None


@pytest.mark.parametrize(
    "counts",
    [
        5,
        [5],
        ["x"],
        [counts_json(programs=1), {}],
        [counts_json(programs=1, launches=0)],
        "x",
        {},
        {"version": 2},
        counts_json(programs=0),
        counts_json(programs=-1),
        counts_json(programs=1, launches=0),
        counts_json(programs=1, work=[]),
        counts_json(programs=1, work={"dot": 5}),
        counts_json(programs=1, work={"dot": {"f16": "many"}}),
        counts_json(programs=1, work={"dot": {"f16": -1}}),
        counts_json(programs=1, work={"dot": {"f16": float("nan")}}),
        counts_json(programs=1, work={"dot": {"f16": 10**40}}),
        counts_json(programs=1, operations=10**400),
        counts_json(programs=1, by_program=[{}]),
        counts_json(programs=1, by_program=5),
        counts_json(programs=1, atomics=[1]),
        counts_json(programs=1, dots=[{}]),
        counts_json(programs=1, dots=5),
    ],
)
def test_what_is_none_is_refused(counts: Any) -> None:
    with pytest.raises(PredictionError, match="the counts of 'k' are none: "):
        work(counts)


@pytest.mark.parametrize(
    "key",
    [
        "version",
        "launches",
        "programs",
        "operations",
        "work",
        "tensors",
        "atomics",
        "by_program",
        "dots",
    ],
)
def test_what_lacks_a_part_is_refused(key: str) -> None:
    counts = counts_json(programs=1)
    del counts[key]
    with pytest.raises(PredictionError, match=key):
        work(counts)
