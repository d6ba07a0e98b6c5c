"""Conversions to and from narrow floats, against ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from language_harness import evaluate

import emu.triton.language as tl

RNG = np.random.default_rng(22)
X = np.concatenate(
    [RNG.standard_normal(250) * 10.0 ** RNG.integers(-4, 4, 250), [0, -0.0, 1e9, -1e9, 448, 464]]
).astype(np.float32)


def _run(text: str, constraints: str, args: Any, dtype: Any) -> Any:
    return evaluate(
        lambda *a: tl.inline_asm_elementwise(text, constraints, list(a), dtype, True, 1),
        *args,
        native=True,
    )


@pytest.mark.parametrize(
    ("name", "kind", "largest"),
    [("e4m3x2", ml_dtypes.float8_e4m3fn, 448), ("e5m2x2", ml_dtypes.float8_e5m2, 57344)],
)
def test_pairs_of_fp8(name: str, kind: Any, largest: float) -> None:
    y = X[::-1].copy()
    text = f"{{.reg .b16 r; cvt.rn.satfinite.{name}.f32 r, $1, $2; cvt.u32.u16 $0, r;}}"
    got = _run(text, "=r,f,f", [X, y], tl.uint32)
    codes = [np.clip(v, -largest, largest).astype(kind).view(np.uint8) for v in (X, y)]
    np.testing.assert_array_equal(got & 0xFF, codes[1])
    np.testing.assert_array_equal(got >> 8, codes[0])
    back = f"{{.reg .b16 r; cvt.u16.u32 r, $1; cvt.rn.f16x2.{name} $0, r;}}"
    words = _run(back, "=r,r", [got], tl.uint32)
    for shift, code in ((0, codes[1]), (16, codes[0])):
        half = (words >> shift & 0xFFFF).astype(np.uint16).view(np.float16)
        np.testing.assert_array_equal(half, code.view(kind).astype(np.float16))


@pytest.mark.parametrize(("name", "kind"), [("f16x2", np.float16), ("bf16x2", ml_dtypes.bfloat16)])
def test_pairs_of_halves(name: str, kind: Any) -> None:
    x = np.clip(X, -6e4, 6e4)
    y = x[::-1].copy()
    got = _run(f"cvt.rn.{name}.f32 $0, $1, $2;", "=r,f,f", [x, y], tl.uint32)
    np.testing.assert_array_equal(got & 0xFFFF, y.astype(kind).view(np.uint16))
    np.testing.assert_array_equal(got >> 16, x.astype(kind).view(np.uint16))
    got = _run(f"cvt.rn.relu.{name}.f32 $0, $1, $2;", "=r,f,f", [x, y], tl.uint32)
    np.testing.assert_array_equal(got >> 16 & 0x7FFF, np.maximum(x, 0).astype(kind).view(np.uint16))


def test_exponents_of_one_byte() -> None:
    x = np.abs(X)
    x[:4] = [2.0**-127, 1.0, 1.5, np.float32(3e38)]
    for mode, function in (("rz", np.floor), ("rp", np.ceil)):
        text = f"{{.reg .b16 r; cvt.{mode}.satfinite.ue8m0x2.f32 r, $1, $2; cvt.u32.u16 $0, r;}}"
        got = _run(text, "=r,f,f", [x, x], tl.uint32)
        with np.errstate(divide="ignore"):
            wanted = np.clip(function(np.log2(x.astype(np.float64))) + 127, 0, 254)
        np.testing.assert_array_equal(got & 0xFF, wanted)
        np.testing.assert_array_equal(got >> 8, wanted)
    codes = np.arange(256, dtype=np.uint32)
    text = "{.reg .b16 r; cvt.u16.u32 r, $1; cvt.rn.bf16x2.ue8m0x2 $0, r;}"
    got = (_run(text, "=r,r", [codes], tl.uint32) & 0xFFFF).astype(np.uint16)
    numbers = got.view(ml_dtypes.bfloat16).astype(np.float64)
    np.testing.assert_array_equal(numbers[:255], 2.0 ** (np.arange(255.0) - 127))
    assert np.isnan(numbers[255])
