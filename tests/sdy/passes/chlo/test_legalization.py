"""From CHLO to StableHLO: what is made of each operation, and what stays."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import emu.sdy

CONFORMANCE = Path(__file__).resolve().parents[3] / "conformance" / "sdy"
PASS = "chlo-legalize-to-stablehlo"


def legalized(body: str, arguments: str, result: str) -> tuple[str, list[str]]:
    """The operations that are made, and the warnings."""
    text = f"func.func @main({arguments}) -> {result} {{\n{body}\n  return %0 : {result}\n}}"
    module = emu.sdy.parse(text)
    messages = emu.sdy.run_passes(module, PASS)
    again = emu.sdy.parse(str(module))  # the verifier takes it
    assert str(again) == str(module)
    return str(module), [each.message for each in messages]


def unary(name: str, type_: str = "tensor<4xf32>", result: str | None = None) -> str:
    result = result or type_
    text, messages = legalized(
        f"  %0 = chlo.{name} %x : {type_} -> {result}", f"%x: {type_}", result
    )
    assert not messages
    return text


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("square", "stablehlo.multiply %arg0, %arg0"),
        ("tan", "stablehlo.tan %arg0"),
        ("atan", "stablehlo.atan2 %arg0, %cst"),
    ],
)
def test_one_operation(name: str, operation: str) -> None:
    assert operation in unary(name)


@pytest.mark.parametrize(
    "name", ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh"]
)
def test_small_floats_are_computed_in_f32(name: str) -> None:
    text = unary(name, "tensor<4xbf16>")
    assert "(tensor<4xbf16>) -> tensor<4xf32>" in text
    assert "(tensor<4xf32>) -> tensor<4xbf16>" in text


def test_no_infinity_where_there_is_none() -> None:
    assert "0x7F800000" in unary("is_inf", result="tensor<4xi1>")
    assert "dense" not in unary("is_inf", "tensor<4xf8E4M3FN>", "tensor<4xi1>")


def test_the_largest_elements() -> None:
    text = "tensor<4x8xf32>"
    module = emu.sdy.parse(
        f"func.func @main(%x: {text}) -> tensor<4x2xi32> {{\n"
        f"  %v, %i = chlo.top_k(%x, k = 2) : {text} -> (tensor<4x2xf32>, tensor<4x2xi32>)\n"
        "  return %i : tensor<4x2xi32>\n}"
    )
    assert not emu.sdy.run_passes(module, PASS)
    names = [op.name for op in module.walk() if op.dialect == "stablehlo"]
    assert names[:2] == ["stablehlo.iota", "stablehlo.sort"]
    assert "compare  GT" in str(module).replace("compare GT", "compare  GT")
    assert "TOTALORDER" in str(module)


def test_broadcasts() -> None:
    text, messages = legalized(
        "  %0 = chlo.broadcast_add %x, %y : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>",
        "%x: tensor<8xf32>, %y: tensor<4x8xf32>",
        "tensor<4x8xf32>",
    )
    assert not messages
    assert re.search(r"broadcast_in_dim %arg0, dims = \[1\]", text)
    assert "stablehlo.add" in text


def test_a_comparison_keeps_its_direction() -> None:
    text, messages = legalized(
        "  %0 = chlo.broadcast_compare %x, %x {compare_type = #chlo<comparison_type TOTALORDER>, "
        "comparison_direction = #chlo<comparison_direction LE>} "
        ": (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>",
        "%x: tensor<8xf32>",
        "tensor<8xi1>",
    )
    assert not messages
    assert re.search(r"stablehlo.compare +LE, %arg0, %arg0, +TOTALORDER", text)


def test_constants() -> None:
    text, messages = legalized(
        '  %0 = "chlo.constant_like"(%x) <{value = 2.5 : f32}> : (tensor<4xf32>) -> tensor<4xf32>',
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
    )
    assert not messages
    assert "stablehlo.constant dense<2.500000e+00> : tensor<4xf32>" in text


def test_shardings_are_kept() -> None:
    sharding = '{sdy.sharding = #sdy.sharding_per_value<[<@m, [{"x"}]>]>}'
    module = emu.sdy.parse(
        'sdy.mesh @m = <["x"=2]>\n'
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        f"  %0 = chlo.square %x {sharding} : tensor<4xf32> -> tensor<4xf32>\n"
        "  return %0 : tensor<4xf32>\n}"
    )
    emu.sdy.run_passes(module, PASS)
    assert f"stablehlo.multiply %arg0, %arg0 {sharding}" in str(module)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
def test_the_numbers_are_those_of_jaxlibs_pass() -> None:
    """In a process of its own: where JAX was imported, each later fork warns."""
    done = subprocess.run(
        [sys.executable, str(CONFORMANCE / "chlo.py")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(CONFORMANCE.parents[2])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    compared = [line for line in done.stdout.splitlines() if not line.endswith("stays")]
    assert len(compared) >= 60


@pytest.mark.parametrize("name", ["erf", "erf_inv", "lgamma", "digamma", "bessel_i1e"])
def test_what_has_no_exact_formula_stays_and_is_named(name: str) -> None:
    body = f"  %0 = chlo.{name} %x : tensor<4xf32> -> tensor<4xf32>"
    text, messages = legalized(body, "%x: tensor<4xf32>", "tensor<4xf32>")
    assert f"chlo.{name}" in text
    assert [message.split()[0] for message in messages] == [f"chlo.{name}"]


@pytest.mark.parametrize(
    "line",
    [
        '%0 = "chlo.sinh"(%x) : (tensor<4xf32>) -> tensor<5xf32>',
        '%0 = "chlo.cosh"(%x) : (tensor<4xf32>) -> i32',
    ],
)
def test_malformed_operations_stay(line: str) -> None:
    result = line.rpartition("-> ")[2]
    _, messages = legalized(f"  {line}", "%x: tensor<4xf32>", result)
    assert len(messages) == 1
