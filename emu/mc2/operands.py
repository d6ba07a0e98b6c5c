"""Operands of the dense operators, as given by their callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.mc2.arguments import (
    HALVES,
    INT8,
    Array,
    Tensor,
    check_matrix,
    local_memory,
)
from emu.mc2.product import Product, row_scales
from emu.tile.counting.state import wants_operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """Factors, bias and scales of a product, not yet checked.

    Attributes:
        x1: [m, k] of fp16, bf16 or int8.
        x2: [k, n] of the same dtype, any strides.
        bias: [n] of that dtype or fp32; int32 for int8. Default: none.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        x1_scale: fp32 [m] or [m, 1], a scale for each row of an int8 x1. Default: 1.
        x2_scale: One element or [n], fp32, fp16 or bf16; needed for int8.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 for int8.
        scale_names: The operator's names for ``x1_scale`` and ``x2_scale``.
    """

    x1: Tensor
    x2: Tensor
    bias: Array | None
    is_trans_a: bool
    is_trans_b: bool
    x1_scale: Array | None = None
    x2_scale: Array | None = None
    y_dtype: npt.DTypeLike | None = None
    scale_names: tuple[str, str] = ("x1_scale", "x2_scale")

    def matrices(self, *, blocks: int = 1, weights: bool = False) -> tuple[Array, Array]:
        """Return x1 as [m, k] and x2 as [k · blocks, n], checked against each other.

        Args:
            blocks: Number of blocks of k columns that meet the rows of x2.
            weights: Accept an int8 x2 beside an fp16 or bf16 x1.

        Raises:
            ArgumentError: Their shapes or dtypes do not fit.
        """
        if check.flag("is_trans_a", self.is_trans_a):
            raise ArgumentError(f"is_trans_a must be False, but got {self.is_trans_a!r}")
        left = check_matrix("x1", self.x1, (*HALVES, INT8))
        right = check_matrix("x2", self.x2, (left.dtype, INT8) if weights else (left.dtype,))
        if check.flag("is_trans_b", self.is_trans_b):
            right = right.T
        depth = left.shape[1] * blocks
        if right.shape[0] != depth:
            raise ArgumentError(
                f"x2 must have an inner extent of {depth}, but got {right.shape[0]} "
                f"(x1 has shape {left.shape}, x2 {local_memory('x2', self.x2).shape}, "
                f"is_trans_b is {bool(self.is_trans_b)})"
            )
        return left, right

    def product(self, right: Array) -> Product:
        """Return the product by a checked x2, or by the weight that was restored from it."""
        return Product(
            right,
            self.bias,
            scale_name=self.scale_names[1],
            scale=self.x2_scale,
            dtype=self.y_dtype,
        )

    def row_scales(self, product: Product, m: int) -> Array | None:
        """Return the checked scales of the m rows of x1, or None."""
        return row_scales(self.scale_names[0], self.x1_scale, product, m)

    def count(
        self,
        name: str,
        extents: tuple[int, int, int],
        read: Mapping[str, object],
        written: Mapping[str, object],
        norm: np.dtype[np.generic] | None = None,
    ) -> None:
        """Count a call of the operator that is over, if operators are counted.

        Args:
            name: The operator's.
            extents: m, n and k of this PE's product.
            read: Arrays that were read, by name.
            written: Results, by name.
            norm: dtype of rows that were normalised, a residual added.
        """
        if not wants_operators():
            return
        from emu.mc2 import counted  # where somebody counts

        (m, n, _), x1, x2 = extents, local_memory("x1", self.x1), local_memory("x2", self.x2)
        more = [] if norm is None else [counted.normalised(norm, m * n)]
        if x1.dtype == INT8:
            scales = 1 if self.x1_scale is None else 2
            more.append(counted.multiplications(m * n, scales))
        elif x2.dtype == INT8:
            more.append(counted.restored(x1.dtype, x2.size))
        counted.note_operator(name, [(extents, x1.dtype)], read, written, *more)

    def sources(self) -> dict[str, object]:
        """Return the arrays that are read, by the names that errors call them."""
        first, second = self.scale_names
        return {
            "x1": self.x1,
            "x2": self.x2,
            "bias": self.bias,
            first: self.x1_scale,
            second: self.x2_scale,
        }
