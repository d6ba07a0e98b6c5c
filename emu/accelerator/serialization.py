"""Saved tensors keep their device, and so do tensors that are sent to another process."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor

from emu.accelerator.marks import MARK, mark_of, mark_storage, place, resolve
from emu.accelerator.state import TYPES

_BEFORE_THE_CPU = 5  # torch asks its packages in this order; its own CPU has 10


def install() -> None:
    """Register with ``torch.save``, ``torch.load`` and multiprocessing's pickler."""
    torch.serialization.register_package(_BEFORE_THE_CPU, _tag, _restore)
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)


def _tag(storage: Any) -> str | None:
    mark = getattr(getattr(storage, "_untyped_storage", storage), MARK, None)
    return None if mark is None else str(mark)


def _restore(storage: Any, location: str) -> Any:
    if location.partition(":")[0] not in TYPES:
        return None
    mark_storage(getattr(storage, "_untyped_storage", storage), resolve(location))
    return storage


def _reduce(tensor: torch.Tensor) -> Any:
    """Pickle for another process: memory is shared, as it is with CUDA tensors, and so is the place."""
    mark = mark_of(tensor)
    with torch._C.DisableTorchFunction():
        rebuild, arguments = reduce_tensor(tensor)
    if mark is None:
        return rebuild, arguments
    return _rebuild, (str(mark), rebuild, arguments)


def _rebuild(device: str, rebuild: Any, arguments: Any) -> torch.Tensor:
    return place(rebuild(*arguments), torch.device(device))
