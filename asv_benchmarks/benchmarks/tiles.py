"""Tiles into strided memory, and atomics on arrays."""

import ml_dtypes
import numpy as np

DTYPES = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16, "fp16": np.float16, "int8": np.int8}
LAYOUTS = ["dense", "columns", "transposed", "every second"]


def tile(layout, dtype, n=1024):
    """Return a target and a source."""
    whole = np.ones((n, 2 * n), dtype)
    source = np.ones((n, n), dtype)
    if layout == "dense":
        return np.zeros((n, n), dtype), source
    if layout == "columns":
        return whole[:, n // 2 : n // 2 + n], source
    if layout == "transposed":
        return np.zeros((n, n), dtype), source.T
    return whole[:, ::2], source


class Tiles:
    """A tile of 1024×1024 elements."""

    params = (LAYOUTS, list(DTYPES))
    param_names = ("layout", "dtype")

    def setup(self, layout, dtype):
        from emu.kernels.tiles import add_tile, set_tile

        self.set_tile, self.add_tile = set_tile, add_tile
        self.target, self.source = tile(layout, DTYPES[dtype])
        self.time_set(layout, dtype)  # compiles or loads the kernels
        self.time_add(layout, dtype)
        self.target[...] = 1

    def time_set(self, layout, dtype):
        self.set_tile(self.target, self.source)

    def time_add(self, layout, dtype):
        self.add_tile(self.target, self.source)


class SmallTiles:
    """What a call costs."""

    params = ([1, 4, 16, 64],)
    param_names = ("side",)

    def setup(self, side):
        from emu.kernels.tiles import add_tile, set_tile

        self.set_tile, self.add_tile = set_tile, add_tile
        self.target = np.zeros((128, 128), np.float32)[:side, :side]
        self.source = np.ones((side, side), np.float32)
        self.time_set(side)
        self.time_add(side)

    def time_set(self, side):
        self.set_tile(self.target, self.source)

    def time_add(self, side):
        self.add_tile(self.target, self.source)


class Atomics:
    """One atomic add to each of 16,384 elements."""

    params = (["int32", "fp32", "bf16"],)
    param_names = ("dtype",)

    def setup(self, dtype):
        from rows.tiles import walk

        self.walk, *_ = walk(dtype)

    def time_add(self, dtype):
        self.walk()
