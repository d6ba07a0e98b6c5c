"""StableHLO's text: what MLIR wrote is read, and written back byte for byte.

``golden/NAME.mlir`` and ``golden/NAME.generic.mlir`` are one module, as MLIR
writes it in pretty and in generic form.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emu.mlir import parse, registry, to_text
from emu.stablehlo.dialect import SPECS

GOLDEN = Path(__file__).parent / "golden"


NAMES = sorted(p.stem for p in GOLDEN.glob("*.mlir") if not p.stem.endswith(".generic"))


def read(name: str) -> str:
    return (GOLDEN / f"{name}.mlir").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("source", ["", ".generic"])
def test_text_round_trips(name: str, source: str) -> None:
    module = parse(read(name + source))
    assert to_text(module) == read(name)
    assert to_text(module, generic=True) == read(f"{name}.generic")


def test_every_operation_is_in_a_golden_file() -> None:
    text = "".join(read(f"{name}.generic") for name in NAMES)
    seen = set(re.findall(r'"((?:stablehlo|chlo|mhlo)\.[\w-]+)"\(', text))
    assert seen == SPECS.keys()
    known = {n for n in registry._definitions if n.startswith(("stablehlo.", "chlo.", "mhlo."))}
    assert known == seen
    assert len([n for n in known if n.startswith("stablehlo.")]) == 118


def test_generic_only_operations_have_no_pretty_form() -> None:
    text = "".join(map(read, NAMES))
    for name in sorted(set(re.findall(r'"((?:stablehlo|chlo)\.[\w-]+)"\(', text))):
        assert registry.definition(name).print is None, name


BODY = """func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>, %p: tensor<4xi1>) {{
  %0 = {line}
  return
}}
"""


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "stablehlo.compare LESS, %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
            "EQ, NE",
        ),
        (
            "stablehlo.add %a, %b : (tensor<4xf32>) -> tensor<4xf32>",
            "2 operands present, but expected 1",
        ),
        ("stablehlo.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> ()", "expected single output"),
        (
            "stablehlo.select %p, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>",
            "expected functional type or list of two types",
        ),
        (
            "stablehlo.select %p, %a, %b : tensor<4xi1>",
            "expected functional type or list of two types",
        ),
        ("stablehlo.complex %a, %b : tensor<4xf32>", "expected tensor with complex element type"),
        ("stablehlo.tuple %a : tensor<4xf32>", "expected tuple type"),
        ("stablehlo.iota : tensor<4xf32>", "expected 'dim'"),
        ("stablehlo.iota dim = x : tensor<4xf32>", "expected attribute value"),
        ("stablehlo.transpose %a, dims = 0 : (tensor<4xf32>) -> tensor<4xf32>", "expected '['"),
        ("stablehlo.reduce_precision %a, format = f16 : tensor<4xf32>", "in format e#m#, saw f16"),
        ("stablehlo.constant 7 : i32", "expected elements attribute"),
        (
            "stablehlo.reshape %a, %b : (tensor<4xf32>) -> tensor<4xf32>",
            "number of operands and types do not match: got 2 operands and 1 types",
        ),
        (
            (
                "stablehlo.reduce(%a init: %b) applies stablehlo.subtract across dimensions = [0]"
                " : (tensor<4xf32>, tensor<f32>) -> tensor<f32>"
            ),
            "expected the inner-op to be a commutative binary-op from the stablehlo dialect",
        ),
        (
            "stablehlo.reduce(%a init: %b) applies stablehlo.add across dimensions = [0] : () -> ()",
            "number of operands and types do not match",
        ),
        (
            (
                "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],"
                " window = {step = [1]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
            ),
            "Unexpected keyword step",
        ),
        (
            (
                "stablehlo.convolution(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f],"
                " window = {pad = [[1]]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"
            ),
            "Expected array with 2 elements, got 1 elements instead",
        ),
    ],
)
def test_bad_text_is_reported(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse(BODY.format(line=line))


def test_a_constant_of_another_type_is_read_with_a_plain_dictionary_too() -> None:
    line = (
        "stablehlo.constant() {value = dense<[1, 512]> : tensor<2xi32>}"
        " : () -> tensor<2x!quant.uniform<i32:f32, 2.000000e+00:15>>"
    )
    text = to_text(parse(BODY.format(line=line), verify=False))
    assert f"%cst = {line.replace('{', '<{').replace('}', '}>')}\n" in text


@pytest.mark.parametrize(
    ("line", "pretty"),
    [
        (
            (
                '"stablehlo.custom_call"(%a) <{api_version = 1 : i32, call_target_name = "t",'
                " called_computations = [], has_side_effect = false, output_operand_aliases = []}>"
                " : (tensor<4xf32>) -> tensor<4xf32>"
            ),
            "stablehlo.custom_call @t(%arg0) : (tensor<4xf32>) -> tensor<4xf32>",
        ),
        (
            (
                '"stablehlo.log"(%a) <{result_accuracy = #stablehlo.result_accuracy<mode ='
                " #stablehlo.result_accuracy_mode<DEFAULT>>}> : (tensor<4xf32>) -> tensor<4xf32>"
            ),
            "stablehlo.log %arg0 : tensor<4xf32>",
        ),
        (
            (
                '"mhlo.topk"(%a) <{k = 1 : i64, largest = true}>'
                " : (tensor<4xf32>) -> (tensor<1xf32>, tensor<1xi32>)"
            ),
            "mhlo.topk(%arg0, k = 1) : tensor<4xf32> -> (tensor<1xf32>, tensor<1xi32>)",
        ),
    ],
)
def test_defaults_are_written_in_generic_form_only(line: str, pretty: str) -> None:
    module = parse(BODY.format(line=line).replace("%0 =", "%0:2 =" if "topk" in line else "%0 ="))
    assert f"= {pretty}\n" in to_text(module)
    assert line.replace("%a", "%arg0") in to_text(module, generic=True)


def test_what_is_missing_of_a_host_transfer_is_filled_in() -> None:
    line = '"stablehlo.outfeed"(%a, %t) : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token'
    body = BODY.replace("%p: tensor<4xi1>", "%t: !stablehlo.token")
    assert '<{outfeed_config = ""}>' in to_text(parse(body.format(line=line)))


@pytest.mark.parametrize("name", sorted(n for n in NAMES if n != "quantized"))
def test_what_lacks_attributes_or_regions_is_written_in_generic_form(name: str) -> None:
    module = parse(read(name))
    for function in module.body():
        for op in function.body() if function.regions[0].blocks else ():
            if op.dialect != "func" and not registry.definition(op.name).defaults:
                op.properties.clear()
                op.regions = ()
    text = to_text(module)
    assert to_text(parse(text, verify=False)) == text
