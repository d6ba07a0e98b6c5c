"""PyPTO programs on any machine: tensors, ops, and one-sided communication between PEs.

Written from a public description of the interface alone; see ``docs/pypto.md`` for what is emulated and
which decisions were taken where that description leaves a question open.

The names below are public, as are those of ``distributed``, ``experimental``, ``frontend`` and ``testing``.
All other modules are internal: names may change in any release.
"""

from __future__ import annotations

from emu.pypto import distributed, experimental, frontend
from emu.pypto.context import set_options, set_schedule, synchronize
from emu.pypto.distributed import AtomicType, OpType
from emu.pypto.dtypes import (
    DT_BF16,
    DT_BOOL,
    DT_FP16,
    DT_FP32,
    DT_FP64,
    DT_INT8,
    DT_INT16,
    DT_INT32,
    DT_INT64,
    DT_UINT8,
    DataType,
)
from emu.pypto.elementwise import (
    abs,
    add,
    cast,
    div,
    eq,
    exp,
    ge,
    gt,
    le,
    log,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    rsqrt,
    sigmoid,
    sqrt,
    sub,
    where,
)
from emu.pypto.errors import (
    ArgumentError,
    DTypeError,
    GraphError,
    GroupError,
    KernelError,
    PyptoError,
    PyptoWarning,
    TileShapeError,
)
from emu.pypto.frontend import cond, jit, loop, options
from emu.pypto.product import matmul
from emu.pypto.reduction import amax, amin, cumsum, softmax, sum, topk
from emu.pypto.shaping import arange, concat, full, gather, one_hot, ones, reshape, transpose, zeros
from emu.pypto.shmem import ShmemTensor
from emu.pypto.spec import DYNAMIC, TensorSpec
from emu.pypto.symbolic import SymbolicScalar, SymInt
from emu.pypto.tensor import Tensor, assemble, from_numpy, tensor, view
from emu.pypto.tiles import (
    get_cube_tile_shapes,
    get_vec_tile_shapes,
    set_cube_tile_shapes,
    set_vec_tile_shapes,
)

__all__ = [
    "DT_BF16",
    "DT_BOOL",
    "DT_FP16",
    "DT_FP32",
    "DT_FP64",
    "DT_INT8",
    "DT_INT16",
    "DT_INT32",
    "DT_INT64",
    "DT_UINT8",
    "DYNAMIC",
    "ArgumentError",
    "AtomicType",
    "DTypeError",
    "DataType",
    "GraphError",
    "GroupError",
    "KernelError",
    "OpType",
    "PyptoError",
    "PyptoWarning",
    "ShmemTensor",
    "SymInt",
    "SymbolicScalar",
    "Tensor",
    "TensorSpec",
    "TileShapeError",
    "abs",
    "add",
    "amax",
    "amin",
    "arange",
    "assemble",
    "cast",
    "concat",
    "cond",
    "cumsum",
    "distributed",
    "div",
    "eq",
    "exp",
    "experimental",
    "from_numpy",
    "frontend",
    "full",
    "gather",
    "ge",
    "get_cube_tile_shapes",
    "get_vec_tile_shapes",
    "gt",
    "jit",
    "le",
    "log",
    "loop",
    "lt",
    "matmul",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "neg",
    "one_hot",
    "ones",
    "options",
    "reshape",
    "rsqrt",
    "set_cube_tile_shapes",
    "set_options",
    "set_schedule",
    "set_vec_tile_shapes",
    "sigmoid",
    "softmax",
    "sqrt",
    "sub",
    "sum",
    "synchronize",
    "tensor",
    "topk",
    "transpose",
    "view",
    "where",
    "zeros",
]
