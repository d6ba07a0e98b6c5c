"""What an operator of torch_npu takes a call, with arrays and with tensors, where it has little to do."""

import ml_dtypes
import numpy as np

from emu import torch_npu

BF16 = ml_dtypes.bfloat16


class SmallCalls:
    """One token of 24 batches, and 24 rows of 128."""

    params = (["numpy", "torch"],)
    param_names = ("kind",)

    def setup(self, kind):
        arrays = (
            np.zeros((24, 64, 128), np.int8),
            np.arange(24),
            np.ones((24, 1, 128), BF16),
            np.ones(128, BF16),
            np.ones(128, BF16),
        )
        self.x = np.ones((24, 128), np.float32)
        self.case = arrays
        if kind == "torch":
            try:
                import torch
            except ImportError:
                raise NotImplementedError("torch is not installed") from None

            self.x = torch.from_numpy(self.x)
            self.case = tuple(
                torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
                if a.dtype == BF16
                else torch.from_numpy(a)
                for a in arrays
            )
        self.time_quant_scatter(kind)  # compiles or loads the kernels
        self.time_dynamic_quant(kind)

    def time_quant_scatter(self, kind):
        torch_npu.npu_quant_scatter_(*self.case, axis=-2, quant_axis=-1)

    def time_dynamic_quant(self, kind):
        torch_npu.npu_dynamic_quant(self.x)
