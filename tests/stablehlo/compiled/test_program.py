"""Compiled programs: what they take, give, keep and refuse."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from stablehlo_compiled import check, function

import emu.sdy
from emu.mlir.ir import Operation
from emu.stablehlo.compiled import compile_program
from emu.stablehlo.reference import EvaluationError

PAIR = "tensor<2xf32>"
SUM = function(
    f"%0 = stablehlo.add %a, %b : {PAIR}\n%1 = stablehlo.multiply %a, %b : {PAIR}\n"
    f"return %0, %1 : {PAIR}, {PAIR}",
    f"%a: {PAIR}, %b: {PAIR}",
    f"{PAIR}, {PAIR}",
)
A, B = np.array([1, 2], np.float32), np.array([3, 5], np.float32)


def compiled(text: str, **options: object):  # type: ignore[no-untyped-def]
    return compile_program(emu.sdy.parse(text), **options)  # type: ignore[arg-type]


def test_results_are_new_arrays_unless_given() -> None:
    bound = compiled(SUM).bind()
    first, second = bound([A, B]), bound([B, B])
    assert [x.tolist() for x in first] == [[4, 7], [3, 10]]
    assert [x.tolist() for x in second] == [[6, 10], [9, 25]]


def test_outputs_may_be_inputs_in_any_order() -> None:
    a, b = A.copy(), B.copy()
    found = compiled(SUM).bind()([a, b], [b, a])
    assert found[0] is b
    assert (b.tolist(), a.tolist()) == ([4, 7], [3, 10])


def test_outputs_may_be_donated_inputs_in_any_order() -> None:
    a, b = A.copy(), B.copy()
    compiled(SUM, donated=(0, 1)).bind()([a, b], [b, a])
    assert (b.tolist(), a.tolist()) == ([4, 7], [3, 10])


def test_outputs_of_any_strides() -> None:
    memory = np.zeros((2, 4), np.float32)
    compiled(SUM).bind()([A, B], [memory[0, ::2], memory[1, ::-2]])
    assert memory.tolist() == [[4, 0, 7, 0], [0, 10, 0, 3]]


def test_results_that_are_inputs_constants_and_the_same_value() -> None:
    text = function(
        f"%c = stablehlo.constant dense<7.0> : {PAIR}\n%0 = stablehlo.add %a, %c : {PAIR}\n"
        f"return %a, %c, %0, %0 : {PAIR}, {PAIR}, {PAIR}, {PAIR}",
        f"%a: {PAIR}",
        ", ".join([PAIR] * 4),
    )
    bound = check(text, A)
    found = bound([A])
    found[0][:] = found[1][:] = found[2][:] = 0
    assert A.tolist() == [1, 2]
    assert [x.tolist() for x in bound([A])] == [[1, 2], [7, 7], [8, 9], [8, 9]]


def test_two_bound_programs_share_nothing() -> None:
    program = pickle.loads(pickle.dumps(compiled(SUM)))
    one, two = program.bind(), program.bind()
    assert one([A, B])[0].tolist() == two([A, B])[0].tolist()


def test_functions_are_inlined_and_composites_too() -> None:
    text = """
    func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = func.call @twice(%0) : (tensor<2xf32>) -> tensor<2xf32>
      %2 = stablehlo.composite "my.op" %1 {decomposition = @once} : (tensor<2xf32>) -> tensor<2xf32>
      return %2 : tensor<2xf32>
    }
    func.func private @twice(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = func.call @once(%a) : (tensor<2xf32>) -> tensor<2xf32>
      %1 = func.call @once(%0) : (tensor<2xf32>) -> tensor<2xf32>
      return %1 : tensor<2xf32>
    }
    func.func private @once(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %a, %a : tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    check(text, A)


def test_custom_calls_get_the_operation() -> None:
    text = function(
        "%0 = stablehlo.custom_call @mine(%a) {my.number = 3 : i64} : (tensor<2xf32>) -> tensor<2xf32>\n"
        "return %0 : tensor<2xf32>",
        f"%a: {PAIR}",
        PAIR,
    )
    seen: list[str] = []

    def mine(op: Operation, value: np.ndarray) -> Sequence[np.ndarray]:
        seen.append(str(op.attributes["my.number"]))
        return (value * 2,)

    module = emu.sdy.parse(text)
    bound = compile_program(module, custom_calls={"mine": mine}).bind()
    assert bound([A])[0].tolist() == [2, 4]
    assert seen == ["3 : i64"]
    with pytest.raises(EvaluationError, match=r"-:2:\d+: stablehlo.custom_call: .*@mine"):
        compile_program(module).bind()([A])
    with pytest.raises(EvaluationError, match="gives float64"):
        compile_program(module).bind(custom_calls={"mine": lambda op, x: (x.astype(float),)})([A])


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        ([A], None, "@main takes 2 inputs, but got 1"),
        ([A, B[:1]], None, r"input 1 must be tensor<2xf32>, but is float32\[1\]"),
        ([A, B.astype(float)], None, r"input 1 must be tensor<2xf32>, but is float64\[2\]"),
        ([A, B], [A.copy()], "@main gives 2 outputs, but got 1"),
        ([A, B], [A.copy(), np.zeros(3, np.float32)], r"output 1 must be .* but is float32\[3\]"),
        ([A, B], [A.copy(), np.broadcast_to(B[:1], 2)], "output 1 must be writable"),
    ],
)
def test_what_does_not_fit(
    inputs: list[np.ndarray], outputs: list[np.ndarray] | None, message: str
) -> None:
    with pytest.raises(EvaluationError, match=message):
        compiled(SUM).bind()(inputs, outputs)


def test_wrong_arguments_of_compile_program() -> None:
    with pytest.raises(EvaluationError, match="there is no function @other with a body"):
        compiled(SUM, function="other")
    with pytest.raises(
        EvaluationError, match="donated must be indices of the 2 inputs, but one is 2"
    ):
        compiled(SUM, donated=(2,))


def test_the_reference_computes_what_has_no_static_shape() -> None:
    text = function(
        "%0 = stablehlo.dynamic_reshape %a, %s : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x1xf32>\n"
        "%1 = stablehlo.dynamic_reshape %0, %t : (tensor<?x1xf32>, tensor<1xi32>) -> tensor<2xf32>\n"
        "return %1 : tensor<2xf32>",
        "%a: tensor<2xf32>, %s: tensor<2xi32>, %t: tensor<1xi32>",
        PAIR,
    )
    program = compiled(text)
    assert program.planned is None
    with pytest.raises(EvaluationError):
        program.bind()([A])


def test_numpy_does_not_warn_of_what_is_defined() -> None:
    text = function(
        f"%0 = stablehlo.divide %a, %b : {PAIR}\nreturn %0 : {PAIR}",
        f"%a: {PAIR}, %b: {PAIR}",
        PAIR,
    )
    with np.errstate(all="raise"):
        found = compiled(text).bind()([A, np.zeros(2, np.float32)])
    assert found[0].tolist() == [np.inf, np.inf]


def test_a_donated_input_that_is_a_result_stays_where_it_is() -> None:
    text = """func.func @main(%a: tensor<3xf32>, %b: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
      %0 = stablehlo.add %a, %b : tensor<3xf32>
      return %0, %a, %a : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
    }"""
    program = compiled(text, donated=(0,))
    # The sum of the same type must not drive it out of its memory: both would be copied.
    assert program.made_in_inputs == {1: 0}
    a, b = np.array([1, 2, 3], np.float32), np.ones(3, np.float32)
    total, same, copy = program.bind()([a, b])
    assert same is a
    assert not np.shares_memory(copy, a)
    for found, expected in ((total, [2, 3, 4]), (same, [1, 2, 3]), (copy, [1, 2, 3])):
        np.testing.assert_array_equal(found, expected)
