"""NumPy arrays over the memory of torch tensors, and results as the caller's type.

Operators take NumPy arrays and torch tensors alike, on the CPU or on an emulated device. Nothing
here copies elements unless documented, and nothing imports torch.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar, overload

import ml_dtypes
import numpy as np

from emu.comm.errors import ArgumentError

if TYPE_CHECKING:
    import torch
    from numpy.typing import DTypeLike as NumpyDTypeLike

    from emu.comm.world.array import SymmetricArray

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Tensor: TypeAlias = "Array | torch.Tensor"
"""Operand of an operator."""
DTypeLike: TypeAlias = "NumpyDTypeLike | torch.dtype"
TensorT = TypeVar("TensorT", Array, "torch.Tensor")
"""Operand whose type the result has too."""

# Dtypes that NumPy has from ml_dtypes only: torch cannot export them, so their bits pass as integers.
_EXTENDED = {
    np.dtype(getattr(ml_dtypes, name)): name
    for name in (
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
}
_WORDS = {1: "uint8", 2: "int16"}
_WORDS_OF = {size: np.dtype(name) for size, name in _WORDS.items()}

# torch dtype: (torch dtype of the integers, NumPy dtype); filled when a tensor is first seen.
_carried: dict[torch.dtype, tuple[torch.dtype, DType]] = {}


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Return whether ``value`` is a torch tensor; never import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(name: str, value: Any, *, detach: bool = False) -> Array:
    """Return a NumPy array of the elements of ``value``, in the same memory.

    Args:
        name: Its name in errors.
        value: A NumPy array, which is returned, or a torch tensor in host memory or on an emulated
            device; any strides. bf16 and the 8-bit floating dtypes become those of ml_dtypes.
        detach: Accept a tensor that requires grad, for operators whose results have no gradient. Default:
            raise an error for it while torch records gradients.

    Raises:
        ArgumentError: It is something else, requires grad, or NumPy has no such dtype or layout.
    """
    if isinstance(value, np.ndarray):
        return value
    if not is_tensor(value):
        raise ArgumentError(
            f"{name} must be a NumPy array or a torch tensor, but got {type(value).__name__}"
        )
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        if value.requires_grad:
            if not detach and torch.is_grad_enabled():
                raise ArgumentError(
                    f"{name} must not require grad, since the operator has no derivative (detach it, "
                    f"or call under torch.no_grad()), but got a tensor that does"
                )
            value = value.detach()
        carried = (_carried or _fill(torch)).get(value.dtype)
        try:
            if carried is None:
                return as_shared_array(value)
            words, dtype = carried
            address = value.data_ptr()
            if not address:
                return as_shared_array(value.view(words)).view(dtype)
            return np.asarray(_Shared(value, address, _WORDS_OF[dtype.itemsize])).view(dtype)
        except (TypeError, RuntimeError, ValueError) as error:
            raise ArgumentError(
                f"{name} must be a dense tensor in host memory, of a dtype that NumPy has, but got "
                f"{value.dtype}, {value.layout}, on {value.device}: {error}"
            ) from None


class _Shared:
    """Source of a NumPy array over a tensor's memory; keeps the tensor alive."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: torch.Tensor, address: int, dtype: DType) -> None:
        step = dtype.itemsize
        self.tensor = tensor
        strides = None  # in C's order
        if not tensor.is_contiguous():
            strides = tuple([stride * step for stride in tensor.stride()])
        self.__array_interface__ = {
            "data": (address, False),
            "shape": tuple(tensor.shape),
            "strides": strides,
            "typestr": dtype.str,
            "version": 3,
        }


def as_shared_array(tensor: torch.Tensor) -> Array:
    """Return the array of ``tensor.numpy()``, but let the tensor's memory be resized later.

    Sharded modules release memory by resizing it, which ``Tensor.numpy`` would forbid. Call this with torch's
    function modes switched off and with a host tensor that does not require grad.

    Args:
        tensor: A dense tensor of a dtype that NumPy has.

    Raises:
        TypeError: NumPy has no such dtype.
        RuntimeError: The tensor has no memory, or is conjugated or negated lazily.
    """
    dtype = _shared.get(tensor.dtype)
    if dtype is None:
        dtype = _shared[tensor.dtype] = tensor.new_empty(0).numpy().dtype
    address = tensor.data_ptr()
    if not address and not tensor.numel():
        return np.empty(tuple(tensor.shape), dtype)
    if not address or tensor.is_conj() or tensor.is_neg():
        return np.asarray(tensor.numpy())
    return np.asarray(_Shared(tensor, address, dtype))


_shared: dict[torch.dtype, DType] = {}


@overload
def as_type_of(array: Array, source: Array | SymmetricArray) -> Array: ...
@overload
def as_type_of(array: Array, source: torch.Tensor) -> torch.Tensor: ...
def as_type_of(array: Array, source: Any) -> object:
    """Return ``array`` as the type of ``source``: the array itself, or a tensor over its memory.

    Args:
        array: The result of an operator. For a tensor it is copied only if torch cannot represent it:
            negative strides, or read-only memory.
        source: A NumPy array, or a tensor; the result is placed on its device.
    """
    if not is_tensor(source):
        return array
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        if min(array.strides, default=0) < 0 or not array.flags.writeable:
            array = array.copy()
        name = _EXTENDED.get(array.dtype)
        if name is None:
            tensor = torch.from_numpy(array)
        else:
            words = array.view(_WORDS[array.itemsize])
            tensor = torch.from_numpy(words).view(getattr(torch, name))
        device_tags = sys.modules.get("emu.accelerator.device_tags")
        if device_tags is not None:
            device = device_tags.device_of(source)
            if device.type != "cpu":
                device_tags.assign_device(tensor, device)
    return tensor


def bump_version(value: object) -> None:
    """Record that a tensor was written, so that autograd rejects gradients from its old elements.

    Args:
        value: A tensor. NumPy arrays are ignored.
    """
    if not is_tensor(value):
        return
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction():
        if not value.is_inference():
            torch.autograd.graph.increment_version(value)


def as_dtype(name: str, value: object) -> DType:
    """Return the NumPy dtype of a NumPy or torch dtype; torch's quantised dtypes become their integers.

    Args:
        name: Its name in errors.
        value: Anything that ``numpy.dtype`` takes, or a ``torch.dtype``.

    Raises:
        ArgumentError: It is not a dtype, or NumPy has no such dtype.
    """
    text = str(value)
    known: Any = value
    if text.startswith("torch."):
        plain = text.removeprefix("torch.")
        known = _QUANTISED.get(plain) or getattr(ml_dtypes, plain, plain)
    try:
        if value is None:
            raise TypeError
        dtype: DType = np.dtype(known)
    except (
        TypeError,
        ValueError,
        SyntaxError,
    ):  # texts are parsed: a lone surrogate is a ValueError
        raise ArgumentError(
            f"{name} must be a dtype of NumPy or torch, but got {value!r}"
        ) from None
    return dtype


_QUANTISED = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}


def check_together(**arguments: object) -> None:
    """Check that the arguments of one operator are all NumPy arrays, or all torch tensors on one device.

    None is ignored. In a program with emulated devices that device must not be the CPU, since the operator has no
    CPU kernel there.

    Args:
        **arguments: Arrays and tensors by their names in errors. Other values are left to :func:`as_array`.

    Raises:
        ArgumentError: An argument is of the other kind, or on another device.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    tensors: dict[str, object] = {}
    arrays = []
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            tensors[name] = value
        elif isinstance(value, np.ndarray):
            arrays.append(name)
    if not tensors:
        return
    if arrays:
        raise ArgumentError(
            f"{arrays[0]} must be a torch tensor as {next(iter(tensors))} is, but got a NumPy array"
        )
    device_tags = sys.modules.get("emu.accelerator.device_tags")
    installed = getattr(sys.modules["emu.accelerator"], "installed", None)
    if device_tags is None or installed is None or not installed():
        return
    with torch._C.DisableTorchFunction():
        devices = {name: device_tags.device_of(tensor) for name, tensor in tensors.items()}
        if len(set(devices.values())) > 1 or next(iter(devices.values())).type == "cpu":
            _raise_mixed_devices(devices)


def _raise_mixed_devices(devices: Mapping[str, torch.device]) -> None:
    emulated = [(name, device) for name, device in devices.items() if device.type != "cpu"]
    if not emulated:
        raise ArgumentError(
            f"{next(iter(devices))} must be on an emulated device, but got a tensor on cpu"
        )
    lead, wanted = emulated[0]
    for name, device in devices.items():
        if device != wanted:
            raise ArgumentError(
                f"{name} must be on {wanted} as {lead} is, but got a tensor on {device}"
            )


def _fill(torch: ModuleType) -> dict[torch.dtype, tuple[torch.dtype, DType]]:
    for dtype, name in _EXTENDED.items():
        theirs = getattr(torch, name, None)
        if theirs is not None:
            _carried[theirs] = (getattr(torch, _WORDS[dtype.itemsize]), dtype)
    return _carried
