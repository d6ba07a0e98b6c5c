"""What the export pipeline consists of, and what it writes on the way."""

from __future__ import annotations

import pytest

from emu.sdy.passes.export.pipeline import ExportPipeline
from emu.sdy.passes.export.reshards.insertion import InsertExplicitReshards
from emu.sdy.passes.generic import Canonicalize


def names(pipeline: ExportPipeline) -> list[str]:
    short = [each.name.removeprefix("sdy-") for each in pipeline.passes()]
    return [name for name in short if name != "save-module"]


START = ["constant-or-scalar-merger", "sink-data-flow-edges"]


CONVERT = ["remove-sharding-groups", "sharding-constraint-to-reshard"]


EVEN = [
    "update-non-divisible-input-output-shardings",
    "remove-sub-axes-in-input-output-shardings",
]


INSERT = [
    "close-shardings",
    "verify-unreduced-axes",
    "insert-explicit-reshards",
    "canonicalize",
]


END = ["drop-sharding-rules", "inline-meshes"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            [*START, *CONVERT, *EVEN, *INSERT, *END],
        ),
        (
            {"avoid_export_for_partitioning": True, "keep_sharding_rules": True},
            [*START, *EVEN, "close-shardings"],
        ),
        (
            {"update_non_divisible_input_output_shardings": False, "dump_sharding_origins": True},
            [
                *START,
                *CONVERT,
                *INSERT,
                "remove-propagation-debug-info",
                *END,
            ],
        ),
        (
            {
                "enable_insert_explicit_collectives": True,
                "remove_all_gather_reduce_scatter_for_cmv1": True,
            },
            [
                *START,
                *CONVERT,
                *EVEN,
                *INSERT,
                "reshard-to-collectives",
                "canonicalize",
                "remove-all-gather-reduce-scatter-for-cmv1",
                *END,
            ],
        ),
        (
            {"enable_per_instruction_partitioning": True, "inline_meshes": False},
            [
                *START,
                *CONVERT,
                *EVEN,
                *INSERT[:-1],
                "per-instruction-partitioning",
                "canonicalize",
                "drop-sharding-rules",
            ],
        ),
    ],
)
def test_passes(options: dict[str, bool], expected: list[str]) -> None:
    assert names(ExportPipeline(**options)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("full", [False, True])
def test_collectives_need_all_reshards(full: bool) -> None:
    passes = ExportPipeline(enable_insert_explicit_collectives=full).passes()
    (insert,) = [each for each in passes if isinstance(each, InsertExplicitReshards)]
    assert insert.enable_full_version is full
    labels = [each.enable_patterns for each in passes if isinstance(each, Canonicalize)]
    assert labels == ([("sdy-reshard",)] if full else []) + [("sdy-collective",)]
