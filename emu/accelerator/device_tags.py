"""Device tags: the attribute of a storage that says on which emulated device it lies.

Views share their storage, and so their device. The functions here are for code that runs with torch's function
modes switched off, as handlers of the mode do; only :func:`device_of`, :func:`assign_device` and
:func:`emulated_device` switch them off themselves.
"""

from __future__ import annotations

import functools
import multiprocessing
import sys
from collections.abc import Iterable, Iterator

import torch
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue] # not in its stub

from emu.accelerator.annotations import DeviceLike, Storage, Tensor
from emu.accelerator.state import TYPES, current
from emu.accelerator.usage import USAGE, HeldBytes
from emu.accelerator.wrappers import PLAIN, inner_tensors, is_wrapper, tells_content
from emu.kernels.core import environment

CPU = torch.device("cpu")
TAG = "_emu_device"
HELD_BYTES = "_emu_held"
_MOST = 1024  # devices, as PEs

_storage = torch.Tensor.untyped_storage
_DEFAULT_OVERRIDE = vars(torch.Tensor)["__torch_function__"].__func__
_NO_OVERRIDE = torch._C._disabled_torch_function_impl


def device_of(tensor: Tensor) -> torch.device:
    """Return a tensor's device as the program sees it: the emulated one, or else the real one."""
    tag = emulated_device(tensor)
    if tag is not None:
        return tag
    with torch._C.DisableTorchFunction():
        return tensor.device


def assign_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Place a tensor's memory, and so its views, on ``device``; ``cpu`` removes the tag.

    Returns:
        The tensor.
    """
    with torch._C.DisableTorchFunction():
        set_tag(tensor, resolve(device) if device.type in TYPES else None)
    return tensor


def emulated_device(tensor: Tensor) -> torch.device | None:
    """Return the emulated device of a tensor, or None for a real one."""
    with torch._C.DisableTorchFunction():
        return tag_of(tensor)


def tag_of(tensor: Tensor) -> torch.device | None:
    """Return :func:`emulated_device`, faster, for callers that run with function modes switched off."""
    tag: torch.device | None
    if type(tensor) not in PLAIN:
        with (
            torch._C.DisableTorchFunctionSubclass()
        ):  # a class may do anything with the calls below
            return _tag_of_subclass(tensor)
    try:
        tag = getattr(_storage(tensor), TAG, None)
    except (NotImplementedError, RuntimeError):
        tag = getattr(_inner(tensor), TAG, None)
    return tag


def _tag_of_subclass(tensor: Tensor) -> torch.device | None:
    tag: torch.device | None
    try:
        tag = getattr(_storage(tensor), TAG, None)
    except (NotImplementedError, RuntimeError):
        tag = getattr(_inner(tensor), TAG, None)
    if tag is None and is_wrapper(tensor):
        for inner in inner_tensors(tensor):
            tag = tag_of(inner)
            if tag is not None:
                break
    return tag


def is_host_operand(tensor: Tensor) -> bool:
    """Return whether a tensor without a device tag must not go with tensors of a device.

    Zero-dimensional ones go with any device, and a class that overrides torch's functions decides itself.
    """
    kind = type(tensor)
    if kind in PLAIN:
        return tensor.dim() > 0
    override = kind.__torch_function__
    own = getattr(override, "__func__", override)
    if own is not _DEFAULT_OVERRIDE and own is not _NO_OVERRIDE:
        return False
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.dim() > 0


def set_tag(tensor: Tensor, device: torch.device | None) -> None:
    """Tag a tensor's storage, or the tensor itself where it has none (sparse tensors).

    The tag of a wrapper goes to the tensors in it; its own storage, which holds nothing, is tagged only if
    the wrapper's class does not name its content.
    """
    if type(tensor) in PLAIN:
        _set_own_tag(tensor, device)
        return
    with torch._C.DisableTorchFunctionSubclass():
        if not is_wrapper(tensor):
            _set_own_tag(tensor, device)
            return
        for inner in inner_tensors(tensor):
            set_tag(inner, device)
        if not tells_content(type(tensor)):
            setattr(_storage(tensor), TAG, device)


def _set_own_tag(tensor: Tensor, device: torch.device | None) -> None:
    try:
        tag_storage(_storage(tensor), device)
    except (NotImplementedError, RuntimeError):
        setattr(_inner(tensor), TAG, device)


def tag_storage(storage: Storage, device: torch.device | None) -> None:
    """Tag a storage and count its bytes."""
    before = getattr(storage, TAG, None)
    if before is device or (before is not None and before == device):
        return
    setattr(storage, TAG, device)
    setattr(
        storage, HELD_BYTES, None if device is None else HeldBytes(USAGE[device], storage.nbytes())
    )


def recount_bytes(storage: Storage) -> None:
    """Count a storage's bytes again, after it was resized."""
    device: torch.device | None = getattr(storage, TAG, None)
    held = getattr(storage, HELD_BYTES, None)
    if device is not None and held is not None and held.nbytes != storage.nbytes():
        setattr(storage, HELD_BYTES, None)  # the old bytes are gone before the new ones are there
        setattr(storage, HELD_BYTES, HeldBytes(USAGE[device], storage.nbytes()))


def _inner(tensor: Tensor) -> Tensor | Storage:
    """Return the carrier of the tag of a tensor without a storage: for a ``vmap`` wrapper, its content's."""
    unwrapped = tensor
    while _functorch.is_functorch_wrapped_tensor(unwrapped):
        unwrapped = _functorch.get_unwrapped(unwrapped)
    if unwrapped is tensor:
        return tensor
    try:
        return _storage(unwrapped)
    except (NotImplementedError, RuntimeError):
        return unwrapped


@functools.cache
def device_count() -> int:
    """Return the number of devices of each type: ``EMU_DEVICES``, or the number of PEs on this host, or 1.

    Raises:
        ValueError: ``EMU_DEVICES`` is not a whole number of at least 1.
    """
    given = environment.device_count()
    if given is not None:
        return given
    from emu.comm.errors import CommError
    from emu.comm.world.current import places_of, world

    try:
        here = world()
    except CommError:
        return 1
    places = places_of(here)
    return here.n_pes if places is None else len(places.local)


def accelerator_type() -> str:
    """Return the type of ``torch.accelerator``: ``npu`` if the script has loaded torch_npu, else ``cuda``."""
    return "npu" if "torch_npu" in sys.modules else "cuda"


def current_device(kind: str) -> int:
    """Return the index of this thread's current device of a type."""
    return current()[kind]


def set_current_device(kind: str, index: int) -> None:
    """Set this thread's current device of a type.

    Raises:
        RuntimeError: There is no such device.
    """
    current()[kind] = check_index(kind, index)


def usable_devices() -> int:
    """Return the number of devices of each type that may be used, at least :func:`device_count`.

    It is the most that there can be in a process that a program has started, if nothing else says how many: it may
    become a PE of a World whose size is not known yet. Programs choose a device by their rank first, and say how many
    ranks there are when they make the group.
    """
    from emu.comm.world.current import own

    is_started = multiprocessing.parent_process() is not None or environment.is_one_of_several()
    if is_started and environment.device_count() is None and own() is None:
        return max(device_count(), _MOST)
    return device_count()


def check_index(kind: str, index: int) -> int:
    """Return ``index``, checked.

    Raises:
        RuntimeError: There is no such device.
    """
    if not 0 <= index < usable_devices():
        count = device_count()
        raise RuntimeError(
            f"invalid device ordinal: {kind} device must be in [0, {count}), but got {index} (their "
            "number is that of the environment's EMU_DEVICES, or of the PEs)"
        )
    return int(index)  # a bool counts as 0 or 1


def resolve(device: DeviceLike) -> torch.device:
    """Return the device that an argument stands for; an emulated one always has an index.

    Args:
        device: A device, its name, or an index, which counts CUDA devices as it does in torch.

    Raises:
        RuntimeError: There is no such device.
    """
    found: torch.device
    if isinstance(device, int) and not isinstance(device, bool):
        found = torch.device("cuda", device)
    else:
        found = device if isinstance(device, torch.device) else torch.device(device)
    if found.type not in TYPES:
        return found
    index: int | None = found.index  # torch's stubs say that there always is one
    if index is None:
        index = current()[found.type]
    else:
        check_index(found.type, index)
    return _device_of(found.type, index)


@functools.cache
def _device_of(kind: str, index: int) -> torch.device:
    """Return one object for each device: tags are compared in every call, and an object with itself at once."""
    return torch.device(kind, index)


def tensors_in(values: Iterable[object]) -> Iterator[Tensor]:
    """Yield the tensors among values, and in lists and tuples of them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)
