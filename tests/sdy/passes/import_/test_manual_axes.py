"""Manual axes of manual computations."""

from __future__ import annotations

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import PassFailed
from emu.sdy.passes.run import run_passes


def test_a_manual_computation_that_only_does_something_fails() -> None:
    module = parse(
        """
sdy.mesh @m = <["x"=2]>
func.func @main() {
  sdy.manual_computation() in_shardings=[] out_shardings=[] manual_axes={"x"} () {
    stablehlo.custom_call @effect() {has_side_effect = true} : () -> ()
    sdy.return
  } : () -> ()
  return
}"""
    )
    with pytest.raises(PassFailed, match="-:4:3: op has manual_axes when there are no in/out"):
        run_passes(module, "sdy-manual-axes-cleanup")
