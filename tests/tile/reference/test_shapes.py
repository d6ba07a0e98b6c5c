"""Products of matrices in the reference."""

from __future__ import annotations

import numpy as np
from tile_evaluation import same
from tile_harness import Kernel

from emu.tile.types import (
    F16,
    F32,
)


def test_products_of_matrices_are_chains_of_multiply_add() -> None:
    k = Kernel()
    a = np.array([[1 + 2**-12, 1]], np.float32)
    b = np.array([[1 + 2**-12], [-1 - 2**-11]], np.float32)
    k.result(k.builder.dot(k.load(a), k.load(b), k.number(0, F32, (1, 1))))
    same(
        k.program("p").run_reference()[-1].ravel(), [0.0]
    )  # the first product is rounded, 2**-24 lost
    k = Kernel()
    a, b = a[:, ::-1].copy(), b[::-1].copy()
    k.result(k.builder.dot(k.load(a), k.load(b), k.number(0, F32, (1, 1))))
    same(k.program("p").run_reference()[-1].ravel(), [2**-24])


def test_products_with_f16_totals_are_rounded_at_the_end() -> None:
    k = Kernel()
    a = np.ones((1, 5), np.float16)
    b = np.array([[2048], [1], [1], [1], [1]], np.float16)
    k.result(k.builder.dot(k.load(a), k.load(b), k.number(0, F16, (1, 1))))
    same(k.program("p").run_reference()[-1].astype(float).ravel(), [2052])
