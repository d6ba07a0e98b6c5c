"""MLIR types as plain, frozen, hashable, picklable data.

``str(type)`` is the text that MLIR prints. A type of a dialect that is not registered is kept as
its text (``DialectType``), so that it passes unchanged.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeGuard

from emu.mlir.base import Attribute
from emu.mlir.base import Type as Type  # noqa: PLC0414  # offered with its subclasses
from emu.mlir.floats import FORMATS
from emu.mlir.literals import integer_of

_INTEGER = re.compile(r"(si|ui|i)([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class IntegerType(Type):
    """``i32`` (signedness ""), ``si8`` ("s"), ``ui8`` ("u")."""

    width: int
    signedness: str = ""

    def __str__(self) -> str:
        return f"{self.signedness}i{self.width}"


@dataclass(frozen=True, slots=True)
class FloatType(Type):
    """``f32``, ``bf16``, ``f8E4M3FN`` …: the name is the type."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class IndexType(Type):
    """``index``."""

    def __str__(self) -> str:
        return "index"


@dataclass(frozen=True, slots=True)
class NoneType(Type):
    """``none``."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class ComplexType(Type):
    """``complex<f32>``."""

    element: Type

    def __str__(self) -> str:
        return f"complex<{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """``tensor<4x?xf32>``; a dynamic dimension is None."""

    shape: tuple[int | None, ...]
    element: Type
    encoding: Attribute | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return None not in self.shape

    @property
    def size(self) -> int:
        """Number of elements; raises ValueError where a dimension is dynamic."""
        return math.prod(self.static_shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """Shape without None; raises ValueError where a dimension is dynamic."""
        if None in self.shape:
            raise ValueError(f"{self} has no static shape")
        return self.shape  # type: ignore[return-value]  # just checked

    def __str__(self) -> str:
        dims = "".join("?x" if d is None else f"{d}x" for d in self.shape)
        tail = "" if self.encoding is None else f", {self.encoding}"
        return f"tensor<{dims}{self.element}{tail}>"


@dataclass(frozen=True, slots=True)
class UnrankedTensorType(Type):
    """``tensor<*xf32>``."""

    element: Type

    def __str__(self) -> str:
        return f"tensor<*x{self.element}>"


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """``tuple<tensor<f32>, i32>``."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclass(frozen=True, slots=True)
class FunctionType(Type):
    """``(i32, f32) -> i1``."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        # A single result needs parentheses if it is a function type: `->` groups to the right.
        if len(self.results) != 1 or isinstance(self.results[0], FunctionType):
            results = f"({results})"
        return f"({', '.join(map(str, self.inputs))}) -> {results}"


@dataclass(frozen=True, slots=True)
class DialectType(Type):
    """A type of a dialect, kept as text: ``!stablehlo.token``.

    Attributes:
        dialect: The name before the first dot.
        body: What follows the dot, angle brackets included. Types whose text
            does not start with "!" in MLIR (``vector<4xf32>``,
            ``memref<4xf32>``) have the dialect "" and the whole text here.
    """

    dialect: str
    body: str

    def __str__(self) -> str:
        return f"!{self.dialect}.{self.body}" if self.dialect else self.body


def is_static_tensor(type_: Type) -> TypeGuard[TensorType]:
    """Return whether a type is a ranked tensor of which every dimension is known."""
    return isinstance(type_, TensorType) and None not in type_.shape


@lru_cache(maxsize=4096)
def scalar_type(text: str) -> Type | None:
    """Return the type that one word names (``f32``, ``i1``, ``index``), or None."""
    # A leading zero is no width: `i08` is not a type.
    if text in FORMATS:
        return FloatType(text)
    if match := _INTEGER.fullmatch(text):
        return IntegerType(integer_of(match[2]), match[1][:-1])
    if text == "index":
        return IndexType()
    return NoneType() if text == "none" else None
