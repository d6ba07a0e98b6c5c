"""Handlers for torch functions that move tensors, query their device or print it."""

from __future__ import annotations

from typing import Any

import torch
from torch import _tensor_str
from torch._C import _VariableFunctions  # pyright: ignore[reportAttributeAccessIssue] # not in its stub

from emu.accelerator.annotations import Args, DeviceLike, Handler, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import (
    CPU,
    accelerator_type,
    current_device,
    recount_bytes,
    resolve,
    set_tag,
    tag_of,
)
from emu.accelerator.errors import NotEmulatedError
from emu.accelerator.legacy_types import TYPES as TYPES_BY_NAME
from emu.accelerator.legacy_types import LegacyType
from emu.accelerator.mode import HANDLERS, PINNED, follow, inside, pin, raise_mixed_devices
from emu.accelerator.state import TYPES, pass_device, refuse_in_capture, state

_parse_to: Any = torch._C._nn._parse_to  # pyright: ignore[reportAttributeAccessIssue] # not in its stub
"""What ``Module.to`` calls: its ``device=`` makes no tensor."""
_TO_OPTIONS = ("dtype", "non_blocking", "copy")
"""Parameters of ``Tensor.to`` behind the device, in the order in which they may be given by position."""

# --- where -----------------------------------------------------------------------------------


def _where(tensor: Tensor) -> torch.device | None:
    """Return a tensor's emulated device; in hooks of a backward pass, untagged gradients are on the pass's device."""
    tag = tag_of(tensor)
    if tag is None and torch._C._current_graph_task_id() >= 0:
        return pass_device()
    return tag


def _device(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Return ``tensor.device``."""
    return _where(args[0]) or func(*args)


def _is_on(kind: str) -> Handler:
    """Return the handler of ``Tensor.is_cuda`` or ``Tensor.is_npu``."""

    def handle(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        where = _where(args[0])
        return where is not None and where.type == kind

    return handle


def _is_cpu(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    return _where(args[0]) is None and func(*args)


def _get_device(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    where = _where(args[0])
    return func(*args, **kwargs) if where is None else where.index


def _is_pinned(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    return tag_of(args[0]) is None and bool(getattr(args[0].untyped_storage(), PINNED, False))


# --- moving ----------------------------------------------------------------------------------


def _to(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tensor, rest = args[0], list(args[1:])
    options = dict(kwargs)
    device, other = options.pop("device", None), options.pop("other", None)
    if rest and isinstance(rest[0], torch.Tensor):
        other = rest.pop(0)
    elif rest and (rest[0] is None or isinstance(rest[0], str | int | torch.device)):
        device = rest.pop(0)
    if other is not None:
        device = tag_of(other) or other.device
        options["dtype"] = other.dtype
        options.update(zip(_TO_OPTIONS[1:], rest, strict=False))
    else:
        options.update(zip(_TO_OPTIONS, rest, strict=False))
    return move(tensor, device, options)


def move(tensor: Tensor, device: DeviceLike | None, options: Kwargs) -> Tensor:
    """Return a tensor on another device: a copy, or the tensor itself where nothing changes.

    Args:
        tensor: Any tensor.
        device: The target; None: the tensor's own device.
        options: The other keyword arguments of ``Tensor.to``.
    """
    here = tag_of(tensor)
    target = None if device is None else resolve(device)
    if target is not None and target.type not in (*TYPES, "cpu"):
        return Tensor.to(tensor, target, **options)
    emulated = target if target is not None and target.type in TYPES else None
    if target is None or emulated == here:
        if not options and target is None:
            return Tensor.to(tensor)  # raises torch's own error about missing arguments
        # A tensor without a tag may be a meta tensor: it stays one unless a device is asked for.
        stays = target is None and here is None
        where = tensor.device if stays else CPU
        emulated = here
    else:
        where, options = CPU, {**options, "copy": True}
        if emulated is None:
            refuse_in_capture("a copy to the host")
    before, state.running = state.running, emulated
    try:
        result = Tensor.to(tensor, device=where, **options)
    finally:
        state.running = before
    if result is not tensor:
        set_tag(result, emulated)
    return result


def _move_to(kind: str) -> Handler:
    """Return the handler of ``Tensor.cuda`` or ``Tensor.npu``."""

    def handle(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
        tensor, *rest = args
        options = dict(kwargs)
        device = rest[0] if rest else options.pop("device", None)
        if len(rest) > 1:
            options["non_blocking"] = rest[1]
        if device is None or isinstance(device, int):
            device = torch.device(kind, current_device(kind) if device is None else device)
        target = resolve(device)
        if target.type != kind:
            raise RuntimeError(f"Invalid device, must be {kind} device, but got {target}")
        return move(tensor, target, options)

    return handle


def provide_npu() -> None:
    """Handle ``Tensor.npu`` and ``Tensor.is_npu``, once torch has made them."""
    is_npu = vars(Tensor)["is_npu"]
    HANDLERS[vars(Tensor)["npu"]] = _move_to("npu")
    HANDLERS[is_npu.__get__] = _is_on("npu")


def _cpu(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    return move(args[0], CPU, dict(kwargs))


def _type_as(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tensor, *rest = args
    other = rest[0] if rest else kwargs["other"]
    return move(tensor, tag_of(other) or other.device, {"dtype": other.dtype})


def _pin_memory(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    if tag_of(args[0]) is not None:
        raise RuntimeError(f"cannot pin '{args[0].type()}' on {tag_of(args[0])}: only host memory")
    if getattr(args[0].untyped_storage(), PINNED, False):
        return args[0]
    result = args[0].clone()
    pin(result)
    return result


# --- to the host -----------------------------------------------------------------------------


def _numpy(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tag = tag_of(args[0])
    if tag is not None and not kwargs.get("force", False):
        raise TypeError(
            f"can't convert {tag} device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
            "to host memory first."
        )
    result = func(*args, **kwargs)
    return result if tag is None else result.copy()


def _cuda_array_interface(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    if tag_of(args[0]) is None:
        return func(*args, **kwargs)
    raise NotEmulatedError(
        "__cuda_array_interface__ is not emulated: the memory is the host's; pass the tensor itself"
    )


# --- showing ---------------------------------------------------------------------------------


def _repr(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    if tag_of(args[0]) is None:
        return func(*args, **kwargs)
    with inside():  # torch's printing queries the device
        return _tensor_str._str(args[0], **kwargs)


def _format(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tensor, spec = args
    if tag_of(tensor) is None or tensor.dim() == 0:
        return func(*args, **kwargs)
    return format(_repr(func, (tensor,), {}), spec)


def _type(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tensor, *rest = args
    wanted = rest[0] if rest else kwargs.get("dtype")
    tag = tag_of(tensor)
    if wanted is None:
        name: str = func(tensor)
        return name if tag is None else name.replace("torch.", f"torch.{tag.type}.", 1)
    known = TYPES_BY_NAME.get(wanted) if isinstance(wanted, str) else wanted
    if isinstance(known, LegacyType):
        here = tag is not None and tag.type == known.kind
        return move(tensor, tag if here else known.kind, {"dtype": known.dtype})
    if tag is not None and not isinstance(wanted, torch.dtype):
        return move(tensor, CPU, {"dtype": func(tensor.new_empty(0), wanted).dtype})
    return follow(func, args, kwargs)


# --- autograd --------------------------------------------------------------------------------


def _grad(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Return ``tensor.grad``; autograd has made it in C++, without a tag, so it gets the tensor's."""
    grad = func(*args)
    if grad is not None:
        tag = tag_of(args[0])
        if tag is not None and tag_of(grad) is None:
            set_tag(grad, tag)
    return grad


def _set_grad(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    tensor, grad = args
    if grad is not None and torch._C._current_graph_task_id() < 0:
        here, there = tag_of(tensor), tag_of(grad)
        if here != there:
            raise_mixed_devices(func, here or CPU, there or CPU)
    return func(*args)


def _packed(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Pack or pad sequences; the lengths returned beside them are on the host."""
    data, lengths = func(*args, **kwargs)
    set_tag(data, tag_of(args[0]))
    return data, lengths


def _make_device(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Return ``torch.device(1)`` of the accelerator that the script uses, not of the one that C++ knows."""
    if len(args) == 1 and type(args[0]) is int and not kwargs:
        return func(accelerator_type(), args[0])
    return func(*args, **kwargs)


def _as_it_is(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    return func(*args, **kwargs)


def _resized(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    result = follow(func, args, kwargs)
    recount_bytes(args[0].untyped_storage())
    return result


def _no_stream(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    return None


def _property(name: str) -> Any:
    """Return the descriptor of a tensor attribute; a mode sees accesses as calls of its ``__get__``."""
    return getattr(Tensor, name)


HANDLERS.update(
    {
        _property("device").__get__: _device,
        _property("is_cuda").__get__: _is_on("cuda"),
        _property("is_cpu").__get__: _is_cpu,
        Tensor.get_device: _get_device,
        torch.get_device: _get_device,
        Tensor.is_pinned: _is_pinned,
        Tensor.to: _to,
        Tensor.cuda: _move_to("cuda"),
        Tensor.cpu: _cpu,
        Tensor.type_as: _type_as,
        Tensor.pin_memory: _pin_memory,
        _parse_to: _as_it_is,
        Tensor.copy_: _as_it_is,  # the target keeps its device, whatever the source's is
        Tensor.numpy: _numpy,
        Tensor.__array__: _numpy,
        _property("__cuda_array_interface__").__get__: _cuda_array_interface,
        Tensor.__repr__: _repr,
        Tensor.__format__: _format,
        Tensor.type: _type,
        _property("grad").__get__: _grad,
        _property("grad").__set__: _set_grad,
        _property("data").__set__: _as_it_is,
        Tensor.set_: _as_it_is,
        Tensor.record_stream: _no_stream,
        torch.device: _make_device,
        Tensor.resize_: _resized,
        Tensor.resize_as_: _resized,
        torch._has_compatible_shallow_copy_type: _as_it_is,  # pyright: ignore[reportPrivateImportUsage] # torch calls it
    }
)
for _owner in (torch, _VariableFunctions):
    for _name in ("_pack_padded_sequence", "_pad_packed_sequence"):
        HANDLERS[getattr(_owner, _name)] = _packed
for _name in ("dim", "size", "stride", "data_ptr", "numel", "element_size", "is_contiguous"):
    HANDLERS[_property(_name)] = _as_it_is
for _name in ("shape", "dtype", "ndim", "layout", "requires_grad", "is_leaf", "grad_fn"):
    HANDLERS[_property(_name).__get__] = _as_it_is
