"""Block pointers: the predecessors of tensor descriptors, which Triton 3.9 no longer has.

Kernels of many libraries use them. A block pointer is a tensor in memory, as a descriptor is, together with the
index at which its block begins; ``tl.advance`` moves that index. Which axes are checked against the bounds is said
where the block is loaded or stored.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Sequence
from typing import Any

from emu.triton.language import blocks, memory
from emu.triton.language.constants import base_type, unwrap
from emu.triton.language.conversion import constant
from emu.triton.language.types import block_type, dtype, int64, pointer_type
from emu.triton.language.values import TensorLike, tensor

_PADDINGS = ("", "zero", "nan")
_warned: list[str] = []


class block_pointer_type(blocks.stored_type):
    """Type of a block pointer.

    Attributes:
        element_ty: Type of the block that it points to; its ``element_ty`` is the dtype of the elements.
        const: Whether storing through it is refused.
    """

    def __init__(self, element_ty: block_type, const: bool = False) -> None:
        self.element_ty = element_ty
        self.const = const

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.element_ty.shape)

    @property
    def scalar(self) -> block_pointer_type:
        """The type itself, as of a pointer."""
        return self

    def is_ptr(self) -> bool:
        """Return True."""
        return True

    def is_block(self) -> bool:
        """Return False: it is one pointer, not a tensor of pointers."""
        return False

    def is_const(self) -> bool:
        """Return whether storing through it is refused."""
        return self.const

    def part_types(self) -> dict[str, base_type]:
        """Return the types of the pointer, the extents, the strides and the offsets."""
        base: dict[str, base_type] = {"base": self._pointer()}
        kinds = ("shape", "strides", "offsets")
        return base | {f"{kind}.{axis}": int64 for kind in kinds for axis in range(self.rank)}

    def _pointer(self) -> dtype:
        return pointer_type(self.element_ty.element_ty, const=self.const)

    def make(self, parts: Sequence[Any]) -> block_pointer:
        """Return the block pointer that consists of a pointer, extents, strides and offsets."""
        base, *numbers = parts
        rank = self.rank
        groups = [builtins.tuple(numbers[i * rank : (i + 1) * rank]) for i in range(3)]
        return block_pointer(self, base, *groups)

    def mangle(self) -> str:
        """Return a name of a few letters."""
        return f"P{self.element_ty.mangle()}"

    def __str__(self) -> str:
        return f"{'const_' if self.const else ''}pointer<{self.element_ty}>"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, block_pointer_type)
            and self.element_ty == other.element_ty
            and self.const == other.const
        )

    def __hash__(self) -> int:
        return hash((block_pointer_type, self.element_ty, self.const))


class block_pointer(memory.block_reference):
    """A tensor in memory, and where a block of it begins.

    Attributes:
        type: Its type.
        dtype: The same.
        base: Pointer to the tensor's first element.
        extents: Extents of the tensor, int64.
        steps: Its strides in elements, int64.
        offsets: Index of the block's first element, int64.
    """

    type: block_pointer_type

    def __init__(
        self,
        type: block_pointer_type,
        base: tensor,
        extents: blocks.Scalars,
        steps: blocks.Scalars,
        offsets: blocks.Scalars,
    ) -> None:
        self.type = type
        self.dtype = type
        self.base = base
        self.extents = extents
        self.steps = steps
        self.offsets = offsets

    def parts(self) -> list[Any]:
        """Return the pointer, the extents, the strides and the offsets."""
        return [self.base, *self.extents, *self.steps, *self.offsets]

    def with_parts(self, parts: Sequence[Any]) -> block_pointer:
        """Return a block pointer of the same type that consists of others."""
        return self.type.make(parts)

    def __str__(self) -> str:
        return str(self.type)

    __repr__ = __str__

    def advance(self, offsets: object) -> block_pointer:
        """Return ``tl.advance(self, offsets)``."""
        moved = blocks.scalars("offsets", offsets, int64)
        if len(moved) != self.type.rank:
            raise ValueError(
                f"offsets must be {self.type.rank}, one an axis of {self}, but got {len(moved)}"
            )
        found = builtins.tuple(
            here if blocks.known(by) == 0 else here + by
            for here, by in zip(self.offsets, moved, strict=True)
        )
        return block_pointer(self.type, self.base, self.extents, self.steps, found)

    def load_block(self, boundary_check: object, padding_option: object) -> tensor:
        """Return the block; elements outside of the bounds that are checked are the padding."""
        padding = unwrap(padding_option) or ""
        if padding not in _PADDINGS:
            raise ValueError(f"padding_option must be '', 'zero' or 'nan', but got {padding!r}")
        element = self.type.element_ty.element_ty
        if padding == "nan" and not element.is_floating():
            raise ValueError(
                f"padding_option must not be 'nan' for integers, but the elements are {element}"
            )
        at, inside = self._at(boundary_check)
        if inside is None or padding != "nan":
            return memory.load(at, inside)
        return memory.load(at, inside, constant(float("nan"), element))

    def store_block(self, value: TensorLike, boundary_check: object) -> tensor:
        """Write the block; elements outside of the bounds that are checked are dropped."""
        at, inside = self._at(boundary_check)
        return memory.store(at, value, inside)

    def _at(self, boundary_check: object) -> builtins.tuple[tensor, tensor | None]:
        shape = self.type.element_ty.shape
        axes = _checked_axes(boundary_check, len(shape))
        at = blocks.pointers(self.base, self.steps, self.offsets, shape)
        return at, blocks.mask(self.extents, self.offsets, shape, axes)


def _checked_axes(boundary_check: object, rank: int) -> list[int]:
    """Return the axes whose bounds are checked.

    Raises:
        ValueError: An axis is there twice, or the block does not have it.
    """
    plain = unwrap(boundary_check)
    if plain is None:
        return []
    given = (plain,) if isinstance(plain, int) else plain
    axes = blocks.constants("boundary_check", given)
    for axis in axes:
        if not -rank <= axis < rank:
            raise ValueError(
                f"boundary_check must have axes in [{-rank}, {rank}), as the block has {rank}, but got {axis}"
            )
    counted = sorted(axis % rank for axis in axes)
    if len(set(counted)) < len(counted):
        raise ValueError(f"boundary_check must name each axis once, but got {list(axes)}")
    return counted


def make_block_ptr(
    base: tensor,
    shape: object,
    strides: object,
    offsets: object,
    block_shape: object,
    order: object,
) -> block_pointer:
    """Make a pointer to a block of a tensor in memory; Triton 3.9 has descriptors instead.

    Args:
        base: Pointer to the tensor's first element.
        shape: Extents of the tensor, one integer an axis.
        strides: In elements, one an axis.
        offsets: Index of the block's first element.
        block_shape: Extents of the block: powers of two known at compile time.
        order: The axes from the one that is contiguous on; checked, without effect.

    Raises:
        TypeError: ``base`` is not a pointer, or a number is not an integer.
        ValueError: The ranks differ, or ``order`` does not have each axis once.
    """
    _warn()
    plain = unwrap(base)
    if not isinstance(plain, tensor) or not isinstance(plain.type, pointer_type):
        raise TypeError(f"base must be a pointer, but got {blocks.shown(plain)}")
    block = blocks.constants("block_shape", block_shape)
    numbers = {
        "shape": blocks.scalars("shape", shape, int64),
        "strides": blocks.scalars("strides", strides, int64),
        "offsets": blocks.scalars("offsets", offsets, int64),
    }
    axes = blocks.constants("order", order)
    for name, given in (*numbers.items(), ("order", axes)):
        if len(given) != len(block):
            raise ValueError(
                f"{name} must have {len(block)} items, as block_shape has, but got {len(given)}"
            )
    if sorted(axes) != list(range(len(block))):
        raise ValueError(f"order must have each axis once, but got {list(axes)}")
    pointer = plain.type
    type_ = block_pointer_type(block_type(pointer.element_ty, block), pointer.is_const())
    return block_pointer(type_, plain, *numbers.values())


def advance(base: block_pointer, offsets: object) -> block_pointer:
    """Return a pointer to a block that begins elsewhere.

    Args:
        base: A block pointer.
        offsets: What is added to the index of its first element, one integer an axis.

    Raises:
        TypeError: ``base`` is not a block pointer, or an offset is not an integer.
        ValueError: There are more or fewer offsets than axes.
    """
    if not isinstance(base, block_pointer):
        raise TypeError(f"base must be a block pointer, but got {blocks.shown(unwrap(base))}")
    return base.advance(offsets)


def _warn() -> None:
    """Warn once a process: a kernel that is compiled again and again has said it."""
    if _warned:
        return
    _warned.append("make_block_ptr")
    warnings.warn(
        "tl.make_block_ptr and tl.advance are no longer in Triton 3.9: use tl.make_tensor_descriptor",
        FutureWarning,
        stacklevel=3,
    )
