"""The operators of ``torch_npu`` on the CPU, for NumPy arrays and torch tensors.

They read and write the memory of their arguments; results are of the kind of the first argument.
Importing this package loads nothing heavy, and torch only where the program has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emu.torch_npu.matmul import npu_quant_matmul as npu_quant_matmul
    from emu.torch_npu.quantize import npu_anti_quant as npu_anti_quant
    from emu.torch_npu.quantize import npu_dynamic_quant as npu_dynamic_quant
    from emu.torch_npu.quantize import npu_quantize as npu_quantize
    from emu.torch_npu.scatter import npu_quant_scatter as npu_quant_scatter
    from emu.torch_npu.scatter import npu_quant_scatter_ as npu_quant_scatter_
    from emu.torch_npu.scatter import npu_scatter_nd_update as npu_scatter_nd_update
    from emu.torch_npu.scatter import npu_scatter_nd_update_ as npu_scatter_nd_update_
    from emu.torch_npu.scatter import npu_scatter_pa_kv_cache as npu_scatter_pa_kv_cache

_HOME = {
    "npu_anti_quant": "emu.torch_npu.quantize",
    "npu_dynamic_quant": "emu.torch_npu.quantize",
    "npu_quant_matmul": "emu.torch_npu.matmul",
    "npu_quant_scatter": "emu.torch_npu.scatter",
    "npu_quant_scatter_": "emu.torch_npu.scatter",
    "npu_quantize": "emu.torch_npu.quantize",
    "npu_scatter_nd_update": "emu.torch_npu.scatter",
    "npu_scatter_nd_update_": "emu.torch_npu.scatter",
    "npu_scatter_pa_kv_cache": "emu.torch_npu.scatter",
}

__all__ = [
    "npu_anti_quant",
    "npu_dynamic_quant",
    "npu_quant_matmul",
    "npu_quant_scatter",
    "npu_quant_scatter_",
    "npu_quantize",
    "npu_scatter_nd_update",
    "npu_scatter_nd_update_",
    "npu_scatter_pa_kv_cache",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'emu.torch_npu' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
