"""``torch.distributed.all_reduce`` without the way through torch, where its result is needed at once.

A call of ``torch.distributed`` passes torch's wrappers twice, makes options and a handle, waits for the handle, and so
takes 50 microseconds beside the 2 of a small all_reduce. Where the caller waits anyway and nothing is deferred, none of
that is needed. Everything out of the ordinary goes the long way, and all errors come from there.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from emu.accelerator.annotations import Args, Kwargs, TorchFunction
from emu.accelerator.arrays import Array
from emu.accelerator.device_tags import tag_of
from emu.accelerator.distributed.memory import SHARED, as_flat_array
from emu.accelerator.distributed.process_group import WorldProcessGroup
from emu.accelerator.mode import HANDLERS, follow
from emu.kernels.core import shadows

_OPS: dict[Any, str] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}
_DTYPES = SHARED | {torch.bfloat16}
_default_group = distributed_c10d.GroupMember
_state: Any = distributed_c10d._world
_graph_task = torch._C._current_graph_task_id
_changed = torch.autograd.graph.increment_version


def provide() -> None:
    """Have the emulated devices' mode call it."""
    HANDLERS[dist.all_reduce] = _all_reduce


def forget() -> None:
    """Undo :func:`provide`."""
    HANDLERS.pop(dist.all_reduce, None)
    _arrays.clear()


def _all_reduce(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tensor, group = args[0], kwargs.get("group")
    if group is None:
        group = _default_group.WORLD
    op = _name(kwargs.get("op"))
    device = tag_of(tensor) if type(tensor) is torch.Tensor else None
    if (
        device is not None
        and isinstance(group, WorldProcessGroup)
        and device.type in group.device_kinds
        and op is not None
        and not kwargs.get("async_op")
        and group.is_idle
        and tensor.dtype in _DTYPES
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and not _state.pg_coalesce_state
        and _graph_task() < 0
        and not shadows.are_kept()
    ):
        data = _flat(tensor)
        group.emu_group.all_reduce(data, op, out=data)
        if not tensor.is_inference():
            _changed(tensor)
        return None
    return follow(func, args, kwargs)


def _flat(tensor: torch.Tensor) -> Array:
    """Return the elements of a contiguous tensor as one axis, as members of other shapes have it, too.

    An array takes longer to make than to reduce. Arrays do not keep the tensors' memory: one is used only where a
    tensor lies that is there now, and never kept by whom it is given to.
    """
    address = tensor.data_ptr()
    if not address:
        return as_flat_array(tensor.detach())
    key = address, tensor.numel(), tensor.dtype
    array = _arrays.get(key)
    if array is None:
        if len(_arrays) >= _MOST_ARRAYS:
            _arrays.clear()
        array = _arrays[key] = _unowned(as_flat_array(tensor.detach()))
    return array


def _unowned(array: Array) -> Array:
    source = SimpleNamespace(__array_interface__=dict(array.__array_interface__))
    return np.asarray(source).view(array.dtype)


_MOST_ARRAYS = 256
_arrays: dict[tuple[int, int, torch.dtype], Array] = {}


def _name(op: Any) -> str | None:
    """Return the World's name of a reduction that is not scaled, or None."""
    try:
        return _OPS.get(op)
    except TypeError:
        return None
