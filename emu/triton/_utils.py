"""Small functions that programs import from ``triton._utils``: spellings of dtypes, nested tuples, shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from emu.triton.formats import BY_NAME, FORMATS
from emu.triton.language.types import MAX_NUMEL, tuple_type
from emu.triton.language.values import tuple as language_tuple

TRITON_MAX_TENSOR_NUMEL = MAX_NUMEL
Path: TypeAlias = tuple[int, ...]

_ALIASES = {
    "bool": "u1",
    "i1": "u1",
    "int1": "u1",
    "uint1": "u1",
    "half": "fp16",
    "float": "fp32",
    "double": "fp64",
    "int": "i32",
    "void": "void",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2": "fp8e5",
    "float8_e5m2fnuz": "fp8e5b16",
}

type_canonicalisation_dict: dict[str, str] = {
    **{f.language_name: f.spelling for f in FORMATS},
    **{f.spelling: f.spelling for f in FORMATS},
    **_ALIASES,
    "u1": "u1",
}
"""Spelling in a signature of each name of a dtype; booleans are ``u1`` there."""

BITWIDTH_DICT: dict[str, int] = {
    **{name: f.bits for f in FORMATS for name in (f.spelling, f.name, f.language_name)},
    **dict.fromkeys(("bool", "u1", "uint1"), BY_NAME["int1"].bits),
    "void": 0,
}
"""Width in bits of each dtype by its names."""
BITWIDTH_DICT |= {name: BITWIDTH_DICT[short] for name, short in _ALIASES.items()}


def canonicalize_dtype(dtype: object) -> str:
    """Return how a signature spells a dtype.

    Args:
        dtype: A dtype of torch, NumPy or the language, or its name.

    Raises:
        KeyError: Kernels do not know the dtype.
    """
    return type_canonicalisation_dict[str(dtype).rpartition(".")[2]]


def canonicalize_ptr_dtype(dtype: object, is_const: bool) -> str:
    """Return how a signature spells a pointer to a dtype.

    Raises:
        KeyError: Kernels do not know the dtype.
    """
    return f"{'*k' if is_const else '*'}{canonicalize_dtype(dtype)}"


def get_primitive_bitwidth(dtype: str) -> int:
    """Return the width of a dtype in bits.

    Raises:
        KeyError: There is no such dtype.
    """
    return BITWIDTH_DICT[dtype]


def is_iterable(x: object) -> bool:
    """Return whether a value is a list or a tuple, of Python or of the language."""
    return isinstance(x, (list, tuple, language_tuple, tuple_type))


def is_namedtuple(val: object) -> bool:
    """Return whether a value is a class of named tuples."""
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")


def get_iterable_path(iterable: Any, path: Path) -> Any:
    """Return the item at a path of indices; the value itself for an empty one."""
    return functools.reduce(lambda value, index: value[index], path, iterable)


def set_iterable_path(iterable: Any, path: Path, val: Any) -> None:
    """Put a value at a path of indices of the language's tuples.

    Raises:
        ValueError: The path is empty.
        TypeError: What holds the item is not a tuple of the language.
    """
    if not path:
        raise ValueError("path must have an index, but got ()")
    holder = get_iterable_path(iterable, path[:-1])
    if not isinstance(holder, language_tuple):
        raise TypeError(
            f"iterable must be a tuple of the language, but got {type(holder).__name__}"
        )
    holder.values[path[-1]] = val


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if is_iterable(value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def apply_with_path(value: Any, fn: Callable[[Path, Any], object]) -> None:
    """Call a function with the path and the value of each item of nested tuples."""
    for path, leaf in _leaves(value):
        fn(path, leaf)


def find_paths_if(iterable: Any, pred: Callable[[Path, Any], object]) -> list[Path]:
    """Return the paths of the items of nested tuples for which a function is true, in order."""
    return [path for path, leaf in _leaves(iterable) if pred(path, leaf)]


def is_power_of_two(x: int) -> bool:
    """Return whether an integer is a power of two; 0 and negative ones are not."""
    return x > 0 and x & (x - 1) == 0


def validate_block_shape(shape: Sequence[object]) -> int:
    """Check the shape of a tensor of a kernel, and return the number of its elements.

    Raises:
        TypeError: An extent is not an int.
        ValueError: An extent is not a power of 2, or the tensor has too many elements.
    """
    numel = 1
    for i, extent in enumerate(shape):
        if not isinstance(extent, int):
            kind = type(extent).__name__
            raise TypeError(
                f"Shape element {i} must have type `constexpr[int]`, got `constexpr[{kind}]`"
            )
        numel *= extent
        if not is_power_of_two(extent):
            raise ValueError(f"Shape element {i} must be a power of 2, but got {extent}")
    if numel > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(
            f"numel ({numel}) exceeds triton maximum tensor numel ({TRITON_MAX_TENSOR_NUMEL})"
        )
    return numel
