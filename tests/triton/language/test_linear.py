"""Products of matrices, against NumPy's in a wider dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from language_harness import DTYPES, emit, evaluate, value

import emu.triton.language as tl
from emu.tile.ops import Code

RNG = np.random.default_rng(0)


def matrix(name: str, *shape: int) -> Any:
    return RNG.integers(-4, 5, shape).astype(np.float32).astype(DTYPES[name])


def exact(x: Any) -> Any:
    return x.astype(np.float64)


@pytest.mark.parametrize(
    ("name", "result"),
    [
        *[
            ("fp16", "fp32"),
            ("bf16", "fp32"),
            ("fp32", "fp32"),
            ("fp64", "fp64"),
            ("int8", "int32"),
        ],
        *[("fp8e4nv", "fp32"), ("fp8e5", "fp32")],
    ],
)
@pytest.mark.parametrize("shape", [(16, 32, 8), (1, 16, 16)])
def test_products(name: str, result: str, shape: Any) -> None:
    m, k, n = shape
    a, b = matrix(name, m, k), matrix(name, k, n)
    got = evaluate(tl.dot, a, b)
    assert got.dtype == DTYPES[result]
    np.testing.assert_array_equal(got, exact(a) @ exact(b))
    start = matrix(result, m, n)
    got = evaluate(lambda x, y, c: tl.dot(x, y, acc=c), a, b, start)
    np.testing.assert_array_equal(got, exact(a) @ exact(b) + start)


def test_halves_may_give_halves() -> None:
    a, b = matrix("fp16", 16, 16), matrix("fp16", 16, 16)
    got = evaluate(lambda x, y: tl.dot(x, y, out_dtype=tl.float16), a, b)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, exact(a) @ exact(b))
    got = evaluate(lambda x, y: tl.dot(x, y, tl.zeros((16, 16), tl.float16)), a, b)
    assert got.dtype == np.float16


@pytest.mark.parametrize("batches", [(2,), (2, 4)])
def test_batches(batches: Any) -> None:
    a, b = matrix("fp32", *batches, 4, 8), matrix("fp32", *batches, 8, 2)
    c = matrix("fp32", *batches, 4, 2)
    np.testing.assert_array_equal(evaluate(tl.dot, a, b, c), exact(a) @ exact(b) + c)


def test_two_kinds_of_fp8() -> None:
    a, b = matrix("fp8e4nv", 4, 8), matrix("fp8e5", 8, 4)
    np.testing.assert_array_equal(evaluate(tl.dot, a, b), exact(a) @ exact(b))


def test_precisions_are_accepted() -> None:
    a, b = matrix("fp32", 4, 8), matrix("fp32", 8, 4)
    for keywords in (
        *[{"input_precision": p} for p in ("tf32", "TF32x3", "ieee", "bf16x3", None)],
        *[{"allow_tf32": False}, {"allow_tf32": True}, {"max_num_imprecise_acc": 0}],
    ):
        got = evaluate(lambda x, y, w=keywords: tl.dot(x, y, **w), a, b)
        np.testing.assert_array_equal(got, exact(a) @ exact(b))


def dots(function: Any, name: str = "bf16", n: int = 16, k: int = 16, **options: Any) -> list[Any]:
    """Whether the products that a function emits are native ones."""
    a, b = matrix(name, 8, k), matrix(name, k, n)
    _, module = emit(function, a, b, **options)
    code = [o for f in module.functions.values() for o in f.body.operations if o.code is Code.DOT]
    return [o.attributes.get("native", False) for o in code]


def test_native_products_are_of_bf16_that_fills_vectors() -> None:
    def named(x: Any, y: Any) -> Any:
        return tl.dot(x, y, input_precision="native")

    assert dots(named) == [True]
    assert dots(named, "fp16") == dots(named, "fp32") == dots(named, "int8") == [False]
    assert dots(named, n=8) == dots(named, k=1) == [False]
    assert dots(tl.dot) == [False]


def test_a_launch_may_make_products_native_that_name_no_precision() -> None:
    assert dots(tl.dot, bf16_native=True) == [True]
    assert dots(lambda x, y: tl.dot(x, y, input_precision="tf32"), bf16_native=True) == [True]
    assert dots(lambda x, y: tl.dot(x, y, input_precision="ieee"), bf16_native=True) == [False]


def test_bad_products_are_named() -> None:
    a, b, h = value("fp32", (16, 32)), value("fp32", (32, 8)), value("fp16", (32, 8))
    c8 = value("fp32", (16, 16))
    cases: list[tuple[type[Exception], str, Any]] = [
        (
            ValueError,
            r"dot got fp32\[16, 32\] and fp32\[16, 16\]: 32 and 16",
            lambda: tl.dot(a, c8),
        ),
        (TypeError, r"one dtype, but got fp32\[16, 32\] and fp16\[32, 8\]", lambda: tl.dot(a, h)),
        (TypeError, "input of dot must be a tensor with axes", lambda: tl.dot(value("fp32"), b)),
        (TypeError, "other of dot must be a tensor with axes, but got 3", lambda: tl.dot(a, 3)),
        (TypeError, "must have a dtype of", lambda: tl.dot(*[value("int32", (4, 4))] * 2)),
        (
            TypeError,
            "dot of integers must have int8",
            lambda: tl.dot(*[value("uint8", (4, 4))] * 2),
        ),
        (ValueError, "as many axes", lambda: tl.dot(a, value("fp32", (2, 32, 8)))),
        (ValueError, "same batches", lambda: tl.dot(a[None], value("fp32", (2, 32, 8)))),
        (ValueError, r"acc of dot must be fp32\[16, 8\]", lambda: tl.dot(a, b, acc=c8)),
        (ValueError, "acc of dot must be fp32", lambda: tl.dot(a, b, acc=value("fp64", (16, 8)))),
        (ValueError, "got bfloat16", lambda: tl.dot(a, b, out_dtype=tl.bfloat16)),
        (ValueError, "input_precision must be one of", lambda: tl.dot(a, b, input_precision="x")),
        (
            ValueError,
            "only one of input_precision and allow_tf32",
            lambda: tl.dot(a, b, input_precision="ieee", allow_tf32=True),
        ),
    ]
    for error, said, function in cases:
        with pytest.raises(error, match=said):
            emit(function)
