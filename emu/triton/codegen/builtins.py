"""Python's builtin functions, as kernels have them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from emu.triton import language
from emu.triton.codegen.values import constexpr, is_tensor, normalize, tensor, tuple, unwrap
from emu.triton.language.arithmetic import known_extreme


def _reduced(name: str) -> Callable[..., object]:
    def apply(*values: object, propagate_nan: object = None) -> object:
        if len(values) == 1 and not is_tensor(values[0]):
            single = unwrap(values[0])
            values = builtins.tuple(single.values if isinstance(single, tuple) else single)
        if not any(is_tensor(v) for v in values):
            return constexpr(known_extreme(name, [unwrap(v) for v in values]))
        if len(values) < 2:
            raise TypeError(
                f"{name} needs at least two values, but got one tensor; tl.{name}(x, axis) reduces one"
            )
        combine = getattr(language, f"{name}imum")
        keywords = {} if propagate_nan is None else {"propagate_nan": propagate_nan}
        result = values[0]
        for value in values[1:]:
            result = combine(result, value, **keywords)
        return result

    apply.__name__ = name
    return apply


def _known(function: Callable[..., object]) -> Callable[..., object]:
    """Return a builtin that takes and returns values known at compile time."""

    def apply(*values: object, **keywords: object) -> object:
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


def _len(value: object) -> constexpr:
    plain = unwrap(value)
    if isinstance(plain, tensor):
        if not plain.shape:
            what = (
                "an address; pass the length as an argument" if plain.dtype.is_ptr() else "a scalar"
            )
            raise TypeError(f"len() needs a tuple or a tensor with a shape, but got {what}")
        return constexpr(unwrap(plain.shape[0]))
    return constexpr(len(plain))


# In a kernel these names are functions of this module.
_CLASSES: dict[str, type] = {"float": float, "int": int, "list": list}


def _class(kind: Any) -> type:
    """Return the class that a name of a kernel stands for."""
    return kind if isinstance(kind, type) else _CLASSES.get(getattr(kind, "__name__", ""), kind)


def _isinstance(value: object, kinds: object) -> constexpr:
    kinds = unwrap(kinds)
    flat = (
        builtins.tuple(map(unwrap, kinds)) if isinstance(kinds, tuple | builtins.tuple) else kinds
    )
    listed = flat if isinstance(flat, builtins.tuple) else (flat,)
    real = builtins.tuple(map(_class, listed))
    return constexpr(isinstance(value, real) or isinstance(unwrap(value), real))


def _getattr(value: object, name: object, *default: object) -> object:
    value = unwrap(value)
    return normalize(getattr(value, unwrap(name), *default))


def _hasattr(value: object, name: object) -> constexpr:
    return constexpr(hasattr(unwrap(value), unwrap(name)))


def _type(value: object) -> type:
    return type(unwrap(value))


def _abs(value: object) -> object:
    if not is_tensor(value):
        return constexpr(abs(unwrap(value)))
    return language.abs(value)


def _list(values: object) -> tuple:
    plain = unwrap(values)
    return tuple(list(plain.values if isinstance(plain, tuple) else map(normalize, plain)))


BUILTINS: dict[str, Callable[..., object]] = {
    "abs": _abs,
    "bool": _known(bool),
    "float": _known(float),
    "getattr": _getattr,
    "hasattr": _hasattr,
    "int": _known(int),
    "isinstance": _isinstance,
    "len": _len,
    "list": _list,
    "max": _reduced("max"),
    "min": _reduced("min"),
    "print": language.device_print,
    "range": range,
    "str": _known(str),
    "tuple": _list,
    "type": _type,
}
"""Builtins of kernels, by name."""

OWN = frozenset(f for name, f in BUILTINS.items() if name != "range")
"""Builtins that take values of the kernel as they are, not plain Python values."""
