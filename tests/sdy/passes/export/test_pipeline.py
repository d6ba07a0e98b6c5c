"""What the export pipeline consists of, and what it writes on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

import emu.sdy
from emu.mlir.diagnostics import Severity
from emu.mlir.ir import Operation
from emu.sdy.passes.export.conversion import Conversion
from emu.sdy.passes.export.pipeline import ExportPipeline
from emu.sdy.passes.export.reshards.insertion import InsertExplicitReshards
from emu.sdy.passes.generic import Canonicalize
from emu.sdy.passes.save_module import SaveModule

PROGRAM = """
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> tensor<8xf32> {
  %0 = sdy.sharding_constraint %a <@grid, [{"y", ?}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


def names(pipeline: ExportPipeline) -> list[str]:
    short = [each.name.removeprefix("sdy-") for each in pipeline.passes()]
    return [name for name in short if name != "save-module"]


START = ["constant-or-scalar-merger", "sink-data-flow-edges"]
CONVERT = ["remove-sharding-groups", "sharding-constraint-to-reshard"]
EVEN = [
    "update-non-divisible-input-output-shardings",
    "remove-sub-axes-in-input-output-shardings",
]
INSERT = ["close-shardings", "insert-explicit-reshards", "canonicalize"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {},
            [*START, *CONVERT, *EVEN, *INSERT, "drop-sharding-rules"],
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
                "drop-sharding-rules",
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


@pytest.mark.parametrize(
    ("collectives", "files"),
    [
        (
            False,
            {
                "03.after_propagation.mlir": "sdy.reshard",
                "04.after_minimal_partitioner_with_global_shapes.mlir": "sdy.reshard",
            },
        ),
        (
            True,
            {
                "03.after_propagation.mlir": "sdy.reshard",
                "04.after_explicit_reshards.mlir": "sdy.reshard",
                "05.after_partitioner_with_global_shapes.mlir": "sdy.all_gather",
            },
        ),
    ],
)
def test_modules_on_the_way(tmp_path: Path, collectives: bool, files: dict[str, str]) -> None:
    pipeline = ExportPipeline(
        dump_directory=str(tmp_path),
        dump_index=3,
        enable_insert_explicit_collectives=collectives,
    )
    emu.sdy.run(emu.sdy.parse(PROGRAM), pipeline)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written.keys() == files.keys()
    for name, content in files.items():
        assert content in written[name]
        emu.sdy.parse(written[name])


def test_nowhere_to_write_is_no_error(tmp_path: Path) -> None:
    module = emu.sdy.parse(PROGRAM)
    (warning,) = emu.sdy.run(module, SaveModule(str(tmp_path / "missing"), "title"))
    assert warning.severity is Severity.WARNING
    assert "title.mlir" in warning.message


def test_conversion_replaces_in_the_end() -> None:
    """Uses come to a value in the order of replacements, and chains are followed."""
    module = emu.sdy.parse("""
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  %2 = stablehlo.abs %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
""")
    (func,) = module.body()
    argument = func.body().arguments[0]
    first, second, user, end = func.body()
    conversion = Conversion()
    conversion.replace(first, argument)
    assert conversion.current(second.operands[0]) is argument
    conversion.replace(second, conversion.current(second.operands[0]))
    assert first.result.has_uses, "nothing changes before the end"
    conversion.finish()
    assert list(func.body()) == [user, end]
    assert argument.uses == [(end, 0), (user, 0)]


def test_conversion_inserts_before_what_it_replaces() -> None:
    module = emu.sdy.parse(PROGRAM)
    func = module.body().last
    assert func is not None
    constraint = func.body().first
    assert constraint is not None
    made = Operation("stablehlo.abs", constraint.operands, [constraint.result.type])
    conversion = Conversion()
    conversion.insert(constraint, made)
    conversion.replace(constraint, made.result)
    conversion.finish()
    assert [op.name for op in func.body()] == ["stablehlo.abs", "func.return"]
