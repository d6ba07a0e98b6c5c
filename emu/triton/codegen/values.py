"""Values of a kernel's variables: kinds, types as text, and unifying two of them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import ModuleType
from typing import TypeGuard

from emu.triton.language.constants import (
    base_type,
    base_value,
    composite,
    composite_type,
    constexpr,
    constexpr_type,
    unwrap,
)
from emu.triton.language.conversion import cast_to, to_tensor
from emu.triton.language.promotion import scalar_dtype
from emu.triton.language.shapes import broadcast_to
from emu.triton.language.types import dtype, int1, int64, tuple_type
from emu.triton.language.values import Scalar, flatten, tensor, tuple
from emu.triton.source import JITCallable

LANGUAGE = ("emu.triton", "triton.language")
"""Packages whose functions take constexprs as they are."""


class Mismatch(Exception):
    """Raised when two values cannot be those of one variable."""


def is_tensor(value: object) -> TypeGuard[tensor]:
    """Return whether it is a value of the running program."""
    return isinstance(value, tensor)


def is_namedtuple(value: object) -> bool:
    """Return whether it is a class of named tuples."""
    return (
        isinstance(value, type) and issubclass(value, builtins.tuple) and hasattr(value, "_fields")
    )


def is_of_language(function: object) -> bool:
    """Return whether a function or class belongs to the language."""
    module = getattr(function, "__module__", None) or ""
    return bool(getattr(function, "__triton_builtin__", False)) or module.startswith(LANGUAGE)


def normalize(value: object) -> object:
    """Return a value as variables hold it: numbers and text as constexprs, tuples as the language's."""
    if isinstance(value, base_value | dtype | JITCallable | ModuleType | slice):
        return value
    if isinstance(value, list | builtins.tuple):
        fields = getattr(type(value), "_fields", None)
        items = [normalize(v) for v in value]
        return tuple(items, tuple_type([type_of(v) for v in items], fields))
    if callable(value):
        return value
    return constexpr(value)


def parameter(value: object) -> object:
    """Return a value as parameters hold it: a dtype or a function, too, is a constexpr there."""
    value = normalize(value)
    return value if isinstance(value, base_value) else constexpr(value)


def assignable(value: object) -> object:
    """Return the value of a variable after an assignment: numbers become tensors."""
    if isinstance(value, tuple):
        items = [assignable(v) for v in value.values]
        return tuple(items, tuple_type([type_of(v) for v in items], value.type.fields))
    plain = unwrap(value)
    if isinstance(plain, list | builtins.tuple):
        return assignable(normalize(plain))
    return to_tensor(value) if isinstance(plain, bool | int | float) else value


def type_of(value: object) -> base_type:
    """Return the type of a value: a tensor's, a tuple's, or that of one known value."""
    if isinstance(value, base_value):
        found: base_type = value.type
        return found
    return constexpr_type(value)


def describe(value: object) -> str:
    """Return the type of a value as text."""
    if isinstance(value, tensor | tuple | composite):
        return str(value.type)
    return f"constexpr[{unwrap(value)}]"


def is_same(first: object, second: object) -> bool:
    """Return whether two values are one and the same, down to the IR's values."""
    if first is second:
        return True
    if isinstance(first, tensor) and isinstance(second, tensor):
        return first.handle is second.handle
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(
            is_same(a, b) for a, b in zip(first.values, second.values, strict=True)
        )
    if isinstance(first, composite) and isinstance(second, composite):
        return first.type.is_like(second.type) and all(
            is_same(a, b) for a, b in zip(first.parts(), second.parts(), strict=True)
        )
    if isinstance(first, tensor | tuple | composite) or isinstance(
        second, tensor | tuple | composite
    ):
        return False
    return _equal(unwrap(first), unwrap(second))


def _equal(first: object, second: object) -> bool:
    # By type, too: 1, 1.0 and True are equal, but become tensors of different dtypes.
    return type(first) is type(second) and bool(first == second)


def is_number(value: object) -> TypeGuard[constexpr | Scalar]:
    """Return whether it is a number known at compile time, which can become a tensor."""
    return isinstance(unwrap(value), bool | int | float)


def common_type(first: base_type, second: base_type) -> base_type:
    """Return the type that a value of either type can have.

    Raises:
        Mismatch: No type can hold both.
    """
    if isinstance(first, tuple_type) and isinstance(second, tuple_type):
        if len(first) != len(second) or first.fields != second.fields:
            raise Mismatch(f"{first} and {second}")
        return tuple_type(
            [common_type(a, b) for a, b in zip(first, second, strict=True)], first.fields
        )
    if (
        isinstance(first, constexpr_type)
        and isinstance(second, constexpr_type)
        and _equal(first.value, second.value)
    ):
        return first
    if isinstance(first, composite_type) and isinstance(second, composite_type):
        return _common_composite(first, second)
    first, second = _tensor_type(first), _tensor_type(second)
    if first != second:
        raise Mismatch(f"{first} and {second}")
    return first


def _common_composite(first: composite_type, second: composite_type) -> composite_type:
    """Return the type of both; what is known in one must be the same in the other."""
    if not first.is_like(second):
        joined = first.joined(second)
        if joined is None:
            raise Mismatch(f"{first} and {second}")
        return joined
    types = []
    for a, b, known in zip(first.types, second.types, first.known, strict=True):
        if known and a != b:
            raise Mismatch(f"{first} and {second}")
        types.append(common_type(a, b))
    return first.with_types(types)


def _tensor_type(type_: base_type) -> base_type:
    if isinstance(type_, constexpr_type) and is_number(type_.value):
        return scalar_dtype(type_.value)
    return type_


def fit(value: object, type_: base_type) -> object:
    """Return the value as one of a type that :func:`common_type` gave; may emit constants.

    Raises:
        Mismatch: The value cannot have the type.
    """
    if isinstance(value, tuple) and isinstance(type_, tuple_type):
        items = [fit(v, t) for v, t in zip(value.values, type_, strict=True)]
        return tuple(items, type_)
    if isinstance(value, composite) and isinstance(type_, composite_type):
        if not type_.is_like(value.type):
            made = value.of_type(type_)
            if made is None:
                raise Mismatch(f"{describe(value)} and {type_}")
            return made
        return value.with_parts(
            [fit(v, t) for v, t in zip(value.parts(), type_.types, strict=True)]
        )
    if type_of(value) == type_:
        return value
    if is_number(value) and isinstance(type_, dtype):
        number = to_tensor(value)
        if number.type == type_:
            return number
    raise Mismatch(f"{describe(value)} and {type_}")


def undefined(type_: base_type) -> object:
    """Return some value of a type: zeros; may emit constants."""
    if isinstance(type_, tuple_type):
        return tuple([undefined(t) for t in type_], type_)
    if isinstance(type_, composite_type):
        return type_.make([undefined(t) for t in type_.types])
    if not isinstance(type_, dtype):
        return constexpr(getattr(type_, "value", None))
    scalar = type_.scalar
    zero = cast_to(to_tensor(0), int64 if scalar.is_ptr() else scalar)
    made = cast_to(zero, scalar)
    return broadcast_to(made, type_.shape) if type_.is_block() else made


def truth(value: tensor, single: Callable[[tensor], tensor]) -> tensor:
    """Return a condition as a scalar ``int1``.

    Args:
        value: The condition.
        single: Takes the one element out of a tensor of one element.

    Raises:
        TypeError: The condition has more than one element.
    """
    if value.type.is_block():
        if value.type.numel != 1:
            raise TypeError(
                "Boolean value of Tensor with more than one value is ambiguous, "
                f"but the condition is {describe(value)}; tl.where chooses element by element, "
                "tl.max(x) and the like make one value of all, tl.map_elementwise calls a function with branches"
            )
        value = single(value)
    return cast_to(value, int1)


__all__ = [
    "LANGUAGE",
    "Mismatch",
    "assignable",
    "base_type",
    "base_value",
    "cast_to",
    "common_type",
    "composite",
    "constexpr",
    "describe",
    "dtype",
    "fit",
    "flatten",
    "is_namedtuple",
    "is_number",
    "is_of_language",
    "is_same",
    "is_tensor",
    "normalize",
    "parameter",
    "tensor",
    "to_tensor",
    "truth",
    "tuple",
    "type_of",
    "undefined",
    "unwrap",
]
