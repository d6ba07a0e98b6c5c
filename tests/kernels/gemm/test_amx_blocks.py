"""What AMX's loops pack, and products whose extents straddle every block, beside the products of vectors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from emu.kernels.gemm import amx_blocks, arguments
from emu.kernels.gemm.amx import COLUMNS, SIDE
from emu.kernels.gemm.amx_blocks import BLOCK_COLUMNS, BLOCK_ROWS, BLOCK_STEPS
from emu.kernels.gemm.arguments import has_amx
from emu.kernels.gemm.microkernel import BF16_AMX, COLUMNS_32, GROUP, INT8_AMX
from emu.kernels.gemm.operands import Matrix
from emu.kernels.matmul import matmul, pack

Array = np.ndarray[Any, Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
F32, I8 = np.dtype(np.float32), np.dtype(np.int8)

needs_amx = pytest.mark.skipif(
    not has_amx(), reason="this CPU has no AMX, or this process may not use it"
)
needs_layout = pytest.mark.skipif(
    COLUMNS_32 != COLUMNS or GROUP != 4, reason="this CPU packs panels of another form"
)
LAYOUTS = {
    "rows": lambda a: a.copy(),
    "columns": lambda a: a.T.copy().T,
    "spread": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
}
each_layout = pytest.mark.parametrize("layout", LAYOUTS)
each_kind = pytest.mark.parametrize(("kind", "size"), [(INT8_AMX, 1), (BF16_AMX, 2)])


def aligned(count: int) -> Array:
    memory = np.full(count + 64, 7, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count]


def matrix(rows: int, columns: int, size: int, layout: str) -> Array:
    words = np.random.default_rng(rows).integers(0, 256**size, (rows, columns))
    return np.asarray(LAYOUTS[layout](words.astype({1: np.uint8, 2: np.uint16}[size])))


@needs_layout
@each_layout
@each_kind
@pytest.mark.parametrize(("rows", "count"), [(1, 1), (16, 64), (35, 321), (32, 256), (17, 300)])
def test_rows_become_registers(layout: str, kind: int, size: int, rows: int, count: int) -> None:
    a = matrix(rows, count, size, layout)
    each = 64 // size
    tall, steps = -(-rows // SIDE), -(-count // each)
    packed = aligned(tall * steps * 1024)
    amx_blocks.pack_rows(kind, packed.ctypes.data, Matrix(a.ctypes.data, *a.strides), rows, count)
    padded = np.zeros((rows, steps * each), a.dtype)
    padded[:, :count] = a
    found = packed.view(a.dtype).reshape(tall, steps, SIDE, each).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(found.reshape(tall * SIDE, -1)[:rows], padded)


@needs_layout
@each_layout
@each_kind
@pytest.mark.parametrize(("k", "n"), [(1, 1), (64, 32), (65, 33), (300, 70), (256, 96)])
def test_columns_become_panels(layout: str, kind: int, size: int, k: int, n: int) -> None:
    b = matrix(k, n, size, layout)
    group, panels, words = 4 // size, -(-n // COLUMNS), -(-k * size // 64) * 16
    packed = aligned(panels * words * 128)
    amx_blocks.pack_panels(kind, packed.ctypes.data, Matrix(b.ctypes.data, *b.strides), k, n)
    padded = np.zeros((words * group, panels * COLUMNS), b.dtype)
    padded[:k, :n] = b
    found = packed.view(b.dtype).reshape(panels, words, COLUMNS, group)
    expected = padded.reshape(words, group, panels, COLUMNS).transpose(2, 0, 3, 1)
    np.testing.assert_array_equal(found, expected)


STRADDLING = [
    (BLOCK_ROWS + 33, 40, 64),
    (3, BLOCK_COLUMNS + 17, 100),
    (BLOCK_ROWS + 1, BLOCK_COLUMNS + 1, 64 * BLOCK_STEPS + 3),
    (70, 50, 4099),
    (33, 31, 2 * 64 * BLOCK_STEPS),
]


@needs_amx
@pytest.mark.parametrize("shape", STRADDLING)
@pytest.mark.parametrize("threads", [1, 2])
def test_int8_has_the_bits_of_vectors(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int], threads: int
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = rng.integers(-128, 128, (m, k), np.int8), rng.integers(-128, 128, (k, n), np.int8)
    a[0], b[:, 0] = -128, -128
    bias = rng.integers(-(2**31), 2**31, n).astype(np.int32)
    spread = np.zeros((m, 2 * n), np.int32)[:, ::2]
    found = matmul(a, b, threads=threads), matmul(a, pack(b), threads=threads)
    scaled = matmul(a, b, out=spread, alpha=-3, bias=bias, threads=threads)
    monkeypatch.setattr(arguments, "is_permitted", lambda: False)
    expected = matmul(a, b, threads=threads)
    np.testing.assert_array_equal(expected, a.astype(np.int64) @ b.astype(np.int64))
    for one in found:
        np.testing.assert_array_equal(one, expected)
    np.testing.assert_array_equal(scaled, matmul(a, b, alpha=-3, bias=bias, threads=1))


@needs_amx
@pytest.mark.parametrize("shape", STRADDLING)
def test_bf16_depends_on_no_block(shape: tuple[int, int, int]) -> None:
    """Each element is that of a product of its row and its column alone, at any place, in any form of the result."""
    m, n, k = shape
    rng = np.random.default_rng(k)
    a, b = (rng.standard_normal(s).astype(BF16) for s in ((m, k), (k, n)))
    whole = matmul(a, b, dtype=F32, precision="native")
    np.testing.assert_array_equal(matmul(a, b, precision="native"), whole.astype(BF16))
    rows, columns = rng.integers(0, m, 5), rng.integers(0, n, 6)
    part = matmul(a[rows], b[:, columns], dtype=F32, precision="native")
    np.testing.assert_array_equal(part, whole[np.ix_(rows, columns)])
    out = np.full((n, m), np.nan, F32).T
    np.testing.assert_array_equal(matmul(a, b, out=out, precision="native"), whole)


def test_blocks_fit_their_memory() -> None:
    for size in (1, 2):
        for n, k in [(1, 1), (33, 65), (10_000, 16_384), (4096, 4096)]:
            wide = amx_blocks.block_columns(n, k, size)
            assert wide % COLUMNS == 0
            panels = wide * amx_blocks.column_bytes(size, k)
            assert wide == COLUMNS or panels <= amx_blocks.PANEL_BYTES
            assert amx_blocks.scratch_bytes(n, k, size) >= panels + amx_blocks.LEFT_BYTES
