"""Conversion between the floating-point dtypes, 1 Mi elements into memory that is there."""

import ml_dtypes
import numpy as np

from emu.kernels.cast import cast

DTYPES = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
}


class Cast:
    """Between fp32 and a narrower dtype."""

    params = (list(DTYPES),)
    param_names = ("dtype",)

    def setup(self, dtype):
        self.wide = np.random.default_rng(0).standard_normal(1 << 20, dtype=np.float32)
        self.narrow = cast(self.wide, DTYPES[dtype])
        self.time_widen(dtype)  # compiles or loads the kernels

    def time_narrow(self, dtype):
        cast(self.wide, DTYPES[dtype], out=self.narrow)

    def time_narrow_saturated(self, dtype):
        cast(self.wide, DTYPES[dtype], saturate=True, out=self.narrow)

    def time_widen(self, dtype):
        cast(self.narrow, np.float32, out=self.wide)


class CastStrided:
    """Every second element, and a transposed matrix into a plain one."""

    def setup(self):
        self.wide = np.ones((1024, 2048), np.float32)
        self.narrow = np.ones((1024, 1024), np.float16)
        self.time_every_second()
        self.time_transposed()

    def time_every_second(self):
        cast(self.wide[:, ::2], np.float16, out=self.narrow)

    def time_transposed(self):
        cast(self.wide[:, :1024].T, np.float16, out=self.narrow)
