"""Products of int8 matrices against their formula, and what is refused."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import operand_kinds as kinds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu import torch_npu
from emu.comm.errors import ArgumentError

give, take = kinds.give, kinds.take
BF16, F16 = kinds.BF16, np.dtype(np.float16)
F32, I8, I32, U8 = (np.dtype(t) for t in (np.float32, np.int8, np.int32, np.uint8))
KINDS = ["numpy", *(["torch"] if importlib.util.find_spec("torch") else [])]
SETTINGS = settings(deadline=None, max_examples=120)
FLOATS = st.sampled_from([F32, F16, BF16])
SHAPES = st.lists(st.integers(0, 9), min_size=1, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Say whether two arrays have the same dtype and elements; NaN equals NaN."""
    return one.dtype == other.dtype and np.array_equal(
        one.astype(np.float64), other.astype(np.float64), equal_nan=True
    )


@SETTINGS
@given(
    kind=st.sampled_from(KINDS),
    lead=st.sampled_from([((), ()), ((3,), (3,)), ((2, 1), (3,)), ((), (2,)), ((0,), (1,))]),
    sizes=st.tuples(st.integers(0, 7), st.integers(0, 40), st.integers(0, 9)),
    dtype=st.sampled_from([None, I8, F16, BF16, F32]),
    scale=st.sampled_from([F32, BF16]),
    bias=st.booleans(),
    more=st.sampled_from(["none", "offset", "rows"]),
    single=st.booleans(),
    seed=st.integers(0, 99999),
)
def test_quant_matmul_is_its_formula(
    kind: str,
    lead: Any,
    sizes: tuple[int, int, int],
    dtype: Any,
    scale: Any,
    bias: bool,
    more: str,
    single: bool,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    m, k, n = sizes
    x1 = kinds.strided(rng, [*lead[0], m, k], I8)
    x2 = kinds.strided(rng, [*lead[1], k, n], I8)
    for x in (x1, x2):
        x[...] = rng.integers(-128, 128, x.shape)
    count = 1 if single else n
    columns = (kinds.factors(rng, count, F32) * F32.type(0.01)).astype(scale)
    sums = np.matmul(x1.astype(np.int64), x2.astype(np.int64))
    starts = rng.integers(-(2**31), 2**31, n).astype(I32) if bias else None
    if starts is not None:
        sums = sums + starts
    whole = dtype in (None, I8)
    offset = kinds.factors(rng, count, F32) if more == "offset" else None
    rows = rng.uniform(-2, 2, m).astype(F32) if more == "rows" and not whole else None
    with np.errstate(all="ignore"):
        product = sums.astype(I32).astype(F32)
        if whole:
            expected = kinds.quantized(product, columns, offset, multiply=True)
        else:
            expected = product * columns.astype(F32)
            if rows is not None:
                expected = expected * rows[:, None]
            if offset is not None:
                expected = expected + offset
            expected = expected.astype(dtype)
    arrays = {"offset": offset, "pertoken_scale": rows, "bias": starts}
    result = torch_npu.npu_quant_matmul(
        *[give(kind, a) for a in (x1, x2, columns)],
        **{name: give(kind, a) for name, a in arrays.items()},
        output_dtype=dtype,
    )
    assert same(take(kind, result), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x1": np.ones((2, 3), F16)}, "x1 must have dtype int8"),
        ({"x2": np.ones((3, 4), I32)}, "x2 must have dtype int8"),
        ({"x1": np.ones(3, I8)}, "x1 must have at least 2 axes"),
        ({"x2": np.ones((2, 4), I8)}, "x2 must have 3 rows, the columns of x1"),
        (
            {"x1": np.ones((2, 2, 3), I8), "x2": np.ones((3, 3, 4), I8)},
            "x2 must have leading axes that broadcast",
        ),
        ({"scale": np.ones(3, F32)}, "scale must have one element or 4"),
        ({"scale": np.ones(4, np.int64)}, "scale must have dtype float32, bfloat16"),
        ({"offset": np.ones(4, F16)}, "offset must have dtype float32"),
        ({"bias": np.ones(4, F32)}, "bias must have dtype int32"),
        ({"bias": np.ones(1, I32)}, r"bias must have shape \(4,\)"),
        (
            {"pertoken_scale": np.ones(2, F32)},
            "pertoken_scale must be None where the result is int8",
        ),
        (
            {"pertoken_scale": np.ones(2, F32), "offset": np.ones(4, F32), "output_dtype": F16},
            "pertoken_scale must be None .* with an offset",
        ),
        ({"pertoken_scale": np.ones(4, F32), "output_dtype": F16}, r"must have shape \(2,\)"),
        ({"output_dtype": np.int32}, "output_dtype must be int8, float16, bfloat16 or float32"),
        ({"group_sizes": [1, 1, 32]}, r"group_sizes must be None, but got \[1, 1, 32\]"),
    ],
)
def test_quant_matmul_refuses(kind: str, change: dict[str, Any], message: str) -> None:
    arguments = {"x1": np.ones((2, 3), I8), "x2": np.ones((3, 4), I8), "scale": np.ones(4, F32)}
    ready = {
        k: give(kind, v) if isinstance(v, np.ndarray) else v
        for k, v in {**arguments, **change}.items()
    }
    with pytest.raises(ArgumentError, match=message):
        torch_npu.npu_quant_matmul(**ready)
