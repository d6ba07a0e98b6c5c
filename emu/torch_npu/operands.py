"""Tensors of one operator call as arrays, and checks of unsupported arguments."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np

from emu.accelerator.arrays import (
    Array,
    DType,
    Tensor,
    as_array,
    as_dtype,
    as_type_of,
    check_together,
)
from emu.comm.errors import ArgumentError
from emu.comm.world.array import SymmetricArray
from emu.comm.world.checks import check

T = TypeVar("T")

Operand: TypeAlias = "Tensor | SymmetricArray"
"""Operand of an operator that communicates: peers read a symmetric array in place."""
Result: TypeAlias = Any
"""Result of such an operator: a torch tensor for torch tensors, otherwise a NumPy array."""


class TensorArguments:
    """Tensors of one call by name, as arrays over the same memory.

    A SymmetricArray stays one, since peers read it in place.
    """

    def __init__(self, needed: Mapping[str, Operand], **others: Operand | None) -> None:
        """Check that tensors are of one kind and on one device.

        Args:
            needed: Required tensors; results get the type and the device of the first.
            **others: Optional tensors, each possibly None.

        Raises:
            ArgumentError: One is not a tensor, or they differ in type or device.
        """
        self._leader = next(iter(needed.values()))
        given = {**needed, **{name: value for name, value in others.items() if value is not None}}
        check_together(**given)
        self._arrays = dict.fromkeys(others) | {
            name: value if isinstance(value, SymmetricArray) else as_array(name, value)
            for name, value in given.items()
        }

    def __getitem__(self, name: str) -> Any:  # None for an optional tensor that was not given
        return self._arrays[name]

    def as_rows(self, name: str, beside: str = "") -> Any:
        """Return a tensor of 3 axes as a matrix on this PE, and others unchanged.

        Args:
            name: Name of the tensor.
            beside: Name of another that must have the same shape but for the last axis. Default: none.
        """
        tensor: Any = self._arrays[name]
        if tensor is None:
            return None
        if beside:
            shape = self[beside].shape
            if tensor.shape[:-1] != shape[:-1]:
                raise ArgumentError(
                    f"{name} must have the axes of {beside} but the last, {shape[:-1]}, but got shape "
                    f"{tensor.shape}"
                )
        if len(tensor.shape) != 3:
            return tensor
        b, rows, columns = tensor.shape
        return as_local(tensor).reshape(b * rows, columns)

    def result(self, array: Array | SymmetricArray | None) -> Result:
        """Return a result of the operator as the caller's type; None stays None."""
        return None if array is None else as_type_of(as_local(array), self._leader)


def as_local(value: T | SymmetricArray) -> T | Array:
    """Return the memory of a SymmetricArray on this PE, and other values unchanged."""
    return value.local if isinstance(value, SymmetricArray) else value


def check_target(name: str, value: object) -> Array:
    """Return the memory of a tensor that will be written in place.

    Raises:
        ArgumentError: It is not a tensor, it is read-only, or elements share memory.
    """
    array = as_local(value)
    if not isinstance(array, np.ndarray):
        array = as_array(name, array)
    check.writable(name, array)
    # From the innermost axis out, each stride must step over everything that the inner axes reach.
    axes = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1)
    reach = array.itemsize
    for stride, extent in axes:
        if stride < reach and array.size:
            raise ArgumentError(
                f"{name} must have elements that share no memory, but got shape {array.shape} with "
                f"strides of {array.strides} bytes"
            )
        reach += stride * (extent - 1)
    return array


def check_supported(why: str, **arguments: tuple[object, ...]) -> None:
    """Check arguments of which only some values are supported.

    Args:
        why: The reason, a sentence without a full stop.
        **arguments: An argument's value, followed by its supported values: None, integers or texts.

    Raises:
        ArgumentError: An argument has an unsupported value.
    """
    for name, (value, *allowed) in arguments.items():
        if any(_equals(value, one) for one in allowed):
            continue
        # Tensors are named by their type: their repr may be long.
        shown = repr(value) if np.isscalar(value) or value is None else type(value).__name__
        names = " or ".join(repr(one) for one in allowed)
        raise ArgumentError(f"{name} must be {names}, since {why}, but got {shown}")


def _equals(value: Any, one: object) -> bool:
    """Return whether a value equals ``one``: None, an integer or a text, of the same type."""
    if not isinstance(one, int):
        return type(value) is type(one) and bool(value == one)
    try:
        return operator.index(value) == one
    except TypeError:
        return False


def optional_dtype(name: str, value: object) -> DType | None:
    """Return a NumPy dtype for one of NumPy or torch, and None for None."""
    return None if value is None else as_dtype(name, value)
