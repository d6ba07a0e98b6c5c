"""Bare base classes of types and attributes.

They stand below both, because a tensor type holds an attribute (its encoding) and most attributes
hold a type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def _remembered(compute: Callable[[Any], int]) -> Callable[[Any], int]:
    def remembered_hash(self: Any) -> int:
        try:
            return self._hash  # type: ignore[no-any-return]  # set below
        except AttributeError:
            found = compute(self)
            object.__setattr__(self, "_hash", found)  # the dataclass is frozen
            return found

    return remembered_hash


class Hashed:
    """Base of data that computes its hash once.

    Types and attributes are keys of the tables of the parser, the printer, the verifier and of
    propagation, and their trees are deep: without this, most of the time of a look-up is the hash.
    """

    __slots__ = ("_hash",)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # A dataclass with slots is made twice; the second time it has its hash.
        compute = cls.__dict__.get("__hash__")
        if compute is not None:
            cls.__hash__ = _remembered(compute)  # type: ignore[method-assign,assignment]


@dataclass(frozen=True, slots=True)
class Type(Hashed):
    """Base of all types, those of dialects included."""


@dataclass(frozen=True, slots=True)
class Attribute(Hashed):
    """Base of all attributes, those of dialects included."""
