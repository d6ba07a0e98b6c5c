"""Checks that the fused operators share. Each names the argument, its value and the bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.array import SymmetricArray
from emu.comm.errors import ArgumentError
from emu.comm.world import Group, world
from emu.kernels.dtypes import BFLOAT16

Array = np.ndarray[Any, Any]
Tensor = Array | SymmetricArray
"""What operators take: memory of this PE, or symmetric memory, which peers read where it is."""

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
INT8, INT32 = np.dtype(np.int8), np.dtype(np.int32)
HALVES = (FLOAT16, BFLOAT16)
NAME_CHARACTERS = 128


def find_group(group: Group | str | None, rank_size: int) -> Group:
    """Return the group that is meant: itself, that of a name, or the world.

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
        found = world().group(group)
    else:
        raise ArgumentError(
            f"group must be a Group, its name or None, but got {type(group).__name__}"
        )
    if rank_size not in (0, found.n_pes):
        raise ArgumentError(
            f"rank_size must be 0 or {found.n_pes}, the size of group {found.name!r}, "
            f"but got {rank_size!r}"
        )
    return found


def local(name: str, tensor: Any) -> Array:
    """Return the memory of a tensor on this PE."""
    if isinstance(tensor, SymmetricArray):
        return tensor.local
    if not isinstance(tensor, np.ndarray):
        raise ArgumentError(
            f"{name} must be an ndarray or a SymmetricArray, but got {type(tensor).__name__}"
        )
    return tensor


def matrix(name: str, tensor: Any, dtypes: tuple[np.dtype[Any], ...]) -> Array:
    """Return a matrix of one of the dtypes that has elements."""
    array = local(name, tensor)
    if array.ndim != 2:
        raise ArgumentError(f"{name} must have 2 axes, but got shape {array.shape}")
    if not array.size:
        raise ArgumentError(f"{name} must have elements, but got shape {array.shape}")
    if array.dtype not in dtypes:
        names = ", ".join(map(str, dtypes))
        raise ArgumentError(f"{name} must have one of the dtypes {names}, but got {array.dtype}")
    return array


def operands(
    x1: Any, x2: Any, *, is_trans_a: bool, is_trans_b: bool, blocks: int = 1, weights: bool = False
) -> tuple[Array, Array]:
    """Return x1 as [m, k] and x2 as [k · blocks, n], checked against each other.

    Args:
        x1: fp16, bf16 or int8.
        x2: The same dtype; with ``weights``, int8 for an fp16 or bf16 x1 too.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k · blocks].
        blocks: How many blocks of k columns meet the rows of x2.
        weights: See x2.
    """
    if is_trans_a:
        raise ArgumentError(f"is_trans_a must be False, but got {is_trans_a!r}")
    left = matrix("x1", x1, (*HALVES, INT8))
    right = matrix("x2", x2, (left.dtype, INT8) if weights else (left.dtype,))
    if is_trans_b:
        right = right.T
    depth = left.shape[1] * blocks
    if right.shape[0] != depth:
        raise ArgumentError(
            f"x2 must have an inner extent of {depth}, but got {right.shape[0]} "
            f"(x1 has shape {left.shape}, x2 {local('x2', x2).shape}, "
            f"is_trans_b is {bool(is_trans_b)})"
        )
    return left, right


def shares(name: str, extent: int, n_pes: int) -> int:
    """Return ``extent / n_pes``, which must be whole."""
    if extent % n_pes:
        raise ArgumentError(
            f"{name} must be divisible by the group's size of {n_pes}, but got {extent}"
        )
    return extent // n_pes


def result(name: str, given: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    """Return the array to write to: the one given, if it fits, or a new one."""
    if given is None:
        return np.empty(shape, dtype)
    array = local(name, given)
    if array.shape != shape:
        raise ArgumentError(f"{name} must have shape {shape}, but got {array.shape}")
    if array.dtype != dtype:
        raise ArgumentError(f"{name} must have dtype {dtype}, but got {array.dtype}")
    if not array.flags.c_contiguous:
        raise ArgumentError(f"{name} must be C-contiguous, but got strides {array.strides}")
    if not array.flags.writeable:
        raise ArgumentError(f"{name} must be writable, but got a read-only array")
    tensor: Tensor = given
    return tensor


def sendable(tensor: Tensor, group: Group) -> Tensor:
    """Return a tensor as it can be sent: in place where it is dense, else a dense copy."""
    if isinstance(tensor, SymmetricArray):
        if tensor.dense and tensor.group is group:
            return tensor
        tensor = tensor.local
    return np.ascontiguousarray(tensor)


def apart(results: dict[str, Any], sources: dict[str, Any]) -> None:
    """Refuse results that share memory with each other or with a source."""
    written = {n: local(n, t) for n, t in results.items() if t is not None}
    read = {
        n: local(n, t) for n, t in sources.items() if isinstance(t, np.ndarray | SymmetricArray)
    }
    for number, (name, array) in enumerate(written.items()):
        later = dict(list(written.items())[number + 1 :])
        for other, memory in {**later, **read}.items():
            if np.may_share_memory(array, memory):
                raise ArgumentError(
                    f"{name} must not share memory with {other}, but got arrays that do"
                )


def vector(
    name: str, value: Any, extents: tuple[int, ...], dtypes: tuple[np.dtype[Any], ...]
) -> Array | None:
    """Return a vector of one of the extents; an axis of one element beside it is dropped."""
    if value is None:
        return None
    array = local(name, value)
    if array.dtype not in dtypes:
        names = ", ".join(map(str, dtypes))
        raise ArgumentError(f"{name} must have one of the dtypes {names}, but got {array.dtype}")
    if array.ndim not in (1, 2) or max(array.shape) != array.size or array.size not in extents:
        wanted = " or ".join(str(extent) for extent in dict.fromkeys(extents))
        raise ArgumentError(
            f"{name} must be a vector of {wanted} elements, but got shape {array.shape}"
        )
    return array.reshape(-1)


def half(name: str, dtype: Any, default: np.dtype[Any]) -> np.dtype[Any]:
    """Return fp16 or bf16 as asked for."""
    wanted = default if dtype is None else np.dtype(dtype)
    if wanted not in HALVES:
        raise ArgumentError(f"{name} must be float16 or bfloat16, but got {wanted}")
    return wanted
