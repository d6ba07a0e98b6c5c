"""Tensors of microscaling formats (OCP MX) on the host: 4-bit e2m1 elements and 8-bit e8m0 scales, as programs test with."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Self

import torch

from emu.triton.runtime import checks

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MXFP4Tensor", "MXScaleTensor"]

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_SIGN, _MAGNITUDE = 0b1000, 0b0111
_BIAS, _NAN = 127, 255


def _check_single(dtype: torch.dtype) -> None:
    if dtype != torch.float32:
        raise ValueError(f"dtype must be torch.float32, but got {dtype}")


def _check_axis(dim: int, rank: int) -> None:
    # An AssertionError, because programs expect Triton's.
    assert 0 <= dim < rank, f"dim must be in [0, {rank}), but got {dim}"


class _Codes:
    """Codes of a format, one in each byte.

    Args:
        data: Numbers to encode.
        size: Without ``data``: extents, or one extent, that :meth:`random` fills.
        device: Without ``data``: where. Default: torch's.

    Attributes:
        data: The codes, a uint8 tensor; there after :meth:`random` or where ``data`` was given.
        device: Where they lie.
        size: Extents.

    Raises:
        TypeError: ``data`` is not a tensor of real numbers, or ``size`` has no integers.
        ValueError: Neither ``data`` nor ``size`` is given.
    """

    def __init__(
        self,
        data: torch.Tensor | None = None,
        size: int | Sequence[int] | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        if data is None and size is None:
            raise ValueError("data or size must be given, but got None for both")
        self.device = device
        if data is None:
            extents = [size] if isinstance(size, int) else checks.as_list("size", size)
            self.size = tuple([checks.as_integer("an extent of size", e, 0) for e in extents])
            return
        if not isinstance(data, torch.Tensor) or data.is_complex():
            got = data.dtype if isinstance(data, torch.Tensor) else type(data).__name__
            raise TypeError(f"data must be a tensor of real numbers, but got {got}")
        self.device = data.device
        self.size = tuple(data.shape)
        self.data = self._encoded(data)

    def _encoded(self, values: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def _drawn(self, low: int, high: int) -> torch.Tensor:
        """Return random codes from ``low`` up to and including ``high``."""
        return torch.randint(low, high + 1, self.size, dtype=torch.uint8, device=self.device)


class MXFP4Tensor(_Codes):
    """Codes of e2m1: a sign, two bits of exponent, one of mantissa, in the lower four bits of each byte.

    Floats are rounded to the nearest value, of two as near to the one with an even mantissa. What is beyond 6, infinity
    and NaN too, becomes 6 with its sign.

    Args:
        data: Numbers to encode.
        size: Without ``data``: extents, or one extent, that :meth:`random` fills.
        device: Without ``data``: where. Default: torch's.

    Attributes:
        data: The codes, a uint8 tensor; there after :meth:`random` or where ``data`` was given.
        device: Where they lie.
        size: Extents.

    Raises:
        TypeError: ``data`` is not a tensor of real numbers, or ``size`` has no integers.
        ValueError: Neither ``data`` nor ``size`` is given.
    """

    def random(self) -> Self:
        """Fill the tensor with random codes and return it."""
        self.data = self._drawn(0, _SIGN | _MAGNITUDE)
        return self

    def to(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the values.

        Raises:
            ValueError: ``dtype`` is not ``torch.float32``.
        """
        _check_single(dtype)
        values = torch.tensor([*_E2M1, *(-v for v in _E2M1)], device=self.data.device)
        return values[(self.data & (_SIGN | _MAGNITUDE)).long()]

    def _encoded(self, values: torch.Tensor) -> torch.Tensor:
        # Between two neighbours: a tie goes to the lower one if its mantissa, its last bit, is even.
        middles = [(a + b) / 2 for a, b in itertools.pairwise(_E2M1)]
        magnitudes = values.abs().to(torch.float64)
        codes = torch.zeros(values.shape, dtype=torch.uint8, device=values.device)
        for below, middle in enumerate(middles):
            codes += magnitudes > middle if below % 2 == 0 else magnitudes >= middle
        codes = torch.where(values.isnan(), _MAGNITUDE, codes)
        return codes | (torch.signbit(values).to(torch.uint8) * _SIGN)

    def to_packed_tensor(self, dim: int) -> torch.Tensor:
        """Return two codes in each byte, the first in its lower bits; a zero is added to an odd number.

        Args:
            dim: The axis along which they are packed, counted from 0.

        Raises:
            AssertionError: There is no such axis.
        """
        _check_axis(dim, self.data.ndim)
        data = self.data
        if data.shape[dim] % 2:
            shape = list(data.shape)
            shape[dim] = 1
            data = torch.cat((data, data.new_zeros(shape)), dim)
        first, second = data.unflatten(dim, (-1, 2)).unbind(dim + 1)
        packed: torch.Tensor = first | (second << 4)
        return packed

    def unpack_packed_tensor(
        self, packed_tensor: torch.Tensor, dim: int, original_shape: Sequence[int]
    ) -> torch.Tensor:
        """Return the codes of a packed tensor, one in each byte.

        Args:
            packed_tensor: What :meth:`to_packed_tensor` returned; uint8.
            dim: The axis along which it is packed.
            original_shape: Extents of the codes.

        Raises:
            AssertionError: There is no such axis.
        """
        _check_axis(dim, packed_tensor.ndim)
        pairs = torch.stack((packed_tensor & 0xF, packed_tensor >> 4), dim + 1)
        return pairs.flatten(dim, dim + 1).narrow(dim, 0, original_shape[dim])


class MXScaleTensor(_Codes):
    """Codes of e8m0: a byte ``code`` is 2 to the power of ``code - 127``, and 255 is NaN.

    Floats are rounded down to a power of two. What is not positive and finite becomes NaN.

    Args:
        data: Numbers to encode.
        size: Without ``data``: extents, or one extent, that :meth:`random` fills.
        device: Without ``data``: where. Default: torch's.

    Attributes:
        data: The codes, a uint8 tensor; there after :meth:`random` or where ``data`` was given.
        device: Where they lie.
        size: Extents.

    Raises:
        TypeError: ``data`` is not a tensor of real numbers, or ``size`` has no integers.
        ValueError: Neither ``data`` nor ``size`` is given.
    """

    def random(self, low: float | None = None, high: float | None = None) -> Self:
        """Fill the tensor with random scales and return it; none is NaN.

        Args:
            low: No scale is below the power of two at or below it. Default: 2**-127.
            high: No scale is above it. Default: 2**127.

        Raises:
            ValueError: A bound is not positive and finite, or ``low`` is above ``high``.
        """
        least = 0 if low is None else _code("low", low)
        greatest = _NAN - 1 if high is None else _code("high", high)
        if least > greatest:
            raise ValueError(f"low must be at most high = {high}, but got {low}")
        self.data = self._drawn(least, greatest)
        return self

    def to(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the values; code 0 is 2**-127, a subnormal number.

        Raises:
            ValueError: ``dtype`` is not ``torch.float32``.
        """
        _check_single(dtype)
        # As exponents of fp64, where all are normal numbers.
        values = ((self.data.long() + (1023 - _BIAS)) << 52).view(torch.float64)
        return values.to(dtype).masked_fill(self.data == _NAN, torch.nan)

    def _encoded(self, values: torch.Tensor) -> torch.Tensor:
        wide = values.to(torch.float64)
        valid = wide.isfinite() & (wide > 0)
        # frexp gives [0.5, 1): exact where a logarithm would round to the next power.
        exponents = torch.frexp(torch.where(valid, wide, 1.0)).exponent - 1
        codes = (exponents + _BIAS).clamp(0, _NAN - 1)
        return torch.where(valid, codes, _NAN).to(torch.uint8)


def _code(name: str, bound: float) -> int:
    number = torch.tensor(bound, dtype=torch.float64)
    if not (number > 0 and number.isfinite()):
        raise ValueError(f"{name} must be positive and finite, but got {bound}")
    return int(MXScaleTensor(number).data)
