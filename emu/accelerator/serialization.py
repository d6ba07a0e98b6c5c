"""Devices of saved tensors and of tensors that are sent to another process."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import reduce_storage, reduce_tensor

from emu.accelerator.annotations import Args, Storage, Tensor
from emu.accelerator.device_tags import TAG, assign_device, emulated_device, resolve, tag_storage
from emu.accelerator.patches import record, replace_item
from emu.accelerator.state import TYPES

if TYPE_CHECKING:
    from torch.serialization import STORAGE

_BEFORE_THE_CPU = 5  # torch asks its packages in this order; its own CPU has 10


def install() -> None:
    """Register with ``torch.save``, ``torch.load`` and multiprocessing's pickler."""
    torch.serialization.register_package(_BEFORE_THE_CPU, _location_of, _restore)
    packages = torch.serialization._package_registry
    entry = next(entry for entry in packages if entry[1] is _location_of)
    record(
        "torch.serialization.register_package",
        "saved tensors keep their device",
        lambda: packages.remove(entry),
    )
    reducers: Any = ForkingPickler
    for kind in (torch.Tensor, torch.nn.Parameter):
        replace_item(
            reducers._extra_reducers,
            kind,
            _reduce,
            f"multiprocessing.reduction.ForkingPickler[{kind.__name__}]",
            "tensors sent to another process keep their device",
        )
    replace_item(
        reducers._extra_reducers,
        torch.UntypedStorage,
        _reduce_storage,
        "multiprocessing.reduction.ForkingPickler[UntypedStorage]",
        "tensors of devices lie in memory of the host",
    )


def _reduce_storage(storage: Storage) -> tuple[Callable[..., Storage], Args]:
    """Pickle the memory of a tensor: torch refuses that of a device, which the tensor's own reducer has dealt with."""
    reduce: Any = reduce_storage  # without annotations
    with torch._C.DisableTorchFunction():
        reduced: tuple[Callable[..., Storage], Args] = reduce(storage)
    return reduced


def _location_of(storage: STORAGE) -> str | None:
    tag = getattr(getattr(storage, "_untyped_storage", storage), TAG, None)
    return None if tag is None else str(tag)


def _restore(storage: STORAGE, location: str) -> STORAGE | None:
    if location.partition(":")[0] not in TYPES:
        return None
    untyped: Any = getattr(storage, "_untyped_storage", storage)
    tag_storage(untyped, resolve(location))
    return storage


def _reduce(tensor: Tensor) -> tuple[Callable[..., Tensor], Args]:
    """Pickle for another process: it shares the memory, as with CUDA tensors, and sees the same device."""
    tag = emulated_device(tensor)
    with torch._C.DisableTorchFunction():
        rebuild, arguments = reduce_tensor(tensor)
    if tag is None:
        return rebuild, arguments
    return _rebuild, (str(tag), rebuild, arguments)


def _rebuild(device: str, rebuild: Callable[..., Tensor], arguments: Args) -> Tensor:
    return assign_device(rebuild(*arguments), torch.device(device))
