"""Equal operations are joined, and nothing else."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from stablehlo_compiled import check, function

import emu.sdy
from emu.stablehlo.compiled import compile_program
from emu.stablehlo.compiled.prepare import find_function, prepared
from emu.stablehlo.reference import EvaluationError


def counts(text: str) -> Counter[str]:
    """Return how many operations of each name are left."""
    module = prepared(emu.sdy.parse(text), "main")
    return Counter(op.name.partition(".")[2] for op in find_function(module, "main").walk())


def test_chains_are_joined_from_their_first_operation_on() -> None:
    body = """
    %0 = stablehlo.exponential %x : tensor<4xf32>
    %1 = stablehlo.tanh %0 : tensor<4xf32>
    %2 = stablehlo.exponential %x : tensor<4xf32>
    %3 = stablehlo.tanh %2 : tensor<4xf32>
    %4 = stablehlo.subtract %1, %3 : tensor<4xf32>
    %5 = stablehlo.exponential %y : tensor<4xf32>
    %6 = stablehlo.add %4, %5 : tensor<4xf32>
    return %6 : tensor<4xf32>"""
    text = function(body, "%x: tensor<4xf32>, %y: tensor<4xf32>", "tensor<4xf32>")
    found = counts(text)
    assert (found["exponential"], found["tanh"]) == (2, 1)
    x = np.arange(4, dtype=np.float32)
    check(text, x, x + 1, rtol=1e-6)


def test_attributes_types_and_the_sign_of_zero_keep_operations_apart() -> None:
    body = """
    %a = stablehlo.constant dense<0.0> : tensor<f32>
    %b = stablehlo.constant dense<-0.0> : tensor<f32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.slice %x [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    %1 = stablehlo.slice %x [2:4] : (tensor<4xf32>) -> tensor<2xf32>
    %2 = stablehlo.slice %x [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    return %0, %1, %2, %a, %b, %c : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<f32>"""
    results = "tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<f32>, tensor<f32>, tensor<f32>"
    text = function(body, "%x: tensor<4xf32>", results)
    found = counts(text)
    assert (found["slice"], found["constant"]) == (2, 2)
    check(text, np.arange(4, dtype=np.float32))


def test_control_flow_uses_what_ran_before_it_and_not_the_reverse() -> None:
    body = """
    %0 = stablehlo.exponential %x : tensor<f32>
    %1 = "stablehlo.if"(%p) ({
      %2 = stablehlo.exponential %x : tensor<f32>
      %3 = stablehlo.sine %x : tensor<f32>
      %4 = stablehlo.add %2, %3 : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }, {
      %5 = stablehlo.sine %x : tensor<f32>
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    %6 = stablehlo.sine %x : tensor<f32>
    %7 = stablehlo.add %0, %1 : tensor<f32>
    %8 = stablehlo.add %6, %7 : tensor<f32>
    return %8 : tensor<f32>"""
    text = function(body, "%x: tensor<f32>, %p: tensor<i1>")
    found = counts(text)
    assert (found["exponential"], found["sine"]) == (1, 3)
    for flag in (False, True):
        check(text, np.asarray(0.5, np.float32), np.asarray(flag), rtol=1e-6)


def test_regions_that_are_applied_to_elements_stay_closed() -> None:
    body = """
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    %0 = "stablehlo.reduce"(%x, %c) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %d = stablehlo.constant dense<2.0> : tensor<f32>
      %1 = stablehlo.multiply %b, %d : tensor<f32>
      %2 = stablehlo.add %a, %1 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>"""
    text = function(body, "%x: tensor<4xf32>")
    assert counts(text)["constant"] == 2
    check(text, np.arange(4, dtype=np.float32), fallbacks=None)


def test_what_is_computed_again_behind_a_barrier_stays() -> None:
    body = """
    %0 = stablehlo.exponential %x : tensor<4xf32>
    %1 = stablehlo.optimization_barrier %x : tensor<4xf32>
    %2 = stablehlo.exponential %1 : tensor<4xf32>
    %3 = stablehlo.add %0, %2 : tensor<4xf32>
    return %3 : tensor<4xf32>"""
    text = function(body, "%x: tensor<4xf32>", "tensor<4xf32>")
    assert counts(text)["exponential"] == 2
    check(text, np.arange(4, dtype=np.float32), rtol=1e-6)


def test_large_sums_are_computed_again_and_what_follows_is_joined() -> None:
    t = "tensor<200x100xf32>"
    body = f"""
    %0 = stablehlo.add %x, %x : {t}
    %1 = stablehlo.tanh %0 : {t}
    %2 = stablehlo.add %x, %x : {t}
    %3 = stablehlo.tanh %2 : {t}
    %4 = stablehlo.multiply %1, %3 : {t}
    return %4 : {t}"""
    text = function(body, f"%x: {t}", t)
    found = counts(text)
    # The second sum has no use any more.
    assert (found["add"], found["tanh"]) == (1, 1)
    check(text, np.linspace(-2, 2, 20000, dtype=np.float32).reshape(200, 100), rtol=1e-6)
    kept = text.replace("stablehlo.multiply %1, %3", "stablehlo.multiply %1, %2")
    assert counts(kept)["add"] == 2


def test_an_error_names_the_first_of_equal_operations() -> None:
    t = "tensor<3xcomplex<f32>>"
    body = f"""
    %0 = stablehlo.remainder %x, %x : {t} loc("first.py":1:2)
    %1 = stablehlo.remainder %x, %x : {t} loc("second.py":3:4)
    %2 = stablehlo.add %0, %1 : {t}
    return %2 : {t}"""
    module = emu.sdy.parse(function(body, f"%x: {t}", t))
    with pytest.raises(EvaluationError, match=r"first\.py"):
        compile_program(module).bind()([np.zeros(3, np.complex64)])


def test_random_numbers_are_drawn_each_time() -> None:
    body = """
    %a = stablehlo.constant dense<0.0> : tensor<f32>
    %b = stablehlo.constant dense<1.0> : tensor<f32>
    %s = stablehlo.constant dense<8> : tensor<1xi64>
    %0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<8xf32>
    %1 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>"""
    assert counts(function(body, "", "tensor<8xf32>, tensor<8xf32>"))["rng"] == 2
