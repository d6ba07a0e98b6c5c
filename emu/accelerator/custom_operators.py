"""Emulated devices for the kernels that scripts register with ``torch.library``.

Torch calls a kernel from C++ during a call that the mode handles, when the mode is off. It also chooses the
kernel by the memory, which is the host's: so a kernel for an emulated device is registered for the CPU, and the
tags of the arguments choose between it and the script's own CPU kernel.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
from torch._library.custom_ops import CustomOpDef
from torch.library import Library

from emu.accelerator.device_tags import CPU, assign_device, emulated_device, tensors_in
from emu.accelerator.mode import calling_back, on_stack
from emu.accelerator.patches import replace
from emu.accelerator.state import TYPES, state

Kernel: TypeAlias = Callable[..., Any]
"""Kernel of an operator, with the parameters of its schema."""

_KINDS = {"CPU": "cpu", "CUDA": "cuda", "PrivateUse1": "npu"}


class _Kernels:
    """The kernels of one operator, by device type."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.by_kind: dict[str, list[Kernel]] = {}  # the last is in use
        self.of_torch = _kernel_of_torch(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel for the device of the arguments; of a factory, for the device of its result."""
        # Torch has chosen the CPU for all of them, so the tags decide; the first tagged tensor counts.
        tensors = list(tensors_in((*args, *kwargs.values())))
        device = next(filter(None, map(emulated_device, tensors)), None)
        made_on = state.running, state.creating
        if not tensors:
            device, state.creating = state.creating, None
        kind = device.type if device else "cpu"
        here = state.compiled_for
        if here is not None and kind == "cpu" and here.type in self.by_kind:
            kind = here.type
        kernels = self.by_kind.get(kind)
        if kernels is None:
            if self.of_torch is not None:
                return self.of_torch(*args, **kwargs)
            raise NotImplementedError(
                f"Could not run '{self.name}' with arguments from the '{kind.upper()}' backend: the "
                f"script has kernels for {', '.join(sorted(self.by_kind))}"
            )
        if device is not None and kwargs.get("device") == CPU and device in made_on:
            kwargs = {**kwargs, "device": device}  # the mode has put the host there
        kernel = kernels[-1]
        return kernel(*args, **kwargs) if kind == "cpu" else _placed(kernel, args, kwargs)


def _placed(kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a kernel; buffers of compiled code, which have no tag, say meanwhile that they are on its device."""
    here = state.compiled_for
    if here is None:
        return kernel(*args, **kwargs)
    given = tensors_in((*args, *kwargs.values()))
    buffers = [tensor for tensor in given if emulated_device(tensor) is None]
    for tensor in buffers:
        assign_device(tensor, here)
    try:
        with torch._C._EnableTorchFunction():  # compiled code switches modes off
            return kernel(*args, **kwargs)
    finally:
        for tensor in buffers:  # one may be a tensor of the program's, on the host
            assign_device(tensor, CPU)


def _kernel_of_torch(name: str) -> Kernel | None:
    """Return the kernel that torch has for the CPU, which a script's will replace there.

    A script that registers one for its device leaves the others' alone.
    """
    try:
        kernel = torch.library.get_kernel(name, "CPU")
    except (AttributeError, RuntimeError):  # an older torch; an operator of the script
        return None
    operator, _, overload = name.partition(".")
    parameters = torch._C._get_schema(operator, overload).arguments
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)

    def run(*args: Any, **kwargs: Any) -> Any:
        # Where C++ has a number in a tensor's place, a kernel in Python is given the number.
        values = [
            _as_tensor(value, args)
            if isinstance(value, int | float | complex) and parameter.type.kind() == "TensorType"
            else value
            for value, parameter in zip(args, parameters, strict=False)
        ]
        return kernel.call_boxed(keys, *values, **kwargs)

    return run


def _as_tensor(number: complex, operands: Iterable[Any]) -> torch.Tensor:
    """Return a number as a tensor that promotes the operands beside it as the number does."""
    if not isinstance(number, float):
        return torch.tensor(number)
    floats = [value for value in tensors_in(operands) if value.is_floating_point()]
    if any(value.dim() for value in floats):
        return torch.tensor(number, dtype=torch.float64)  # tensors with axes keep their dtype
    return torch.tensor(number, dtype=floats[0].dtype if floats else None)


_of_operator: dict[str, _Kernels] = {}


Registered: TypeAlias = list[tuple[_Kernels, str, Kernel]]
"""What a library has registered: operator, device type, kernel."""

_of_library: WeakKeyDictionary[Library, Registered] = WeakKeyDictionary()


def has_kernel(name: str, kind: str) -> bool:
    """Return whether a script has a kernel of an operator for a device type."""
    found = _of_operator.get(name)
    return found is not None and kind in found.by_kind


def install() -> None:
    """Replace the methods through which all kernels in Python are registered and forgotten."""
    reason = "C++ calls kernels outside the mode, and chooses them by the memory"
    replace(Library, "_destroy", _destroy(Library._destroy), "its kernels are forgotten with it")
    replace(Library, "impl", _implement(Library.impl), reason)
    replace(CustomOpDef, "register_kernel", _register(CustomOpDef.register_kernel), reason)


def _implement(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def impl(self: Library, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
        if not _is_scripts(fn):
            return original(self, op_name, fn, dispatch_key, **options)
        kernel, key = _covered(fn), dispatch_key or self.dispatch_key
        kind = _KINDS.get(key)
        # Kernels with a keyset redispatch by it: they must stay where the script registered them.
        if kind is not None and not options.get("with_keyset"):
            name = f"{self.ns}::{str(op_name).split('::')[-1]}"
            if self not in _of_library:
                _of_library[self] = []
                weakref.finalize(self, _forget, _of_library[self])
            kernels = _add(name, kind, kernel)
            _of_library[self].append((kernels, kind, kernel))
            kernel, key = _calling(kernels, kernel), "CPU"
        return original(self, op_name, kernel, key, **options)

    return impl


def _destroy(original: Callable[[Library], None]) -> Callable[[Library], None]:
    @functools.wraps(original)
    def destroy(self: Library) -> None:
        _forget(_of_library.pop(self, []))
        original(self)

    return destroy


def _forget(registered: Registered) -> None:
    """Take away the kernels of a library that is no more; those that others had registered before are back."""
    while registered:
        kernels, kind, kernel = registered.pop()
        found = kernels.by_kind.get(kind, [])
        if kernel in found:
            found.remove(kernel)
        if not found:
            kernels.by_kind.pop(kind, None)


def _register(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def register_kernel(self: CustomOpDef, device_types: Any, fn: Kernel | None = None, /) -> Any:
        def inner(fn: Kernel) -> Kernel:
            if not _is_scripts(fn):
                original(self, device_types, fn)
                return fn
            kernel = _covered(fn)
            kinds = [device_types] if isinstance(device_types, str | None) else list(device_types)
            for kind in kinds:
                if kind in ("cpu", *TYPES):
                    kernels = _add(self._qualname, kind, kernel)
                    original(self, "cpu", _calling(kernels, kernel))
                elif kind is None:
                    original(self, kind, _of_any_device(kernel))
                else:
                    original(self, kind, kernel)
            return fn

        return inner if fn is None else inner(fn)

    return register_kernel


def _add(name: str, kind: str, kernel: Kernel) -> _Kernels:
    if name not in _of_operator:
        _of_operator[name] = _Kernels(name)
    _of_operator[name].by_kind.setdefault(kind, []).append(kernel)
    return _of_operator[name]


def _calling(kernels: _Kernels, kernel: Kernel) -> Kernel:
    return functools.wraps(kernel)(lambda *args, **kwargs: kernels(*args, **kwargs))


def _of_any_device(kernel: Kernel) -> Kernel:
    return functools.wraps(kernel)(lambda *args, **kwargs: _placed(kernel, args, kwargs))


def _is_scripts(fn: Any) -> bool:
    """Return whether a kernel is the script's, not torch's."""
    module = getattr(fn, "__module__", None) or ""
    return callable(fn) and not f"{module}.".startswith(("torch.", "emu."))


def _covered(fn: Kernel) -> Kernel:
    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        if on_stack():
            return fn(*args, **kwargs)
        with calling_back():
            return fn(*args, **kwargs)

    return run
