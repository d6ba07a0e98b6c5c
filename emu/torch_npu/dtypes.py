"""NumPy dtypes that the operators name."""

from __future__ import annotations

import numpy as np

from emu.kernels.core.dtypes import BFLOAT16

INT8, UINT8 = np.dtype(np.int8), np.dtype(np.uint8)
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)
FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)

__all__ = ["BFLOAT16", "FLOAT16", "FLOAT32", "INT8", "INT32", "INT64", "UINT8"]
