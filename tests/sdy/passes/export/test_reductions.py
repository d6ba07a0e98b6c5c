"""Sharded reductions by any operator compute on PEs what the whole program computes."""

from __future__ import annotations

import numpy as np
import pytest

import emu.sdy

KINDS = [
    # Operator, operand, element type, start.
    ("maximum", "%x", "f32", "0xFF800000"),
    ("minimum", "%x", "f32", "0x7F800000"),
    ("add", "%x", "f32", "0.0"),
    ("multiply", "%x", "f32", "1.0"),
    ("maximum", "%i", "i32", "-2147483648"),
    ("minimum", "%i", "i32", "7"),
    ("and", "%i", "i32", "-1"),
    ("or", "%i", "i32", "0"),
    ("xor", "%i", "i32", "0"),
    ("and", "%b", "i1", "true"),
    ("or", "%b", "i1", "false"),
]


def program(dims: str) -> str:
    arguments = [
        f"{name}: tensor<12x6x{type_}> {{sdy.sharding = #sdy.sharding<@mesh, {dims}>}}"
        for name, type_ in (("%x", "f32"), ("%i", "i32"), ("%b", "i1"))
    ]
    body, results, types = [], [], []
    for number, (op, operand, type_, start) in enumerate(KINDS):
        body += [
            f"%c{number} = stablehlo.constant dense<{start}> : tensor<{type_}>",
            (
                f"%r{number} = stablehlo.reduce({operand} init: %c{number}) applies stablehlo.{op} "
                f"across dimensions = [0] : (tensor<12x6x{type_}>, tensor<{type_}>) -> tensor<6x{type_}>"
            ),
        ]
        results.append(f"%r{number}")
        types.append(f"tensor<6x{type_}>")
    body.append(ARGMAX)
    results += ["%top#0", "%top#1"]
    types += ["tensor<6xf32>", "tensor<6xi32>"]
    lines = "\n  ".join(body)
    return (
        f'sdy.mesh @mesh = <["a"=2, "b"=3]>\nfunc.func @main({", ".join(arguments)}) -> '
        f"({', '.join(types)}) {{\n  {lines}\n  return {', '.join(results)} : {', '.join(types)}\n}}\n"
    )


ARGMAX = """%k = stablehlo.iota dim = 0 : tensor<12x6xi32>
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %top:2 = stablehlo.reduce(%x init: %low), (%k init: %zero) across dimensions = [0]
      : (tensor<12x6xf32>, tensor<12x6xi32>, tensor<f32>, tensor<i32>) -> (tensor<6xf32>, tensor<6xi32>)
    reducer(%p: tensor<f32>, %q: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>)  {
    %gt = stablehlo.compare GT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %eq = stablehlo.compare EQ, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %lt = stablehlo.compare LT, %m, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %tie = stablehlo.and %eq, %lt : tensor<i1>
    %first = stablehlo.or %gt, %tie : tensor<i1>
    %v = stablehlo.select %first, %p, %q : tensor<i1>, tensor<f32>
    %w = stablehlo.select %first, %m, %n : tensor<i1>, tensor<i32>
    stablehlo.return %v, %w : tensor<f32>, tensor<i32>
  }"""

UFUNCS = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "add": np.add,
    "multiply": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@pytest.mark.parametrize("dims", ['[{"a", "b"}, {}]', '[{"b"}, {"a"}]'])
def test_every_operator(dims: str) -> None:
    rng = np.random.default_rng(0)
    # All negative, and with equal greatest elements: zeros of a device without them would show.
    x = rng.integers(-9, -1, (12, 6)).astype(np.float32)
    i = rng.integers(-9, 9, (12, 6)).astype(np.int32)
    b = rng.random((12, 6)) < 0.9
    given = {"%x": x, "%i": i, "%b": b}
    *found, top, index = emu.sdy.run(emu.sdy.parse(program(dims)), x, i, b, check="unsharded")
    for (op, operand, _, start), got in zip(KINDS, found, strict=True):
        expected = UFUNCS[op].reduce(given[operand], axis=0)
        if (op, operand) == ("minimum", "%i"):
            expected = np.minimum(expected, int(start))
        np.testing.assert_allclose(got, expected, rtol=1e-5, err_msg=f"{op} of {operand}")
    np.testing.assert_array_equal(top, x.max(0))
    np.testing.assert_array_equal(index, x.argmax(0))


DELAYED = """
sdy.mesh @mesh = <["a"=2, "b"=3]>
func.func @main(%x: tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>})
    -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [RESULT]>}) {
  %c = stablehlo.constant dense<START> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %c) applies stablehlo.NAMEimum across dimensions = [0]
      {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced=NAME{"a"}>]>}
      : (tensor<12x6xf32>, tensor<f32>) -> tensor<6xf32>
  %1 = stablehlo.tanh %0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}], unreduced=NAME{"a"}>]>}
      : tensor<6xf32>
  %2 = sdy.reshard %1 <@mesh, [RESULT]> : tensor<6xf32>
  return %2 : tensor<6xf32>
}
"""


@pytest.mark.parametrize(
    ("name", "start", "result"), [("max", "0xFF800000", "{}"), ("min", "0x7F800000", '{"a"}')]
)
def test_what_comes_between_does_not_hide_the_operator(name: str, start: str, result: str) -> None:
    text = DELAYED.replace("NAME", name).replace("START", start).replace("RESULT", result)
    x = np.random.default_rng(1).normal(-3, 1, (12, 6)).astype(np.float32)
    (got,) = emu.sdy.run(emu.sdy.parse(text), x, check="unsharded")
    expected = np.tanh(x.max(0) if name == "max" else x.min(0))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


ONE_DEVICE = """
sdy.mesh @mesh = <["a"=2, "b"=3]>
sdy.mesh @one = <[], device_ids=[DEVICE]>
func.func @main(%x: tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>})
    -> (tensor<12x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>}, tensor<6xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.tanh %x {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>} : tensor<12x6xf32>
  %1 = stablehlo.multiply %0, %x : tensor<12x6xf32>
  %2 = stablehlo.reduce(%1 init: %c) applies stablehlo.add across dimensions = [0]
      {sdy.sharding = #sdy.sharding_per_value<[<@one, []>]>}
      : (tensor<12x6xf32>, tensor<f32>) -> tensor<6xf32>
  return %1, %2 : tensor<12x6xf32>, tensor<6xf32>
}
"""


@pytest.mark.parametrize("device", [0, 5])
def test_operations_on_one_device(device: int) -> None:
    x = np.random.default_rng(2).normal(size=(12, 6)).astype(np.float32)
    module = emu.sdy.parse(ONE_DEVICE.replace("DEVICE", str(device)))
    product, total = emu.sdy.run(module, x, check="unsharded")
    np.testing.assert_allclose(product, np.tanh(x) * x, rtol=1e-5)
    np.testing.assert_allclose(total, (np.tanh(x.astype(float)) * x).sum(0), rtol=1e-5, atol=1e-6)
