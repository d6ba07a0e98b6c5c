"""Types of Triton's language: dtypes, pointers, blocks, tuples."""

from __future__ import annotations

import builtins
import enum
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self, SupportsIndex, TypeAlias

from emu.tile import types as tile
from emu.triton import formats
from emu.triton.language.constants import ConstexprLike, base_type, constexpr_type, unwrap

MAX_NUMEL = 1 << 20
"""Maximum number of elements of a tensor, as in Triton."""


class dtype(base_type):
    """Dtype of an element, and base of pointer and block types.

    There is one object for each dtype of an element: kernels compare them with ``is``.

    Attributes:
        name: Triton's short name: ``int32``, ``fp16``, ``bf16``, ``fp8e5``.
        primitive_bitwidth: Width in bits; 1 for ``int1``, 0 for ``void``.
        itemsize: ``primitive_bitwidth // 8``.
    """

    SINT_TYPES = formats.names(tile.Kind.INT)
    # int1 counts as unsigned, as in Triton: comparisons and shifts of it must not extend a sign.
    UINT_TYPES = formats.names(tile.Kind.BOOL, tile.Kind.UINT)
    FP_TYPES = formats.names(tile.Kind.FLOAT)
    STANDARD_FP_TYPES = tuple(n for n in FP_TYPES if formats.BY_NAME[n].bits > 8)
    OTHER_TYPES = ("void",)

    class SIGNEDNESS(enum.Enum):
        """Whether an integer has a sign; ``int1`` has none."""

        SIGNED = 0
        UNSIGNED = 1

    class KIND(enum.Enum):
        """Kinds of dtypes, in the order of promotion."""

        BOOLEAN = 0
        INTEGRAL = 1
        FLOATING = 2

    _made: ClassVar[dict[object, dtype]] = {}

    def __new__(cls, name: object = None, *_: object, **__: object) -> Self:
        """Return the dtype of that name; pointers and blocks are made anew."""
        plain = unwrap(name)
        if cls is not dtype or not dtype.is_dtype(plain):
            return super().__new__(cls)
        known: Any = dtype._made.setdefault(plain, super().__new__(cls))
        return known  # type: ignore[no-any-return]  # a dtype, and so is cls

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Have copies and what is unpickled be this object, too."""
        return (dtype, (self.name,)) if type(self) is dtype else super().__reduce_ex__(protocol)

    def __init__(self, name: ConstexprLike[str]) -> None:
        plain = unwrap(name)
        if not dtype.is_dtype(plain):
            raise ValueError(f"name must be that of a dtype, but got {plain!r}")
        self.name = str(plain)
        format_ = formats.BY_NAME.get(self.name)  # void has none
        self.primitive_bitwidth: int = 0 if format_ is None else format_.bits
        self.itemsize: int = self.primitive_bitwidth // 8
        if format_ is None:
            return
        if format_.is_float:
            self.fp_mantissa_width = format_.mantissa
            self.exponent_bias = format_.bias
        else:
            signed = format_.kind is tile.Kind.INT
            sign = dtype.SIGNEDNESS
            self.int_signedness = sign.SIGNED if signed else sign.UNSIGNED
            self.int_bitwidth = self.primitive_bitwidth

    @staticmethod
    def is_dtype(name: object) -> bool:
        """Return whether a value is the short name of a dtype."""
        return name in (
            *dtype.SINT_TYPES,
            *dtype.UINT_TYPES,
            *dtype.FP_TYPES,
            *dtype.OTHER_TYPES,
        )

    def is_fp8(self) -> bool:
        """Return whether it is one of the 8-bit floats."""
        return self.name.startswith("fp8")

    def is_floating(self) -> bool:
        """Return whether it is a float."""
        return self.name in dtype.FP_TYPES

    def is_standard_floating(self) -> bool:
        """Return whether it is a float of 16 bits or more."""
        return self.name in dtype.STANDARD_FP_TYPES

    def is_int_signed(self) -> bool:
        """Return whether it is a signed integer."""
        return self.name in dtype.SINT_TYPES

    def is_int_unsigned(self) -> bool:
        """Return whether it is an unsigned integer or ``int1``."""
        return self.name in dtype.UINT_TYPES

    def is_int(self) -> bool:
        """Return whether it is an integer; ``int1`` is one."""
        return self.is_int_signed() or self.is_int_unsigned()

    def is_bool(self) -> bool:
        """Return whether it is ``int1``."""
        return self.name == "int1"

    def kind(self) -> KIND:
        """Return boolean, integral or floating."""
        if self.is_bool():
            return dtype.KIND.BOOLEAN
        return dtype.KIND.INTEGRAL if self.is_int() else dtype.KIND.FLOATING

    def get_int_max_value(self) -> int:
        """Return the largest value of an integer dtype."""
        return (1 << (self.int_bitwidth - self.is_int_signed())) - 1

    def get_int_min_value(self) -> int:
        """Return the smallest value of an integer dtype."""
        return -(1 << (self.int_bitwidth - 1)) if self.is_int_signed() else 0

    def is_void(self) -> bool:
        """Return whether it is the type of no value, as stores have."""
        return self.name == "void"

    def is_block(self) -> bool:
        """Return whether it has a shape."""
        return False

    def is_ptr(self) -> bool:
        """Return whether it is a pointer."""
        return False

    def is_const(self) -> bool:
        """Return whether it is a pointer that must not be stored through."""
        return False

    @property
    def scalar(self) -> dtype:
        """Type of an element."""
        return self

    @property
    def shape(self) -> builtins.tuple[int, ...]:
        """Extents of a block, ``()`` of a scalar."""
        return ()

    @property
    def numel(self) -> int:
        """Number of elements."""
        return 1

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """Return the type of the same shape with other elements."""
        return element_ty

    def to_ir(self, builder: object = None) -> tile.Type:
        """Return the tile IR's type of an element: a byte for an 8-bit float that the IR does not have.

        Raises:
            TypeError: The type has no elements.
        """
        del builder
        format_ = formats.BY_NAME.get(self.name)
        if format_ is None:
            raise TypeError(f"type {self.name} has no elements")
        return format_.stored

    def codegen_name(self) -> str:
        """Return the name in ``triton.language``: ``float32``."""
        format_ = formats.BY_NAME.get(self.name)
        return self.name if format_ is None else format_.language_name

    @property
    def cache_key_part(self) -> str:
        """The type's part of a cache key."""
        return self.name

    def mangle(self) -> str:
        """Return a name of a few letters."""
        if self.is_int():
            return f"{'i' if self.is_int_signed() else 'u'}{self.int_bitwidth}"
        return "V" if self.is_void() else self.name

    def __eq__(self, other: object) -> bool:
        # By exact class: a pointer or block could have the name of a dtype, but is none.
        other = unwrap(other)
        return type(other) is type(self) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"triton.language.{self.codegen_name()}"


def _named(names: Sequence[str]) -> None:
    """Give ``dtype`` a method ``is_<name>`` for each dtype, as Triton's has."""
    for name in names:

        def check(self: dtype, name: str = name) -> bool:
            return self.name == name

        check.__name__ = f"is_{name}"
        check.__doc__ = f"Whether it is ``{name}``."
        setattr(dtype, check.__name__, check)


_named([*dtype.SINT_TYPES, *dtype.UINT_TYPES, *dtype.FP_TYPES])


class pointer_type(dtype):
    """Type of a pointer.

    Attributes:
        element_ty: Type of the elements that it points to.
        address_space: Always ``"global"`` here.
        const: Whether storing through it is refused.
    """

    def __init__(
        self, element_ty: ConstexprLike[dtype], address_space: str = "global", const: bool = False
    ) -> None:
        element = unwrap(element_ty)
        if not isinstance(element, dtype) or element.is_block():
            raise TypeError(f"element_ty must be a dtype, but got {element!r}")
        self.element_ty = element
        self.address_space = unwrap(address_space)
        self.const = bool(unwrap(const))
        self.name = f"{'const_' if self.const else ''}pointer<{element}>"
        self.primitive_bitwidth = 64
        self.itemsize = 8

    def is_ptr(self) -> bool:
        """Return whether it is a pointer."""
        return True

    def is_const(self) -> bool:
        """Return whether storing through it is refused."""
        return self.const

    def to_ir(self, builder: object = None) -> tile.Type:
        """Return the tile IR's type, which does not distinguish const pointers; one to void points to bytes."""
        if self.element_ty.is_void():
            return tile.Pointer(tile.U8)
        element = self.element_ty.to_ir(builder)
        assert isinstance(element, tile.DType | tile.Pointer)
        return tile.Pointer(element)

    def mangle(self) -> str:
        """Return a name of a few letters."""
        return f"P{self.element_ty.mangle()}"

    def __repr__(self) -> str:
        return self.name


class block_type(dtype):
    """Type of a tensor that has a shape.

    Attributes:
        element_ty: Type of an element.
    """

    def __init__(
        self, element_ty: ConstexprLike[dtype], shape: ConstexprLike[Sequence[ConstexprLike[int]]]
    ) -> None:
        element: dtype = unwrap(element_ty)
        extents = builtins.tuple(unwrap(s) for s in unwrap(shape))
        if not extents:
            raise TypeError("shape of a block_type must have at least one extent, but got ()")
        self.element_ty = element
        self._shape = extents
        self._numel = validate_block_shape(extents)
        self.name = f"<{list(extents)}, {element}>"
        self.primitive_bitwidth = element.primitive_bitwidth
        self.itemsize = element.itemsize

    def is_block(self) -> bool:
        """Return whether it has a shape."""
        return True

    @property
    def shape(self) -> builtins.tuple[int, ...]:
        """Extents."""
        return self._shape

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self._numel

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
        return self._numel * (self.element_ty.primitive_bitwidth // 8)

    @property
    def scalar(self) -> dtype:
        """Type of an element."""
        return self.element_ty

    def get_block_shapes(self) -> builtins.tuple[int, ...]:
        """Return the extents."""
        return self._shape

    def with_element_ty(self, element_ty: dtype) -> dtype:
        """Return the type of the same shape with other elements."""
        return block_type(element_ty, self._shape)

    def to_ir(self, builder: object = None) -> tile.Type:
        """Return the tile IR's type."""
        element = self.element_ty.to_ir(builder)
        assert isinstance(element, tile.DType | tile.Pointer)
        return tile.Tile(self._shape, element)

    def mangle(self) -> str:
        """Return a name of a few letters."""
        return f"{self.element_ty.mangle()}S{'_'.join(map(str, self._shape))}S"

    def __repr__(self) -> str:
        return self.name


class tuple_type(base_type):
    """Type of a tuple.

    Attributes:
        types: Those of the items.
        fields: Names of the items of a named tuple, else ``None``.
    """

    def __init__(self, types: Iterable[base_type], fields: Sequence[str] | None = None) -> None:
        self.types = list(types)
        self.fields = None if fields is None else list(fields)

    @property
    def name(self) -> str:
        """Names of the items' types, in brackets."""
        if self.fields is None:
            return "[" + ",".join(str(t) for t in self.types) + "]"
        named = zip(self.fields, self.types, strict=True)
        return "[" + ",".join(f"{f}:{t}" for f, t in named) + "]"

    def __str__(self) -> str:
        return self.name

    def __iter__(self) -> Iterator[base_type]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)

    def __getitem__(self, index: int) -> base_type:
        return self.types[index]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, tuple_type)
            and self.types == other.types
            and self.fields == other.fields
        )

    def __hash__(self) -> int:
        return hash((tuple_type, *self.types))

    def mangle(self) -> str:
        """Return a name of a few letters."""
        return f"T{'_'.join(str(t) for t in self.types)}T"


class slice_type(dtype):
    """Type of a slice."""

    def __init__(self) -> None:
        self.name = "slice_type"
        self.primitive_bitwidth = self.itemsize = 0


def _name_of(value: object) -> str:
    """Return the name of a parameter or variable, where it is known."""
    return getattr(getattr(value, "handle", None), "name", "") or "NAME"


def shown_dtype(given: object) -> str:
    """Return what was given for a dtype, with the language's dtype that was probably meant."""
    given_name = given if isinstance(given, str) else getattr(given, "__name__", str(given))
    name = given_name.rpartition(".")[2]
    name = {"float": "float32", "int": "int32", "bool": "int1", "half": "float16"}.get(name, name)
    known = {dtype(format_.name).codegen_name() for format_ in formats.FORMATS}
    text = repr(given) if isinstance(given, str) else given_name
    return f"{text}; write tl.{name}" if name in known else text


def validate_block_shape(shape: Sequence[int]) -> int:
    """Return the number of elements of a tensor of that shape.

    Raises:
        TypeError: An extent is not an int.
        ValueError: An extent is not a power of two, or there are more than :data:`MAX_NUMEL` elements.
    """
    for i, extent in enumerate(shape):
        if not isinstance(extent, int) or isinstance(extent, bool):
            raise TypeError(
                f"extent {i} of shape {tuple(shape)} must be an int that is known at compile time, "
                f"but got {extent!r} of type {type(extent).__name__}; declare it "
                f"`{_name_of(extent)}: tl.constexpr`"
            )
        if extent <= 0 or extent & (extent - 1):
            error = ValueError(f"Shape element {i} must be a power of 2")
            error.add_note(f"but it is {extent} in {tuple(shape)}")
            raise error
    numel: int = math.prod(shape)
    if numel > MAX_NUMEL:
        raise ValueError(
            f"a tensor must have at most {MAX_NUMEL} elements, but shape {tuple(shape)} has {numel}"
        )
    return numel


void = dtype("void")
int1 = dtype("int1")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
uint8 = dtype("uint8")
uint16 = dtype("uint16")
uint32 = dtype("uint32")
uint64 = dtype("uint64")
float8e5 = dtype("fp8e5")
float8e5b16 = dtype("fp8e5b16")
float8e4nv = dtype("fp8e4nv")
float8e4b8 = dtype("fp8e4b8")
float8e4b15 = dtype("fp8e4b15")
float16 = dtype("fp16")
bfloat16 = dtype("bf16")
float32 = dtype("fp32")
float64 = dtype("fp64")
pi32_t = pointer_type(int32)

_SHORT: dict[str, dtype] = {s: dtype(f.name) for s, f in formats.BY_SPELLING.items()}

FROM_TILE: dict[tile.DType, dtype] = {
    f.element: dtype(f.name) for f in formats.FORMATS if f.element is not None
}
"""Dtypes by those of the tile IR."""


def get_int_dtype(bitwidth: ConstexprLike[int], signed: ConstexprLike[bool]) -> dtype:
    """Return the integer dtype of that width.

    Raises:
        ValueError: There is no such width.
    """
    bits, sign = unwrap(bitwidth), unwrap(signed)
    if bits == 1:
        return int1
    found = _SHORT.get(f"{'i' if sign else 'u'}{bits}")
    if found is None:
        raise ValueError(f"bitwidth must be 1, 8, 16, 32 or 64, but got {bits}")
    return found


SPELLINGS: dict[str, Callable[[str], base_type]] = {}
"""Functions that parse the spellings of other types, by how these begin.

The modules that define such types need the dtypes first, and fill the table in.
"""

TypeSpelling: TypeAlias = "str | builtins.tuple[TypeSpelling, ...]"
"""A type as signatures spell it: ``fp32``, ``*i32``, ``constexpr``, or a (named) tuple of these."""


def str_to_ty(name: TypeSpelling, constant: object = None) -> Any:
    """Return the type that is spelled in a signature: ``fp32``, ``*i32``, ``*kfp16`` or a tuple of these.

    Args:
        name: The text, or a (named) tuple of texts.
        constant: The value, where the text is ``constexpr``.

    Raises:
        TypeError: ``name`` is not a text, nor a tuple of them.
        ValueError: There is no such type.
    """
    if isinstance(name, builtins.tuple):
        fields = getattr(type(name), "_fields", None)
        return tuple_type([str_to_ty(n, constant) for n in name], fields)
    if not isinstance(name, str):
        raise TypeError(f"name must be the text of a type of a signature, but got {name!r:.80}")
    if name.startswith("*"):
        const = name[1:2] == "k"
        return pointer_type(str_to_ty(name[1 + const :], constant), const=const)
    if name.startswith("constexpr"):
        return constexpr_type(constant)
    for start, parse in SPELLINGS.items():
        if name.startswith(start):
            return parse(name)
    if name not in _SHORT:
        raise ValueError(f"name must be that of a type of a signature, but got {name!r}")
    return _SHORT[name]


class const:
    """Annotation of a pointer through which nothing is stored."""
