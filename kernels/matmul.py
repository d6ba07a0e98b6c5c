"""Matrix products at the speed of the machine, whose bits don't depend on how they were computed.

::

    from emu.kernels.matmul import matmul

    c = matmul(a, b)                                # fp32, fp64, fp16, bf16; int8 gives int32
    matmul(a, b, out=c, beta=1)                     # accumulate into c
    matmul(x, w, transpose_b=True, bias=bias)       # a linear layer
    matmul(a, b, precision="native")                # bf16 by the CPU's own instruction

Every element of the product is one chain of fused multiply-adds, ``sum = fma(a[k], b[k], sum)``, with k
increasing: of fp32 for fp32, fp16 and bf16, of fp64 for fp64, of int32 that wraps for int8. Sizes,
strides, transposes, stacks of matrices and the number of threads don't change a bit of it. (A CPU without
fused multiply-add rounds each product by itself.) NaN and infinity go through as IEEE 754 says.

``precision="native"`` gives that up for speed: bf16 is multiplied by the instruction that the CPU has for it
(``tdpbf16ps`` of AMX, ``vdpbf16ps`` of AVX512-BF16, ``bfdot`` of Arm), which adds the products of several neighbours
along k to a sum of fp32 with roundings of its own, and takes and leaves subnormals as zero. The bits then depend on
the CPU, though still not on threads or strides. Where there is no such instruction, and for other dtypes, it is the
exact product.
"""

from __future__ import annotations

import functools
import threading
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from emu.kernels.core import threads as pool
from emu.kernels.core.address import aligned_data, array_data
from emu.kernels.core.annotations import Array, Dispatcher, EntryPoint
from emu.kernels.core.checks import check
from emu.kernels.core.dtypes import F64, kinds_of
from emu.kernels.core.jit import annotated_entry, annotated_signature, is_stored, jit
from emu.kernels.core.messages import shown
from emu.kernels.errors import ArgumentError
from emu.kernels.gemm.arguments import (
    check_bias,
    factors,
    kind_for,
    plan_of,
    result_array,
)
from emu.kernels.gemm.blocks import (
    BLOCK_ROWS,
    BLOCK_STEPS,
    MAX_K,
    block_columns,
    multiply,
    pack_whole,
    packed_before,
    packed_bytes,
    scratch_bytes,
)
from emu.kernels.gemm.finish import finish
from emu.kernels.gemm.microkernel import BF16_AMX, COLUMNS_32, COLUMNS_64, ROWS
from emu.kernels.gemm.operands import (
    Matrix,
    Output,
    Rows,
    Size,
    Workspace,
    in_memory,
    matrix_at,
    output_from,
)

_KINDS = kinds_of("float32", "float16", "bfloat16", "float64", "int32")

_MANY_ROWS = 2 * BLOCK_ROWS
_LONGEST = 1024
"""Steps of k for which many columns fit the caches; longer products of many rows go on from their sums."""

MAX_THREADS = 1024
"""Largest number of threads of one product."""

_WORTH_THREADS = 1 << 21
"""Multiply-adds below which starting a second thread takes longer than it saves."""

_KEEP_BYTES = 64 << 20
_SPLIT_K = 4096
"""Fewest values of k that get a thread of their own."""

_local = threading.local()


class Packed:
    """A matrix laid out once, as the right operand of many products; :func:`pack` makes it.

    Attributes:
        array: The matrix as it was given, [k, n]; changing it later does not change the products.
        precision: That of the products, as :func:`matmul` takes it.
        panels: Address of the panels of the micro-kernel; 0 where products pack the matrix themselves.
        initial: Address of the sums that go with them.
    """

    def __init__(self, array: Array, reuse: Packed | None = None, precision: str = "exact") -> None:
        kind = kind_for(plan_of(array, array)[0], precision)
        self.array = array
        self.precision = precision
        self.panels = self.initial = 0
        self._memory = np.empty(0, np.uint8)
        k, n = array.shape
        if not (0 < k <= MAX_K and n):
            self.array = array.copy()
            return
        panels, starts = packed_bytes(n, k, kind)
        panels += 4 * BLOCK_STEPS
        needed = panels + starts + 128
        if reuse is not None:
            self._memory, reuse._memory = reuse._memory, self._memory
            reuse.panels = reuse.initial = 0
        if self._memory.size < needed:
            self._memory = np.empty(needed, np.uint8)
        self.panels = int(aligned_data(id(self._memory)))
        self.initial = self.panels + -(-panels // 64) * 64
        _entry(_pack_array)(
            kind, n, k, Matrix(id(array), *array.strides), self.panels, self.initial
        )

    def forget(self) -> None:
        """Let go of the matrix; the memory stays, for ``reuse``. Products with it are errors from then on."""
        self.panels = self.initial = 0
        self.array = np.empty((0, 0), self.array.dtype)


def pack(
    b: Array,
    *,
    transpose_b: bool = False,
    reuse: Packed | None = None,
    precision: str = "exact",
) -> Packed:
    """Lay a matrix out for :func:`matmul`, which then does not do so in every call.

    It is worth it where a matrix is multiplied by many others of some tens or hundreds of rows. The bits
    of the products are the same.

    Args:
        b: [k, n] of fp32, fp64, fp16, bf16 or int8, any strides.
        transpose_b: ``b`` is given as [n, k].
        reuse: Take the memory of this one, which from then on has its products packed one by one.
        precision: Of the products: ``"exact"`` or ``"native"``, as for :func:`matmul`.

    Returns:
        What :func:`matmul` takes as ``b``. Its memory is about that of ``b`` in fp32 (fp64 for fp64, int8
        for int8, bf16 for native bf16).

    Raises:
        ArgumentError: Wrong dtype or shape, or an unknown precision.
    """
    if not isinstance(b, np.ndarray) or b.ndim != 2:
        raise ArgumentError(f"b must be a matrix, but got {shown(b)}")
    if reuse is not None and not isinstance(reuse, Packed):
        raise ArgumentError(f"reuse must be what pack() made, but got {shown(reuse)}")
    kind_for(plan_of(b, b, "b")[0], precision)
    return Packed(b.T if check.flag("transpose_b", transpose_b) else b, reuse, precision)


def matmul(
    a: Array,
    b: Array | Packed,
    *,
    out: Array | None = None,
    dtype: npt.DTypeLike | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Array | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    threads: int | None = None,
    deterministic: bool = True,
    precision: str = "exact",
) -> Array:
    """Return ``alpha * (a @ b) + beta * out + bias``.

    The product is summed in fp32 (fp64 for fp64, int32 for int8); then alpha, beta and bias are applied
    in that dtype, each operation with a rounding of its own; then the result is rounded once to its dtype.

    Args:
        a: [.., m, k] of fp32, fp64, fp16, bf16 or int8, any strides.
        b: [.., k, n] of the same dtype. Axes before the last two broadcast. Or what :func:`pack` made
            of a [k, n]; ``transpose_b`` then does not count.
        out: Array to write to, [.., m, n], any strides; it may overlap with the others. Default: a
            new one.
        dtype: dtype of the result. Default: that of ``out``, else that of ``a``; int32 for int8. fp32,
            fp16 and bf16 may each give the other.
        alpha: Factor of the product; integral for int8.
        beta: Factor of what ``out`` holds; 1 accumulates. At 0 ``out`` is not read, so that NaN in it
            does no harm.
        bias: [n], added to each row; converted to the dtype of the sums.
        transpose_a: ``a`` is given as [.., k, m].
        transpose_b: ``b`` is given as [.., n, k].
        threads: How many threads may share the work, 1 to 1024. Default: what Numba is set to; in a PE
            one. A process gets no more than it had when Numba first started threads, and a fork of such a
            process one.
        deterministic: Give the same bits for any number of threads. False lets the threads share a long k
            between them where there are too few rows and columns to share.
        precision: ``"native"`` multiplies bf16 by the CPU's own instruction for it where there is one, with
            results that differ between CPUs; see the module. A packed ``b`` must have been packed for it.

    Returns:
        ``out``, or the new array.

    Raises:
        ArgumentError: Wrong dtype, shape or value; nothing has been changed.
    """
    places = (0, 0)
    packed = b if isinstance(b, Packed) else None  # kept: the panels live as long as it
    if isinstance(b, Packed):
        if type(precision) is str and precision != b.precision:
            raise ArgumentError(
                f"precision must be that of the packed b, {b.precision!r}, but got {precision!r}"
            )
        places, b = (b.panels, b.initial), b.array
    given, sums, allowed = plan_of(a, b)
    kind = kind_for(given, precision)
    alpha, beta = factors(given, alpha, beta)
    deterministic = check.flag("deterministic", deterministic)
    left = a.swapaxes(-1, -2) if check.flag("transpose_a", transpose_a) else a
    right = b.swapaxes(-1, -2) if check.flag("transpose_b", transpose_b) and packed is None else b
    result = result_array(left, right, out, dtype, allowed, a, b)
    offset = check_bias(bias, result.shape[-1], sums)
    if beta != 0 and out is None:
        raise ArgumentError(f"out must be given when beta is not 0, but got beta {beta}")
    if threads is not None:
        threads = check.integer("threads", threads, 1, MAX_THREADS)
    if out is not None:
        if np.may_share_memory(out, left):
            left = left.copy()
        if not places[0] and np.may_share_memory(out, right):
            right = right.copy()
        if offset is not None and np.may_share_memory(out, offset):
            offset = offset.copy()
    if not result.size:
        return result
    work = _Work(kind, sums, alpha, beta, offset, threads, deterministic, places)
    if result.ndim == 2:
        work.run(left, right, result)
    else:
        batch = result.shape[:-2]
        left = np.broadcast_to(left, batch + left.shape[-2:])
        right = np.broadcast_to(right, batch + right.shape[-2:])
        for index in np.ndindex(batch):
            work.run(left[index], right[index], result[index])
    return result


class _Work:
    """One call: what its single products have in common."""

    def __init__(
        self,
        kind: int,
        sums: np.dtype[np.generic],
        alpha: float,
        beta: float,
        bias: Array | None,
        threads: int | None,
        deterministic: bool,
        packed: tuple[int, int],
    ) -> None:
        self.kind = kind
        self.sums = sums
        self.alpha = alpha
        self.beta = beta
        self.bias = bias
        self.threads = threads
        self.deterministic = deterministic
        self.plain = alpha == 1.0 and beta == 0.0 and bias is None
        self.packed = packed

    def run(self, a: Array, b: Array, c: Array) -> None:
        """Compute one product of two matrices."""
        if b.shape[1] == 1 and self.bias is None and not self.packed[0]:
            # A column would fill one lane of a vector; as a row it fills all, with the same bits.
            a, b, c = b.T, a.T, c.T
        m, k = a.shape
        n = b.shape[1]
        direct = self.plain and c.dtype == self.sums and c.strides[1] == c.itemsize
        threads = self._threads(m, n, k)
        share_k = threads > 1 and not self.deterministic and not self.packed[0]
        if share_k and self._few(m, n) and k >= 2 * _SPLIT_K:
            self._share_k(a, b, c, min(threads, k // _SPLIT_K))
            return
        longest = MAX_K
        many = direct and m >= _MANY_ROWS and not self.packed[0]
        if many and self.sums.kind == "f" and self.kind != BF16_AMX:
            longest = _LONGEST
        if 0 < k <= longest:
            self._multiply(a, b, c, direct, False, threads)
            return
        total = c if direct else np.empty((m, n), self.sums)
        if k == 0:
            total[...] = 0
        for start in range(0, k, longest):
            part = slice(start, min(start + longest, k))
            self._multiply(a[:, part], b[part], total, True, start > 0, threads)
        if total is not c:
            self._finish(total, c)

    def _threads(self, m: int, n: int, k: int) -> int:
        if m * n * k < _WORTH_THREADS and self.threads is None:
            return 1
        wanted = pool.default_threads() if self.threads is None else self.threads
        return pool.usable_threads(wanted)

    def _few(self, m: int, n: int) -> bool:
        return m <= 4 * ROWS and n <= 4 * COLUMNS_32

    def _multiply(
        self, a: Array, b: Array, c: Array, direct: bool, accumulate: bool, threads: int
    ) -> None:
        m, k = a.shape
        n = b.shape[1]
        rows, columns, each, wide = _geometry(m, n, k, self.kind, threads)
        scratch = _scratch(each * rows * columns)
        bias = self.bias
        output = (_KINDS[c.dtype], int(direct), int(accumulate), 0 if bias is None else id(bias))
        arguments = (
            self.kind,
            (m, n, k),
            (id(a), *a.strides),
            (id(b), *b.strides),
            (id(c), *c.strides),
            (*output, self.alpha, self.beta),
            (wide, id(scratch), *self.packed),
        )
        if rows * columns == 1:
            _entry(_multiply_arrays)(*arguments)
            return
        with pool.one_at_a_time:
            _entry(_multiply_shared)(*arguments, (rows, columns, each))

    def _finish(self, total: Array, c: Array) -> None:
        bias = 0 if self.bias is None else id(self.bias)
        output = Output(_KINDS[c.dtype], 0, 0, bias, self.alpha, self.beta)
        sums = Rows(id(total), total.strides[0])
        m, n = c.shape
        _entry(_finish_arrays)(sums, m, n, Matrix(id(c), *c.strides), output)

    def _share_k(self, a: Array, b: Array, c: Array, parts: int) -> None:
        """Let each thread sum a stretch of k, then add the sums up in order."""
        (m, k), n = a.shape, b.shape[1]
        kind = self.kind
        totals = np.empty((parts, m, n), self.sums)
        stretch = -(-k // parts)
        for start in range(0, stretch, MAX_K):
            depth = min(MAX_K, stretch - start)
            each = -(-scratch_bytes(n, depth, kind) // 64) * 64
            scratch = _scratch(each * parts)
            with pool.one_at_a_time:
                _entry(_stretches)(
                    kind,
                    Size(m, n, k),
                    Matrix(id(a), *a.strides),
                    Matrix(id(b), *b.strides),
                    id(totals),
                    (_KINDS[self.sums], int(start > 0), block_columns(n, depth, kind), id(scratch)),
                    _Stretches(parts, stretch, start, depth, each),
                )
        for part in range(1, parts):
            totals[0] += totals[part]
        self._finish(totals[0], c)


@functools.lru_cache(maxsize=1024)
def _geometry(m: int, n: int, k: int, kind: int, threads: int) -> tuple[int, int, int, int]:
    """Return parts of the rows and of the columns, bytes of scratch for each, columns of a block."""
    unit = COLUMNS_64 if kind == F64 else COLUMNS_32
    rows, columns = _grid(m, n, threads, unit)
    part = min(n, -(-n // columns) + unit)
    return rows, columns, -(-scratch_bytes(part, k, kind) // 64) * 64, block_columns(part, k, kind)


def _grid(m: int, n: int, threads: int, columns: int) -> tuple[int, int]:
    """Split the result among threads; return the number of parts of the rows and of the columns.

    Each part packs its columns of B and its rows of A itself, so parts should be as square as may be.
    """
    if threads == 1:
        return 1, 1
    best, found = None, (1, 1)
    for down in range(1, threads + 1):
        across = threads // down
        rows, wide = -(-m // down), -(-n // across)
        blocks = -(-rows // ROWS) * -(-wide // columns)  # tiles of the largest part
        cost = (blocks, rows + wide)
        if best is None or cost < best:
            best, found = cost, (down, across)
    return min(found[0], -(-m // ROWS)), min(found[1], -(-n // columns))


@functools.cache
def _entry(function: Dispatcher) -> EntryPoint:
    """Return a kernel's entry: the dispatcher would take microseconds to find the types of named tuples."""
    return annotated_entry(function)


def preload() -> None:
    """Load the kernel if it has been compiled before, so that the processes forked off have it."""
    if is_stored(_multiply_arrays, annotated_signature(_multiply_arrays)):
        _entry(_multiply_arrays)


def _scratch(count: int) -> Array:
    """Return at least ``count`` bytes, and room to align them, that this thread alone uses."""
    kept: Array | None = getattr(_local, "scratch", None)
    if kept is not None and kept.size >= count + 64:
        return kept
    fresh = np.empty(count + 64, np.uint8)
    if fresh.size <= _KEEP_BYTES:
        _local.scratch = fresh
    return fresh


class _Shares(NamedTuple):
    """Threads that share a product: parts of the rows and of the columns, bytes of scratch for each."""

    rows: int
    columns: int
    scratch_bytes: int


class _Stretches(NamedTuple):
    """Threads that share k: how many, and of each the values of k, the first of them, how many now."""

    parts: int
    length: int
    start: int
    depth: int
    scratch_bytes: int


@jit()
def _multiply_arrays(
    kind: int, size: Size, a: Matrix, b: Matrix, c: Matrix, output: Output, room: Workspace
) -> None:
    """:func:`emu.kernels.gemm.blocks.multiply` with the ``id()`` of ndarrays for addresses."""
    here = _output_in_memory(output)
    scratch = Workspace(room.block, aligned_data(room.scratch), room.packed, room.initial)
    multiply(kind, size, in_memory(a), in_memory(b), in_memory(c), here, scratch)


@jit(inline="always")
def _output_in_memory(output: Output) -> Output:
    bias = array_data(output.bias) if output.bias else 0
    return Output(output.kind, output.direct, output.accumulate, bias, output.alpha, output.beta)


@jit()
def _pack_array(kind: int, n: int, k: int, b: Matrix, packed: int, initial: int) -> None:
    """:func:`emu.kernels.gemm.blocks.pack_whole` of an ndarray given by its ``id()``."""
    pack_whole(kind, n, k, in_memory(b), packed, initial)


@jit(inline="always")
def _share(total: int, parts: int, part: int, unit: int) -> int:
    """Return where part number ``part`` begins, in whole units."""
    units = (total + unit - 1) // unit
    return min(total, units * part // parts * unit)


@jit(parallel=True)
def _multiply_shared(
    kind: int,
    size: Size,
    a: Matrix,
    b: Matrix,
    c: Matrix,
    output: Output,
    room: Workspace,
    shares: _Shares,
) -> None:
    """:func:`_multiply_arrays`, shared among threads."""
    nbytes = 8 if kind == F64 else 4
    unit = COLUMNS_64 if kind == F64 else COLUMNS_32
    for part in numba.prange(shares.rows * shares.columns):
        down, across = part // shares.columns, part % shares.columns
        top = _share(size.m, shares.rows, down, ROWS)
        bottom = _share(size.m, shares.rows, down + 1, ROWS)
        left = _share(size.n, shares.columns, across, unit)
        right = _share(size.n, shares.columns, across + 1, unit)
        if top < bottom and left < right:
            packed = room.packed + packed_before(kind, left, size.k) if room.packed else 0
            scratch = aligned_data(room.scratch) + part * shares.scratch_bytes
            multiply(
                kind,
                Size(bottom - top, right - left, size.k),
                matrix_at(in_memory(a), top, 0),
                matrix_at(in_memory(b), 0, left),
                matrix_at(in_memory(c), top, left),
                output_from(_output_in_memory(output), left * nbytes),
                Workspace(room.block, scratch, packed, room.initial + left * 4),
            )


@jit(parallel=True)
def _stretches(
    kind: int,
    size: Size,
    a: Matrix,
    b: Matrix,
    totals: int,
    sums: tuple[int, int, int, int],
    stretches: _Stretches,
) -> None:
    """Sum ``depth`` values of k from ``start`` on in the stretch of each thread.

    ``sums`` has the arithmetic kind of the totals, whether they are added to, the columns of a block, and
    the ``id()`` of the scratch memory.
    """
    nbytes = 8 if kind == F64 else 4
    m, n = size.m, size.n
    for part in numba.prange(stretches.parts):
        first = part * stretches.length + stretches.start
        end = min(size.k, (part + 1) * stretches.length)
        count = min(stretches.depth, end - first)
        if count > 0:
            total = array_data(totals) + part * m * n * nbytes
            scratch = aligned_data(sums[3]) + part * stretches.scratch_bytes
            multiply(
                kind,
                Size(m, n, count),
                matrix_at(in_memory(a), 0, first),
                matrix_at(in_memory(b), first, 0),
                Matrix(total, n * nbytes, nbytes),
                Output(sums[0], 1, sums[1], 0, 1.0, 0.0),
                Workspace(sums[2], scratch, 0, 0),
            )


@jit()
def _finish_arrays(sums: Rows, m: int, n: int, c: Matrix, output: Output) -> None:
    """:func:`emu.kernels.gemm.finish.finish` with the ``id()`` of ndarrays for addresses."""
    first = Rows(array_data(sums.address), sums.stride)
    finish(first, m, n, in_memory(c), _output_in_memory(output))


__all__ = ["MAX_THREADS", "Packed", "matmul", "pack"]
