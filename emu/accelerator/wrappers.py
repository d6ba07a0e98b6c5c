"""Wrapper subclasses: tensors without memory of their own, which dispatch in Python to tensors in them.

A wrapper is on the device of its content. Torch's C++ code must never see that device, which a CPU build does not
have; so the wrapper's own device is always the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from emu.accelerator.annotations import DeviceLike, Tensor, TorchFunction
from emu.accelerator.patches import replace

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""Types that are known not to be wrappers."""

_NO_DISPATCH = torch._C._disabled_torch_dispatch_impl


def is_wrapper(tensor: Tensor) -> bool:
    """Return whether a tensor's class dispatches in Python."""
    kind: Any = type(tensor)  # the stub of torch takes the method for one of another signature
    dispatch = kind.__torch_dispatch__
    return getattr(dispatch, "__func__", dispatch) is not _NO_DISPATCH


def tells_content(kind: type) -> bool:
    """Return whether a class of wrappers names the tensors in them."""
    return hasattr(kind, "__tensor_flatten__")


def inner_tensors(tensor: Tensor) -> list[Tensor]:
    """Return the tensors inside a wrapper.

    They are those that ``__tensor_flatten__`` names; where a class has no such method, those among its
    attributes. Call this with torch's function modes switched off.
    """
    values: Iterable[object]
    if tells_content(type(tensor)):
        wrapper: Any = tensor
        names = wrapper.__tensor_flatten__()[0]
        values = [getattr(tensor, name, None) for name in names]
    else:
        values = vars(tensor).values()
    return [value for value in values if isinstance(value, torch.Tensor) and value is not tensor]


def install(
    resolve: Callable[[DeviceLike], torch.device],
    set_tag: Callable[[Tensor, torch.device | None], None],
) -> None:
    """Make wrappers for an emulated device on the CPU, and tag them."""
    make: TorchFunction = Tensor._make_wrapper_subclass

    def make_on_cpu(cls: type, *args: Any, **kwargs: Any) -> Tensor:
        device = kwargs.get("device")
        where = None if device is None else resolve(device)
        emulated = where is not None and where.type in ("cuda", "npu")
        if emulated:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        made: Tensor = make(cls, *args, **kwargs)
        if emulated and not tells_content(cls):
            with torch._C.DisableTorchFunction():
                set_tag(made, where)
        return made

    replace(
        Tensor,
        "_make_wrapper_subclass",
        staticmethod(make_on_cpu),
        "autograd ends the process for a device that torch was not built for",
    )
