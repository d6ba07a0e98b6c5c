"""Structs of tiling data: declared in Python, byte for byte those of the C++ macros.

    class Matrix(TilingData):
        mmVar: uint16
        mmArr: uint16[3]

    class Tiling(TilingData):
        blkDim: uint32
        mm: Matrix

    tiling = Tiling(blkDim=8, mm={"mmVar": 1})
    tiling.mm.mmArr[2] = 8
    tiling.set_blkDim(4)
    data = tiling.to_bytes()

``TilingData.define("Tiling", [("blkDim", "uint32_t"), ("mm", Matrix)])`` is the same without a class
statement. For a static checker, which knows nothing of ``uint16[3]``, an array is written
``mmArr: Annotated[list[int], uint16[3]]``.

An instance is its bytes: reading an attribute unpacks them, setting one checks the value and packs
it, and a nested struct or an array is a view of the same bytes.
"""

from __future__ import annotations

import difflib
import inspect
import sys
import types
import typing
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from emu.comm.errors import ArgumentError
from emu.comm.tiling.checks import check_flag, check_integer, check_text
from emu.comm.tiling.layout import STRUCT_ALIGNMENT, Field, Layout, place
from emu.comm.tiling.scalars import C_SCALARS, SCALARS, Array, Scalar, scalar_type
from emu.kernels.core.messages import shown

if TYPE_CHECKING:
    from typing import Self

    import numpy as np
    from typing_extensions import Buffer

S = TypeVar("S", bound="TilingData")

_BUILTINS: dict[type, Scalar] = {float: SCALARS["float32"], bool: SCALARS["boolean"]}
_OWN = ("_memory", "_layout", "_structs", "_template")


class UnknownFieldError(ArgumentError, AttributeError):
    """The struct has no field of this name."""


class TilingData:
    """Base of every struct of tiling data; the annotations of a subclass are its fields.

    Types: ``int8`` … ``uint64``, ``float32`` (a C ``float``; ``float`` means it too), arrays of them
    (``uint16[3]``), and other structs. Beyond the macros' own list there are ``float64``, ``boolean``
    and ``char``; an array of ``char`` is set from text or bytes and read as bytes. Names may also be
    those of C in quotes: ``"uint32_t"``. ``field: uint8 = 1`` gives a default other than zero.

    Each field has an attribute, and each that is no struct the accessors ``set_field(value)`` and
    ``get_field()``. Of the class, the attribute is a ``Field`` with ``offset`` and ``size``. A field
    named like a method (``size``, ``table``) hides it on instances; ``layout_of(struct)`` still
    answers.

    ``==`` compares layouts and bytes, so that a NaN equals itself; names of structs don't matter.

    Args:
        values: Fields that are not to be zero. A nested struct may be given as a dictionary.

    Raises:
        UnknownFieldError: No such field.
        ArgumentError: A value is out of range, not of the type, or an array of another length.
    """

    __slots__ = ("_memory",)
    _layout: ClassVar[Layout] = Layout(name="TilingData", fields=(), size=0, tail=0)
    _structs: ClassVar[Mapping[str, type[TilingData]]] = {}
    _template: ClassVar[bytes] = b""
    size: ClassVar[int] = 0
    """Bytes of the struct, padding included."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init_subclass__(cls, *, pack: int | None = None, **options: object) -> None:
        """Make the layout of the annotated fields.

        Args:
            pack: Largest alignment of a field, as of ``#pragma pack``. Default: 8, the macros' rule.
            options: For other base classes.
        """
        super().__init_subclass__(**options)
        caller = sys._getframe(1)
        _declare(cls, _annotated(cls, caller), pack)

    def __init__(self, /, **values: object) -> None:
        if not self._layout.fields:
            raise ArgumentError(f"struct {type(self).__name__} must declare fields, but has none")
        self._memory = memoryview(bytearray(self._template))
        for name, value in values.items():
            setattr(self, name, value)

    @classmethod
    def define(
        cls,
        name: str,
        fields: Iterable[Sequence[Any]],
        *,
        pack: int | None = None,
        module: str | None = None,
    ) -> type[Self]:
        """Declare a struct without a class statement.

        Args:
            name: Of the struct.
            fields: ``(name, type)`` or, for an array, ``(name, type, count)``, in order.
            pack: Largest alignment of a field. Default: 8.
            module: Where the struct is to be found by pickle. Default: the caller's module.

        Returns:
            A subclass of this class.

        Raises:
            ArgumentError: A name or a type can't be one, or a name occurs twice.
        """
        members: dict[str, object] = {}
        if not check_text(name, "name").isidentifier():
            raise ArgumentError(f"name must be an identifier, but got {shown(name)}")
        if module is not None:
            check_text(module, "module")
        for item in _listed(fields):
            if not isinstance(item, list | tuple) or len(item) not in {2, 3}:
                raise ArgumentError(
                    f"fields of {name} must be (name, type) or (name, type, count), "
                    f"but got {shown(item)}"
                )
            member = check_text(item[0], f"name of a field of {name}")
            kind = _as_type(item[1], f"{name}.{member}")
            if len(item) == 3:
                if not isinstance(kind, Scalar):
                    raise ArgumentError(
                        f"elements of field {name}.{member} must be scalars, but got {kind}"
                    )
                kind = kind[item[2]]
            if member in members:
                raise ArgumentError(
                    f"fields of {name} must have different names, but got two {member}"
                )
            members[member] = kind
        body = {
            "__annotations__": members,
            "__module__": module or sys._getframe(1).f_globals.get("__name__", __name__),
        }
        options = {} if pack is None else {"pack": pack}
        return types.new_class(name, (cls,), options, lambda space: space.update(body))

    @classmethod
    def layout(cls) -> Layout:
        """Return the fields with their offsets and sizes."""
        return cls._layout

    @classmethod
    def offsets(cls) -> dict[str, int]:
        """Return the offset of each scalar and array; those of nested structs are named ``mm.mmVar``."""
        return cls._layout.offsets()

    @classmethod
    def dtype(cls) -> np.dtype[np.generic]:
        """Return the NumPy structured dtype with exactly these offsets and this size."""
        return cls._layout.dtype()

    @classmethod
    def from_bytes(cls, buffer: Buffer, *, offset: int = 0, strict: bool = False) -> Self:
        """Read a struct.

        Args:
            buffer: Bytes, or contiguous memory such as an array. What follows the struct in it is
                left alone: tiling data is read from the front of larger buffers.
            offset: Where the struct starts.
            strict: Refuse bytes behind the struct and padding that is not zero. By default the
                values under padding are dropped.

        Returns:
            A struct with bytes of its own.

        Raises:
            ArgumentError: The buffer is too short; with ``strict``, too long or with dirty padding.
        """
        layout, strict = cls._layout, check_flag(strict, "strict")
        data = as_bytes(buffer, offset)
        if len(data) < layout.size:
            raise ArgumentError(
                f"buffer must hold the {layout.size} bytes of {layout.name}, but got {len(data)}"
            )
        if strict and len(data) > layout.size:
            raise ArgumentError(
                f"buffer must be exactly the {layout.size} bytes of {layout.name}, "
                f"but got {len(data)}"
            )
        memory = bytearray(data[: layout.size])
        for start, size, name in layout.dirty_padding(memory):
            if strict:
                raise ArgumentError(
                    f"padding {name} of {layout.name} must be zero, "
                    f"but got {memory[start : start + size].hex(' ')} at offset {start}"
                )
            memory[start : start + size] = bytes(size)
        return _over(cls, memoryview(memory))

    def to_bytes(self) -> bytes:
        """Return the struct's bytes; all padding is zero."""
        return bytes(self._memory)

    def save_to_buffer(self, buffer: Buffer, capacity: int | None = None) -> int:
        """Write the struct to the front of a buffer.

        Args:
            buffer: Writable contiguous memory: a bytearray, an array, shared memory.
            capacity: Bytes that may be written. Default: the length of the buffer.

        Returns:
            The number of bytes written.

        Raises:
            ArgumentError: The capacity is too small, or more than the buffer has, or the buffer
                cannot be written; it was not touched.
        """
        target = _view(buffer)
        if target.readonly:
            raise ArgumentError("buffer must be writable, but is read-only")
        name, size = self._layout.name, self._layout.size
        capacity = len(target) if capacity is None else check_integer(capacity, "capacity")
        if capacity > len(target):
            raise ArgumentError(
                f"capacity must be at most the {len(target)} bytes of the buffer, but got {capacity}"
            )
        if capacity < size:
            raise ArgumentError(f"capacity must be at least {size} for {name}, but got {capacity}")
        target[:size] = self._memory
        return size

    def to_dict(self) -> dict[str, Any]:
        """Return the values by name: lists for arrays, dictionaries for nested structs."""
        return {
            item.name: TilingData.to_dict(value)
            if isinstance(value, TilingData)
            else list(value)
            if isinstance(value, Sequence) and not isinstance(value, bytes)
            else value
            for item, value in ((item, getattr(self, item.name)) for item in self._layout.fields)
        }

    def table(self) -> str:
        """Return a table of offset, size, type, field and value, paddings included, as text."""
        return self._layout.table(self._memory)

    def copy(self) -> Self:
        """Return a struct of the same values with bytes of its own."""
        return _over(type(self), memoryview(bytearray(self._memory)))

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Self:
        return TilingData.copy(self)

    def __reduce__(
        self,
    ) -> tuple[Callable[[type[TilingData], bytes], TilingData], tuple[type[Self], bytes]]:
        return _restore, (type(self), bytes(self._memory))

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._layout.by_name and name != "_memory":
            raise _unknown(self._layout, name)
        object.__setattr__(self, name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an error that names the fields; only called where there is no such attribute."""
            if name.startswith("__"):
                raise AttributeError(name)
            raise _unknown(self._layout, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TilingData):
            return NotImplemented
        return self._layout == other._layout and self._memory == other._memory

    __hash__ = None  # type: ignore[assignment] # mutable

    def __repr__(self) -> str:
        start = _over(type(self), memoryview(self._template))
        shown = (
            f"{item.name}={getattr(self, item.name)!r}"
            for item in self._layout.fields
            if getattr(self, item.name) != getattr(start, item.name)
        )
        return f"{type(self).__name__}({', '.join(shown)})"


class _Attribute:
    """The descriptor behind a field."""

    def __init__(self, item: Field, struct: type[TilingData] | None, where: str) -> None:
        self.field = item
        self.struct = struct
        self.where = where

    def __get__(self, owner: TilingData | None, kind: type[TilingData]) -> Any:
        item = self.field
        if owner is None:
            return item
        if self.struct is not None:
            return _over(self.struct, owner._memory[item.offset : item.offset + item.size])
        return item.type.read(owner._memory, item.offset, self.where)  # type: ignore[union-attr] # no nested struct here

    def __set__(self, owner: TilingData, value: object) -> None:
        item, struct = self.field, self.struct
        if struct is None:
            item.type.write(owner._memory, item.offset, value, self.where)  # type: ignore[union-attr] # no nested struct here
            return
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            value = struct(**value)
        if not isinstance(value, TilingData) or value._layout != struct._layout:
            raise ArgumentError(
                f"field {self.where} must be a {struct.__name__} or a dictionary of its fields, "
                f"but got {shown(value)}"
            )
        owner._memory[item.offset : item.offset + item.size] = value._memory


def layout_of(struct: type[TilingData] | TilingData) -> Layout:
    """Return the layout of a struct, also where a field is named ``layout``."""
    return _checked(struct)._layout


def structs_of(struct: type[TilingData] | TilingData) -> Mapping[str, type[TilingData]]:
    """Return the nested structs by the names of their fields."""
    return _checked(struct)._structs


def _checked(struct: object) -> type[TilingData] | TilingData:
    if isinstance(struct, TilingData) or (
        isinstance(struct, type) and issubclass(struct, TilingData)
    ):
        return struct
    raise ArgumentError(f"struct must be a struct of tiling data, but got {shown(struct)}")


def as_bytes(buffer: Buffer, offset: int = 0) -> memoryview:
    """View contiguous memory as bytes.

    Args:
        buffer: Bytes, an array, or other contiguous memory.
        offset: Where to start.

    Returns:
        A view of what is there from ``offset`` on.

    Raises:
        ArgumentError: It is no contiguous memory, or ``offset`` lies outside of it.
    """
    view, offset = _view(buffer), check_integer(offset, "offset")
    if not 0 <= offset <= len(view):
        raise ArgumentError(f"offset must be in [0, {len(view)}], but got {offset}")
    return view[offset:]


def _view(buffer: Buffer) -> memoryview:
    try:
        view = memoryview(buffer)
    except (TypeError, ValueError):
        kind = type(buffer).__name__
        raise ArgumentError(f"buffer must be bytes or an array, but got {kind}") from None
    if not view.c_contiguous:
        raise ArgumentError("buffer must be contiguous, but has gaps between its elements")
    if "O" in view.format:
        raise ArgumentError("buffer must hold plain bytes, but holds references to Python objects")
    if not view.nbytes:
        return memoryview(bytearray())
    try:
        return view.cast("B")
    except TypeError:  # elements of several fields, or of another byte order
        import numpy as np

        return np.asarray(buffer).reshape(-1).view(np.uint8).data


def _over(cls: type[S], memory: memoryview) -> S:
    """Make an instance on bytes that exist."""
    result = cls.__new__(cls)
    object.__setattr__(result, "_memory", memory)
    return result


def _restore(cls: type[TilingData], data: bytes) -> TilingData:
    return _over(cls, memoryview(bytearray(data)))


def _unknown(layout: Layout, name: str) -> UnknownFieldError:
    near = difflib.get_close_matches(name, layout.by_name, n=1, cutoff=0.7)
    names = ", ".join(layout.by_name) if len(layout.fields) <= 8 else f"its {len(layout.fields)}"
    hint = f"; did you mean {near[0]}?" if near else ""
    return UnknownFieldError(
        f"field of {layout.name} must be one of {names}, but got {name!r}{hint}"
    )


def _listed(fields: Any) -> list[Any]:
    if isinstance(fields, str | bytes | Mapping):
        raise ArgumentError(f"fields must be a list of (name, type), but got {shown(fields)}")
    try:
        return list(fields)
    except TypeError:
        raise ArgumentError(
            f"fields must be a list of (name, type), but got {shown(fields)}"
        ) from None


def _annotated(cls: type[TilingData], caller: types.FrameType) -> dict[str, object]:
    """Return the annotations of the class itself, those in quotes evaluated where it is declared."""
    # A field may be named like a type or a method; only what surrounds the class counts.
    names: ChainMap[str, object] = ChainMap(
        dict(caller.f_locals), dict(caller.f_globals), dict(SCALARS), dict(C_SCALARS)
    )
    result = {}
    for name, kind in inspect.get_annotations(cls).items():
        if isinstance(kind, str):
            where = f"{cls.__name__}.{name}"
            kind = scalar_type(kind) or _evaluate(kind, names, where)
        origin: object = typing.get_origin(kind)
        if kind is not ClassVar and origin is not ClassVar:
            result[name] = kind
    return result


def _evaluate(text: str, names: Mapping[str, object], where: str) -> object:
    try:
        return eval(text, {}, names)
    except Exception as error:  # noqa: BLE001 - an annotation can raise what it likes
        raise ArgumentError(
            f"type of field {where} must be a name that is known here, but got {text!r} ({error})"
        ) from None


def _as_type(kind: object, where: str) -> Scalar | Array | type[TilingData]:
    """Return the Scalar, Array or struct class that the type of a field stands for."""
    metadata = getattr(kind, "__metadata__", ())  # of typing.Annotated
    kind = next((item for item in metadata if isinstance(item, Scalar | Array)), kind)
    found = scalar_type(kind) if isinstance(kind, str) else kind
    if isinstance(found, type):
        found = _BUILTINS.get(found, found)
        if isinstance(found, type) and issubclass(found, TilingData):
            return found
    if isinstance(found, Scalar | Array):
        return found
    raise ArgumentError(
        f"type of field {where} must be one of {', '.join(C_SCALARS)}, an array of one, "
        f"or a struct declared before, but got {shown(kind)}"
    )


def _declare(cls: type[TilingData], annotations: Mapping[str, object], pack: int | None) -> None:
    """Set the class's layout, attributes, accessors and initial bytes."""
    base = cls._layout
    pack = base.pack if pack is None else pack
    if check_integer(pack, "pack") not in {1, 2, 4, STRUCT_ALIGNMENT}:
        raise ArgumentError(f"pack must be 1, 2, 4 or 8, but got {pack}")
    structs = dict(cls._structs)
    members = [(item.name, item.type) for item in base.fields]
    for name, annotation in annotations.items():
        where = f"{cls.__name__}.{name}"
        _check_name(name, where)
        kind = _as_type(annotation, where)
        if isinstance(kind, type):
            structs[name] = kind
            members.append((name, kind._layout))
        else:
            members.append((name, kind))
    defaults = {name: cls.__dict__[name] for name in annotations if name in cls.__dict__}
    cls._layout = place(cls.__name__, members, pack)
    cls._structs = structs
    memory = bytearray(cls._layout.size)
    for item in base.fields:
        place_there = cls._layout.by_name[item.name].offset
        inherited = cls._template[item.offset : item.offset + item.size]
        memory[place_there : place_there + item.size] = inherited
    cls.size = cls._layout.size
    for item in cls._layout.fields:
        struct = structs.get(item.name)
        setattr(cls, item.name, _Attribute(item, struct, f"{cls.__name__}.{item.name}"))
        if struct is None:
            _add_accessors(cls, item.name)
        elif item.name in annotations:
            memory[item.offset : item.offset + item.size] = struct._template
    start = _over(cls, memoryview(memory))
    for name, value in defaults.items():
        setattr(start, name, value)
    cls._template = bytes(memory)


def _check_name(name: str, where: str) -> None:
    good = name.isidentifier() and name.isascii()
    if not good or name in _OWN or (name.startswith("__") and name.endswith("__")):
        raise ArgumentError(f"name of field {where} must be an identifier of C, but got {name!r}")


def _add_accessors(cls: type[TilingData], name: str) -> None:
    """Add the methods that the C++ class has."""

    def getter(self: TilingData) -> object:
        return getattr(self, name)

    def setter(self: TilingData, value: object) -> None:
        setattr(self, name, value)

    for prefix, function, does in (("get_", getter, "Return"), ("set_", setter, "Set")):
        if not hasattr(cls, prefix + name) and prefix + name not in cls._layout.by_name:
            function.__name__ = prefix + name
            function.__qualname__ = f"{cls.__qualname__}.{prefix}{name}"
            function.__doc__ = f"{does} ``{name}``, as the C++ class does."
            setattr(cls, prefix + name, function)
