"""Fused kernels: what they are given, where they write, and that they can be sent."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from stablehlo_fusion import check_same, edge_values, empty, parse, reference, steps_of

from emu.stablehlo.compiled.fusion import FusedKernel, Group, compile_group
from emu.stablehlo.reference.errors import EvaluationError

CHAIN = """
func.func @main(%a: tensor<37x70xf32>, %b: tensor<70xf32>) -> (tensor<37x70xf32>, tensor<37x70xf32>) {
  %0 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<70xf32>) -> tensor<37x70xf32>
  %1 = stablehlo.add %a, %0 : tensor<37x70xf32>
  %2 = stablehlo.multiply %1, %a : tensor<37x70xf32>
  return %1, %2 : tensor<37x70xf32>, tensor<37x70xf32>
}
"""
ROWS = """
func.func @main(%a: tensor<40x96xf32>) -> tensor<40x96xf32> {
  %s = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %s) applies stablehlo.maximum across dimensions = [1] : (tensor<40x96xf32>, tensor<f32>) -> tensor<40xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<40xf32>) -> tensor<40x96xf32>
  %2 = stablehlo.subtract %a, %1 : tensor<40x96xf32>
  return %2 : tensor<40x96xf32>
}
"""
COLUMNS = """
func.func @main(%a: tensor<50x300xf32>) -> (tensor<50x300xf32>, tensor<300xf32>) {
  %s = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.negate %a : tensor<50x300xf32>
  %1 = stablehlo.reduce(%0 init: %s) applies stablehlo.add across dimensions = [0] : (tensor<50x300xf32>, tensor<f32>) -> tensor<300xf32>
  return %0, %1 : tensor<50x300xf32>, tensor<300xf32>
}
"""


def only_group(text: str) -> Group:
    """Return the group that a program is."""
    (group,) = steps_of(parse(text))
    assert isinstance(group, Group)
    return group


def inputs_of(group: Group) -> list[np.ndarray]:
    """Return an array per input."""
    shapes = [value.type.shape for value in group.inputs]
    return [
        edge_values("f32", int(np.prod(shape)), n).reshape(shape) for n, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize("text", [CHAIN, ROWS, COLUMNS])
def test_outputs_may_be_the_inputs_that_in_place_names(text: str) -> None:
    group = only_group(text)
    kernel = compile_group(group)
    assert kernel.in_place
    wanted = reference(parse(text), *inputs_of(group))
    for source, target in kernel.in_place:
        inputs = inputs_of(group)
        outputs = [empty(value.type) for value in group.outputs]
        outputs[target] = inputs[source]
        kernel.run(inputs, outputs)
        check_same(outputs, wanted, f"output {target} in place of input {source}")


def test_an_operand_that_is_repeated_is_no_place_for_an_output() -> None:
    group = only_group(CHAIN)
    repeated = [v.type.shape for v in group.inputs].index((70,))
    assert all(source != repeated for source, _ in compile_group(group).in_place)
    turned = """
    func.func @main(%a: tensor<9x9xf32>) -> tensor<9x9xf32> {
      %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<9x9xf32>) -> tensor<9x9xf32>
      %1 = stablehlo.add %a, %0 : tensor<9x9xf32>
      return %1 : tensor<9x9xf32>
    }
    """
    assert compile_group(only_group(turned)).in_place == ()


@pytest.mark.parametrize("text", [CHAIN, ROWS, COLUMNS])
def test_inputs_may_have_any_strides(text: str) -> None:
    group = only_group(text)
    inputs = inputs_of(group)
    wanted = reference(parse(text), *inputs)
    for moved in (
        [np.asfortranarray(x) for x in inputs],
        [np.repeat(x, 2, axis=-1)[..., ::2] for x in inputs],
        [x[::-1].copy()[::-1] for x in inputs],
    ):
        outputs = [empty(value.type) for value in group.outputs]
        run = compile_group(group).bind(moved, outputs)
        run()
        check_same(outputs, wanted)
        # A bound kernel reads what its inputs hold when it runs.
        for x in moved:
            x[...] = 1.0
        run()
        check_same(outputs, reference(parse(text), *(np.ones_like(x) for x in inputs)))


def test_a_kernel_is_sent_without_its_code() -> None:
    group = only_group(ROWS)
    kernel = compile_group(group)
    sent = pickle.dumps(kernel)
    assert len(sent) < 4000
    inputs, output = inputs_of(group), [empty(v.type) for v in group.outputs]
    code = (
        "import pickle, sys\n"
        "import numpy as np\n"
        "kernel, x = pickle.load(sys.stdin.buffer)\n"
        "y = np.empty_like(x)\n"
        "kernel.run([x], [y])\n"
        "assert 'emu.tile.fusion.emission' not in sys.modules, 'compiled again'\n"
        "sys.stdout.buffer.write(y.tobytes())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        input=pickle.dumps((kernel, inputs[0])),
        capture_output=True,
        check=True,
    )
    kernel.run(inputs, output)
    assert found.stdout == output[0].tobytes()


def test_equal_chains_of_other_names_and_extents_are_one_kernel() -> None:
    template = """
    func.func @main(%a: tensor<{n}xf32>, %b: tensor<{n}xf32>) -> tensor<{n}xf32> {{
      %{x} = stablehlo.add %a, %b : tensor<{n}xf32>
      %y = stablehlo.tanh %{x} : tensor<{n}xf32>
      return %y : tensor<{n}xf32>
    }}
    """
    kernels = [
        compile_group(only_group(template.format(n=n, x=x)))
        for n, x in (("3000", "u"), ("17", "v"), ("4x5x6", "w"))
    ]
    assert len({kernel.recipe for kernel in kernels}) == 1


def test_what_does_not_fit_is_refused() -> None:
    group = only_group(CHAIN)
    kernel = compile_group(group)
    inputs = inputs_of(group)
    outputs = [empty(value.type) for value in group.outputs]
    with pytest.raises(EvaluationError, match="takes 2 inputs, but got 1"):
        kernel.run(inputs[:1], outputs)
    with pytest.raises(EvaluationError, match=r"input 0 must be float32\[37, 70\], but is float64"):
        kernel.run([np.zeros((37, 70)), inputs[1]], outputs)
    with pytest.raises(EvaluationError, match=r"output 1 must be float32\[37, 70\]"):
        kernel.run(inputs, [outputs[0], np.empty((70, 37), np.float32)])
    with pytest.raises(EvaluationError, match="output 0 must be C-contiguous and writeable"):
        kernel.run(inputs, [np.asfortranarray(outputs[0]), outputs[1]])
    assert isinstance(kernel, FusedKernel)
