"""Valid programs at the edge: no elements, all cut off, strides beyond the operand; on both paths."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from stablehlo_compiled import check, function

import emu.sdy
from emu.stablehlo.compiled import compile_program
from emu.stablehlo.reference import EvaluationError, evaluate

ADD = (
    "({\n^bb0(%l: tensor<f32>, %r: tensor<f32>):\n%s = stablehlo.add %l, %r : tensor<f32>\n"
    "stablehlo.return %s : tensor<f32>\n})"
)
GREATER = (
    "({\n^bb0(%l: tensor<f32>, %r: tensor<f32>):\n"
    "%s = stablehlo.compare GE, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "stablehlo.return %s : tensor<i1>\n})"
)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def window(before: str, after: str, window: str, padding: str, region: str = ADD) -> str:
    """Return a program that reduces in windows."""
    element = before.rpartition("x")[2]
    region = region.replace("f32", element)
    body = (
        f'%0 = "stablehlo.reduce_window"(%x, %z) <{{window_dimensions = array<i64: {window}>, '
        f"padding = dense<{padding}> : tensor<{window.count(',') + 1}x2xi64>}}> {region}"
        f" : (tensor<{before}>, tensor<{element}>) -> tensor<{after}>\nreturn %0 : tensor<{after}>"
    )
    arguments = f"%x: tensor<{before}>, %z: tensor<{element}>"
    return function(body, arguments, f"tensor<{after}>")


@pytest.mark.parametrize(
    ("before", "after", "size", "padding"),
    [
        ("4x0xf32", "0x1xf32", "1, 1", "[[-4, -4], [0, 1]]"),
        ("2x3xf32", "0x3xf32", "2, 1", "[[-4, 2], [0, 0]]"),
        ("3x2xf32", "0x2xf32", "5, 1", "[[0, 0], [0, 0]]"),
        ("0xf32", "3xf32", "1", "[[1, 2]]"),
        ("2xf32", "2xf32", "1", "[[-2, 2]]"),
    ],
)
def test_windows_of_which_nothing_is_left(before: str, after: str, size: str, padding: str) -> None:
    shape = tuple(map(int, before.split("x")[:-1]))
    x = np.ones(shape, np.float32)
    check(window(before, after, size, padding), x, np.float32(2.5).reshape(()), fallbacks=None)


def test_windows_of_elements_of_one_byte() -> None:
    x = np.array([[1, 2], [3, 4]], ml_dtypes.float8_e5m2)
    text = window("2x2xf8E5M2", "1x2xf8E5M2", "2, 1", "[[0, 0], [0, 0]]")
    (found,) = evaluate(emu.sdy.parse(text), x, np.zeros((), x.dtype))
    assert found.astype(np.float32).tolist() == [[4.0, 6.0]]
    check(text, x, np.zeros((), x.dtype), fallbacks=None)


@pytest.mark.parametrize(
    ("shape", "source", "sizes", "padding"),
    [
        ((2, 1), (1, 0), "1, 1", "[[1, -2], [-1, -1]]"),
        ((1, 0), (1, 2), "1, 1", "[[0, 0], [1, 1]]"),
    ],
)
def test_select_and_scatter_without_places(
    shape: tuple[int, int], source: tuple[int, int], sizes: str, padding: str
) -> None:
    x, u = (f"tensor<{a}x{b}xf32>" for a, b in (shape, source))
    body = (
        f'%0 = "stablehlo.select_and_scatter"(%x, %u, %z) <{{window_dimensions = array<i64: {sizes}>, '
        f"padding = dense<{padding}> : tensor<2x2xi64>}}> ({GREATER[1:-1]}, {ADD[1:-1]})"
        f" : ({x}, {u}, tensor<f32>) -> {x}\nreturn %0 : {x}"
    )
    text = function(body, f"%x: {x}, %u: {u}, %z: tensor<f32>", x)
    check(text, zeros(*shape), zeros(*source), np.float32(3).reshape(()), fallbacks=None)


def test_a_convolution_whose_operand_is_cut_off() -> None:
    body = (
        '%0 = "stablehlo.convolution"(%x, %k) <{window_strides = array<i64: 2>, padding = dense<[[-3, -1]]> : '
        "tensor<1x2xi64>, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, "
        "feature_group_count = 1 : i64, batch_group_count = 1 : i64}> : "
        "(tensor<1x2x3xf32>, tensor<4x2x1xf32>) -> tensor<1x4x0xf32>\nreturn %0 : tensor<1x4x0xf32>"
    )
    text = function(body, "%x: tensor<1x2x3xf32>, %k: tensor<4x2x1xf32>", "tensor<1x4x0xf32>")
    check(text, zeros(1, 2, 3), zeros(4, 2, 1), fallbacks=None)


def test_views_of_scalars() -> None:
    body = (
        '%0 = "stablehlo.slice"(%x) <{start_indices = array<i64>, limit_indices = array<i64>, '
        "strides = array<i64>}> : (tensor<i8>) -> tensor<i8>\n"
        '%1 = "stablehlo.reverse"(%0) <{dimensions = array<i64>}> : (tensor<i8>) -> tensor<i8>\n'
        "return %1 : tensor<i8>"
    )
    check(function(body, "%x: tensor<i8>", "tensor<i8>"), np.array(78, np.int8))


def test_a_transform_of_no_elements() -> None:
    body = (
        '%0 = "stablehlo.fft"(%x) <{fft_type = #stablehlo<fft_type RFFT>, fft_length = array<i64: 0>}> : '
        "(tensor<2x0xf32>) -> tensor<2x0xcomplex<f32>>\nreturn %0 : tensor<2x0xcomplex<f32>>"
    )
    text = function(body, "%x: tensor<2x0xf32>", "tensor<2x0xcomplex<f32>>")
    check(text, zeros(2, 0), fallbacks=None)


@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize("left", ["true", "false"])
@pytest.mark.parametrize("kind", ["NO_TRANSPOSE", "ADJOINT"])
def test_triangular_systems_divide_by_their_diagonals(lower: str, left: str, kind: str) -> None:
    text = function(
        f'%0 = "stablehlo.triangular_solve"(%a, %b) <{{left_side = {left}, lower = {lower}, unit_diagonal = false, '
        f"transpose_a = #stablehlo<transpose {kind}>}}> : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>\n"
        "return %0 : tensor<2x2xf32>",
        "%a: tensor<2x2xf32>, %b: tensor<2x2xf32>",
        "tensor<2x2xf32>",
    )
    singular = np.array([[2, 9], [9, 0]], np.float32)
    (found,) = evaluate(emu.sdy.parse(text), singular, np.ones((2, 2), np.float32))
    assert not np.isfinite(found).all()
    regular = np.array([[2, 9], [8, 4]], np.float32)
    (found,) = evaluate(emu.sdy.parse(text), regular, np.eye(2, dtype=np.float32))
    triangle = np.tril(regular) if lower == "true" else np.triu(regular)
    wanted = np.linalg.inv(triangle.T if kind == "ADJOINT" else triangle)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_unit_diagonal_is_not_read() -> None:
    text = function(
        '%0 = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, unit_diagonal = true, '
        "transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>\n"
        "return %0 : tensor<2x1xf32>",
        "%a: tensor<2x2xf32>, %b: tensor<2x1xf32>",
        "tensor<2x1xf32>",
    )
    a = np.array([[np.inf, np.nan], [3, np.nan]], np.float32)
    (found,) = evaluate(emu.sdy.parse(text), a, np.array([[1], [5]], np.float32))
    assert found.tolist() == [[1.0], [2.0]]


@pytest.mark.filterwarnings("error")
def test_a_batch_of_no_elements_has_no_mean() -> None:
    v = "tensor<3xf32>"
    body = (
        '%0:3 = "stablehlo.batch_norm_training"(%x, %s, %s) <{epsilon = 0.001 : f32, feature_index = 1 : i64}> : '
        f"(tensor<0x3xf32>, {v}, {v}) -> (tensor<0x3xf32>, {v}, {v})\nreturn %0#1, %0#2 : {v}, {v}"
    )
    module = emu.sdy.parse(function(body, f"%x: tensor<0x3xf32>, %s: {v}", f"{v}, {v}"))
    for found in evaluate(module, zeros(0, 3), zeros(3)):
        assert np.isnan(found).all()


def test_a_scatter_into_a_scalar() -> None:
    body = (
        '%0 = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<index_vector_dim = 0>, '
        f"indices_are_sorted = false, unique_indices = false}}> {ADD} : "
        "(tensor<f32>, tensor<0x5xi64>, tensor<5xf32>) -> tensor<f32>\nreturn %0 : tensor<f32>"
    )
    text = function(body, "%x: tensor<f32>, %i: tensor<0x5xi64>, %u: tensor<5xf32>")
    start, ones = np.float32(1).reshape(()), np.ones(5, np.float32)
    check(text, start, np.zeros((0, 5), np.int64), ones, fallbacks=None)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("body", "arguments", "message"),
    [
        (
            (
                '%0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], '
                "start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 0>, indices_are_sorted = false}> : "
                "(tensor<0xf32>, tensor<3x1xi32>) -> tensor<3xf32>"
            ),
            "%x: tensor<0xf32>, %i: tensor<3x1xi32>",
            r"gather: slices of \[0\] hold no element",
        ),
        (
            '%0 = "stablehlo.remainder"(%x, %x) : (tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>>',
            "%x: tensor<3xcomplex<f32>>",
            "remainder of complex numbers is not specified",
        ),
    ],
)
def test_what_has_no_meaning_is_an_error(
    body: str, arguments: str, message: str, compiled: bool
) -> None:
    result = body.rpartition("-> ")[2]
    module = emu.sdy.parse(function(f"{body}\nreturn %0 : {result}", arguments, result))
    types = [a.type for op in module.body() for a in op.body().arguments]
    kinds = {"i32": np.int32, "f32": np.float32, "complex<f32>": np.complex64}
    given = [np.zeros(t.static_shape, kinds[str(t.element)]) for t in types]  # type: ignore[attr-defined]
    with pytest.raises(EvaluationError, match=message):
        compile_program(module).bind()(given) if compiled else evaluate(module, *given)
