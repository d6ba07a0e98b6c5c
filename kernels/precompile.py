"""Calls of every kernel, so that its code is compiled and on disk.

``emu doctor --warm`` does this ahead of a job, or while an image is built. Each step makes a call that
users make, with small operands that reach all compiled functions behind it.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

Step = Callable[[], object]


def _set_tile() -> None:
    from emu.kernels.tiles import set_tile

    # A small tile goes through the inline cache, a large one past it.
    large = np.zeros((256, 256), np.float32)
    set_tile(large[:4, :4], np.ones((4, 4), np.float32))
    set_tile(large, np.ones((256, 256), np.float32))
    set_tile(large, np.ones((256, 256), np.float32).T)


def _add_tile() -> None:
    from emu.kernels.tiles import add_tile

    large = np.zeros((256, 256), np.float32)
    add_tile(large[:4, :4], np.ones((4, 4), np.float32))
    add_tile(large, np.ones((256, 256), np.float32))
    add_tile(large, np.ones((256, 256), np.float32).T)


def _matmul() -> None:
    from emu.kernels.matmul import matmul

    one = np.ones((2, 2), np.float32)
    matmul(one, one, threads=1)


def _matmul_packed() -> None:
    from emu.kernels.matmul import matmul, pack

    one = np.ones((2, 2), np.float32)
    matmul(one, pack(one), threads=1)


def _matmul_long() -> None:
    from emu.kernels.gemm.blocks import MAX_K
    from emu.kernels.matmul import matmul

    long = np.ones((1, MAX_K + 1), np.float32)
    matmul(long, long.T, alpha=2, threads=1)


def _matmul_threads() -> None:
    from emu.kernels.matmul import matmul

    large = np.ones((300, 300), np.float32)
    matmul(large, large, threads=2)


def _matmul_shared_k() -> None:
    from emu.kernels.matmul import matmul

    long = np.ones((1, 1 << 14), np.float32)
    matmul(long, long.T, threads=2, deterministic=False)


def _cast() -> None:
    from emu.kernels.cast import cast

    cast(np.ones(4, np.float32), ml_dtypes.bfloat16)
    cast(np.ones((4, 4), np.float32)[:, ::2], np.float64)
    cast(np.ones((64, 64), np.float32).T, ml_dtypes.bfloat16)


def _quantize() -> None:
    from emu.kernels.quant import quantize

    quantize(np.ones((4, 4), np.float32), np.ones(4, np.float32))


def _dynamic_quantize() -> None:
    from emu.kernels.quant import dynamic_quantize

    dynamic_quantize(np.ones((4, 4), np.float32))


def _dequantize() -> None:
    from emu.kernels.quant import dequantize

    dequantize(np.ones((4, 4), np.int8), np.ones(4, np.float32))


def _quant_scatter() -> None:
    from emu.kernels.quant import quant_scatter

    target, updates = np.zeros((2, 4, 32), np.int8), np.ones((2, 1, 32), np.float16)
    quant_scatter(target, np.array([0, 2]), updates, np.ones(32, np.float32))
    pairs = np.array([[1, 2], [0, 1]])
    quant_scatter(target, pairs, updates, np.ones(32, np.float32), overlap="last")


def _reduce() -> None:
    from emu.kernels.reduce import CODES, SCRATCH_BYTES, SUM, reduce_run

    data, scratch = np.ones(8, np.float32), np.empty(SCRATCH_BYTES + 64, np.uint8)
    where = np.array([data.ctypes.data])
    aligned = (scratch.ctypes.data + 63) & -64
    reduce_run(CODES[data.dtype], SUM, where, where, 4, 8, aligned, 0)


def _rows() -> None:
    from emu.kernels.elementwise.rows import scale_product, weighted_row_sum

    one = np.ones((1, 1), np.float32)
    weighted_row_sum(one, np.zeros((1, 1), np.int32), one)
    scale_product(np.ones((1, 1), np.int32), one[0])


def _stream() -> None:
    from emu.kernels.stream import stream_bytes, stream_bytes_twice

    target, kept, source = (np.zeros(512, np.uint8).ctypes.data for _ in range(3))
    stream_bytes(target, source, 512)
    stream_bytes_twice(target, kept, source, 512)


STEPS: dict[str, Step] = {
    "set_tile": _set_tile,
    "add_tile": _add_tile,
    "cast": _cast,
    "quantize": _quantize,
    "dynamic_quantize": _dynamic_quantize,
    "dequantize": _dequantize,
    "quant_scatter": _quant_scatter,
    "matmul": _matmul,
    "matmul of a packed matrix": _matmul_packed,
    "matmul of a long k": _matmul_long,
    "matmul on threads": _matmul_threads,
    "matmul, k on threads": _matmul_shared_k,
    "reductions": _reduce,
    "rows by index": _rows,
    "streaming copies": _stream,
}
"""Steps of the precompilation, by name."""
