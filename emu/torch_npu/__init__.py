"""The operators of ``torch_npu`` on the CPU, for NumPy arrays and torch tensors.

They read and write the memory of their arguments; results are of the kind of the first argument.
Importing this package loads nothing heavy, and torch only where the program has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emu.torch_npu.experts import npu_alltoallv_gmm as npu_alltoallv_gmm
    from emu.torch_npu.experts import npu_gmm_alltoallv as npu_gmm_alltoallv
    from emu.torch_npu.experts import npu_moe_distribute_combine as npu_moe_distribute_combine
    from emu.torch_npu.experts import npu_moe_distribute_dispatch as npu_moe_distribute_dispatch
    from emu.torch_npu.fused import npu_all_gather_base_mm as npu_all_gather_base_mm
    from emu.torch_npu.fused import npu_all_to_all_matmul as npu_all_to_all_matmul
    from emu.torch_npu.fused import npu_matmul_all_to_all as npu_matmul_all_to_all
    from emu.torch_npu.fused import npu_mm_all_reduce_add_rms_norm as npu_mm_all_reduce_add_rms_norm
    from emu.torch_npu.fused import (
        npu_mm_all_reduce_add_rms_norm_ as npu_mm_all_reduce_add_rms_norm_,
    )
    from emu.torch_npu.fused import npu_mm_all_reduce_base as npu_mm_all_reduce_base
    from emu.torch_npu.fused import npu_mm_reduce_scatter_base as npu_mm_reduce_scatter_base
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
    "npu_all_gather_base_mm": "emu.torch_npu.fused",
    "npu_all_to_all_matmul": "emu.torch_npu.fused",
    "npu_alltoallv_gmm": "emu.torch_npu.experts",
    "npu_anti_quant": "emu.torch_npu.quantize",
    "npu_dynamic_quant": "emu.torch_npu.quantize",
    "npu_gmm_alltoallv": "emu.torch_npu.experts",
    "npu_matmul_all_to_all": "emu.torch_npu.fused",
    "npu_mm_all_reduce_add_rms_norm": "emu.torch_npu.fused",
    "npu_mm_all_reduce_add_rms_norm_": "emu.torch_npu.fused",
    "npu_mm_all_reduce_base": "emu.torch_npu.fused",
    "npu_mm_reduce_scatter_base": "emu.torch_npu.fused",
    "npu_moe_distribute_combine": "emu.torch_npu.experts",
    "npu_moe_distribute_dispatch": "emu.torch_npu.experts",
    "npu_quant_matmul": "emu.torch_npu.matmul",
    "npu_quant_scatter": "emu.torch_npu.scatter",
    "npu_quant_scatter_": "emu.torch_npu.scatter",
    "npu_quantize": "emu.torch_npu.quantize",
    "npu_scatter_nd_update": "emu.torch_npu.scatter",
    "npu_scatter_nd_update_": "emu.torch_npu.scatter",
    "npu_scatter_pa_kv_cache": "emu.torch_npu.scatter",
}

__all__ = [
    "npu_all_gather_base_mm",
    "npu_all_to_all_matmul",
    "npu_alltoallv_gmm",
    "npu_anti_quant",
    "npu_dynamic_quant",
    "npu_gmm_alltoallv",
    "npu_matmul_all_to_all",
    "npu_mm_all_reduce_add_rms_norm",
    "npu_mm_all_reduce_add_rms_norm_",
    "npu_mm_all_reduce_base",
    "npu_mm_reduce_scatter_base",
    "npu_moe_distribute_combine",
    "npu_moe_distribute_dispatch",
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
