"""Python's builtin functions, as kernels have them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from emu.triton import language
from emu.triton.codegen.values import constexpr, is_tensor, normalize, tensor, tuple, unwrap


def _reduced(name: str, choose: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*values: Any, propagate_nan: Any = None) -> Any:
        if len(values) == 1 and not is_tensor(values[0]):
            single = unwrap(values[0])
            values = builtins.tuple(single.values if isinstance(single, tuple) else single)
        if not any(is_tensor(v) for v in values):
            return constexpr(choose(*map(unwrap, values)))
        if len(values) < 2:
            raise TypeError(f"{name} needs at least two values, but got one tensor")
        combine = getattr(language, f"{name}imum")
        keywords = {} if propagate_nan is None else {"propagate_nan": propagate_nan}
        result = values[0]
        for value in values[1:]:
            result = combine(result, value, **keywords)
        return result

    apply.__name__ = name
    return apply


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a builtin that takes and returns values known at compile time."""

    def apply(*values: Any, **keywords: Any) -> Any:
        for value in values:
            if is_tensor(value):
                raise TypeError(
                    f"{function.__name__}() needs a value known at compile time, but got a tensor of "
                    f"type {value.type}; convert a tensor with .to(dtype)"
                )
        plain = {name: unwrap(value) for name, value in keywords.items()}
        return normalize(function(*map(unwrap, values), **plain))

    apply.__name__ = function.__name__
    return apply


def _len(value: Any) -> constexpr:
    value = unwrap(value)
    if isinstance(value, tensor):
        if not value.shape:
            raise TypeError("len() needs a tuple or a tensor with a shape, but got a scalar")
        return constexpr(unwrap(value.shape[0]))
    return constexpr(len(value))


def _isinstance(value: Any, kinds: Any) -> constexpr:
    kinds = unwrap(kinds)
    flat = (
        builtins.tuple(map(unwrap, kinds)) if isinstance(kinds, tuple | builtins.tuple) else kinds
    )
    listed = flat if isinstance(flat, builtins.tuple) else (flat,)
    real = builtins.tuple(
        {"float": float, "int": int, "list": list}.get(getattr(k, "__name__", ""), k)
        if not isinstance(k, type)
        else k
        for k in listed
    )
    return constexpr(isinstance(value, real) or isinstance(unwrap(value), real))


def _getattr(value: Any, name: Any, *default: Any) -> Any:
    value = unwrap(value)
    return normalize(getattr(value, unwrap(name), *default))


def _hasattr(value: Any, name: Any) -> constexpr:
    return constexpr(hasattr(unwrap(value), unwrap(name)))


def _type(value: Any) -> Any:
    return type(unwrap(value))


def _abs(value: Any) -> Any:
    if not is_tensor(value):
        return constexpr(abs(unwrap(value)))
    return language.abs(value)


def _list(values: Any) -> Any:
    plain = unwrap(values)
    return tuple(list(plain.values if isinstance(plain, tuple) else map(normalize, plain)))


def _print(*values: Any, **keywords: Any) -> Any:
    return language.device_print(*values, **keywords)


BUILTINS: dict[str, Any] = {
    "abs": _abs,
    "bool": _known(bool),
    "float": _known(float),
    "getattr": _getattr,
    "hasattr": _hasattr,
    "int": _known(int),
    "isinstance": _isinstance,
    "len": _len,
    "list": _list,
    "max": _reduced("max", max),
    "min": _reduced("min", min),
    "print": _print,
    "range": range,
    "str": _known(str),
    "tuple": _list,
    "type": _type,
}
"""Builtins of kernels, by name."""

OWN = frozenset(f for name, f in BUILTINS.items() if name != "range")
"""Builtins that take values of the kernel as they are, not plain Python values."""
