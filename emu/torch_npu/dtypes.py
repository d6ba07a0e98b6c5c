"""NumPy dtypes that the operators name, from the table of those that kernels know."""

from __future__ import annotations

from emu.kernels.core.dtypes import BY_NAME

INT8, UINT8, INT32, INT64, FLOAT16, BFLOAT16, FLOAT32 = (
    BY_NAME[name].numpy
    for name in ("int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32")
)
