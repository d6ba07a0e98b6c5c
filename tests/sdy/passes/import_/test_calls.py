"""Import of calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import PassFailed
from emu.sdy.passes.run import run_passes

GOLDEN = Path(__file__).parent / "golden"


def test_copying_a_function_is_told_once() -> None:
    text = (GOLDEN / "import_func_calls.mlir").read_text()
    (warning,) = run_passes(parse(text), "sdy-import-func-calls")
    assert warning.message == (
        "function @leaf has multiple call ops, we need to clone the function body for each call"
    )


def test_a_call_of_a_declaration_is_not_imported() -> None:
    module = parse(
        """
func.func private @elsewhere(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @elsewhere(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    )
    with pytest.raises(PassFailed, match="-:4:8: function @elsewhere has no body"):
        run_passes(module, "sdy-import-func-calls")
