"""Custom calls: registered functions, those given to one program, and targets that are built in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

import emu.sdy
from emu.mlir.arguments import ArgumentError
from emu.mlir.ir import Operation
from emu.stablehlo.reference import EvaluationError, evaluate
from emu.stablehlo.reference.custom_calls import TARGETS, unregister_custom_call

X = np.arange(4, dtype=np.float32)


def program(
    target: str, operands: str = "%a", results: str = "tensor<4xf32>", words: str = ""
) -> Operation:
    taken = ", ".join(["tensor<4xf32>"] * (operands.count("%")))
    names = "%0" if results != "()" else ""
    bound = f"{names} = " if names else ""
    return emu.sdy.parse(f"""
        sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}]>}})
            -> ({results if names else ""}) {{
          {bound}stablehlo.custom_call @{target}({operands}) {{{words}}} : ({taken}) -> {results}
          return {names} {":" if names else ""} {results if names else ""}
        }}""")


def doubled(op: Operation, x: np.ndarray) -> Sequence[np.ndarray]:
    return [x + x]


@pytest.fixture
def twice() -> Iterator[str]:
    emu.sdy.register_custom_call("test_twice")(doubled)
    yield "test_twice"
    unregister_custom_call("test_twice")


def test_a_registered_function_computes_the_call(twice: str) -> None:
    (found,) = evaluate(program(twice), X)
    np.testing.assert_array_equal(found, X + X)


def test_what_is_given_to_a_program_wins(twice: str) -> None:
    (found,) = evaluate(program(twice), X, custom_calls={twice: lambda op, x: [-x]})
    np.testing.assert_array_equal(found, -X)


def test_pes_get_the_registered_function(twice: str) -> None:
    emu.sdy.register_rule("@test_twice", replace=True)(emu.sdy.rules.pointwise_rule)
    try:
        executable = emu.sdy.compile(program(twice), check="outputs")
        (found,) = executable(X)
    finally:
        emu.sdy.rules.unregister("@test_twice")
    assert executable.n_devices == 2
    np.testing.assert_array_equal(found, X + X)


def test_the_function_sees_the_operation_and_cannot_write_to_operands(twice: str) -> None:
    seen = []

    def look(op: Operation, x: np.ndarray) -> Sequence[np.ndarray]:
        seen.append(op.attributes["note"])
        with pytest.raises(ValueError, match="read-only"):
            x[0] = 1
        return [x]

    evaluate(program(twice, words='note = "here"'), X, custom_calls={twice: look})
    assert str(seen[0]) == '"here"'


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (X, "must return a sequence of arrays, but its function returned 'ndarray'"),
        (None, "must return a sequence of arrays, but its function returned 'NoneType'"),
        ([X, X], "must return 1 arrays, but its function returned 2"),
        ([X[:2]], r"gives float32\[2\], but must tensor<4xf32>"),
        ([X.astype(np.float64)], r"gives float64\[4\], but must tensor<4xf32>"),
    ],
)
def test_wrong_results_are_named(twice: str, found: object, message: str) -> None:
    with pytest.raises(EvaluationError, match=message):
        evaluate(program(twice), X, custom_calls={twice: lambda op, x: found})


def test_an_unknown_call_is_named_with_the_way_to_register_it(twice: str) -> None:
    message = (
        r"-:\d+:\d+: stablehlo.custom_call: nothing computes the custom call @nobody; register a "
    )
    message += r"function with @emu.sdy.register_custom_call\('nobody'\).*besides.*: test_twice"
    with pytest.raises(EvaluationError, match=message):
        evaluate(program("nobody"), X)
    with pytest.raises(EvaluationError, match="Python callback of JAX exists only in the process"):
        evaluate(program("xla_ffi_python_cpu_callback"), X)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (3, "name must be the target of a custom call, but got 3 of type int"),
        ("", "name must be the target of a custom call without"),
        ("@x", "name must be the target of a custom call without"),
        ("test_twice", "is registered already; replace=True replaces it"),
        ("Sharding", "is built in already; replace=True replaces it"),
    ],
)
def test_names_that_cannot_be_registered(twice: str, name: object, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        emu.sdy.register_custom_call(name)(doubled)


def test_only_functions_are_registered() -> None:
    with pytest.raises(ArgumentError, match="must be a function of an operation and arrays"):
        emu.sdy.register_custom_call("test_thing")(7)
    with pytest.raises(ArgumentError, match="replace must be True or False"):
        emu.sdy.register_custom_call("test_thing", replace=1)
    with pytest.raises(ArgumentError, match="no custom call is registered as 'test_thing'"):
        unregister_custom_call("test_thing")


def test_a_built_in_call_is_replaced_and_comes_back() -> None:
    emu.sdy.register_custom_call("Sharding", replace=True)(doubled)
    (found,) = evaluate(program("Sharding"), X)
    np.testing.assert_array_equal(found, X + X)
    unregister_custom_call("Sharding")
    (found,) = evaluate(program("Sharding"), X)
    np.testing.assert_array_equal(found, X)


def test_annotations_pass_values_on() -> None:
    for target in ("Sharding", "annotate_device_placement", "LayoutConstraint"):
        np.testing.assert_array_equal(evaluate(program(target), X)[0], X)
    assert evaluate(program("dce_sink", results="()"), X) == []
    (found,) = evaluate(program("AllocateBuffer", operands=""), X)
    np.testing.assert_array_equal(found, np.zeros(4, np.float32))
    with pytest.raises(EvaluationError, match="@SPMDFullToShardShape changes shapes"):
        evaluate(program("SPMDFullToShardShape", results="tensor<2xf32>"), X)


def test_a_shape_assertion_that_fails_says_what_jax_would_say() -> None:
    text = """func.func @main(%a: tensor<i1>, %b: tensor<i32>) {
        stablehlo.custom_call @shape_assertion(%a, %b) {error_message = "size {0} is odd", has_side_effect = true} : (tensor<i1>, tensor<i32>) -> ()
        return }"""
    module = emu.sdy.parse(text)
    assert evaluate(module, np.array(True), np.array(3, np.int32)) == []
    with pytest.raises(EvaluationError, match="size 3 is odd"):
        evaluate(module, np.array(False), np.array(3, np.int32))


def test_an_approximate_top_k_is_the_exact_one() -> None:
    jax = pytest.importorskip("jax")
    x = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    for function in (jax.lax.approx_max_k, jax.lax.approx_min_k):
        lowered = jax.jit(lambda x, function=function: function(x, 4)).lower(x)
        values, places = evaluate(emu.sdy.parse(lowered.as_text()), x)
        order = np.argsort(x if function is jax.lax.approx_min_k else -x, axis=1)[:, :4]
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


def test_every_routine_that_jaxlib_registers_is_built_in() -> None:
    lapack = pytest.importorskip("jaxlib.cpu._lapack")
    names = {name for name in lapack.registrations() if name.endswith("_ffi")}
    assert names - set(TARGETS) == {"tridiagonal_solve_perturbed_ffi"}


def test_random_words_of_the_gpu_kernel() -> None:
    types = ", ".join(["tensor<5xui32>"] * 4)
    arguments = ", ".join(f"%{c}: tensor<5xui32>" for c in "abcd")
    module = emu.sdy.parse(f"""func.func @main({arguments}) -> (tensor<5xui32>, tensor<5xui32>) {{
        %0:2 = stablehlo.custom_call @cu_threefry2x32_ffi(%a, %b, %c, %d) : ({types}) -> (tensor<5xui32>, tensor<5xui32>)
        return %0#0, %0#1 : tensor<5xui32>, tensor<5xui32> }}""")
    zeros, ones = np.zeros(5, np.uint32), np.full(5, 0xFFFFFFFF, np.uint32)
    # The published test vectors of Threefry 2x32 with 20 rounds.
    for words, expected in ((zeros, (0x6B200159, 0x99BA4EFE)), (ones, (0x1CB996FC, 0xBB002BE7))):
        found = evaluate(module, *[words] * 4)
        assert [hex(int(each[0])) for each in found] == [hex(each) for each in expected]
