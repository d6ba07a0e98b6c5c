"""Calls of device libraries' symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import emit, evaluate, value

import emu.triton.language as tl
from emu.triton.language.external import has_extern, refuse_extern
from emu.triton.language.extra import libdevice, register_extern
from emu.triton.language.extra.signatures import SIGNATURES

X = np.linspace(0.1, 3, 32).astype(np.float32)


def _call(symbol: str, result: Any = tl.float32, count: int = 1) -> Any:
    table = {(tl.float32,) * count: (symbol, result)}
    return lambda *x: tl.core.extern_elementwise(
        "libdevice", "/no/such/file.bc", list(x), table, is_pure=True, _semantic=None
    )


def test_a_symbol_decides_and_the_library_path_does_not() -> None:
    np.testing.assert_allclose(evaluate(_call("__nv_sinf"), X), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(evaluate(_call("__ocml_log2_f32"), X), np.log2(X), rtol=1e-6)
    np.testing.assert_allclose(evaluate(_call("__triton_hip_fast_expf"), X), np.exp(X), rtol=1e-6)
    got = evaluate(_call("__nv_fmaf", count=3), X, np.float32(2) + X, X[:1].repeat(32))
    np.testing.assert_allclose(got, X * (2 + X) + X[0], rtol=1e-6)


def test_every_symbol_of_libdevice_is_known() -> None:
    for overloads in SIGNATURES.values():
        assert all(has_extern(o.symbol) for o in overloads)


def test_narrow_floats_of_ocml() -> None:
    table = {(tl.float16,): ("__ocml_exp_f16", tl.float16)}
    x = X.astype(np.float16)
    got = evaluate(lambda t: tl.core.extern_elementwise("", "", [t], table, True), x)
    np.testing.assert_array_equal(got, np.exp(x.astype(np.float32)).astype(np.float16))


def test_programs_add_symbols_and_replace_those_of_libdevice() -> None:
    register_extern("my_square", lambda x: x * x)
    np.testing.assert_array_equal(evaluate(_call("my_square"), X), X * X)
    before = libdevice.tanh
    from emu.triton.language.extra.bodies import BODIES

    register_extern("__nv_tanhf", lambda x: x + 1)
    try:
        np.testing.assert_array_equal(evaluate(before, X), X + 1)
    finally:
        register_extern("__nv_tanhf", BODIES["tanh"])
    np.testing.assert_allclose(evaluate(before, X), np.tanh(X), rtol=1e-6)


def test_what_cannot_be_called_says_why() -> None:
    x = value("fp32", (8,))
    with pytest.raises(NotImplementedError, match=r"'no_such' .*register_extern"):
        emit(_call("no_such"), x)
    refuse_extern("nvshmem_ptr", "there is no NVLink")
    with pytest.raises(NotImplementedError, match="there is no NVLink"):
        emit(_call("nvshmem_ptr"), x)
    with pytest.raises(TypeError, match=r"the function takes \(fp32\), but got \(fp64\[8\]\)"):
        emit(_call("__nv_sinf"), value("fp64", (8,)))
    with pytest.raises(ValueError, match="args must be 1 operands, but got 2"):
        emit(_call("__nv_sinf"), x, x)
    with pytest.raises(ValueError, match="at least one function"):
        emit(lambda t: tl.core.extern_elementwise("", "", [t], {}, True), x)
    register_extern("wrong", lambda t: 3)
    with pytest.raises(TypeError, match="'wrong' must return one tensor"):
        emit(_call("wrong"), x)
    with pytest.raises(TypeError, match="symbol must be a text"):
        register_extern(3, abs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must not be empty"):
        register_extern("", abs)
    with pytest.raises(TypeError, match="must be callable"):
        register_extern("x", None)  # type: ignore[arg-type]
