"""Poison in new memory of emulated devices: NaN, or 0xA5 in every byte, where nothing was written yet."""

from __future__ import annotations

import functools

import torch

from emu.accelerator.annotations import Args, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import tag_of
from emu.accelerator.mode import HANDLERS, create, follow
from emu.accelerator.patches import record
from emu.kernels.core import environment

_BYTE = 0xA5


def install() -> None:
    """Fill what ``torch.empty`` and its kin make on emulated devices, if ``EMU_POISON`` is 1."""
    if environment.poison() and torch.empty not in HANDLERS:
        HANDLERS.update(dict.fromkeys(_EMPTY, _poisoned))
        record("torch.empty and its kin", "new memory is poisoned", uninstall)


def uninstall() -> None:
    """Leave new memory as it is again."""
    for function in _EMPTY:
        HANDLERS.pop(function, None)


_EMPTY = (
    torch.empty,
    torch.empty_like,
    torch.empty_strided,
    torch.empty_permuted,
    torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
)


def _poisoned(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    if kwargs.get("device") is not None:
        result = create(func, args, kwargs)
    else:
        result = follow(func, args, kwargs)
    # The memory of an ``out`` argument may have been written, and be shared with other tensors.
    if isinstance(result, torch.Tensor) and kwargs.get("out") is None:
        poison(result)
    return result


def poison(tensor: Tensor) -> None:
    """Fill the memory of a new tensor on an emulated device; others stay as they are."""
    if tensor.layout is not torch.strided or tag_of(tensor) is None or tensor.is_meta:
        return
    try:
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        address = storage.data_ptr()
    except (NotImplementedError, RuntimeError):  # a wrapper without memory
        return
    if not size or not address:
        return
    with torch.no_grad():
        if (tensor.is_floating_point() or tensor.is_complex()) and _has_nan(tensor.dtype):
            count = size // tensor.dtype.itemsize
            whole = torch.empty(0, dtype=tensor.dtype).set_(storage, 0, (count,), (1,))
            whole.fill_(float("nan"))
        else:
            whole = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (size,), (1,))
            whole.fill_(1 if tensor.dtype == torch.bool else _BYTE)


@functools.cache
def _has_nan(dtype: torch.dtype) -> bool:
    """Return whether torch can fill tensors of a floating dtype with NaN: of the narrowest it cannot."""
    if dtype.is_complex:
        return True
    try:
        return bool(torch.empty(1, dtype=dtype).fill_(float("nan")).float().isnan().all())
    except (NotImplementedError, RuntimeError, TypeError):
        return False
