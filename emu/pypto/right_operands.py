"""Right operands that a kernel multiplies by more than once, laid out once for all of these products.

A product lays its right operand out for the CPU's vectors (and widens it), which of a product of few rows is a third of the work.
An argument of a kernel that no op has written holds the same values until the kernel's end, so what was laid out for one
product serves the next. Which operands are worth it, the last kernels say that multiplied operands of this form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from emu.comm.world.current import current
from emu.kernels import matmul as kernel
from emu.kernels.gemm.blocks import MAX_K
from emu.pypto.context import CONTEXT
from emu.pypto.dtypes import Array
from emu.pypto.native.addresses import address_of

if TYPE_CHECKING:
    from emu.pypto.buffer import Buffer

MOST_ROWS = 384
"""Rows of a product above which it is as fast where it lays out each part itself, just before it needs it."""

LEAST_ELEMENTS = 1 << 14
MOST_BYTES = 1 << 26
"""Bytes of what is laid out, all together."""

Form: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], np.dtype[np.generic], str]
"""Shape, strides, dtype and precision."""


class _Laid:
    """An operand that is laid out, or has been: its memory serves others of its form.

    Attributes:
        packed: For the products.
        buffer: Memory of the argument in the kernel that runs now; None: it is of an earlier one.
        products: Number of products that have used it there.
    """

    __slots__ = ("buffer", "nbytes", "packed", "products")

    def __init__(self, packed: kernel.Packed, nbytes: int) -> None:
        self.packed = packed
        self.nbytes = nbytes
        self.buffer: Buffer | None = None
        self.products = 0


class RightOperands:
    """What is laid out in this process."""

    def __init__(self) -> None:
        self._laid: dict[Form, list[_Laid]] = {}
        self._nbytes = 0
        self._seen: set[Buffer] = set()
        """Operands of the kernel that runs now that have been multiplied by once."""

    def find(self, buffer: Buffer, array: Array, rows: int, precision: str) -> kernel.Packed | None:
        """Return an operand as products take it that have so many rows; None: as it is.

        Args:
            buffer: Its memory.
            array: The operand.
            rows: Rows of the product.
            precision: That of the product.
        """
        if not buffer.call or buffer.is_written or array is not buffer.memory or rows > MOST_ROWS:
            return None
        if array.ndim != 2 or array.size < LEAST_ELEMENTS or array.shape[0] > MAX_K:
            return None
        form = (array.shape, array.strides, array.dtype, precision)
        laid = self._laid.get(form)
        if laid is not None:
            for each in laid:
                if each.buffer is buffer:
                    each.products += 1
                    return each.packed
            for each in laid:
                if each.buffer is None:
                    return self._lay(each, buffer, array, form)
        if buffer not in self._seen:
            self._note_end()
            self._seen.add(buffer)
            return None
        return self._lay(None, buffer, array, form)

    def _lay(
        self, known: _Laid | None, buffer: Buffer, array: Array, form: Form
    ) -> kernel.Packed | None:
        """Lay an operand out; in the memory of one of an earlier kernel, if that is given."""
        nbytes = array.size * max(4, array.itemsize)
        if known is None and self._nbytes + nbytes > MOST_BYTES:
            return None
        if _is_symmetric(array):
            return None  # other PEs may write it
        self._note_end()
        precision = form[-1]
        if known is None:
            known = _Laid(kernel.pack(array, precision=precision), nbytes)
            self._laid.setdefault(form, []).append(known)
            self._nbytes += nbytes
        else:
            known.packed = kernel.pack(array, reuse=known.packed, precision=precision)
        known.buffer, known.products = buffer, 1
        return known.packed

    def _note_end(self) -> None:
        at_end = CONTEXT.graph.scope.at_end
        if self._end not in at_end:
            at_end.append(self._end)

    def _end(self) -> None:
        """Forget the arguments of the kernel that ends, and what was not worth to be laid out."""
        self._seen.clear()
        for form, laid in list(self._laid.items()):
            kept = []
            for each in laid:
                if each.buffer is not None and each.products < 2:
                    self._nbytes -= each.nbytes
                    continue
                if each.buffer is not None:
                    each.buffer, each.products = None, 0
                    each.packed.forget()
                kept.append(each)
            if kept:
                self._laid[form] = kept
            else:
                del self._laid[form]


def _is_symmetric(array: Array) -> bool:
    """Return whether an array lies in the memory that PEs share."""
    world = current()
    if world is None:
        return False
    start = address_of(array) - world.segment.address
    return 0 <= start < world.segment.layout.total


RIGHT_OPERANDS = RightOperands()
"""Those of this process."""
