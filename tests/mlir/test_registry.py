"""Dialects: which package knows them, and when they are imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = "func.func @f(%x: tensor<f32>) { %0 = stablehlo.add %x, %x : tensor<f32> return }"


def output(code: str) -> str:
    """Return what a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_mlir_alone_knows_no_dialect_but_its_own() -> None:
    code = f"""
from emu.mlir import parse
print(parse("func.func @f() {{ return }}").body().first.name)
try:
    parse({PROGRAM!r})
except ValueError as error:
    print(error)
"""
    first, second, *_ = output(code).splitlines()
    assert first == "func.func"
    assert "Dialect `stablehlo' not found" in second


@pytest.mark.parametrize("module", ["emu.stablehlo", "emu.sdy.jax", "emu.sdy.passes.base"])
def test_packages_above_bring_their_dialects(module: str) -> None:
    code = (
        f"import {module}\nfrom emu.mlir import parse\nprint(len(list(parse({PROGRAM!r}).walk())))"
    )
    assert output(code) == "4"


def test_importing_sdy_imports_nothing_else() -> None:
    code = "import sys, emu.sdy\nprint([m for m in sys.modules if m.startswith(('emu.mlir', 'emu.st'))])"
    assert output(code) == "[]"
