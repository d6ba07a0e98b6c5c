"""Products with partial sums reduced across PEs: each tile is sent as soon as it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt

from emu.comm.errors import ArgumentError
from emu.comm.tiling.enums import HcclCommand
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.kernels.cast import cast
from emu.kernels.core.messages import shown
from emu.mc2 import scratch
from emu.mc2.arguments import (
    FLOAT32,
    INT8,
    Array,
    Tensor,
    check_disjoint,
    check_finite,
    check_matrix,
    check_output,
    check_vector,
    divide_evenly,
    local_memory,
)
from emu.mc2.operands import Operands
from emu.mc2.product import restore_weight
from emu.mc2.session import Communication, CommunicationOptions, Operator, session
from emu.mc2.spans import Noted
from emu.mc2.splitting import TileSplit


def matmul_reduce_scatter(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    reduce_op: str = "sum",
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    y: Tensor | None = None,
    x1_scale: Array | None = None,
    x2_scale: Array | None = None,
    y_dtype: npt.DTypeLike | None = None,
    **communication: Unpack[CommunicationOptions],
) -> Tensor:
    """Return this PE's rows of the sum over all PEs of ``x1 @ x2 + bias``.

    Every PE of the group calls it. A turn is some rows of every PE's block: while they are reduced, the
    next are multiplied. A partial product, its bias included, is rounded to the dtype of ``y``, in which it is
    sent; the partial products are summed in the order of the PEs in fp32 and rounded once
    more. The number of turns does not change a bit.

    Args:
        x1: [m, k] of fp16, bf16 or int8; m is divisible by the group's size R.
        x2: [k, n] of the same dtype, any strides.
        bias: [n] of that dtype or fp32; int32 for int8. Each PE's is part of its partial product: to
            add it once, give it on one PE. Default: none.
        reduce_op: Must be "sum".
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        y: Where to put the result, [m / R, n], C-contiguous. Default: a new array.
        x1_scale: fp32 [m] or [m, 1], a scale for each row of an int8 x1. Default: 1.
        x2_scale: One element or [n], fp32, fp16 or bf16; needed for int8.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 for int8.
        communication: ``group``, ``rank_size``, ``comm_turn``, ``tile_rows``, ``limits``, ``tiling`` and
            ``trace``: the attributes of :class:`emu.mc2.session.Communication`.

    Returns:
        ``y``, or a new ndarray.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    _check_op(reduce_op)
    return _reduce_scatter(
        Operands(
            x1=x1, x2=x2, bias=bias, is_trans_a=is_trans_a, is_trans_b=is_trans_b,
            x1_scale=x1_scale, x2_scale=x2_scale, y_dtype=y_dtype,
        ),
        Communication(**communication),
        y,
    )  # fmt: skip


def _reduce_scatter(operands: Operands, communication: Communication, y: Tensor | None) -> Tensor:
    """Run :func:`matmul_reduce_scatter`: a turn is some rows of every PE's block."""
    group = communication.members()
    left, right = operands.matrices()
    (m, k), n, n_pes = left.shape, right.shape[1], group.n_pes
    block = divide_evenly("m", m, n_pes, "the rows of x1")
    product = operands.product(right)
    tokens = operands.row_scales(product, m)
    moved = block * n * product.dtype.itemsize
    split = communication.split(group, block, k, work=m * k * n, pair_bytes=moved)
    check_disjoint({"y": y}, operands.sources())
    out = check_output("y", y, (block, n), product.dtype)
    scales = None if tokens is None else tokens.reshape(n_pes, block)
    operator = Operator(
        name="matmul_reduce_scatter", command=HcclCommand.REDUCE_SCATTER, y=local_memory("y", out)
    )
    args = (operands.x1, operands.x2, operands.bias, out)
    with session(group, split, operator, communication, args) as call:
        sent = scratch.symmetric(group, "partial products", m * n, product.dtype)
        partial, source = sent.local.reshape(n_pes, block, n), left.reshape(n_pes, block, k)
        handles = call.post_parts(
            "ReduceScatter",
            lambda start, rows, turns: call.hccl.ReduceScatter(
                sent[start * n :], out[start:], rows * n, strideCount=block * n, repeat=turns
            ),
        )
        call.pack(product)
        for turn, (start, count) in enumerate(split):
            rows = slice(start, start + count)
            with call.computing("partial products", turn):
                if count == block:  # all rows: as one product they pack the weight once
                    product.multiply(left, sent.local.reshape(m, n), tokens=tokens)
                else:
                    some = None if scales is None else scales[:, rows]
                    product.multiply(source[:, rows], partial[:, rows], tokens=some)
            call.commit(handles, turn)
    operands.count(operator.name, (m, n, k), operands.sources(), {"y": out})
    return out


def matmul_all_reduce(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    x3: Tensor | None = None,
    *,
    reduce_op: str = "sum",
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    antiquant_scale: Array | None = None,
    antiquant_offset: Array | None = None,
    antiquant_group_size: int = 0,
    dequant_scale: Array | None = None,
    pertoken_scale: Array | None = None,
    y: Tensor | None = None,
    y_dtype: npt.DTypeLike | None = None,
    **communication: Unpack[CommunicationOptions],
) -> Tensor:
    """Return the sum over all PEs of ``x1 @ x2 + bias + x3``, on every PE.

    Every PE of the group calls it. While the rows of one turn are reduced, the next are multiplied. A
    partial product, x3 and bias added in fp32 in this order, is rounded to the dtype of ``y``, in
    which it is sent; the partial products are summed in the order of the PEs in fp32 and rounded once more.
    The number of turns does not change a bit.

    Weights of int8 beside an fp16 or bf16 x1 need ``antiquant_scale`` and are first turned into
    ``(x2 + antiquant_offset) * antiquant_scale``, computed in fp32 and rounded to the dtype of x1. Where both
    are int8, sums and bias are int32, and a partial product is ``(sums + bias) * dequant_scale *
    pertoken_scale + x3`` in fp32.

    Args:
        x1: [m, k] of fp16, bf16 or int8.
        x2: [k, n] of the same dtype, or int8, any strides.
        bias: [n] of x1's dtype or fp32; int32 where x1 is int8. Each PE's is part of its partial product:
            give it on one PE to have it once. Default: none.
        x3: [m, n] of the dtype of ``y``; part of the partial product too. Default: none.
        reduce_op: Must be "sum".
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        antiquant_scale: One element; [n], for each column; or [k / antiquant_group_size, n]. fp32, fp16
            or bf16.
        antiquant_offset: The same shape; may be int32 or int8 too. Default: 0.
        antiquant_group_size: Rows of x2 that share a scale; 0 where the scale has no groups.
        dequant_scale: One element or [n], fp32, fp16 or bf16.
        pertoken_scale: fp32 [m] or [m, 1]. Default: 1.
        y: Where to put the result, [m, n], C-contiguous. Default: a new array.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 where x1 is int8.
        communication: ``group``, ``rank_size``, ``comm_turn``, ``tile_rows``, ``limits``, ``tiling`` and
            ``trace``: the attributes of :class:`emu.mc2.session.Communication`.

    Returns:
        ``y``, or a new ndarray.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    _check_op(reduce_op)
    return _all_reduce(
        _ReducedOperands(
            x1=x1, x2=x2, bias=bias, is_trans_a=is_trans_a, is_trans_b=is_trans_b,
            x1_scale=pertoken_scale, x2_scale=dequant_scale, y_dtype=y_dtype,
            antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset,
            antiquant_group_size=antiquant_group_size,
        ),
        Communication(**communication),
        x3,
        y,
    )  # fmt: skip


def _all_reduce(
    operands: _ReducedOperands, communication: Communication, x3: Tensor | None, y: Tensor | None
) -> Tensor:
    """Run :func:`matmul_all_reduce`."""
    work = _Reduction(communication.members(), operands)
    if x3 is not None:
        work.more = _same_shape("x3", x3, work.shape, work.product.dtype)
    split = work.split(communication)
    check_disjoint({"y": y}, operands.dense_sources(x3))
    out = check_output("y", y, work.shape, work.product.dtype)
    args = (operands.x1, operands.x2, operands.bias, x3, out)
    work.run(split, communication, out, None, args)
    read = {**operands.all_sources(), "x3": x3}
    operands.count("matmul_all_reduce", work.extents, read, {"y": out})
    return out


def matmul_all_reduce_add_rms_norm(
    x1: Tensor,
    x2: Tensor,
    residual: Tensor,
    gamma: Array,
    *,
    bias: Array | None = None,
    epsilon: float = 1e-6,
    reduce_op: str = "sum",
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    antiquant_scale: Array | None = None,
    antiquant_offset: Array | None = None,
    antiquant_group_size: int = 0,
    dequant_scale: Array | None = None,
    pertoken_scale: Array | None = None,
    y: Tensor | None = None,
    norm_out: Tensor | None = None,
    y_dtype: npt.DTypeLike | None = None,
    **communication: Unpack[CommunicationOptions],
) -> tuple[Tensor, Tensor]:
    """Return ``y``, the reduced product with a residual added, and its rows normalised.

    ``y`` is :func:`matmul_all_reduce` ``+ residual``, added in fp32 and rounded; ``norm_out`` is ``y / sqrt(
    mean(y * y) + epsilon) * gamma``, computed from the rounded ``y`` in fp32, row by row, and rounded once.
    Both are done for a turn's rows while the next are reduced.

    Args:
        x1, x2, bias, reduce_op, is_trans_a, is_trans_b: As in :func:`matmul_all_reduce`.
        residual: [m, n] of the dtype of ``y``.
        gamma: [n] of the dtype of ``y`` or fp32.
        epsilon: Added to the mean of the squares, at least 0.
        antiquant_scale, antiquant_offset, antiquant_group_size, dequant_scale, pertoken_scale: As in
            :func:`matmul_all_reduce`.
        y: Where to put the sum, [m, n], C-contiguous. Default: a new array.
        norm_out: Where to put the normalised rows, [m, n], C-contiguous. Default: a new array.
        y_dtype: As in :func:`matmul_all_reduce`.
        communication: ``group``, ``rank_size``, ``comm_turn``, ``tile_rows``, ``limits``, ``tiling`` and
            ``trace``: the attributes of :class:`emu.mc2.session.Communication`.

    Returns:
        ``y`` and ``norm_out``; those given, or new ndarrays.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    _check_op(reduce_op)
    epsilon = check_finite("epsilon", epsilon)
    if not 0 <= epsilon <= np.finfo(FLOAT32).max:
        raise ArgumentError(f"epsilon must be at least 0 and fit in fp32, but got {epsilon!r}")
    return _all_reduce_and_norm(
        _ReducedOperands(
            x1=x1, x2=x2, bias=bias, is_trans_a=is_trans_a, is_trans_b=is_trans_b,
            x1_scale=pertoken_scale, x2_scale=dequant_scale, y_dtype=y_dtype,
            antiquant_scale=antiquant_scale, antiquant_offset=antiquant_offset,
            antiquant_group_size=antiquant_group_size,
        ),
        Communication(**communication),
        (residual, gamma, np.float32(epsilon)),
        (y, norm_out),
    )  # fmt: skip


def _all_reduce_and_norm(
    operands: _ReducedOperands,
    communication: Communication,
    norm_operands: tuple[Tensor, Array, np.float32],
    outputs: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor]:
    """Run :func:`matmul_all_reduce_add_rms_norm`; the norm's operands are residual, gamma and epsilon."""
    (residual, gamma, epsilon), (y, norm_out) = norm_operands, outputs
    work = _Reduction(communication.members(), operands)
    dtype = work.product.dtype
    more = _same_shape("residual", residual, work.shape, dtype)
    factors = check_vector("gamma", gamma, (work.shape[1],), (dtype, FLOAT32))
    if factors is None:
        raise ArgumentError("gamma must be given, but got None")
    split = work.split(communication)
    sources = {**operands.dense_sources(), "residual": residual, "gamma": gamma}
    check_disjoint({"y": y, "norm_out": norm_out}, sources)
    out = check_output("y", y, work.shape, dtype)
    normal = check_output("norm_out", norm_out, work.shape, dtype)
    norm = _Norm(more, factors.astype(FLOAT32), epsilon, local_memory("norm_out", normal))
    args = (operands.x1, operands.x2, operands.bias, residual, gamma, out, normal)
    work.run(split, communication, out, norm, args)
    read = {**operands.all_sources(), "residual": residual, "gamma": gamma}
    name, written = "matmul_all_reduce_add_rms_norm", {"y": out, "norm_out": normal}
    operands.count(name, work.extents, read, written, dtype)
    return out, normal


def _check_op(reduce_op: object) -> None:
    if not (isinstance(reduce_op, str) and reduce_op == "sum"):
        raise ArgumentError(f"reduce_op must be 'sum', but got {shown(reduce_op)}")


def _same_shape(
    name: str, value: object, shape: tuple[int, int], dtype: np.dtype[np.generic]
) -> Array:
    array = check_matrix(name, value, (dtype,))
    if array.shape != shape:
        raise ArgumentError(f"{name} must have shape {shape}, but got {array.shape}")
    return array


class _Norm:
    """Add a residual to rows that have been reduced, and normalise them."""

    def __init__(self, residual: Array, gamma: Array, epsilon: np.float32, out: Array) -> None:
        self.residual = residual
        self.gamma = gamma
        self.epsilon = epsilon
        self.out = out

    def finish(self, y: Array, rows: slice) -> None:
        if Noted.counted is not None:
            Noted.counted.normalise(y[rows])
        with np.errstate(all="ignore"):
            part = y[rows]
            total = part.astype(FLOAT32) + self.residual[rows].astype(FLOAT32)
            cast(total, y.dtype, out=part)
            total = part.astype(FLOAT32)
            mean = np.mean(total * total, axis=1, keepdims=True, dtype=FLOAT32)
            normal = total / np.sqrt(mean + self.epsilon) * self.gamma
        cast(normal, y.dtype, out=self.out[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReducedOperands(Operands):
    """Operands whose x2 may be an int8 weight beside an fp16 or bf16 x1.

    Attributes:
        antiquant_scale: One element, [n] or [k / antiquant_group_size, n].
        antiquant_offset: The same shape, or None for 0.
        antiquant_group_size: Rows of x2 that share a scale; 0 where the scale has no groups.
    """

    antiquant_scale: Array | None
    antiquant_offset: Array | None
    antiquant_group_size: int
    scale_names: tuple[str, str] = ("pertoken_scale", "dequant_scale")

    def checked(self) -> tuple[Array, Array]:
        """Return x1 and x2, an int8 weight restored to the dtype of x1.

        Raises:
            ArgumentError: They do not fit, or what restores a weight is missing or not wanted.
        """
        left, right = self.matrices(weights=True)
        scale, offset, size = (
            self.antiquant_scale,
            self.antiquant_offset,
            self.antiquant_group_size,
        )
        if right.dtype == INT8 and left.dtype != INT8:
            if scale is None:
                raise ArgumentError("antiquant_scale must be given for int8 weights, but got None")
            return left, restore_weight(right, left.dtype, scale, offset, size)
        given = scale is not None or offset is not None
        if given or check.integer("antiquant_group_size", size, 0):
            raise ArgumentError(
                f"antiquant_scale, antiquant_offset and antiquant_group_size must be left out where "
                f"x1 is {left.dtype} and x2 {right.dtype}: they go with int8 weights alone"
            )
        return left, right

    def all_sources(self) -> dict[str, object]:
        """Return all that is read, by the names that errors call it."""
        more = {
            "antiquant_scale": self.antiquant_scale,
            "antiquant_offset": self.antiquant_offset,
        }
        return {**self.sources(), **more}

    def dense_sources(self, x3: Tensor | None = None) -> dict[str, object]:
        """Return the arrays that are read while results are written; column scales are copied before."""
        return {
            "x1": self.x1,
            "x2": self.x2,
            "bias": self.bias,
            "x3": x3,
            "pertoken_scale": self.x1_scale,
        }


class _Reduction:
    """Product with partial sums that every PE gets; the constructor checks the arguments.

    Attributes:
        shape: Shape of the result, (m, n).
        product: Product of rows of x1.
        more: [m, n], added to this PE's partial product before it is rounded, or None.
    """

    def __init__(self, group: Group, operands: _ReducedOperands) -> None:
        self.group = group
        self.left, right = operands.checked()
        self.shape = (self.left.shape[0], right.shape[1])
        self.product = operands.product(right)
        self.tokens = operands.row_scales(self.product, self.shape[0])
        self.more: Array | None = None

    @property
    def extents(self) -> tuple[int, int, int]:
        """m, n and k of the product."""
        return *self.shape, self.left.shape[1]

    def split(self, communication: Communication) -> TileSplit:
        """Cut the rows into turns."""
        (m, k), n, n_pes = self.left.shape, self.shape[1], self.group.n_pes
        # Each PE fetches its share of the rows to reduce it, then the reduced shares of the others.
        moved = 2 * m * n * self.product.dtype.itemsize // n_pes
        return communication.split(self.group, m, k, work=m * k * n, pair_bytes=moved)

    def run(
        self,
        split: TileSplit,
        communication: Communication,
        out: Tensor,
        norm: _Norm | None,
        args: tuple[object, ...],
    ) -> None:
        """Multiply, reduce and normalise turn by turn; ``args`` are the operator's for tiling data."""
        m, n = self.shape
        name = "matmul_all_reduce" if norm is None else "matmul_all_reduce_add_rms_norm"
        operator = Operator(name=name, command=HcclCommand.ALLREDUCE, y=local_memory("y", out))
        with session(self.group, split, operator, communication, args) as call:
            sent = scratch.symmetric(self.group, "partial products", m * n, self.product.dtype)
            partial = sent.local.reshape(m, n)
            handles = call.post_parts(
                "AllReduce",
                lambda start, rows, turns: call.hccl.AllReduce(
                    sent[start * n :], out[start:], rows * n, repeat=turns
                ),
            )
            call.pack(self.product)
            for turn, (start, count) in enumerate(split):
                rows = slice(start, start + count)
                tokens = None if self.tokens is None else self.tokens[rows]
                more = None if self.more is None else self.more[rows]
                with call.computing("partial products", turn):
                    self.product.multiply(self.left[rows], partial[rows], tokens=tokens, more=more)
                call.commit(handles, turn)
            if norm is None:
                return
            target = local_memory("y", out)
            for turn, rows in call.arrived(handles):
                with call.computing("residual and norm", turn):
                    norm.finish(target, rows)
