"""Operands of a matrix product, as compiled code passes them on.

They are tuples with named fields: Numba takes them apart at compile time, so that they cost what single
integers cost. Addresses are integers, and strides are in bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from emu.kernels.core.address import array_data
from emu.kernels.core.jit import jit


class Size(NamedTuple):
    """Extents of ``C[m, n] = A[m, k] @ B[k, n]``."""

    m: int
    n: int
    k: int


class Matrix(NamedTuple):
    """A matrix in memory: its address, and the bytes from row to row and from column to column."""

    address: int
    row: int
    column: int


class Rows(NamedTuple):
    """Contiguous rows: the address of the first, and the bytes from row to row."""

    address: int
    stride: int


class Output(NamedTuple):
    """Result of a product: ``alpha * sums + beta * C + bias``, rounded to the dtype of C.

    Attributes:
        kind: Arithmetic kind of C. F32, F16 and BF16 take sums of fp32, F64 of fp64, I32 of int32.
        direct: 1 if C has the dtype of the sums, contiguous rows, and wants no finishing.
        accumulate: 1 if the sums start from what C holds; needs ``direct``.
        bias: Address of n elements of the dtype of the sums, or 0.
        alpha: Factor of the product.
        beta: Factor of the old C, which is not read if this is zero.
    """

    kind: int
    direct: int
    accumulate: int
    bias: int
    alpha: float
    beta: float


class Workspace(NamedTuple):
    """Memory that a product needs besides its operands.

    Attributes:
        block: Columns of B that are packed at a time (``blocks.block_columns``).
        scratch: Address of ``blocks.scratch_bytes`` bytes, aligned to 64, for one thread alone.
        packed: Address of B as ``blocks.pack_whole`` leaves it, or 0; B itself is then not read.
        initial: Address of the sums that go with it.
    """

    block: int
    scratch: int
    packed: int
    initial: int


@jit(inline="always")
def in_memory(matrix: Matrix) -> Matrix:
    """Return a matrix whose address was given as the ``id()`` of its ndarray."""
    return Matrix(array_data(matrix.address), matrix.row, matrix.column)


@jit(inline="always")
def matrix_at(matrix: Matrix, row: int, column: int) -> Matrix:
    """Return the part of a matrix from a row and a column on."""
    address = matrix.address + row * matrix.row + column * matrix.column
    return Matrix(address, matrix.row, matrix.column)


@jit(inline="always")
def rows_at(rows: Rows, row: int, offset: int) -> Rows:
    """Return rows from one on, ``offset`` bytes into each."""
    return Rows(rows.address + row * rows.stride + offset, rows.stride)


@jit(inline="always")
def output_from(output: Output, offset: int) -> Output:
    """Return the output for columns whose bias begins ``offset`` bytes further."""
    bias = output.bias + offset if output.bias else 0
    return Output(output.kind, output.direct, output.accumulate, bias, output.alpha, output.beta)
