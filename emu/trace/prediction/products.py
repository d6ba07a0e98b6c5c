"""Matrix products as a library would launch them: the work of a product in tiles, and the tiles that are predicted to be fastest.

Internal: names may change in any release.
"""

from __future__ import annotations

from dataclasses import replace

from emu.trace.prediction.devices.device import Device
from emu.trace.prediction.errors import PredictionError
from emu.trace.prediction.kernels import KernelTime, kernel_time
from emu.trace.prediction.work import LONGEST, Traffic, Work

TILES = ((128, 256), (256, 128), (128, 128), (64, 256), (64, 128), (64, 64))
"""Rows and columns of a program's tile that libraries choose from."""

ITEMSIZE = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "f8": 1, "i8": 1}
_OUT = {"i8": 4, "f8": 2}
CLUSTER = 2
"""Programs that load the longer side of their tiles once for all of them, as libraries' kernels do (clusters of Hopper, caches of others)."""


def product_work(
    m: int, n: int, k: int, dtype: str = "f16", tile: tuple[int, int] = (128, 256)
) -> Work:
    """Return the work of ``[m, k] @ [k, n]``, each tile of the result a program.

    Ragged tiles compute as much as whole ones.

    Raises:
        PredictionError: An extent is below 1, or the dtype is none of products.
    """
    for name, extent in (("m", m), ("n", n), ("k", k)):
        if type(extent) is not int or not 1 <= extent <= LONGEST:
            raise PredictionError(f"{name} must be in [1, {LONGEST}], but got {extent!r}")
    if dtype not in ITEMSIZE:
        raise PredictionError(f"dtype must be one of {', '.join(ITEMSIZE)}, but got {dtype!r}")
    rows, columns = tile
    programs = -(-m // rows) * -(-n // columns)
    size = ITEMSIZE[dtype]
    stored = float(m) * n * _OUT.get(dtype, size)
    return Work(
        programs=programs,
        dot={dtype: 2.0 * programs * rows * columns * k},
        tensors=(
            Traffic(
                max(float(m), float(programs) * rows / (CLUSTER if rows > columns else 1))
                * k
                * size,
                float(m) * k * size,
            ),
            Traffic(
                max(float(n), float(programs) * columns / (CLUSTER if columns >= rows else 1))
                * k
                * size,
                float(n) * k * size,
            ),
            Traffic(stored, stored),
        ),
    )


def fastest_product(
    m: int, n: int, k: int, dtype: str, device: Device, more: Work | None = None
) -> KernelTime:
    """Return the predicted time of a product with the best of :data:`TILES`.

    Args:
        m: Rows of the result.
        n: Its columns.
        k: What is summed over.
        dtype: That of the operands.
        device: The device.
        more: What its kernel computes and moves beside that. Default: nothing.
    """
    works = [product_work(m, n, k, dtype, tile) for tile in TILES]
    if more is not None:
        works = [
            replace(
                work,
                vector=more.vector,
                special=more.special,
                tensors=(*work.tensors, *more.tensors),
            )
            for work in works
        ]
    return min((kernel_time(work, device) for work in works), key=lambda time: time.seconds)
