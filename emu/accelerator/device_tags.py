"""On which device a tensor is: the mark that its storage carries.

Every function here is meant for code of ours that runs with torch's function modes switched off.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import torch

from emu.accelerator.state import TYPES, current
from emu.accelerator.usage import USAGE, HeldBytes
from emu.accelerator.wrappers import PLAIN, inner_tensors, is_wrapper, tells_content

Tensor = torch.Tensor
CPU = torch.device("cpu")
TAG = "_emu_device"
HELD_BYTES = "_emu_held"

_storage = torch.Tensor.untyped_storage


def device_of(tensor: Tensor) -> torch.device:
    """Return the device that a tensor is on as the program sees it: emulated, or the real one."""
    tag = emulated_device(tensor)
    if tag is not None:
        return tag
    with torch._C.DisableTorchFunction():
        return tensor.device


def assign_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Say that a tensor's memory is on ``device``; views of it follow. ``cpu`` takes the mark away.

    Returns:
        The tensor.
    """
    with torch._C.DisableTorchFunction():
        set_tag(tensor, resolve(device) if device.type in TYPES else None)
    return tensor


def emulated_device(tensor: Tensor) -> torch.device | None:
    """Return the emulated device of a tensor; None when it is on a real one."""
    with torch._C.DisableTorchFunction():
        return tag_of(tensor)


def tag_of(tensor: Tensor) -> torch.device | None:
    """The same as :func:`mark_of` for callers inside a torch function mode, where it is faster."""
    tag: torch.device | None
    try:
        tag = getattr(_storage(tensor), TAG, None)
    except (NotImplementedError, RuntimeError):
        tag = getattr(_inner(tensor), TAG, None)
    if tag is None and type(tensor) not in PLAIN and is_wrapper(tensor):
        for inner in inner_tensors(tensor):
            tag = tag_of(inner)
            if tag is not None:
                break
    return tag


def set_tag(tensor: Tensor, device: torch.device | None) -> None:
    """Mark a tensor's storage, or the tensor itself where it has none (sparse tensors).

    The mark of a wrapper goes to the tensors in it; to its own storage, which holds nothing, only if
    the wrapper's class does not tell what is in it.
    """
    if type(tensor) not in PLAIN and is_wrapper(tensor):
        for inner in inner_tensors(tensor):
            set_tag(inner, device)
        if not tells_content(type(tensor)):
            setattr(_storage(tensor), TAG, device)
        return
    try:
        tag_storage(_storage(tensor), device)
    except (NotImplementedError, RuntimeError):
        setattr(_inner(tensor), TAG, device)


def tag_storage(storage: Any, device: torch.device | None) -> None:
    """Mark a storage and count its bytes."""
    before = getattr(storage, TAG, None)
    if before is device or (before is not None and before == device):
        return
    setattr(storage, TAG, device)
    setattr(
        storage, HELD_BYTES, None if device is None else HeldBytes(USAGE[device], storage.nbytes())
    )


def recount_bytes(storage: Any) -> None:
    """Count a storage's bytes again: it was resized."""
    device: torch.device | None = getattr(storage, TAG, None)
    held = getattr(storage, HELD_BYTES, None)
    if device is not None and held is not None and held.nbytes != storage.nbytes():
        setattr(storage, HELD_BYTES, None)  # the old bytes are gone before the new ones are there
        setattr(storage, HELD_BYTES, HeldBytes(USAGE[device], storage.nbytes()))


def _inner(tensor: Tensor) -> Any:
    """What carries the mark of a tensor without a storage: of a wrapper of ``vmap`` its content's."""
    functorch = torch._C._functorch
    unwrapped = tensor
    while functorch.is_functorch_wrapped_tensor(unwrapped):
        unwrapped = functorch.get_unwrapped(unwrapped)
    if unwrapped is tensor:
        return tensor
    try:
        return _storage(unwrapped)
    except (NotImplementedError, RuntimeError):
        return unwrapped


@functools.cache
def device_count() -> int:
    """Return how many devices of each type there are: ``EMU_DEVICES``, or as many as PEs, or one."""
    given = os.environ.get("EMU_DEVICES", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    from emu.comm.errors import CommError
    from emu.comm.world.world import world

    try:
        return world().n_pes
    except CommError:
        return 1


def accelerator_type() -> str:
    """Return the type that a script means by its accelerator: ``npu`` once it has loaded torch_npu."""
    return "npu" if "torch_npu" in sys.modules else "cuda"


def current_device(kind: str) -> int:
    """Return the index of this thread's current device of a type."""
    return current()[kind]


def set_current_device(kind: str, index: int) -> None:
    """Make another device of a type the current one of this thread.

    Raises:
        RuntimeError: There is no such device.
    """
    current()[kind] = check_index(kind, index)


def check_index(kind: str, index: int) -> int:
    """Return ``index`` if there is such a device.

    Raises:
        RuntimeError: There is none.
    """
    count = device_count()
    if not 0 <= index < count:
        raise RuntimeError(
            f"invalid device ordinal: {kind} device must be in [0, {count}), but got {index} (the "
            "environment's EMU_DEVICES, or the number of PEs, says how many there are)"
        )
    return int(index)  # a bool counts as 0 or 1


def resolve(device: Any) -> torch.device:
    """Return the device that an argument means; an emulated one always with its index.

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
        return torch.device(found.type, current()[found.type])
    check_index(found.type, index)
    return found
