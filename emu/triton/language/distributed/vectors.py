"""Vectors of single threads: a few scalars that a thread loads, computes and stores together."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton.language import memory
from emu.triton.language.constants import (
    ConstexprLike,
    base_type,
    composite,
    composite_type,
    unwrap,
)
from emu.triton.language.conversion import bitcast_to, cast, cast_to, to_tensor
from emu.triton.language.distributed.memory import ld, st
from emu.triton.language.extra.bits import unsigned
from emu.triton.language.memory import nothing
from emu.triton.language.types import dtype as _dtype
from emu.triton.language.types import get_int_dtype, pointer_type
from emu.triton.language.values import TensorLike, tensor
from emu.triton.language.values import slice as language_slice
from emu.triton.language.values import tuple as language_tuple


class vector_type(composite_type):
    """Type of a vector.

    Attributes:
        elem_type: Type of the elements.
        vec_size: Number of elements.
    """

    def __init__(self, type: base_type, vec_size: int) -> None:
        self.elem_type = type
        self.vec_size = vec_size
        self.types = [type] * vec_size
        self.known = [False] * vec_size

    @property
    def element_nbits(self) -> int:
        """Bits of an element."""
        assert isinstance(self.elem_type, _dtype)
        return self.elem_type.primitive_bitwidth

    @property
    def vector_nbits(self) -> int:
        """Bits of all elements."""
        return self.element_nbits * self.vec_size

    def with_types(self, types: Sequence[base_type]) -> vector_type:
        """Return the type of a vector of other elements."""
        return vector_type(types[0], len(types))

    def is_like(self, other: composite_type) -> bool:
        """Return whether both have as many elements."""
        return isinstance(other, vector_type) and other.vec_size == self.vec_size

    def make(self, parts: Sequence[object]) -> vector:
        """Return a vector of these elements."""
        return vector(parts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, vector_type)
            and other.vec_size == self.vec_size
            and other.elem_type == self.elem_type
        )

    def __hash__(self) -> int:
        return hash((self.elem_type, self.vec_size))

    def __str__(self) -> str:
        return f"{self.elem_type}_v{self.vec_size}"

    __repr__ = __str__


class vector(composite):
    """A vector: scalars of one dtype, a power of two of them.

    Args:
        args: The elements.

    Raises:
        TypeError: They are no tensors, or of several dtypes.
        ValueError: Their number is no power of two.
    """

    __triton_builtin__ = True

    def __init__(self, args: Sequence[Any] | language_tuple) -> None:
        values: list[Any] = list(args)
        if not values or len(values) & (len(values) - 1):
            raise ValueError(f"args must be a power of two of elements, but got {len(values)}")
        for value in values:
            if not isinstance(value, tensor):
                raise TypeError(f"args must be tensors, but got {shown(unwrap(value))}")
            if value.dtype != values[0].dtype:
                raise TypeError(
                    f"args must have one dtype, but got {values[0].dtype} and {value.dtype}"
                )
        self.values: list[tensor] = values

    @property
    def type(self) -> vector_type:
        """Type and number of the elements."""
        return vector_type(self.values[0].type, len(self.values))

    @property
    def dtype(self) -> _dtype:
        """Dtype of the elements."""
        return self.values[0].dtype

    def parts(self) -> list[tensor]:
        """Return the elements."""
        return self.values

    def with_parts(self, parts: Sequence[object]) -> vector:
        """Return a vector of others."""
        return vector(parts)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tensor]:
        return iter(self.values)

    def __getitem__(self, index: object) -> tensor | vector:
        if isinstance(index, language_slice | builtins.slice):
            part = (unwrap(index.start), unwrap(index.stop), unwrap(index.step))
            return vector(self.values[builtins.slice(*part)])
        plain = unwrap(index)
        if not isinstance(plain, int):
            raise TypeError(
                f"index of a vector must be an int known at compile time, but got {plain}"
            )
        if not -len(self) <= plain < len(self):
            raise IndexError(
                f"index of a vector must be at least {-len(self)} and below {len(self)}, but got {plain}"
            )
        return self.values[plain]

    def _with(self, other: object, combine: Callable[[tensor, TensorLike], tensor]) -> vector:
        plain = unwrap(other)
        if isinstance(plain, vector):
            if len(plain) != len(self):
                raise ValueError(
                    f"vectors must have as many elements, but got {len(self)} and {len(plain)}"
                )
            return vector([combine(a, b) for a, b in zip(self, plain, strict=True)])
        if not isinstance(plain, tensor | bool | int | float):
            raise TypeError(f"a vector and {shown(plain)} cannot be combined")
        return vector([combine(a, plain) for a in self])

    def __add__(self, other: object) -> vector:
        return self._with(other, operator.add)

    def __sub__(self, other: object) -> vector:
        return self._with(other, operator.sub)

    def __mul__(self, other: object) -> vector:
        return self._with(other, operator.mul)

    def to(
        self,
        dtype: ConstexprLike[_dtype],
        fp_downcast_rounding: ConstexprLike[str | None] = None,
        bitcast: ConstexprLike[bool] = False,
        _semantic: object = None,
    ) -> vector:
        """Return the elements in another dtype, as ``tl.cast`` does."""
        return vector([cast(v, dtype, fp_downcast_rounding, bitcast) for v in self])

    def recast(self, new_elem_dtype: ConstexprLike[_dtype], _semantic: object = None) -> vector:
        """Return the same bits as elements of another dtype, the lowest first.

        Args:
            new_elem_dtype: The dtype.

        Raises:
            TypeError: It is no dtype.
            ValueError: The vector's bits are no whole number of such elements.
        """
        wanted = _checked_dtype("new_elem_dtype", new_elem_dtype)
        old, new = self.dtype.primitive_bitwidth, wanted.primitive_bitwidth
        if old == new:
            return vector([bitcast_to(v, wanted) for v in self])
        if old > new:
            return vector([part for v in self for part in _unpacked(v, wanted)])
        ratio = new // old
        if len(self) % ratio:
            raise ValueError(
                f"new_elem_dtype must have at most the vector's {old * len(self)} bits, but {wanted} has {new}"
            )
        groups = [self.values[i : i + ratio] for i in range(0, len(self), ratio)]
        return vector([_packed(group, wanted) for group in groups])

    def __str__(self) -> str:
        return f"vector of {len(self)} {self.dtype}"

    __repr__ = __str__


def _checked_dtype(name: str, value: object) -> _dtype:
    plain = unwrap(value)
    if not isinstance(plain, _dtype):
        raise TypeError(f"{name} must be a dtype, but got {shown(plain)}")
    return plain


def _checked_vector(name: str, value: object) -> vector:
    plain = unwrap(value)
    if not isinstance(plain, vector):
        raise TypeError(f"{name} must be a vector, but got {shown(plain)}")
    return plain


def _checked_size(value: object) -> int:
    plain = unwrap(value)
    if isinstance(plain, bool) or not isinstance(plain, int):
        raise TypeError(f"vec_size must be an int known at compile time, but got {shown(plain)}")
    if plain < 1 or plain & (plain - 1):
        raise ValueError(f"vec_size must be a power of two, but got {plain}")
    return plain


def _packed(parts: Sequence[tensor], wanted: _dtype) -> tensor:
    width = parts[0].dtype.primitive_bitwidth
    whole = get_int_dtype(width * len(parts), False)
    total = cast_to(unsigned(parts[0]), whole)
    for place, part in enumerate(parts[1:], 1):
        total = total | (cast_to(unsigned(part), whole) << (place * width))
    return bitcast_to(total, wanted)


def _unpacked(value: tensor, wanted: _dtype) -> list[tensor]:
    width = wanted.primitive_bitwidth
    bits, part = unsigned(value), get_int_dtype(width, False)
    return [
        bitcast_to(cast_to(bits >> shift if shift else bits, part), wanted)
        for shift in range(0, value.dtype.primitive_bitwidth, width)
    ]


def make_vector(args: Sequence[object], _semantic: object = None) -> vector:
    """Return a vector of elements."""
    return vector(args)


def fill_vector(
    vec_size: ConstexprLike[int],
    dtype: ConstexprLike[_dtype],
    val: TensorLike,
    _semantic: object = None,
) -> vector:
    """Return a vector all of whose elements are one value.

    Args:
        vec_size: Number of elements, a power of two.
        dtype: Dtype of the elements.
        val: The value.
    """
    made = cast_to(to_tensor(val), _checked_dtype("dtype", dtype))
    return vector([made] * _checked_size(vec_size))


def zeros_vector(
    vec_size: ConstexprLike[int], dtype: ConstexprLike[_dtype], _semantic: object = None
) -> vector:
    """Return a vector of zeros.

    Args:
        vec_size: Number of elements, a power of two.
        dtype: Dtype of the elements.
    """
    return fill_vector(vec_size, dtype, 0)


def ld_vector(
    ptr: tensor,
    vec_size: ConstexprLike[int],
    scope: ConstexprLike[str] = "",
    semantic: ConstexprLike[str] = "",
    _semantic: object = None,
) -> vector:
    """Read elements that stand one after the other.

    Args:
        ptr: Pointer to the first, or each thread's own.
        vec_size: Their number, a power of two.
        scope: As of :func:`emu.triton.language.distributed.ld`; without both, the access has no order.
        semantic: As of that function.

    Raises:
        TypeError: ``ptr`` is no pointer.
        ValueError: ``vec_size`` is no power of two, or ``scope`` or ``semantic`` unknown.
    """
    _check_pointer(ptr, "ld_vector")
    how, places = _order_of(scope, semantic), range(_checked_size(vec_size))
    if how is None:
        return vector([memory.read(ptr + i, None, None, {}) for i in places])
    return vector([ld(ptr + i, *how) for i in places])


def st_vector(
    ptr: tensor,
    vec: vector,
    scope: ConstexprLike[str] = "",
    semantic: ConstexprLike[str] = "",
    _semantic: object = None,
) -> tensor:
    """Write elements one after the other.

    Args:
        ptr: Pointer to the first, or each thread's own, to the vector's dtype.
        vec: The elements.
        scope: As of :func:`emu.triton.language.distributed.st`; without both, the access has no order.
        semantic: As of that function.

    Raises:
        TypeError: ``ptr`` is no pointer to such elements, or ``vec`` no vector.
        ValueError: ``scope`` or ``semantic`` is unknown.
    """
    _check_pointer(ptr, "st_vector")
    given, how = _checked_vector("vec", vec), _order_of(scope, semantic)
    assert isinstance(ptr.dtype, pointer_type)
    if ptr.dtype.element_ty != given.dtype:
        raise TypeError(f"ptr must point to {given.dtype}, as vec has, but got {ptr.dtype}")
    for place, value in enumerate(given):
        if how is None:
            memory.write(ptr + place, value, None, {})
        else:
            st(ptr + place, value, *how)
    return nothing()


def _check_pointer(ptr: object, what: str) -> None:
    if not isinstance(ptr, tensor) or not isinstance(ptr.dtype, pointer_type):
        got = ptr if isinstance(ptr, tensor) else shown(unwrap(ptr))
        raise TypeError(f"ptr of {what} must be a pointer, but got {got}")


def _order_of(scope: object, semantic: object) -> tuple[str, str] | None:
    """Return what orders an access; ``None`` if nothing was asked for."""
    if not unwrap(scope) and not unwrap(semantic):
        return None
    return str(unwrap(scope) or "gpu"), str(unwrap(semantic) or "relaxed")


def pack(src: vector, dst_type: ConstexprLike[_dtype], _semantic: object = None) -> tensor:
    """Return a vector's bits as one number.

    Args:
        src: The vector.
        dst_type: Dtype of the number, as wide as the vector.

    Raises:
        TypeError: ``src`` is no vector, or ``dst_type`` no dtype.
        ValueError: The widths differ.
    """
    given, wanted = _checked_vector("src", src), _checked_dtype("dst_type", dst_type)
    if given.type.vector_nbits != wanted.primitive_bitwidth:
        raise ValueError(f"dst_type must have {given.type.vector_nbits} bits, but got {wanted}")
    return _packed(given.values, wanted)


def unpack(src: tensor, dst_type: ConstexprLike[_dtype], _semantic: object = None) -> vector:
    """Return a number's bits as a vector, the lowest first.

    Args:
        src: The number.
        dst_type: Dtype of the elements; the number's width is a multiple of its.

    Raises:
        TypeError: ``src`` is no tensor, or ``dst_type`` no dtype.
        ValueError: The width is no such multiple.
    """
    wanted = _checked_dtype("dst_type", dst_type)
    if not isinstance(src, tensor):
        raise TypeError(f"src must be a tensor, but got {shown(unwrap(src))}")
    if src.dtype.primitive_bitwidth % wanted.primitive_bitwidth:
        raise ValueError(f"dst_type must divide the bits of {src.dtype}, but got {wanted}")
    return vector(_unpacked(src, wanted))
