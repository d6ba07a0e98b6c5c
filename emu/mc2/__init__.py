"""Matrix products fused with communication: AllGatherMatmul and its family, turn by turn.

Every operator is called by all PEs of a group. It cuts its rows into turns; while the group's
communication servers move one turn, this PE multiplies another. The bits of a result depend on
neither the number of turns nor who was fast: they are those of the whole product and one collective.

Importing this package loads nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emu.mc2.all_gather_matmul import all_gather_matmul as all_gather_matmul
    from emu.mc2.all_to_all import all_to_all_matmul as all_to_all_matmul
    from emu.mc2.all_to_all import matmul_all_to_all as matmul_all_to_all
    from emu.mc2.check import Comparison as Comparison
    from emu.mc2.check import compare as compare
    from emu.mc2.check import matches as matches
    from emu.mc2.grouped_matmul import AlltoAllVGmmResult as AlltoAllVGmmResult
    from emu.mc2.grouped_matmul import GmmAlltoAllVResult as GmmAlltoAllVResult
    from emu.mc2.grouped_matmul import alltoallv_gmm as alltoallv_gmm
    from emu.mc2.grouped_matmul import gmm_alltoallv as gmm_alltoallv
    from emu.mc2.hccl import Hccl as Hccl
    from emu.mc2.limits import HardwareLimits as HardwareLimits
    from emu.mc2.matmul_reduce import matmul_all_reduce as matmul_all_reduce
    from emu.mc2.matmul_reduce import (
        matmul_all_reduce_add_rms_norm as matmul_all_reduce_add_rms_norm,
    )
    from emu.mc2.matmul_reduce import matmul_reduce_scatter as matmul_reduce_scatter
    from emu.mc2.moe import DispatchResult as DispatchResult
    from emu.mc2.moe import moe_distribute_combine as moe_distribute_combine
    from emu.mc2.moe import moe_distribute_dispatch as moe_distribute_dispatch
    from emu.mc2.prototype import OperatorPrototype as OperatorPrototype
    from emu.mc2.prototype import PrototypeWarning as PrototypeWarning
    from emu.mc2.prototype import read_prototypes as read_prototypes
    from emu.mc2.spans import Span as Span
    from emu.mc2.splitting import TileSplit as TileSplit

_HOME = {
    "AlltoAllVGmmResult": "emu.mc2.grouped_matmul",
    "Comparison": "emu.mc2.check",
    "DispatchResult": "emu.mc2.moe",
    "GmmAlltoAllVResult": "emu.mc2.grouped_matmul",
    "HardwareLimits": "emu.mc2.limits",
    "Hccl": "emu.mc2.hccl",
    "OperatorPrototype": "emu.mc2.prototype",
    "PrototypeWarning": "emu.mc2.prototype",
    "Span": "emu.mc2.spans",
    "TileSplit": "emu.mc2.splitting",
    "all_gather_matmul": "emu.mc2.all_gather_matmul",
    "all_to_all_matmul": "emu.mc2.all_to_all",
    "alltoallv_gmm": "emu.mc2.grouped_matmul",
    "compare": "emu.mc2.check",
    "gmm_alltoallv": "emu.mc2.grouped_matmul",
    "matches": "emu.mc2.check",
    "matmul_all_reduce": "emu.mc2.matmul_reduce",
    "matmul_all_reduce_add_rms_norm": "emu.mc2.matmul_reduce",
    "matmul_all_to_all": "emu.mc2.all_to_all",
    "matmul_reduce_scatter": "emu.mc2.matmul_reduce",
    "moe_distribute_combine": "emu.mc2.moe",
    "moe_distribute_dispatch": "emu.mc2.moe",
    "read_prototypes": "emu.mc2.prototype",
}

__all__ = [
    "AlltoAllVGmmResult",
    "Comparison",
    "DispatchResult",
    "GmmAlltoAllVResult",
    "HardwareLimits",
    "Hccl",
    "OperatorPrototype",
    "PrototypeWarning",
    "Span",
    "TileSplit",
    "all_gather_matmul",
    "all_to_all_matmul",
    "alltoallv_gmm",
    "compare",
    "gmm_alltoallv",
    "matches",
    "matmul_all_reduce",
    "matmul_all_reduce_add_rms_norm",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
    "moe_distribute_combine",
    "moe_distribute_dispatch",
    "read_prototypes",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'emu.mc2' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
