"""Data-flow edges of functions."""

from __future__ import annotations

import pytest

from emu.mlir import parse
from emu.mlir.diagnostics import PassFailed
from emu.sdy.passes.run import run_passes


def test_without_a_main_function_edges_fail() -> None:
    module = parse("func.func @a() {\n  return\n}\nfunc.func @b() {\n  return\n}")
    with pytest.raises(PassFailed, match="Failed to lookup function: main"):
        run_passes(module, "sdy-add-func-data-flow-edges")
