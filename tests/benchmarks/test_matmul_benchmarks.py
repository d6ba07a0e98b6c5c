"""Matrix products under pytest-benchmark; what is asserted is what they computed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.matmul import matmul

pytestmark = pytest.mark.benchmark(max_time=0.05, min_rounds=3, warmup=False)

DTYPES = {
    "fp32": np.float32,
    "fp64": np.float64,
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "int8": np.int8,
}


@pytest.mark.parametrize("size", [64, 512])
@pytest.mark.parametrize("name", DTYPES)
def test_matmul(benchmark: Any, name: str, size: int) -> None:
    rng = np.random.default_rng(size)
    # Small integers: every sum is exact in all these dtypes' sums.
    a, b = (rng.integers(-4, 5, (size, size)).astype(DTYPES[name]) for _ in range(2))
    found = benchmark(matmul, a, b, threads=1)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(found, exact.astype(found.dtype))


def test_numpy_for_comparison(benchmark: Any) -> None:
    a = np.ones((512, 512), np.float32)
    assert (benchmark(np.matmul, a, a) == 512).all()
