"""Checks of what programs give to symmetric memory, by the names that the arguments have there."""

from __future__ import annotations

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.device_tags import resolve
from emu.accelerator.distributed.symmetric.errors import SymmetricArgumentError
from emu.kernels.core.checks import Arguments
from emu.kernels.core.messages import shown

check = Arguments(SymmetricArgumentError)

_MOST = 1 << 62  # bytes, and so extents and steps


def extents(name: str, value: object) -> tuple[int, ...]:
    """Return a shape, or strides.

    Raises:
        SymmetricArgumentError: It is no sequence of integers, or one is negative or larger than any memory.
    """
    found = check.integers(name, value)
    for extent in found:
        if not 0 <= extent <= _MOST:
            what = "must not be negative" if extent < 0 else f"must be at most {_MOST}"
            raise SymmetricArgumentError(f"{name} {what}, but got {shown(found)}")
    return found


def torch_dtype(name: str, value: object) -> torch.dtype:
    """Return a dtype of torch.

    Raises:
        SymmetricArgumentError: It is none.
    """
    if not isinstance(value, torch.dtype):
        raise SymmetricArgumentError(
            f"{name} must be a dtype of torch, but got {shown(value, with_type=True)}"
        )
    return value


def a_tensor(name: str, value: object) -> Tensor:
    """Return a tensor.

    Raises:
        SymmetricArgumentError: It is none.
    """
    if not isinstance(value, torch.Tensor):
        raise SymmetricArgumentError(
            f"{name} must be a tensor, but got {shown(value, with_type=True)}"
        )
    return value


def text_or_none(name: str, value: object) -> str | None:
    """Return a text, or None.

    Raises:
        SymmetricArgumentError: It is neither.
    """
    return None if value is None else check.text(name, value)


def a_device(name: str, value: object) -> torch.device:
    """Return a device, of those of emulated types with its index.

    Raises:
        SymmetricArgumentError: It names none, or there is no such device.
    """
    if isinstance(value, str | torch.device | int) and not isinstance(value, bool):
        try:
            return resolve(value)
        except (RuntimeError, OverflowError, ValueError) as error:
            raise SymmetricArgumentError(f"{name}: {error}") from error
    raise SymmetricArgumentError(f"{name} must be a device, but got {shown(value, with_type=True)}")
