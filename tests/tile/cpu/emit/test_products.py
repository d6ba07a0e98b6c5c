"""Products of tiles whose extents leave a rest of every kind: the bits of the reference."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tile_cpu_runner import run
from tile_harness import Kernel

from emu.tile.cpu.emit.products import row_blocks
from emu.tile.types import BF16, F16, F32, F64, I8, I32, DType

PAIRS = [(F32, F32), (F16, F32), (BF16, F32), (F16, F16), (F64, F64), (I8, I32)]


@settings(deadline=None, max_examples=25)
@given(
    batch=st.sampled_from([(), (2,), (2, 1)]),
    m=st.sampled_from([1, 3, 4, 7, 8, 9, 14, 17]),
    n=st.sampled_from([1, 5, 8, 16, 31, 32, 33]),
    k=st.sampled_from([1, 2, 7, 16]),
    pair=st.sampled_from(PAIRS),
    turned=st.booleans(),
    seed=st.integers(0, 9),
)
def test_products_are_those_of_the_reference(
    batch: tuple[int, ...],
    m: int,
    n: int,
    k: int,
    pair: tuple[DType, DType],
    turned: bool,
    seed: int,
) -> None:
    kernel = Kernel()
    b = kernel.builder
    chance = np.random.default_rng(seed)
    dtype, total = pair

    def tile(shape: tuple[int, ...], element: DType) -> np.ndarray:
        return chance.integers(-9, 10, shape).astype(np.float32).astype(element.numpy)

    left = kernel.load(tile((*batch, m, k), dtype))
    right_shape = (*batch, n, k) if turned else (*batch, k, n)
    right = kernel.load(tile(right_shape, dtype))
    if turned:  # columns lie side by side: they are copied first
        axes = tuple(range(len(batch)))
        right = b.permute(right, (*axes, len(batch) + 1, len(batch)))
    kernel.result(b.dot(left, right, kernel.load(tile((*batch, m, n), total))))
    kernel.program("dot").check(run)


@given(m=st.integers(1, 300), rows=st.integers(1, 16))
def test_register_tiles_cover_all_rows_and_few_are_short(m: int, rows: int) -> None:
    blocks = row_blocks(m, rows)
    assert sum(count * each for count, each in blocks) == m
    assert all(1 <= each <= rows and count >= 1 for count, each in blocks)
    assert m < rows or all(2 * each >= rows for _, each in blocks)
