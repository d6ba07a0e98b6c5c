"""Programs whose results are known without XLA, and what cannot be evaluated."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emu.sdy
from emu.stablehlo.reference import EvaluationError, evaluate, evaluate_devices

WIDTHS = {
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "ui2": ml_dtypes.uint2,
    "ui4": ml_dtypes.uint4,
    "i8": np.int8,
    "ui8": np.uint8,
    "i16": np.int16,
    "ui16": np.uint16,
    "i32": np.int32,
    "ui32": np.uint32,
    "i64": np.int64,
    "ui64": np.uint64,
}


def run(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    return evaluate(emu.sdy.parse(text), *inputs)


def function(body: str, arguments: str = "", results: str = "tensor<f32>") -> str:
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"


# Integers, against Python's


def wrapped(value: int, name: str) -> int:
    width, unsigned = int(name.lstrip("ui")), name.startswith("u")
    low = value % (1 << width)
    return low if unsigned or low < 1 << (width - 1) else low - (1 << width)


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def shifted(x: int, y: int, name: str, direction: str) -> int:
    width = int(name.lstrip("ui"))
    y = width if not 0 <= y < width else y
    bits = x % (1 << width)
    if direction == "left":
        return x << y
    if direction == "logical":
        return bits >> y
    return (bits - (1 << width) if bits >> (width - 1) else bits) >> y


EXACT = {
    "add": lambda x, y, t: x + y,
    "subtract": lambda x, y, t: x - y,
    "multiply": lambda x, y, t: x * y,
    "divide": lambda x, y, t: -1 if y == 0 else truncated(x, y),
    "remainder": lambda x, y, t: x if y == 0 else x - truncated(x, y) * y,
    "maximum": lambda x, y, t: max(x, y),
    "minimum": lambda x, y, t: min(x, y),
    "and": lambda x, y, t: x & y,
    "or": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
    "shift_left": lambda x, y, t: shifted(x, y, t, "left"),
    "shift_right_logical": lambda x, y, t: shifted(x, y, t, "logical"),
    "shift_right_arithmetic": lambda x, y, t: shifted(x, y, t, "arithmetic"),
}


@settings(max_examples=300, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(WIDTHS)), op=st.sampled_from(sorted(EXACT)))
def test_integers_are_those_of_python_modulo_their_width(data, name: str, op: str) -> None:
    width, unsigned = int(name.lstrip("ui")), name.startswith("u")
    low, high = (0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    numbers = st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1, max(low, -1)]))
    pairs = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
    t = f"tensor<{len(pairs)}x{name}>"
    text = function(f"%0 = stablehlo.{op} %a, %b : {t}\nreturn %0 : {t}", f"%a: {t}, %b: {t}", t)
    x, y = (
        np.array([p[i] for p in pairs], np.int64 if not unsigned else np.uint64) for i in (0, 1)
    )
    (got,) = run(text, x.astype(WIDTHS[name]), y.astype(WIDTHS[name]))
    expected = [wrapped(EXACT[op](a, b, name), name) for a, b in pairs]
    assert [int(v) for v in got] == expected


@given(
    st.lists(st.integers(-128, 127), min_size=1, max_size=5),
    st.lists(st.integers(-3, 9), min_size=5, max_size=5),
)
@settings(max_examples=50, deadline=None)
def test_powers_of_integers(bases: list[int], exponents: list[int]) -> None:
    t = f"tensor<{len(bases)}xi8>"
    text = function(f"%0 = stablehlo.power %a, %b : {t}\nreturn %0 : {t}", f"%a: {t}, %b: {t}", t)
    exponents = exponents[: len(bases)]
    (got,) = run(text, np.array(bases, np.int8), np.array(exponents, np.int8))
    for base, exponent, value in zip(bases, exponents, got, strict=True):
        inverse = {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)
        assert value == (wrapped(base**exponent, "i8") if exponent >= 0 else inverse)


# Matrices


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("kind", ["f32", "complex<f64>"])
def test_cholesky_gives_back_the_matrix_and_nan_where_there_is_none(lower: bool, kind: str) -> None:
    rng = np.random.default_rng(0)
    dtype = np.float32 if kind == "f32" else np.complex128
    a = (
        rng.normal(size=(3, 4, 4)) + (1j if kind != "f32" else 0) * rng.normal(size=(3, 4, 4))
    ).astype(dtype)
    a = (a @ np.conj(np.swapaxes(a, -1, -2)) + 4 * np.eye(4)).astype(dtype)
    a[2, 0, 0] = -1
    t = f"tensor<3x4x4x{kind}>"
    words = ", lower = true" if lower else ""
    (c,) = run(
        function(f"%0 = stablehlo.cholesky %a{words} : {t}\nreturn %0 : {t}", f"%a: {t}", t), a
    )
    left = c if lower else np.conj(np.swapaxes(c, -1, -2))
    np.testing.assert_allclose((left @ np.conj(np.swapaxes(left, -1, -2)))[:2], a[:2], rtol=1e-4)
    assert np.isnan(c[2]).all()


@pytest.mark.parametrize("left_side", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(left_side: bool, lower: bool, transpose: str, unit: bool) -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
    b = rng.normal(size=(2, 3, 5) if left_side else (2, 5, 3)).astype(complex)
    ta, tb = "tensor<2x3x3xcomplex<f64>>", f"tensor<{'x'.join(map(str, b.shape))}xcomplex<f64>>"
    flags = {"left_side": left_side, "lower": lower, "unit_diagonal": unit}
    words = ", ".join(f"{k} = {str(v).lower()}" for k, v in flags.items())
    body = f"""%0 = "stablehlo.triangular_solve"(%a, %b) <{{{words}, transpose_a = #stablehlo<transpose {transpose}>}}>
        : ({ta}, {tb}) -> {tb}
        return %0 : {tb}"""
    (x,) = run(function(body, f"%a: {ta}, %b: {tb}", tb), a, b)
    m = np.tril(a) if lower else np.triu(a)
    if unit:
        m = m - m * np.eye(3) + np.eye(3)
    m = {"NO_TRANSPOSE": m, "TRANSPOSE": m.swapaxes(1, 2), "ADJOINT": m.swapaxes(1, 2).conj()}[
        transpose
    ]
    np.testing.assert_allclose(m @ x if left_side else x @ m, b, atol=1e-12)


# Devices


COLLECTIVES = {
    "all_gather": ("all_gather_dim = 0 : i64", "", (2,), (8,)),
    "all_reduce": ("", "add", (4,), (4,)),
    "reduce_scatter": ("scatter_dimension = 0 : i64", "maximum", (8,), (2,)),
    "all_to_all": (
        "split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64",
        "",
        (4,),
        (4,),
    ),
}


EXPECTED = {
    "all_gather": lambda parts, place: np.concatenate(parts),
    "all_reduce": lambda parts, place: sum(parts),
    "reduce_scatter": lambda parts, place: np.max(parts, 0)[2 * place : 2 * place + 2],
    "all_to_all": lambda parts, place: np.array([part[place] for part in parts]),
}


def collective(name: str, groups: str) -> str:
    attributes, op, source, target = COLLECTIVES[name]
    a, b = (f"tensor<{n[0]}xi32>" for n in (source, target))
    region = ""
    if op:
        region = f"""({{
          ^bb0(%x: tensor<i32>, %y: tensor<i32>):
            %2 = stablehlo.{op} %x, %y : tensor<i32>
            stablehlo.return %2 : tensor<i32>
        }})"""
    words = ", ".join(filter(None, [attributes, f"replica_groups = {groups}",
        "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>",
        "" if name == "all_to_all" else "use_global_device_ids"]))  # fmt: skip
    body = f'%0 = "stablehlo.{name}"(%a) {region} {{{words}}} : ({a}) -> {b}\nreturn %0 : {b}'
    return function(body, f"%a: {a}", b)


def test_collectives_in_two_groups() -> None:
    groups = "dense<[[6, 0, 3, 1], [2, 4, 5, 7]]> : tensor<2x4xi64>"
    members = [[6, 0, 3, 1], [2, 4, 5, 7]]
    for name, (_, _, source, _) in COLLECTIVES.items():
        shards = [np.arange(source[0], dtype=np.int32) + 10 * d for d in range(8)]
        got = evaluate_devices(emu.sdy.parse(collective(name, groups)), [[x] for x in shards])
        for group in members:
            parts = [shards[d] for d in group]
            for place, device in enumerate(group):
                expected = EXPECTED[name](parts, place)
                np.testing.assert_array_equal(got[device][0], expected)


def test_permute_sends_along_pairs_and_gives_zeros_to_the_others() -> None:
    t = "tensor<2xf32>"
    body = f"""%0 = "stablehlo.collective_permute"(%a) {{
        source_target_pairs = dense<[[0, 2], [2, 1]]> : tensor<2x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : ({t}) -> {t}
        return %0 : {t}"""
    shards = [np.full(2, d + 1, np.float32) for d in range(4)]
    got = evaluate_devices(emu.sdy.parse(function(body, f"%a: {t}", t)), [[x] for x in shards])
    assert [row[0].tolist() for row in got] == [[0, 0], [3, 3], [1, 1], [0, 0]]


def test_a_device_that_fails_ends_those_that_wait_for_it() -> None:
    groups = "dense<[[0, 1, 2, 3, 4, 5, 6]]> : tensor<1x7xi64>"  # device 7 is in none
    text = collective("all_reduce", groups)
    with pytest.raises(EvaluationError, match=r"all_reduce: process 7 is in 0 groups, not in one"):
        evaluate_devices(emu.sdy.parse(text), [[np.zeros(4, np.int32)]] * 8)


def test_partition_id_is_the_device() -> None:
    text = function(
        "%0 = stablehlo.partition_id : tensor<ui32>\nreturn %0 : tensor<ui32>", "", "tensor<ui32>"
    )
    found = evaluate_devices(emu.sdy.parse(text), [[]] * 3)
    assert [int(each[0]) for each in found] == [0, 1, 2]


# What cannot be evaluated


def test_inputs_must_fit() -> None:
    text = function("return %a : tensor<2xf32>", "%a: tensor<2xf32>", "tensor<2xf32>")
    with pytest.raises(EvaluationError, match="@main takes 1 inputs, but got 2"):
        run(text, np.zeros(2, np.float32), np.zeros(2, np.float32))
    with pytest.raises(
        EvaluationError, match=r"input 0 must be tensor<2xf32>, but is float64\[2\]"
    ):
        run(text, np.zeros(2))
    with pytest.raises(EvaluationError, match="there is no function @main with a body"):
        run("func.func @other() { return }\nfunc.func @third() { return }")


def test_an_unknown_custom_call_says_how_to_compute_it() -> None:
    t = "tensor<3xf32>"
    text = function(
        f"%0 = stablehlo.custom_call @mine(%a) : ({t}) -> {t}\nreturn %0 : {t}", f"%a: {t}", t
    )
    x = np.arange(3, dtype=np.float32)
    with pytest.raises(
        EvaluationError, match=r"-:2:6: stablehlo.custom_call: nothing computes .* @mine; register"
    ):
        run(text, x)
    (got,) = evaluate(emu.sdy.parse(text), x, custom_calls={"mine": lambda op, a: (a * 2,)})
    np.testing.assert_array_equal(got, x * 2)
    with pytest.raises(EvaluationError, match=r"gives float64\[3\], but must tensor<3xf32>"):
        evaluate(emu.sdy.parse(text), x, custom_calls={"mine": lambda op, a: (a.astype(float),)})


def test_operations_without_a_meaning_here_are_named() -> None:
    body = """%0 = "chlo._asin_acos_kernel"(%a) : (tensor<complex<f32>>) -> tensor<complex<f32>>
    return %0 : tensor<complex<f32>>"""
    with pytest.raises(
        EvaluationError, match=r"asin_acos_kernel: the operation cannot be evaluated"
    ):
        run(
            function(body, "%a: tensor<complex<f32>>", "tensor<complex<f32>>"),
            np.zeros((), np.complex64),
        )


def rooted(name: str, dynamic: bool) -> str:
    """Return a program of two arrays, each with its own root, on groups of two."""
    t = "tensor<3xf32>"
    operands, types = (
        ("%a, %b, %r", f"{t}, {t}, tensor<2xi32>") if dynamic else ("%a, %b", f"{t}, {t}")
    )
    region = "({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%s = stablehlo.add %x, %y : tensor<f32>\nstablehlo.return %s : tensor<f32>\n})"
    words = ", has_dynamic_root" if dynamic else ""
    body = f"""%r = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
        %0:2 = "stablehlo.{name}"({operands}) {region if name == "collective_reduce" else ""}
        {{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>{words}}} : ({types}) -> ({t}, {t})
        return %0#0, %0#1 : {t}, {t}"""
    return function(body, f"%a: {t}, %b: {t}", f"{t}, {t}")


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", ["collective_broadcast", "collective_reduce"])
def test_collectives_with_a_root(name: str, dynamic: bool) -> None:
    inputs = [[np.full(3, 10 * d + i, np.float32) for i in range(2)] for d in range(4)]
    found = evaluate_devices(emu.sdy.parse(rooted(name, dynamic)), inputs, n_replicas=4)
    for device, results in enumerate(found):
        first = device // 2 * 2
        for index, result in enumerate(results):
            root = first + (index if dynamic else 0)
            both = sum(inputs[d][index] for d in (first, first + 1))
            reduced = both if device == root else 0 * both
            wanted = inputs[root][index] if name == "collective_broadcast" else reduced
            np.testing.assert_array_equal(result, wanted)


def test_a_root_outside_of_its_group_is_named() -> None:
    text = rooted("collective_broadcast", True).replace(
        "dense<[0, 1]> : tensor<2xi32>", "dense<[0, 2]> : tensor<2xi32>"
    )
    inputs = [[np.zeros(3, np.float32)] * 2 for _ in range(4)]
    with pytest.raises(EvaluationError, match="root 2 is not in a group of 2 processes"):
        evaluate_devices(emu.sdy.parse(text), inputs, n_replicas=4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("(%a) {has_dynamic_root", "requires at least two operands"),
        ("(%a, %b) {has_dynamic_root", "must be a rank-1 i32 tensor, but got 'tensor<3xi64>'"),
        ("(%a, %c) {has_dynamic_root", "same number of elements as data operands .1., but got 2"),
        ("() {", "requires at least one data operand"),
    ],
)
def test_roots_are_verified(words: str, message: str) -> None:
    types = ", ".join(
        {"%a": "tensor<4xf32>", "%b": "tensor<3xi64>", "%c": "tensor<2xi32>"}[w]
        for w in ("%a", "%b", "%c")
        if w in words
    )
    results = "tensor<4xf32>" if "%a" in words else "()"
    bound = "%0 = " if "%a" in words else ""
    comma = ", " if "root" in words else ""
    text = f"""func.func @main(%a: tensor<4xf32>, %b: tensor<3xi64>, %c: tensor<2xi32>) {{
        {bound}"stablehlo.collective_broadcast"{words}{comma}replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : ({types}) -> {results}
        return }}"""
    with pytest.raises(emu.sdy.MlirError, match=message):
        emu.sdy.parse(text)
