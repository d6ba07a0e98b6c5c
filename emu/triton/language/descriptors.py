"""Tensor descriptors: a tensor in memory as one value, read and written in blocks by the index of their origin.

On GPUs with a tensor memory accelerator a descriptor is an object in memory. Here it is the first address, the
extents and the strides, which loops and calls pass on like any other values; an access emits the same operations
as pointers with a mask would.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Sequence
from typing import Any

from emu.tile.ops import Rmw
from emu.triton.language import blocks, memory
from emu.triton.language.arithmetic import where
from emu.triton.language.constants import (
    ConstexprLike,
    base_type,
    composite,
    composite_type,
    unwrap,
)
from emu.triton.language.conversion import bitcast_to, constant, to_tensor
from emu.triton.language.types import (
    SPELLINGS,
    block_type,
    dtype,
    float32,
    int1,
    int16,
    int32,
    int64,
    pointer_type,
    str_to_ty,
    uint32,
    uint64,
)
from emu.triton.language.values import TensorLike, tensor, tuple

MAX_RANK = 5
PADDINGS = ("zero", "nan")
CHOSEN = "chosen"
ROW_BYTES = 16
"""Bytes that the last axis of a block has at least, as the hardware requires."""

_MIN_ROWS = 8
_ADDED = {"uint32", "int32", "uint64", "fp32", "fp16", "bf16"}
_ORDERED = {"uint32", "int32", "uint64", "int64"}


class tensor_descriptor_base_type(blocks.stored_type):
    """Type of a descriptor.

    Attributes:
        block_type: Type of the blocks that it loads.
        padding: ``"zero"`` or ``"nan"``, what elements outside of the tensor are read as; ``"chosen"`` of a variable
            that is one of several descriptors: a part of the value says whether it is NaN.
        rounds: Whether loads round fp32 to the 10 bits of fraction that TF32 has.
    """

    def __init__(self, block_type: block_type, padding: str = "zero", rounds: bool = False) -> None:
        self.block_type = block_type
        self.padding = padding
        self.rounds = rounds

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.block_type.shape)

    def part_types(self) -> dict[str, base_type]:
        """Return the types of the pointer, the extents and the strides."""
        axes = range(self.rank)
        base: dict[str, base_type] = {"base": pointer_type(self.block_type.element_ty)}
        shape = {f"shape.{axis}": int32 for axis in axes}
        strides: dict[str, base_type] = {f"strides.{axis}": int64 for axis in axes}
        chosen: dict[str, base_type] = {"padding": int1} if self.padding == CHOSEN else {}
        return base | shape | strides | chosen

    def make(self, parts: Sequence[Any]) -> tensor_descriptor:
        """Return the descriptor that consists of a pointer, extents and strides."""
        base, *numbers = parts
        pads_nan = numbers.pop() if self.padding == CHOSEN else None
        shape, strides = numbers[: self.rank], numbers[self.rank :]
        return tensor_descriptor(base, shape, strides, self, pads_nan)

    def joined(self, other: composite_type) -> composite_type | None:
        """Return the type of a variable that is a descriptor of either padding."""
        if not isinstance(other, tensor_descriptor_base_type):
            return None
        mine, theirs = (type(t)(t.block_type, CHOSEN, t.rounds) for t in (self, other))
        return mine if mine == theirs else None

    def mangle(self) -> str:
        """Return a name of a few letters."""
        return f"TD{self.block_type.mangle()}"

    def __str__(self) -> str:
        facts = f", padding={self.padding}" if self.padding != "zero" else ""
        facts += ", round_f32_to_tf32" if self.rounds else ""
        return f"tensor_descriptor<{self.block_type}{facts}>"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tensor_descriptor_base_type) and (
            (self.block_type, self.padding, self.rounds)
            == (other.block_type, other.padding, other.rounds)
        )

    def __hash__(self) -> int:
        return hash((self.block_type, self.padding, self.rounds))


class tensor_descriptor_type(tensor_descriptor_base_type):
    """Type of a descriptor whose extents and strides are known to the program."""


class tensor_descriptor_base(composite):
    """Base of descriptors.

    Attributes:
        type: The descriptor's type.
    """

    type: tensor_descriptor_base_type

    def __init__(self, base: tensor, type: tensor_descriptor_base_type) -> None:
        self.handle = base.handle
        self.base = base
        self.type = type

    @property
    def block_type(self) -> block_type:
        """Type of the blocks that it loads."""
        return self.type.block_type

    @property
    def block_shape(self) -> builtins.tuple[int, ...]:
        """Extents of a block."""
        return self.type.block_type.shape

    @property
    def dtype(self) -> dtype:
        """Dtype of the elements."""
        return self.type.block_type.element_ty

    def __str__(self) -> str:
        return str(self.type)

    __repr__ = __str__


class tensor_descriptor(tensor_descriptor_base):
    """A tensor in memory, which blocks of one shape are read from and written to.

    Attributes:
        shape: Extents of the tensor, scalars of int32.
        strides: Its strides in elements, scalars of int64; the last is 1.
        pads_nan: Whether elements outside are NaN, where that is chosen while the program runs; else None.
    """

    def __init__(
        self,
        handle: tensor,
        shape: Sequence[tensor],
        strides: Sequence[tensor],
        type: tensor_descriptor_base_type,
        pads_nan: tensor | None = None,
    ) -> None:
        super().__init__(handle, type)
        self.pads_nan = pads_nan
        self.shape = tuple(shape)
        self.strides = tuple(strides)

    def parts(self) -> list[Any]:
        """Return the pointer, the extents and the strides."""
        chosen = [] if self.pads_nan is None else [self.pads_nan]
        return [self.base, *self.shape.values, *self.strides.values, *chosen]

    def of_type(self, type_: composite_type) -> tensor_descriptor | None:
        """Return the descriptor as a variable that may have another padding; None if that is not the type."""
        if self.type.joined(type_) != type_ or self.pads_nan is not None:
            return None
        made: tensor_descriptor = type_.make([*self.parts(), to_tensor(self.type.padding == "nan")])
        return made

    def with_parts(self, parts: Sequence[Any]) -> tensor_descriptor:
        """Return a descriptor of the same type that consists of others."""
        return self.type.make(parts)

    def load(self, offsets: object) -> tensor:
        """Return the block that begins at an index.

        Args:
            offsets: Index of its first element, one integer of 32 bits an axis; may be outside of the tensor.

        Returns:
            The block; elements outside of the tensor are 0, or NaN if the descriptor's padding is ``"nan"``.

        Raises:
            TypeError: An offset is not an integer, or has 64 bits.
            ValueError: There are more or fewer offsets than axes.
        """
        at, inside = self._at("load", offsets)
        return self._read(at, inside)

    def store(self, offsets: object, value: TensorLike) -> tensor:
        """Write a block; elements outside of the tensor are dropped.

        Args:
            offsets: As of :meth:`load`.
            value: The block, of the descriptor's block shape; converted to its dtype.

        Raises:
            TypeError: An offset is not an integer, or has 64 bits.
            ValueError: The block has another shape, or the number of offsets is wrong.
        """
        given = self._block("store", value, self.block_shape)
        at, inside = self._at("store", offsets)
        return memory.store(at, given, inside)

    def gather(self, x_offsets: tensor, y_offset: object) -> tensor:
        """Return parts of rows: ``tensor[x_offsets, y_offset : y_offset + columns of the block]``.

        Args:
            x_offsets: Rows, a tensor of int16 or int32 with at least 8 elements and one axis.
            y_offset: First column.

        Returns:
            A row for each of ``x_offsets``; elements outside of the tensor are the padding.

        Raises:
            TypeError: The offsets have another dtype.
            ValueError: The descriptor's blocks are not single rows of at least 32 bytes, or there are too few
                rows.
        """
        at, inside = self._rows("gather", x_offsets, y_offset)
        return self._read(at, inside)

    def scatter(self, value: TensorLike, x_offsets: tensor, y_offset: object) -> tensor:
        """Write parts of rows, those which :meth:`gather` reads; elements outside of the tensor are dropped.

        Args:
            value: A row for each of ``x_offsets``. Of equal rows the last is kept.
            x_offsets: As of :meth:`gather`.
            y_offset: As of :meth:`gather`.
        """
        at, inside = self._rows("scatter", x_offsets, y_offset)
        return memory.store(at, self._block("scatter", value, at.extents), inside)

    def atomic_add(self, offsets: object, value: TensorLike) -> tensor:
        """Add a block to memory, each element atomically; elements outside of the tensor are dropped.

        Args:
            offsets: As of :meth:`load`.
            value: The block, of the descriptor's block shape; converted to its dtype.

        Raises:
            TypeError: The dtype is not uint32, int32, uint64, fp32, fp16 or bf16.
        """
        return self._atomic(Rmw.ADD, memory.atomic_add, offsets, value)

    def atomic_min(self, offsets: object, value: TensorLike) -> tensor:
        """Store the smaller value, of integers of 32 or 64 bits; otherwise as :meth:`atomic_add`."""
        return self._atomic(Rmw.MIN, memory.atomic_min, offsets, value)

    def atomic_max(self, offsets: object, value: TensorLike) -> tensor:
        """Store the larger value, of integers of 32 or 64 bits; otherwise as :meth:`atomic_add`."""
        return self._atomic(Rmw.MAX, memory.atomic_max, offsets, value)

    def atomic_and(self, offsets: object, value: TensorLike) -> tensor:
        """Store the bitwise and, of integers of 32 or 64 bits; otherwise as :meth:`atomic_add`."""
        return self._atomic(Rmw.AND, memory.atomic_and, offsets, value)

    def atomic_or(self, offsets: object, value: TensorLike) -> tensor:
        """Store the bitwise or, of integers of 32 or 64 bits; otherwise as :meth:`atomic_add`."""
        return self._atomic(Rmw.OR, memory.atomic_or, offsets, value)

    def atomic_xor(self, offsets: object, value: TensorLike) -> tensor:
        """Store the bitwise exclusive or, of integers of 32 or 64 bits; otherwise as :meth:`atomic_add`."""
        return self._atomic(Rmw.XOR, memory.atomic_xor, offsets, value)

    # ---- what these have in common

    @property
    def _steps(self) -> blocks.Scalars:
        # The last stride is 1 by definition; as a constant it stays known when the descriptor was carried by a loop.
        return (*self.strides.values[:-1], constant(1, int64))

    def _at(self, what: str, offsets: object) -> builtins.tuple[tensor, tensor | None]:
        """Return the pointers to a block's elements, and which are inside."""
        given = blocks.sequence(f"offsets of {what}", offsets)
        if len(given) != self.type.rank:
            raise ValueError(
                f"offsets of {what} must be {self.type.rank}, one an axis of {self}, but got {len(given)}"
            )
        starts = builtins.tuple(_offset(f"offsets[{i}]", o) for i, o in enumerate(given))
        at = blocks.pointers(self.base, self._steps, starts, self.block_shape)
        return at, blocks.mask(builtins.tuple(self.shape.values), starts, self.block_shape)

    def _rows(
        self, what: str, x_offsets: object, y_offset: object
    ) -> builtins.tuple[tensor, tensor | None]:
        """Return the pointers to parts of rows, and which are inside."""
        self._check_rows(what)
        rows = unwrap(x_offsets)
        if not isinstance(rows, tensor) or rows.dtype not in (int16, int32):
            raise TypeError(
                f"x_offsets of {what} must have dtype int16 or int32, but got {blocks.shown(rows)}"
            )
        if len(rows.extents) != 1 or rows.extents[0] < _MIN_ROWS:
            raise ValueError(
                f"x_offsets of {what} must have one axis and at least {_MIN_ROWS} elements, but got {rows}"
            )
        column = _offset("y_offset", y_offset)
        stride, one = self._steps
        (height, width), shape = self.shape.values, self.block_shape
        start = constant(0, int32)
        at = blocks.pointers(self.base, (stride, one), (start, column), shape)
        chosen = blocks.along(rows, 0, 2)
        inside = (chosen >= 0) & (chosen < height)
        columns = blocks.mask((height, width), (start, column), shape, axes=(1,))
        return (
            at + blocks.scaled(chosen, stride),
            inside if columns is None else inside & columns,
        )

    def _check_rows(self, what: str) -> None:
        shape, element = self.block_shape, self.dtype
        if len(shape) != 2 or shape[0] != 1:
            raise ValueError(
                f"{what} needs a descriptor with blocks of one row and two axes, but got {self}"
            )
        least = 32 // element.primitive_bitwidth * 8
        if shape[1] < least:
            raise ValueError(
                f"{what} of {element} needs a descriptor with blocks of at least {least} columns, but got {self}"
            )

    def _read(self, at: tensor, inside: tensor | None) -> tensor:
        other = None
        if inside is not None and self.type.padding == "nan":
            other = constant(float("nan"), self.dtype)
        elif inside is not None and self.pads_nan is not None:
            nan, zero = (constant(x, self.dtype) for x in (float("nan"), 0.0))
            other = where(self.pads_nan, nan, zero)
        found = memory.load(at, inside, other)
        return _rounded_to_tf32(found) if self.type.rounds else found

    def _block(self, what: str, value: TensorLike, shape: builtins.tuple[int, ...]) -> tensor:
        given = to_tensor(value)
        if given.extents != shape:
            raise ValueError(
                f"value of {what} must have shape {shape}, as the block of {self} has, but got {given}"
            )
        return given

    def _atomic(
        self, kind: Rmw, change: Callable[..., tensor], offsets: object, value: TensorLike
    ) -> tensor:
        what = f"atomic_{kind.value}"
        allowed = _ADDED if kind is Rmw.ADD else _ORDERED
        if self.dtype.name not in allowed:
            raise TypeError(
                f"{what} of a descriptor needs one of {', '.join(sorted(allowed))}, but got {self.dtype}"
            )
        given = self._block(what, value, self.block_shape)
        at, inside = self._at(what, offsets)
        change(at, given, inside)
        return memory.nothing()


def _offset(name: str, value: object) -> tensor:
    """Return an offset of a descriptor as int32."""
    plain = unwrap(value)
    if isinstance(plain, tensor) and plain.dtype in (int64, uint64):
        raise TypeError(
            f"{name} must be a 32-bit integer, but got {plain}; convert it with .to(tl.int32)"
        )
    return blocks.scalar(name, plain, int32)


def _rounded_to_tf32(x: tensor) -> tensor:
    """Return fp32 with the last 13 bits of the fraction rounded off, ties to even."""
    bits = bitcast_to(x, uint32)
    rounded = (bits + (((bits >> 13) & 1) + 0xFFF)) & 0xFFFFE000
    special = (bits & 0x7F800000) == 0x7F800000  # infinities and NaN stay as they are
    return bitcast_to(where(special, bits, rounded), float32)


def make_tensor_descriptor(
    base: tensor,
    shape: object,
    strides: object,
    block_shape: object,
    padding_option: ConstexprLike[str] = "zero",
) -> tensor_descriptor:
    """Make a descriptor of a tensor in memory.

    Args:
        base: Pointer to its first element.
        shape: Extents, 1 to 5 integers; taken as int32.
        strides: In elements, one an axis; taken as int64. The last must be known to be 1.
        block_shape: Extents of the blocks that are loaded and stored: powers of two known at compile time; the
            last axis has at least 16 bytes.
        padding_option: What elements outside of the tensor are read as: ``"zero"`` or ``"nan"``. Default:
            ``"zero"``.

    Raises:
        TypeError: ``base`` is not a pointer, or a number is not an integer.
        ValueError: The ranks differ, or a bound above is broken.
    """
    extents, steps = blocks.sequence("shape", shape), blocks.sequence("strides", strides)
    block = blocks.constants("block_shape", block_shape)
    if not 1 <= len(extents) <= MAX_RANK:
        raise ValueError(f"shape must have 1 to {MAX_RANK} extents, but got {len(extents)}")
    for name, given in (("strides", steps), ("block_shape", block)):
        if len(given) != len(extents):
            raise ValueError(
                f"{name} must have {len(extents)} items, as shape has, but got {len(given)}"
            )
    plain = unwrap(base)
    if not isinstance(plain, tensor) or not isinstance(plain.type, pointer_type):
        raise TypeError(f"base must be a pointer, but got {blocks.shown(plain)}")
    element, padding = plain.type.element_ty, unwrap(padding_option)
    _check_row(element, block[-1])
    numbers = blocks.scalars("strides", steps, int64)
    if blocks.known(numbers[-1]) != 1:
        last = unwrap(steps[-1])
        raise ValueError(
            f"Tensor descriptor last dim must be 1 but got {blocks.shown(last)}: the last of strides must "
            "be known at compile time"
        )
    _check_padding("padding_option", padding, element)
    type_ = tensor_descriptor_type(block_type(element, block), padding)
    return tensor_descriptor(plain, blocks.scalars("shape", extents, int32), numbers, type_)


def _check_row(element: dtype, columns: int) -> None:
    size = element.primitive_bitwidth // 8
    if columns * size < ROW_BYTES:
        raise ValueError(
            f"Descriptor block shape must have at least {ROW_BYTES} bytes in the last dimension, but got "
            f"{columns} * {size} = {columns * size} bytes"
        )


def _check_padding(name: str, padding: object, element: dtype) -> None:
    if padding not in PADDINGS:
        raise ValueError(f"{name} must be 'zero' or 'nan', but got {padding!r}")
    if padding == "nan" and not element.is_floating():
        raise ValueError(
            f"Padding option `nan` is not supported for integer blocks: {name} is for {element}"
        )


def _descriptor(name: str, value: object) -> tensor_descriptor:
    if not isinstance(value, tensor_descriptor):
        raise TypeError(
            f"{name} must be a tensor descriptor, but got {blocks.shown(unwrap(value))}"
        )
    return value


def load_tensor_descriptor(desc: tensor_descriptor, offsets: object) -> tensor:
    """Return ``desc.load(offsets)``."""
    return _descriptor("desc", desc).load(offsets)


def store_tensor_descriptor(desc: tensor_descriptor, offsets: object, value: TensorLike) -> tensor:
    """Return ``desc.store(offsets, value)``."""
    return _descriptor("desc", desc).store(offsets, value)


# ---- signatures of kernels

_SPELLED = re.compile(r"tensordesc<(?P<element>\w+)\[(?P<shape>[\d, ]+)\](?P<facts>(?:,\w+)*)>")


def spelling(element: str, block_shape: Sequence[int], padding: str, rounds: bool) -> str:
    """Return how a signature spells a descriptor: ``tensordesc<fp16[64, 32]>``.

    Args:
        element: Spelling of the dtype.
        block_shape: Extents of a block.
        padding: ``"zero"`` or ``"nan"``.
        rounds: Whether loads round to TF32.

    Raises:
        ValueError: There is no such padding.
    """
    if padding not in PADDINGS:
        raise ValueError(f"padding must be 'zero' or 'nan', but got {padding!r}")
    facts = (",nan" if padding == "nan" else "") + (",tf32" if rounds else "")
    return f"tensordesc<{element}{list(block_shape)}{facts}>"


def parse(text: str) -> tensor_descriptor_type:
    """Return the type that :func:`spelling` spells.

    Raises:
        ValueError: The text is not that of a descriptor.
    """
    found = _SPELLED.fullmatch(text)
    if found is None:
        raise ValueError(f"type must be spelled as 'tensordesc<fp16[64, 32]>', but got {text!r}")
    facts = found["facts"].split(",")
    block = block_type(str_to_ty(found["element"]), [int(n) for n in found["shape"].split(",")])
    return tensor_descriptor_type(block, "nan" if "nan" in facts else "zero", "tf32" in facts)


SPELLINGS["tensordesc<"] = parse
