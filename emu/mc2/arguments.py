"""Checks that the fused operators share. Each names the argument, its value and the bound."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError, SymmetricMemoryError, UnknownGroupError
from emu.comm.world.array import SymmetricArray
from emu.comm.world.world import Group, world
from emu.kernels.core.dtypes import BFLOAT16
from emu.kernels.core.messages import shown

Array = np.ndarray[Any, Any]
Tensor = Array | SymmetricArray
"""What operators take: memory of this PE, or symmetric memory, which peers read where it is."""

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
INT8, INT32 = np.dtype(np.int8), np.dtype(np.int32)
HALVES = (FLOAT16, BFLOAT16)
NAME_CHARACTERS = 128


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return ``value`` as an int in ``[low, high]``, or of at least ``low``.

    Raises:
        ArgumentError: It is none; booleans are none.
    """
    if type(value) is int and low <= value and (high is None or value <= high):
        return value
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise ArgumentError(f"{name} must be an integer, but got {shown(value)}")
    if number < low or (high is not None and number > high):
        bound = f"at least {low}" if high is None else f"in [{low}, {high}]"
        bound = str(low) if low == high else bound
        raise ArgumentError(f"{name} must be {bound}, but got {number}")
    return number


def choice(name: str, value: Any, allowed: tuple[int, ...]) -> int:
    """Return ``value`` as one of some integers.

    Raises:
        ArgumentError: It is none of them.
    """
    fits = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not fits or int(value) not in allowed:
        known = ", ".join(map(str, allowed[:-1]))
        raise ArgumentError(f"{name} must be {known} or {allowed[-1]}, but got {shown(value)}")
    return int(value)


def flag(name: str, value: Any) -> bool:
    """Return ``value`` as a bool: True, False, or an integer 0 or 1.

    Raises:
        ArgumentError: It is something else.
    """
    if isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1):
        return bool(value)
    raise ArgumentError(f"{name} must be True or False, but got {shown(value)}")


def real(name: str, value: Any) -> float:
    """Return ``value`` as a finite float.

    Raises:
        ArgumentError: It is none.
    """
    number = math.nan
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not math.isfinite(number):
        raise ArgumentError(f"{name} must be a finite number, but got {shown(value)}")
    return number


def as_dtype(name: str, value: Any, allowed: str) -> np.dtype[Any]:
    """Return ``value`` as a NumPy dtype; ``allowed`` says in the error which would do.

    Raises:
        ArgumentError: It is none.
    """
    try:
        dtype: np.dtype[Any] = np.dtype(value)
    except Exception:  # noqa: BLE001 - NumPy raises whatever a strange object's attributes raise
        raise ArgumentError(f"{name} must be {allowed}, but got {shown(value)}") from None
    return dtype


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
        rank_size = integer("rank_size", rank_size, 0)
    if rank_size not in (0, found.n_pes):
        raise ArgumentError(
            f"rank_size must be 0 or {found.n_pes}, the size of group {found.name!r}, "
            f"but got {rank_size!r}"
        )
    return found


def local(name: str, tensor: Any) -> Array:
    """Return the memory of a tensor on this PE.

    Raises:
        ArgumentError: It is no array, or has a mask, which would be ignored.
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
    if flag("is_trans_a", is_trans_a):
        raise ArgumentError(f"is_trans_a must be False, but got {is_trans_a!r}")
    left = matrix("x1", x1, (*HALVES, INT8))
    right = matrix("x2", x2, (left.dtype, INT8) if weights else (left.dtype,))
    if flag("is_trans_b", is_trans_b):
        right = right.T
    depth = left.shape[1] * blocks
    if right.shape[0] != depth:
        raise ArgumentError(
            f"x2 must have an inner extent of {depth}, but got {right.shape[0]} "
            f"(x1 has shape {left.shape}, x2 {local('x2', x2).shape}, "
            f"is_trans_b is {bool(is_trans_b)})"
        )
    return left, right


def shares(name: str, extent: int, n_pes: int, what: str) -> int:
    """Return ``extent / n_pes``, which must be whole; ``what`` says what is counted."""
    if extent % n_pes:
        raise ArgumentError(
            f"{name} must be divisible by the group's size of {n_pes}, but got {extent}, {what}"
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
    return np.ascontiguousarray(local("x1", tensor))


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
    wanted = default if dtype is None else as_dtype(name, dtype, "float16 or bfloat16")
    if wanted not in HALVES:
        raise ArgumentError(f"{name} must be float16 or bfloat16, but got {wanted}")
    return wanted
