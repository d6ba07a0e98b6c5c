"""Constants."""

from __future__ import annotations

import pytest

import emu.stablehlo  # noqa: F401  # defines the dialect
from emu.mlir import parse
from emu.mlir.diagnostics import MlirError


def test_constants_have_a_static_shape() -> None:
    with pytest.raises(MlirError, match="op result #0 must be statically shaped tensor of"):
        parse("func.func @f() {\n  %0 = stablehlo.iota dim = 0 : tensor<?xf32>\n  return\n}")
