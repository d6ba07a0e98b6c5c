"""Tensor descriptors that the host makes and passes to kernels."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emu.kernels.core.messages import shown
from emu.triton.formats import BY_SPELLING
from emu.triton.language.descriptors import MAX_RANK, PADDINGS
from emu.triton.language.types import validate_block_shape
from emu.triton.runtime import arguments, checks
from emu.triton.runtime.arguments import DescriptorKey, Key, Packed

ALIGNMENT = 16
MAX_EXTENT = 2**31 - 1
_STRIDES = range(-(2**63), 2**63)
_WITHOUT_MEMORY = ("FakeTensor", "FunctionalTensor")


class DescriptorError(ValueError, AssertionError):
    """A tensor descriptor breaks a rule of the hardware that it is for.

    It is an :class:`AssertionError`, too, as programs that catch Triton's errors expect one.
    """


@dataclass
class TensorDescriptor:
    """A tensor in memory that a kernel reads and writes in blocks: ``descriptor.load([row, column])``.

    Attributes:
        base: A tensor or array, whose first element lies at a multiple of 16 bytes.
        shape: Extents, 1 to 5 integers above 0.
        strides: In elements; the last is 1, all others are multiples of 16 bytes.
        block_shape: Extents of a block, powers of two. It may be changed between launches, as the hooks of
            autotuned kernels do.
        padding: What elements outside of the tensor are read as: ``"zero"`` or ``"nan"`` (floats only).
            Default: ``"zero"``.
        round_f32_to_tf32: Whether loads round fp32 to TF32, ties to even. Default: False.

    Raises:
        TypeError: ``base`` is not a tensor with a dtype that kernels know, or a number is not an integer.
        ValueError: An extent of ``block_shape`` is not a power of two.
        DescriptorError: Another bound above is broken.
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"
    round_f32_to_tf32: bool = False

    def __post_init__(self) -> None:
        rank = len(integers("shape", self.shape))
        for name, given in (("strides", self.strides), ("block_shape", self.block_shape)):
            if len(integers(name, given)) != rank:
                _refuse(f"rank mismatch: {name} must have {rank} items, as shape has", list(given))
        if not 1 <= rank <= MAX_RANK:
            _refuse(f"rank must be from 1 to {MAX_RANK}", rank)
        checks.as_flag("round_f32_to_tf32", self.round_f32_to_tf32)
        key, address = _described(self.base)
        if type(self.base).__name__ not in _WITHOUT_MEMORY and address % ALIGNMENT:
            _refuse(f"base must be {ALIGNMENT}-byte aligned", f"address {address:#x}")
        _check_block_shape(self.block_shape)
        spelled = _element(key)
        self._check_strides(max(BY_SPELLING[spelled].bits // 8, 1))
        for extent in self.shape:
            if not 0 < extent <= MAX_EXTENT:
                _refuse("shape must be positive, and below 2**31", list(self.shape))
        _checked_padding(self.padding)
        if self.padding == "nan" and not BY_SPELLING[spelled].is_float:
            _refuse(
                "padding must be 'zero' for integers: `nan` is only supported for floats", spelled
            )
        if self.round_f32_to_tf32 and spelled != "fp32":
            _refuse("round_f32_to_tf32 is only supported for float32 tensors", spelled)

    def _check_strides(self, size: int) -> None:
        for stride in self.strides:
            if stride not in _STRIDES:
                _refuse("strides must fit into 64 bits", list(self.strides))
        for stride in self.strides[:-1]:
            if stride * size % ALIGNMENT:
                _refuse(
                    f"strides must be {ALIGNMENT}-byte aligned, except the last",
                    f"{list(self.strides)} elements of {size} bytes",
                )
        if self.strides[-1] != 1:
            _refuse(
                "Last dimension must be contiguous: the last of strides must be 1",
                list(self.strides),
            )

    @staticmethod
    def from_tensor(
        tensor: Any,
        block_shape: Sequence[int],
        padding: str = "zero",
        round_f32_to_tf32: bool = False,
    ) -> TensorDescriptor:
        """Return the descriptor of a whole tensor or array.

        Args:
            tensor: The tensor; its last axis is contiguous.
            block_shape: Extents of a block.
            padding: As of the class.
            round_f32_to_tf32: As of the class.
        """
        strides = strides_of(tensor)
        return TensorDescriptor(
            tensor, tensor.shape, strides, block_shape, padding, round_f32_to_tf32
        )


def _refuse(rule: str, got: object) -> None:
    raise DescriptorError(f"{rule}, but got {got}")


def integers(name: str, values: Sequence[int]) -> Sequence[int]:
    """Check that there is a sequence of integers, and return it."""
    try:
        len(values)
        for value in values:
            operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} of a tensor descriptor must be integers, in a list, but got {shown(values, with_type=True)}"
        ) from None
    return values


def _checked_padding(padding: object) -> str:
    if isinstance(padding, str) and padding in PADDINGS:
        return padding
    raise DescriptorError(f"padding must be 'zero' or 'nan', but got {shown(padding)}")


def _check_block_shape(block_shape: Sequence[int]) -> None:
    for i, extent in enumerate(block_shape):
        if extent <= 0 or extent & (extent - 1):
            raise ValueError(
                f"Shape element {i} must be a power of 2, but block_shape is {list(block_shape)}"
            )
    try:
        validate_block_shape([operator.index(extent) for extent in block_shape])
    except ValueError as error:
        raise ValueError(f"block_shape: {error}") from None


def _described(base: object) -> tuple[Key, int]:
    """Return the key and the address of a tensor."""
    try:
        key, address = arguments.describe(base)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"base: {error}") from None
    if not isinstance(address, int) or arguments.pointer_spelling(key) is None:
        raise TypeError(f"base must be a tensor or array, but got {shown(base, with_type=True)}")
    return key, address


def _element(key: Key) -> str:
    return str(arguments.pointer_spelling(key)).removeprefix("*")


def strides_of(tensor: Any) -> tuple[int, ...]:
    """Return the strides of a tensor or array in elements."""
    if hasattr(tensor, "stride") and not isinstance(tensor, type):
        return tuple(tensor.stride())
    if not hasattr(tensor, "strides") or isinstance(tensor, type):
        raise TypeError(
            f"tensor must be a tensor or array, but got {shown(tensor, with_type=True)}"
        )
    size, strides = tensor.itemsize, tensor.strides
    if any(stride % size for stride in strides):
        _refuse(f"strides must be multiples of the element's {size} bytes", f"{strides} bytes")
    return tuple(stride // size for stride in strides)


def _take(descriptor: TensorDescriptor) -> tuple[Key, Packed]:
    """Return the key and the packed value of a descriptor that is passed to a kernel."""
    base, address = arguments.describe(descriptor.base)
    # A descriptor may have been changed since it was made. What is in the key is checked when a kernel is built.
    try:
        shape = tuple(map(operator.index, descriptor.shape))
        strides = tuple(map(operator.index, descriptor.strides))
        block_shape = tuple(map(operator.index, descriptor.block_shape))
    except TypeError:
        for name in ("shape", "strides", "block_shape"):
            integers(name, getattr(descriptor, name))
        raise
    if not len(shape) == len(strides) == len(block_shape):
        _refuse(f"rank mismatch: block_shape must have {len(shape)} items", list(block_shape))
    if min(shape) < 1 or max(shape) > MAX_EXTENT:
        _refuse("shape must be positive, and below 2**31", list(shape))
    if strides[-1] != 1:
        _refuse("Last dimension must be contiguous: the last of strides must be 1", list(strides))
    if min(block_shape) < 1:
        _check_block_shape(block_shape)
    padding = _checked_padding(descriptor.padding)
    rounds = checks.as_flag("round_f32_to_tf32", descriptor.round_f32_to_tf32)
    key = DescriptorKey(base, block_shape, padding, rounds)
    return key, (address, *shape, *strides)


arguments.register(TensorDescriptor, _take)
