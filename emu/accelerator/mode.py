"""Torch function mode through which every call into torch passes while devices are emulated.

Most calls follow the general rule: all tensors must be on one device, and so are the results. Calls that treat
devices in another way have a handler of their own in :mod:`emu.accelerator.handlers`; calls with ``device=``
make tensors.

Two exceptions keep correct programs running. A zero-dimensional host tensor goes with any device, as in
torch. And inside a backward pass untagged tensors are accepted: the gradients that autograd hands to hooks
and to Python functions are made in C++, where no mode sees them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch._C import _VariableFunctions  # pyright: ignore[reportAttributeAccessIssue] # not in its stub
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from emu.accelerator.annotations import Args, Handler, Kwargs, Tensor, TorchFunction
from emu.accelerator.device_tags import (
    CPU,
    is_host_operand,
    recount_bytes,
    resolve,
    set_tag,
    tag_of,
    tag_storage,
)
from emu.accelerator.state import TYPES, state
from emu.accelerator.wrappers import PLAIN
from emu.kernels.core import shadows

_storage: Any = torch.Tensor.untyped_storage
_shadows_are_kept = shadows.are_kept
_TENSOR = torch.Tensor  # one look-up in a call that every operator makes
_SEQUENCES = (list, tuple)
_NO_TAG = (AttributeError, NotImplementedError, RuntimeError)
"""Errors of a tensor without a storage, and of a storage after ``uninstall``."""
_NO_TENSORS = frozenset({int, float, bool, complex, str, type(None), torch.dtype, torch.Size})
"""Types of arguments in which there is no tensor to look for."""

MIXES = {
    getattr(owner, name)
    for owner, names in (
        (torch.Tensor, ("__getitem__", "__setitem__", "index_put", "index_put_", "tensor_split")),
        (torch, ("index_put", "index_put_", "tensor_split", "_nested_view_from_jagged")),
        (_VariableFunctions, ("lstm", "gru", "rnn_tanh", "rnn_relu")),
    )
    for name in names
    if hasattr(owner, name)
}
"""Functions that accept host tensors beside those of a device: indices, lengths of sequences."""


class Devices(TorchFunctionMode):  # type: ignore[misc, unused-ignore] # Any without torch
    """Mode of this module's docstring; entered once per thread, below all modes of the script."""

    def __torch_function__(
        self,
        func: TorchFunction,
        types: Iterable[type],
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        """Run one call into torch.

        The first lines decide, as :func:`follow` would, for the most frequent calls: on plain tensors of one place.
        """
        if not kwargs and func not in HANDLERS and _device.CURRENT_DEVICE is None:
            device, host = None, False
            for value in args:
                kind = type(value)
                if kind in PLAIN:
                    try:
                        found = _storage(value)._emu_device
                    except _NO_TAG:
                        break
                    if found is None:
                        host = True
                    elif device is None:
                        device = found
                    elif found is not device and found != device:
                        break
                elif kind not in _NO_TENSORS:
                    break
            else:
                if device is None:
                    return func(*args)
                if not host:
                    return _run_on(device, func, args, None)
            return follow(func, args, None)
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(func, args, kwargs or {})
        if kwargs:
            if kwargs.get("device") is not None:
                return create(func, args, kwargs)
            if kwargs.get("pin_memory"):
                return pinned(func, args, kwargs)
        return follow(func, args, kwargs)


HANDLERS: dict[TorchFunction, Handler] = {}
"""Handlers by torch function; :mod:`emu.accelerator.handlers` and some ``install`` functions fill it."""

_mode: Devices | None = None


def active() -> bool:
    """Return whether devices are emulated in this process."""
    return _mode is not None


def enter() -> None:
    """Enter the mode in this thread."""
    global _mode
    if _mode is None:
        _mode = Devices()
    _mode.__enter__()  # type: ignore[no-untyped-call, unused-ignore] # torch does not annotate it


def leave() -> None:
    """Leave the mode in this thread, and have :func:`active` return False.

    Raises:
        RuntimeError: The mode is not the innermost one.
    """
    global _mode
    depth = torch._C._len_torch_function_stack()
    if not depth or torch._C._get_function_stack_at(depth - 1) is not _mode or _mode is None:
        raise RuntimeError("every mode entered after emu.accelerator.install() must be left first")
    _mode.__exit__(None, None, None)
    _mode = None


def inside() -> TorchFunctionMode:
    """Return the mode, as a context for code that runs outside it."""
    if _mode is None:
        raise RuntimeError("emu.accelerator.install() must be called first")
    return _mode


@contextlib.contextmanager
def calling_back() -> Iterator[None]:
    """Run Python code of the program's in the midst of a call that the mode handles, and is off meanwhile."""
    before, state.running = state.running, None
    try:
        with inside():
            yield
    finally:
        state.running = before


def adopt(tensor: Tensor) -> None:
    """Tag an intermediate tensor that torch hands out before the call's result."""
    if state.running is not None and tag_of(tensor) is None:
        set_tag(tensor, state.running)


def on_stack() -> bool:
    """Return whether the mode is active here: it is off while it handles a call."""
    depth = torch._C._len_torch_function_stack()
    return any(torch._C._get_function_stack_at(i) is _mode for i in range(depth))


def follow(func: TorchFunction, args: Args, kwargs: Kwargs | None) -> object:
    """Run a call by the general rule."""
    device, host = find_devices(args, kwargs)
    if device is None:
        default = _device.CURRENT_DEVICE
        if default is not None and default.type in TYPES and func in _device._device_constructors():
            return create(func, args, {**(kwargs or {}), "device": default})
        return func(*args, **kwargs) if kwargs else func(*args)
    if host and func not in MIXES and torch._C._current_graph_task_id() < 0:
        raise_mixed_devices(func, device, CPU)
    return _run_on(device, func, args, kwargs)


def _run_on(device: torch.device, func: TorchFunction, args: Args, kwargs: Kwargs | None) -> object:
    """Run a call on tensors of a device, and place its results there."""
    before, state.running = state.running, device
    try:
        result = func(*args, **kwargs) if kwargs else func(*args)
    finally:
        state.running = before
    if type(result) in PLAIN:
        try:
            storage = _storage(result)
            if storage._emu_device is not device:
                tag_storage(storage, device)
        except _NO_TAG:
            set_tag(result, device)
    elif isinstance(result, _TENSOR):
        set_tag(result, device)
    elif isinstance(result, _SEQUENCES):
        tag_all(result, device)
    if kwargs and "out" in kwargs:
        _recount_out(kwargs["out"])
    if _shadows_are_kept():
        _note_call(func, args, kwargs, result)
    return result


innermost = _run_on
"""What runs a call on tensors of a device below all that is told of calls: what counts them comes before what records them."""


def _note_call(func: TorchFunction, args: Args, kwargs: Kwargs | None, result: object) -> None:
    from emu.accelerator.initialisation import note_call

    note_call(func, args, kwargs, result)


def _recount_out(out: Tensor | list[Tensor] | tuple[Tensor, ...]) -> None:
    """Count the bytes of ``out`` arguments again, which the call may have resized."""
    for tensor in out if isinstance(out, _SEQUENCES) else (out,):
        if type(tensor) in PLAIN and tensor.layout is torch.strided:
            recount_bytes(_storage(tensor))


def find_devices(args: Args, kwargs: Kwargs | None) -> tuple[torch.device | None, bool]:
    """Return the emulated device of the tensor arguments, and whether some are on the host.

    Raises:
        RuntimeError: They are on two emulated devices.
    """
    device = None
    host = False
    # Nothing here is a function of its own: a call per argument would double the time of small operators.
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind in PLAIN:
            try:
                found = _storage(value)._emu_device
            except _NO_TAG:
                found = tag_of(value)
        elif kind in _NO_TENSORS:
            continue
        elif isinstance(value, _TENSOR):
            found = tag_of(value)
        else:
            if isinstance(value, _SEQUENCES):
                device, host = _find_in_sequence(value, device, host)
            continue
        if found is None:
            host = host or is_host_operand(value)
        elif device is None:
            device = found
        elif found is not device and found != device:
            raise_mixed_devices(None, device, found)
    return device, host


def _find_in_sequence(
    values: Iterable[object], device: torch.device | None, host: bool
) -> tuple[torch.device | None, bool]:
    """Go on with :func:`find_devices` in a list or tuple of tensors."""
    for value in values:
        if isinstance(value, _TENSOR):
            found = tag_of(value)
            if found is None:
                host = host or is_host_operand(value)
            elif device is None:
                device = found
            elif found is not device and found != device:
                raise_mixed_devices(None, device, found)
    return device, host


def raise_mixed_devices(func: TorchFunction | None, one: torch.device, other: torch.device) -> None:
    """Raise torch's own error for tensors on two devices.

    Raises:
        RuntimeError: Always.
    """
    name = getattr(func, "__name__", "")
    where = f" (when checking arguments of {name})" if name else ""
    raise RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{one} and {other}!{where}"
    )


def tag_all(result: Iterable[object], device: torch.device | None) -> None:
    """Tag every tensor of a nested list or tuple."""
    for value in result:
        if isinstance(value, _TENSOR):
            set_tag(value, device)
        elif isinstance(value, _SEQUENCES):
            tag_all(value, device)


_ALIASING = {torch.as_tensor, torch.asarray}


def create(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Run a call with an argument ``device``, and place its result there."""
    device = resolve(kwargs["device"])
    emulated = device.type in TYPES
    generator = kwargs.get("generator")
    if generator is not None:
        _check_generator(generator, device)
    if emulated:
        kwargs = {**kwargs, "device": CPU}
    if kwargs.get("pin_memory"):
        return pinned(func, args, kwargs)
    # These two share the memory of their source, which must not happen between devices.
    source = args[0] if args and func in _ALIASING else None
    before, state.running = state.running, device if emulated else None
    state.creating = state.running
    try:
        result = func(*args, **kwargs)
    finally:
        state.running, state.creating = before, None
    if source is not None:
        here = tag_of(source) if isinstance(source, _TENSOR) else None
        if here == (device if emulated else None):
            return result  # the same memory, or memory on the host
        result = result.clone()
    if isinstance(result, _TENSOR):
        set_tag(result, device if emulated else None)
        if emulated and _shadows_are_kept():
            _note_call(func, args, kwargs, result)
    return result


def _check_generator(generator: torch.Generator, device: torch.device) -> None:
    kind = generator.device.type
    if kind != device.type and device.type in (*TYPES, "cpu"):
        raise RuntimeError(
            f"Expected a '{device.type}' device type for generator but found '{kind}'"
        )


def pinned(func: TorchFunction, args: Args, kwargs: Kwargs) -> object:
    """Run a call that asks for page-locked memory; any host memory will serve, and is noted as such."""
    result = func(*args, **{k: v for k, v in kwargs.items() if k != "pin_memory"})
    pin(result)
    return result


def pin(tensor: Tensor) -> None:
    """Note that a host tensor's memory is page-locked."""
    setattr(_storage(tensor), PINNED, True)


PINNED = "_emu_pinned"
