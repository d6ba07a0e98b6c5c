"""Quantisation, and the quantised scatter into a cache of an LLM's keys or values."""

import ml_dtypes
import numpy as np

from emu.kernels.quant import dequantize, dynamic_quantize, quant_scatter, quantize

BF16 = ml_dtypes.bfloat16


class Quantize:
    """1 Mi elements with scales along the last axis of 128."""

    params = (["fp32", "fp16", "bf16"],)
    param_names = ("dtype",)

    def setup(self, dtype):
        rng = np.random.default_rng(0)
        kind = {"fp32": np.float32, "fp16": np.float16, "bf16": BF16}[dtype]
        self.x = (3 * rng.standard_normal((8192, 128), dtype=np.float32)).astype(kind)
        self.scales = rng.uniform(0.1, 1, 128).astype(np.float32)
        self.zeros = rng.uniform(-5, 5, 128).astype(np.float32)
        self.row_scales = np.empty(8192, np.float32)
        self.q = quantize(self.x, self.scales, self.zeros)  # compiles or loads the kernels
        self.time_dequantize(dtype)
        self.time_dynamic(dtype)

    def time_divide(self, dtype):
        quantize(self.x, self.scales, self.zeros, out=self.q)

    def time_multiply(self, dtype):
        quantize(self.x, self.scales, self.zeros, multiply=True, out=self.q)

    def time_dequantize(self, dtype):
        dequantize(self.q, self.scales, self.zeros, dtype=self.x.dtype, out=self.x)

    def time_dynamic(self, dtype):
        dynamic_quantize(self.x, out=self.q, scales_out=self.row_scales)


class Scatter:
    """bf16 rows of 24 batches into an int8 cache: one token, and a whole prompt."""

    params = ([1, 4096], ["starts", "pairs"])
    param_names = ("run", "indices")

    def setup(self, run, indices):
        rng = np.random.default_rng(0)
        self.cache = np.zeros((24, 8192, 128), np.int8)
        self.updates = (3 * rng.standard_normal((24, run, 128), dtype=np.float32)).astype(BF16)
        self.scales = rng.uniform(0.1, 1, 128).astype(BF16)
        self.zeros = rng.uniform(-5, 5, 128).astype(BF16)
        starts = rng.integers(0, 8193 - run, 24)
        self.indices = np.stack([np.arange(24), starts], 1) if indices == "pairs" else starts
        self.time_scatter(run, indices)

    def time_scatter(self, run, indices):
        quant_scatter(self.cache, self.indices, self.updates, self.scales, self.zeros)

    def peakmem_scatter(self, run, indices):
        quant_scatter(self.cache, self.indices, self.updates, self.scales, self.zeros)
