"""Modules saved in the middle of a pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

import emu.sdy
from emu.mlir.diagnostics import Severity
from emu.sdy.passes.export.pipeline import ExportPipeline
from emu.sdy.passes.save_module import SaveModule

PROGRAM = """
sdy.mesh @grid = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@grid, [{"x", ?}]>}) -> tensor<8xf32> {
  %0 = sdy.sharding_constraint %a <@grid, [{"y", ?}]> : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


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
    emu.sdy.run_passes(emu.sdy.parse(PROGRAM), pipeline)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written.keys() == files.keys()
    for name, content in files.items():
        assert content in written[name]
        emu.sdy.parse(written[name])


def test_nowhere_to_write_is_no_error(tmp_path: Path) -> None:
    module = emu.sdy.parse(PROGRAM)
    (warning,) = emu.sdy.run_passes(module, SaveModule(str(tmp_path / "missing"), "title"))
    assert warning.severity is Severity.WARNING
    assert "title.mlir" in warning.message
