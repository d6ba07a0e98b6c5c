"""``nvshmem.core.utils``: sizes, and what libraries ask for."""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Sequence
from typing import Any

from emu.accelerator.arrays import as_dtype
from emu.accelerator.nvshmem.context import active
from emu.accelerator.nvshmem.errors import NvshmemInvalid
from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown

__all__ = ["get_size"]


def get_size(shape: Sequence[int], dtype: Any) -> int:
    """Return the bytes of a dense array.

    Args:
        shape: Its shape.
        dtype: A dtype of NumPy or torch, or its name.

    Raises:
        NvshmemInvalid: A bad shape or dtype.
    """
    op = "nvshmem.core.utils.get_size"
    try:
        return math.prod(map(operator.index, shape)) * as_dtype(f"{op}: dtype", dtype).itemsize
    except ArgumentError as error:
        raise NvshmemInvalid(str(error)) from None
    except TypeError:
        raise NvshmemInvalid(f"{op}: shape must be integers, but got {shown(shape)}") from None


def _get_device() -> tuple[Any, None]:
    """Return what ``init`` was given as the device, and None: no other device is the current one.

    Libraries call this around NVSHMEM's calls to set the device back that was current before.
    """
    return active("nvshmem.core.utils._get_device").handle, None


def _configure_logging(level: str | int) -> None:
    """Set the level of NVSHMEM's messages; there are none."""
    logging.getLogger("nvshmem").setLevel(level)
