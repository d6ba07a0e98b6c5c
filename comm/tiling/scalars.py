"""Types of the fields of tiling data: scalars and arrays of them, little-endian."""

from __future__ import annotations

import math
import operator
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeGuard

from emu.comm.errors import ArgumentError
from emu.kernels.core.messages import shown

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Number = int | float

_FLOAT_MAX = 3.4028234663852886e38


@dataclass(frozen=True)
class Scalar:
    """A number, a truth value or a character of fixed size; ``uint16[3]`` is an array of three."""

    name: str
    """As in Python annotations: ``uint32``."""
    c_name: str
    """As in C: ``uint32_t``."""
    numpy_name: str
    """As a NumPy format: ``<u4``."""
    format: struct.Struct = field(compare=False, repr=False)
    check: Callable[[object, str], Number | bytes] = field(compare=False, repr=False)
    """Function of a value and the field's name that returns the value to pack, or raises ArgumentError."""

    @property
    def size(self) -> int:
        """Bytes, which is the alignment too."""
        return self.format.size

    def __getitem__(self, count: int) -> Array:
        return Array(self, count)

    def __str__(self) -> str:
        return self.c_name

    def read(self, memory: memoryview, offset: int, where: str = "") -> Any:
        """Return the value at ``offset``; a character NUL is empty bytes."""
        value = self.format.unpack_from(memory, offset)[0]
        return value.rstrip(b"\0") if self.name == "char" else value

    def write(self, memory: memoryview, offset: int, value: object, where: str) -> None:
        """Store ``value`` at ``offset``.

        Args:
            memory: Writable bytes.
            offset: Where in them.
            value: What to store.
            where: Name of the field, for the error.

        Raises:
            ArgumentError: The value is not one of this type; nothing was changed.
        """
        self.format.pack_into(memory, offset, self.check(value, where))


@dataclass(frozen=True)
class Array:
    """``count`` scalars of one type, one behind the other, without padding between them."""

    element: Scalar
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.element, Scalar):
            raise ArgumentError(
                f"element of an array must be a scalar type, but got {shown(self.element)}"
            )
        if not isinstance(self.count, int) or isinstance(self.count, bool) or self.count < 1:
            raise ArgumentError(
                f"length of an array must be a whole number of at least 1, but got {shown(self.count)}"
            )

    @property
    def size(self) -> int:
        """Bytes of the whole array; its alignment is the size of an element."""
        return self.element.size * self.count

    def __str__(self) -> str:
        return f"{self.element.c_name}[{self.count}]"

    def read(self, memory: memoryview, offset: int, where: str = "") -> Any:
        """Return a view of the elements; of characters the bytes without the zeros at the end."""
        if self.element.name == "char":
            return bytes(memory[offset : offset + self.count]).rstrip(b"\0")
        return ArrayView(self, memory, offset, where)

    def write(self, memory: memoryview, offset: int, value: object, where: str) -> None:
        """Store a sequence of exactly ``count`` elements, or a text of at most that many bytes.

        Args:
            memory: Writable bytes.
            offset: Where in them.
            value: The elements; for characters ``str`` (stored as UTF-8) or bytes, filled with zeros.
            where: Name of the field, for the error.

        Raises:
            ArgumentError: Wrong length, or an element is not of the type; nothing was changed.
        """
        memory[offset : offset + self.size] = self._encode(value, where)

    def _encode(self, value: object, where: str) -> bytes:
        if self.element.name == "char":
            text = _utf8(value, where) if isinstance(value, str) else value
            if not isinstance(text, bytes | bytearray):
                raise ArgumentError(f"field {where} must be text or bytes, but got {shown(value)}")
            if len(text) > self.count:
                raise ArgumentError(
                    f"field {where} must have at most {self.count} bytes, but got {len(text)}"
                )
            return bytes(text).ljust(self.count, b"\0")
        if isinstance(value, str | bytes | Mapping | AbstractSet) or not _is_sized(value):
            raise ArgumentError(
                f"field {where} must be a sequence of {self.count} elements, but got {shown(value)}"
            )
        if len(value) != self.count:
            raise ArgumentError(
                f"field {where} must have {self.count} elements, but got {len(value)}"
            )
        pack, check = self.element.format.pack, self.element.check
        return b"".join(pack(check(item, f"{where}[{i}]")) for i, item in enumerate(value))


class ElementError(ArgumentError, IndexError):
    """An array field has no such element."""


class ArrayView(Sequence[Any]):
    """The elements of an array field, in the struct's own bytes; assigned values are checked."""

    __slots__ = ("_array", "_memory", "_offset", "_where")

    def __init__(self, array: Array, memory: memoryview, offset: int, where: str = "") -> None:
        self._array = array
        self._memory = memory
        self._offset = offset
        self._where = where

    def __len__(self) -> int:
        return self._array.count

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if not isinstance(index, slice):
            return self.tolist()[self._position(index)]
        try:
            return self.tolist()[index]
        except (TypeError, ValueError):
            raise self._bad_slice(index) from None

    def __setitem__(self, index: SupportsIndex | slice, value: object) -> None:
        if isinstance(index, slice):
            elements = self.tolist()
            if not _is_sized(value):
                raise ArgumentError(
                    f"elements {shown(index)} of field {self._where} must be set to a sequence, "
                    f"but got {shown(value)}"
                )
            try:
                elements[index] = value  # of another length: refused with the array's length
            except (TypeError, ValueError):
                raise self._bad_slice(index) from None
            self._array.write(self._memory, self._offset, elements, self._where)
            return
        position = self._position(index)
        element = self._array.element
        where = f"{self._where}[{position}]"
        element.write(self._memory, self._offset + position * element.size, value, where)

    def _position(self, index: SupportsIndex) -> int:
        try:
            number = operator.index(index)
        except TypeError:
            raise ArgumentError(
                f"index of field {self._where} must be a whole number or a slice, "
                f"but got {shown(index)}"
            ) from None
        if not -len(self) <= number < len(self):
            raise ElementError(
                f"index of field {self._where} must be in [{-len(self)}, {len(self)}), "
                f"but got {number}"
            )
        return number % len(self)

    def _bad_slice(self, index: slice) -> ArgumentError:
        return ArgumentError(
            f"slice of field {self._where} must have whole numbers, a step other than 0, and as many "
            f"elements as it is set to where it has a step, but got {shown(index)}"
        )

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return self.tolist() == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment] # mutable

    def __repr__(self) -> str:
        return repr(self.tolist())

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[np.generic]:
        import numpy as np

        own = np.frombuffer(
            self._memory, self._array.element.numpy_name, self._array.count, self._offset
        )
        return np.array(own, dtype=dtype, copy=copy)

    def tolist(self) -> list[Any]:
        """Return the elements as a list of Python numbers."""
        code = f"<{self._array.count}{self._array.element.format.format[-1:]}"
        return list(struct.unpack_from(code, self._memory, self._offset))


def _integer(low: int, high: int) -> Callable[[object, str], int]:
    def check(value: Any, where: str) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            raise ArgumentError(
                f"field {where} must be a whole number in [{low}, {high}], but got {shown(value)}"
            ) from None
        if not low <= number <= high:
            raise ArgumentError(f"field {where} must be in [{low}, {high}], but got {number}")
        return number

    return check


def _real(bound: float) -> Callable[[object, str], float]:
    def check(value: Any, where: str) -> float:
        if isinstance(value, str | bytes) or hasattr(value, "__len__"):
            raise ArgumentError(f"field {where} must be a number, but got {shown(value)}")
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ArgumentError(f"field {where} must be a number, but got {shown(value)}") from None
        except OverflowError:  # a whole number beyond the largest double
            pass
        else:
            if not math.isfinite(number) or _fits(number, bound):
                return number
        raise ArgumentError(
            f"field {where} must be in [{-bound:.8g}, {bound:.8g}], infinite or NaN, "
            f"but got {shown(value)}"
        )

    return check


def _fits(number: float, bound: float) -> bool:
    """Return whether rounding to the type leaves the number finite."""
    if bound != _FLOAT_MAX:
        return True
    try:
        struct.pack("<f", number)
    except OverflowError:
        return False
    return True


def _truth(value: Any, where: str) -> bool:
    try:
        number = int(value) if not isinstance(value, str | bytes | float) else -1
    except (TypeError, ValueError):
        number = -1
    if number not in {0, 1}:
        raise ArgumentError(f"field {where} must be true or false, but got {shown(value)}")
    return bool(number)


def _utf8(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(
            f"field {where} must be text without lone surrogates, but got {shown(text)}"
        ) from None


def _is_sized(value: Any) -> TypeGuard[Sequence[object]]:
    """Return whether a value has a length and elements; a NumPy scalar has neither."""
    try:
        len(value)
        iter(value)
    except TypeError:
        return False
    return True


def _character(value: object, where: str) -> bytes:
    text = _utf8(value, where) if isinstance(value, str) else value
    if not isinstance(text, bytes) or len(text) > 1:
        raise ArgumentError(f"field {where} must be one character, but got {shown(value)}")
    return text or b"\0"


def _scalars() -> Iterator[Scalar]:
    for bits, code in ((8, "b"), (16, "h"), (32, "i"), (64, "q")):
        top = 1 << (bits - 1)
        for name, letter, low, high in (
            (f"int{bits}", code, -top, top - 1),
            (f"uint{bits}", code.upper(), 0, 2 * top - 1),
        ):
            numpy_name = f"<{name[0]}{bits // 8}"
            layout = struct.Struct(f"<{letter}")
            yield Scalar(name, f"{name}_t", numpy_name, layout, _integer(low, high))
    yield Scalar("float32", "float", "<f4", struct.Struct("<f"), _real(_FLOAT_MAX))
    yield Scalar("float64", "double", "<f8", struct.Struct("<d"), _real(1.7976931348623157e308))
    yield Scalar("boolean", "bool", "?", struct.Struct("<?"), _truth)
    yield Scalar("char", "char", "S1", struct.Struct("<c"), _character)


SCALARS: dict[str, Scalar] = {scalar.name: scalar for scalar in _scalars()}
"""Every scalar type by its Python name."""

C_SCALARS: dict[str, Scalar] = {scalar.c_name: scalar for scalar in SCALARS.values()}
"""The same by their names in C."""

if TYPE_CHECKING:  # what an attribute of that type is for whoever reads it
    int8 = int
    int16 = int
    int32 = int
    int64 = int
    uint8 = int
    uint16 = int
    uint32 = int
    uint64 = int
    float32 = float
    float64 = float
    boolean = bool
    char = bytes
else:
    int8, int16, int32, int64 = (SCALARS[f"int{bits}"] for bits in (8, 16, 32, 64))
    uint8, uint16, uint32, uint64 = (SCALARS[f"uint{bits}"] for bits in (8, 16, 32, 64))
    float32, float64 = SCALARS["float32"], SCALARS["float64"]
    boolean, char = SCALARS["boolean"], SCALARS["char"]


def scalar_type(name: str) -> Scalar | Array | None:
    """Return the type of that C or Python name, ``uint32_t`` or ``uint16_t[3]``; None if unknown."""
    match = re.fullmatch(r"\s*(?:std\s*::\s*)?(\w+)\s*(?:\[\s*(\d+)\s*\])?\s*", name)
    if match is None:
        return None
    scalar = C_SCALARS.get(match[1]) or SCALARS.get(match[1])
    if scalar is None or match[2] is None:
        return scalar
    return scalar[int(match[2])]
