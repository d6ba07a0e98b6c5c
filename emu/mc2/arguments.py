"""Argument checks shared by the fused operators; each error names the argument, its value and the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from emu.comm.errors import ArgumentError, SymmetricMemoryError, UnknownGroupError
from emu.comm.world.array import SymmetricArray
from emu.comm.world.checks import check
from emu.comm.world.current import world
from emu.comm.world.group import Group
from emu.kernels.core.dtypes import ALL
from emu.kernels.core.messages import shown

Array = np.ndarray[Any, Any]
Tensor = Array | SymmetricArray
"""Operand type: memory of this PE, or symmetric memory, which peers read in place."""
Counts = npt.ArrayLike | SymmetricArray
"""Numbers of rows: a list, or an array of any integer dtype."""

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
INT8, INT32 = np.dtype(np.int8), np.dtype(np.int32)
BOOL = np.dtype(np.bool_)
HALVES = tuple(d.numpy for d in ALL if d.is_float and d.bits == 16)
NAME_CHARACTERS = 128


def check_finite(name: str, value: object) -> float:
    """Return ``value`` as a finite float.

    Raises:
        ArgumentError: It is not a finite number.
    """
    number = check.number(name, value)
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a finite number, but got {shown(value)}")
    return number


def find_group(group: Group | str | None, rank_size: int) -> Group:
    """Return a group given as such or by name; None is the world.

    Raises:
        ArgumentError: A bad or unknown name, or ``rank_size`` is neither 0 nor the size.
    """
    if group is None:
        found: Group = world()
    elif isinstance(group, Group):
        found = group
    elif isinstance(group, str):
        if not 1 <= len(group) <= NAME_CHARACTERS:
            raise ArgumentError(
                f"group must have 1 to {NAME_CHARACTERS} characters, but got {len(group)}"
            )
        # Lone surrogates cannot be stored as UTF-8, which the shared memory holds.
        if not group.isascii() and group != group.encode("utf-8", "replace").decode():
            raise ArgumentError(f"group must be text that UTF-8 can hold, but got {shown(group)}")
        try:
            found = world().group(group)
        except UnknownGroupError:
            raise UnknownGroupError(
                f"group {shown(group)} is not known; make it on each of its members with "
                f"world.group({shown(group)}, [PE numbers])"
            ) from None
        except ArgumentError as error:
            raise ArgumentError(f"group must be the name of a group, but its {error}") from None
    else:
        raise ArgumentError(
            f"group must be a Group, its name or None, but got {type(group).__name__}"
        )
    if type(rank_size) is not int:
        rank_size = check.integer("rank_size", rank_size, 0)
    if rank_size not in (0, found.n_pes):
        raise ArgumentError(
            f"rank_size must be 0 or {found.n_pes}, the size of group {found.name!r}, "
            f"but got {rank_size!r}"
        )
    return found


def local_memory(name: str, tensor: object) -> Array:
    """Return the memory of a tensor on this PE.

    Raises:
        ArgumentError: It is not an array, or has a mask, which would be ignored.
        SymmetricMemoryError: It was freed.
    """
    if type(tensor) is np.ndarray:
        return tensor
    if isinstance(tensor, SymmetricArray):
        try:
            return tensor.local
        except SymmetricMemoryError as error:
            raise SymmetricMemoryError(f"{name} must be memory in use, but {error}") from None
    if not isinstance(tensor, np.ndarray):
        raise ArgumentError(
            f"{name} must be an ndarray or a SymmetricArray, but got {type(tensor).__name__}"
        )
    if isinstance(tensor, np.ma.MaskedArray):
        raise ArgumentError(f"{name} must be an array without a mask, but got a masked array")
    return tensor.view(np.ndarray)


def check_matrix(name: str, tensor: object, dtypes: tuple[np.dtype[np.generic], ...]) -> Array:
    """Return a non-empty matrix of one of the dtypes."""
    array = local_memory(name, tensor)
    if array.ndim != 2:
        raise ArgumentError(f"{name} must have 2 axes, but got shape {array.shape}")
    if not array.size:
        raise ArgumentError(f"{name} must have elements, but got shape {array.shape}")
    return check.array_dtype(name, array, dtypes)


def check_array(
    name: str, value: object, shape: tuple[int | str, ...], dtypes: Sequence[np.dtype[np.generic]]
) -> Array:
    """Return an operand of any strides as an ndarray.

    Args:
        name: Its name in errors.
        value: The operand: an ndarray or a SymmetricArray.
        shape: Its extents; text such as ``"rows"`` stands for any extent.
        dtypes: The accepted dtypes.

    Raises:
        ArgumentError: It has another type, shape or dtype.
    """
    array = local_memory(name, value)
    fits = array.ndim == len(shape) and all(
        isinstance(wanted, str) or wanted == extent
        for wanted, extent in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted_shape = ", ".join(str(n) for n in shape)
        raise ArgumentError(f"{name} must have shape [{wanted_shape}], but got {array.shape}")
    return check.array_dtype(name, array, dtypes)


def divide_evenly(name: str, extent: int, n_pes: int, what: str) -> int:
    """Return ``extent / n_pes``, which must be an integer; ``what`` describes the extent in the error."""
    if extent % n_pes:
        raise ArgumentError(
            f"{name} must be divisible by the group's size of {n_pes}, but got {extent}, {what}"
        )
    return extent // n_pes


def check_output(
    name: str, given: Tensor | None, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> Tensor:
    """Return the array to write to: the given one, checked, or a new one."""
    if given is None:
        return np.empty(shape, dtype)
    array = check.target(name, local_memory(name, given), shape, dtype)
    if not array.flags.c_contiguous:
        raise ArgumentError(f"{name} must be C-contiguous, but got strides {array.strides}")
    return given


def as_sendable(tensor: Tensor, group: Group) -> Tensor:
    """Return a tensor that can be sent: itself where it is dense and symmetric, else dense memory of this PE."""
    if isinstance(tensor, SymmetricArray):
        if tensor.dense and tensor.group is group:
            return tensor
        tensor = tensor.local
    return np.ascontiguousarray(local_memory("x1", tensor))


def check_disjoint(results: dict[str, object], sources: dict[str, object]) -> None:
    """Check that results share no memory with each other or with a source."""
    written = {n: local_memory(n, t) for n, t in results.items() if t is not None}
    read = {
        n: local_memory(n, t)
        for n, t in sources.items()
        if isinstance(t, np.ndarray | SymmetricArray)
    }
    for number, (name, array) in enumerate(written.items()):
        later = dict(list(written.items())[number + 1 :])
        for other, memory in {**later, **read}.items():
            # Bounds suffice: two interleaved views of one array are refused too.
            if np.may_share_memory(array, memory):
                raise ArgumentError(
                    f"{name} must not share memory with {other}, but got arrays that do"
                )


def check_vector(
    name: str, value: object, extents: tuple[int, ...], dtypes: tuple[np.dtype[np.generic], ...]
) -> Array | None:
    """Return a vector of one of the extents, or None for None; a second axis of extent 1 is dropped."""
    if value is None:
        return None
    array = check.array_dtype(name, local_memory(name, value), dtypes)
    if array.ndim not in (1, 2) or max(array.shape) != array.size or array.size not in extents:
        wanted = " or ".join(str(extent) for extent in dict.fromkeys(extents))
        raise ArgumentError(
            f"{name} must be a vector of {wanted} elements, but got shape {array.shape}"
        )
    return array.reshape(-1)


def check_half_dtype(
    name: str, dtype: object, default: np.dtype[np.generic]
) -> np.dtype[np.generic]:
    """Return ``dtype``, or the default for None, checked to be fp16 or bf16."""
    wanted = default if dtype is None else check.dtype(name, dtype)
    if wanted not in HALVES:
        raise ArgumentError(f"{name} must be float16 or bfloat16, but got {wanted}")
    return wanted
