"""Tensors over device memory that another library describes by ``__cuda_array_interface__``: ``torch.as_tensor``.

Device memory is the host's here, so an address in it is one of this process: of the emulated HIP library, of another
PE's part of the symmetric heap, or of any array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from emu.accelerator.annotations import Args, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import resolve, set_tag
from emu.accelerator.mode import HANDLERS, create, follow, pinned
from emu.accelerator.state import TYPES

_HOST = (torch.Tensor, np.ndarray, np.generic, int, float, complex, list, tuple)
"""Types of sources that torch reads by itself."""


def install() -> None:
    """Handle the functions that make tensors of other libraries' arrays."""
    for function in (torch.as_tensor, torch.asarray, torch.tensor):
        HANDLERS[function] = _convert


class _Memory:
    """Source of a NumPy array over memory that an object describes; keeps the object alive."""

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (int(interface["data"][0]), False),
            "shape": tuple(interface["shape"]),
            "strides": interface.get("strides"),
            "typestr": interface["typestr"],
            "version": 3,
        }


def _convert(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    source = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    interface = None
    if not isinstance(source, _HOST):
        interface = getattr(source, "__cuda_array_interface__", None)
    if interface is None:
        if kwargs.get("device") is not None:
            return create(func, args, kwargs)
        if kwargs.get("pin_memory"):
            return pinned(func, args, kwargs)
        return follow(func, args, kwargs)
    return _over(func, source, interface, kwargs)


def _over(func: TorchFunction, source: object, interface: dict[str, Any], kwargs: Kwargs) -> Tensor:
    """Return a tensor over the described memory: on ``cuda`` unless another device is asked for.

    Raises:
        TypeError: The description lacks a field, or torch has no such dtype.
    """
    for name in ("data", "shape", "typestr"):
        if name not in interface:
            raise TypeError(f"__cuda_array_interface__ must have {name!r}, but got {interface}")
    array = np.asarray(_Memory(source, interface))
    tensor = torch.from_numpy(array)
    device = resolve(kwargs.get("device") or "cuda")
    emulated = device.type in TYPES
    if kwargs.get("dtype") is not None:
        tensor = tensor.to(kwargs["dtype"])
    if func is torch.tensor or kwargs.get("copy") or device.type != "cuda":
        tensor = tensor.clone()
    if kwargs.get("requires_grad"):
        tensor.requires_grad_()
    set_tag(tensor, device if emulated else None)
    return tensor
