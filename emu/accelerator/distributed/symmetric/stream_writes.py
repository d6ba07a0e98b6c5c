"""Words that a stream writes, and products that wait for them: ``memset32``, ``stream_write_value32``, ``_async_input_mm``.

``_async_input_mm`` is submitted before its input has come: its kernel waits, part by part, until another stream has set the
part's word. Here work is done when it is submitted, so such a product is kept until the last of its words is set.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.distributed.symmetric.checks import a_tensor, check
from emu.accelerator.distributed.symmetric.errors import SymmetricArgumentError

_LARGEST = (1 << 32) - 1


class _Product(NamedTuple):
    """A product whose words are not all set."""

    left: Tensor
    right: Tensor
    words: Tensor
    out: Tensor

    def is_ready(self) -> bool:
        """Return whether all words are set."""
        return bool(self.words.view(torch.int32).ne(0).all())

    def run(self) -> None:
        """Compute the product."""
        torch.mm(self.left, self.right, out=self.out)


_waiting: list[_Product] = []


def memset32(input: Tensor, offset: int, val: int, count: int = 1) -> Tensor:
    """Set 32-bit words of a tensor, as a copy engine does.

    Args:
        input: A contiguous tensor of one axis, of uint32.
        offset: The first word.
        val: Its value, which fits uint32.
        count: Number of words.

    Returns:
        The tensor.

    Raises:
        SymmetricArgumentError: An argument breaks these rules.
    """
    return _write("memset32_", input, offset, val, count)


def stream_write_value32(input: Tensor, offset: int, val: int) -> Tensor:
    """Set a 32-bit word of a tensor, after what the stream did before.

    Raises:
        SymmetricArgumentError: As :func:`memset32`.
    """
    return _write("stream_write_value32_", input, offset, val, 1)


def _write(name: str, input: Tensor, offset: int, val: int, count: int) -> Tensor:
    with torch._C.DisableTorchFunction():
        _check(name, input, offset, val, count)
        bits = val - (1 << 32) if val > _LARGEST >> 1 else val
        input.view(torch.int32)[offset : offset + count].fill_(bits)
        _run_ready()
    return input


def _check(name: str, input: Tensor, offset: int, val: int, count: int) -> None:
    """Check the arguments of a write, with torch's own words in the errors.

    Raises:
        SymmetricArgumentError: One breaks a rule.
    """
    op, size = f"symm_mem::{name}", a_tensor("input", input).numel()
    for what, value in (("offset", offset), ("val", val), ("count", count)):
        check.integer(what, value)
    if input.dim() != 1 or not input.is_contiguous() or input.dtype != torch.uint32:
        raise SymmetricArgumentError(
            f"{op}: input must be a flat, contiguous uint32 tensor, but got {input.dtype} of shape "
            f"{tuple(input.shape)} with strides {input.stride()}"
        )
    if offset < 0:
        raise SymmetricArgumentError(
            f"{op}: offset must be greater than or equal to 0, but got {offset}"
        )
    if count <= 0:
        raise SymmetricArgumentError(f"{op}: count must be a positive integer, but got {count}")
    if not 0 <= val <= _LARGEST:
        raise SymmetricArgumentError(
            f"{op}: val must be in the range of [0, {_LARGEST}] (uint32_t), but got {val}"
        )
    if offset + count > size:
        raise SymmetricArgumentError(
            f"{op}: offset + count ({offset} + {count}) exceeded the numel of the input ({size})"
        )


def async_input_mm(a: Tensor, b: Tensor, a_chunk_signals: Tensor, a_chunk_pivot: int) -> Tensor:
    """Return ``a @ b``; the result holds its values once every word of ``a_chunk_signals`` is set.

    Args:
        a: Matrix of as many parts along the first axis as there are words.
        b: Matrix.
        a_chunk_signals: Words of uint32, each set when its part of ``a`` has come.
        a_chunk_pivot: Part with which a GPU begins; without effect.

    Raises:
        SymmetricArgumentError: The matrices or the words don't fit.
    """
    fits = a.dim() == 2 and b.dim() == 2 and a.shape[1] == b.shape[0] and a.dtype == b.dtype
    if not fits:
        raise SymmetricArgumentError(
            f"_async_input_mm: a and b must be matrices that can be multiplied, but got {a.dtype} {tuple(a.shape)} and "
            f"{b.dtype} {tuple(b.shape)}"
        )
    words = a_chunk_signals
    if words.dim() != 1 or words.dtype != torch.uint32 or not 0 <= a_chunk_pivot < words.numel():
        raise SymmetricArgumentError(
            f"_async_input_mm: a_chunk_signals must be words of uint32, and a_chunk_pivot one of them, but got "
            f"{words.dtype} of shape {tuple(words.shape)} and {a_chunk_pivot}"
        )
    out = a.new_empty(a.shape[0], b.shape[1])
    _waiting.append(_Product(a, b, words, out))
    _run_ready()
    return out


def _run_ready() -> None:
    ready = [product for product in _waiting if product.is_ready()]
    _waiting[:] = [product for product in _waiting if not any(product is each for each in ready)]
    for product in ready:
        product.run()
