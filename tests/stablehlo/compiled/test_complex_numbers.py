"""Compiled complex arithmetic and Fourier transforms, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from stablehlo_compiled import check, function

DTYPES = {"complex<f32>": (np.complex64, 1e-6), "complex<f64>": (np.complex128, 1e-15)}
SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-30, 3e30]


def specials(dtype: type) -> np.ndarray:
    """Return all pairs of special numbers."""
    real, imaginary = np.meshgrid(SPECIAL, SPECIAL)
    found = np.empty(real.shape, dtype)
    found.real, found.imag = real, imaginary
    return found


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_arithmetic(element: str, name: str) -> None:
    dtype, tolerance = DTYPES[element]
    x = specials(dtype)
    y = np.roll(x, 1, 0)[:, ::-1].copy()
    t = f"tensor<9x9x{element}>"
    body = f"%0 = stablehlo.{name} %x, %y : {t}\nreturn %0 : {t}"
    check(function(body, f"%x: {t}, %y: {t}", t), x, y, rtol=tolerance)


@pytest.mark.parametrize("element", DTYPES)
def test_parts_and_sizes(element: str) -> None:
    dtype, tolerance = DTYPES[element]
    part = element[8:-1]
    t, r, turned = f"tensor<9x9x{element}>", f"tensor<9x9x{part}>", f"tensor<9x9x{part}>"
    body = f"""
    %n = stablehlo.negate %x : {t}
    %re = stablehlo.real %n : ({t}) -> {r}
    %im = stablehlo.imag %n : ({t}) -> {r}
    %tr = stablehlo.transpose %im, dims = [1, 0] : ({r}) -> {turned}
    %both = stablehlo.complex %re, %tr : {t}
    %abs = stablehlo.abs %x : ({t}) -> {r}
    %eq = stablehlo.compare EQ, %x, %both : ({t}, {t}) -> tensor<9x9xi1>
    %ne = stablehlo.compare NE, %x, %both : ({t}, {t}) -> tensor<9x9xi1>
    %sum = stablehlo.add %re, %im : {r}
    return %re, %im, %both, %abs, %eq, %ne, %sum : {r}, {r}, {t}, {r}, tensor<9x9xi1>, tensor<9x9xi1>, {r}"""
    results = f"{r}, {r}, {t}, {r}, tensor<9x9xi1>, tensor<9x9xi1>, {r}"
    check(function(body, f"%x: {t}", results), specials(dtype), rtol=tolerance)


def test_parts_of_real_numbers() -> None:
    t = "tensor<3xf32>"
    body = f"%0 = stablehlo.real %x : {t}\n%1 = stablehlo.imag %x : {t}\nreturn %0, %1 : {t}, {t}"
    x = np.array([1, -2, np.inf], np.float32)
    check(function(body, f"%x: {t}", f"{t}, {t}"), x, fallbacks=None)


@pytest.mark.parametrize("element", DTYPES)
def test_products(element: str) -> None:
    dtype, tolerance = DTYPES[element]
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(2, 5, 7)) + 1j * rng.normal(size=(2, 5, 7))).astype(dtype)
    y = (rng.normal(size=(2, 3, 7)) + 1j * rng.normal(size=(2, 3, 7))).astype(dtype)
    a, b, c = (f"tensor<{s}x{element}>" for s in ("2x5x7", "2x3x7", "2x5x3"))
    body = (
        "%0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [2] : "
        f"({a}, {b}) -> {c}\nreturn %0 : {c}"
    )
    check(function(body, f"%x: {a}, %y: {b}", c), x, y, rtol=20 * tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("lengths", [(6,), (7,), (3, 4), (2, 3, 5)])
def test_transforms(kind: str, lengths: tuple[int, ...], double: bool) -> None:
    element = "f64" if double else "f32"
    tolerance = 1e-12 if double else 1e-5
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    before, after = {"RFFT": (lengths, half), "IRFFT": (half, lengths)}.get(
        kind, (lengths, lengths)
    )
    source = element if kind == "RFFT" else f"complex<{element}>"
    target = element if kind == "IRFFT" else f"complex<{element}>"
    x, y = (
        "tensor<2x" + "".join(f"{n}x" for n in shape) + f"{e}>"
        for shape, e in ((before, source), (after, target))
    )
    body = (
        f'%0 = "stablehlo.fft"(%x) <{{fft_type = #stablehlo<fft_type {kind}>, '
        f"fft_length = array<i64: {', '.join(map(str, lengths))}>}}> : ({x}) -> {y}\nreturn %0 : {y}"
    )
    rng = np.random.default_rng(0)
    given = rng.normal(size=(2, *before)) + (
        0 if kind == "RFFT" else 1j * rng.normal(size=(2, *before))
    )
    dtype = np.float64 if kind == "RFFT" else np.complex128
    if not double:
        dtype = np.float32 if kind == "RFFT" else np.complex64
    check(function(body, f"%x: {x}", y), given.astype(dtype), rtol=tolerance, atol=tolerance)
