"""Products whose partial sums are reduced across PEs: each tile is sent as soon as it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.tiling.enums import HcclCommand
from emu.comm.world.world import Group
from emu.kernels.cast import cast
from emu.kernels.core.messages import shown
from emu.mc2 import scratch
from emu.mc2.arguments import (
    FLOAT32,
    INT8,
    Array,
    Tensor,
    apart,
    find_group,
    integer,
    local,
    matrix,
    operands,
    real,
    result,
    shares,
    vector,
)
from emu.mc2.limits import HardwareLimits, check_limits
from emu.mc2.product import Product, restore_weight, row_scales
from emu.mc2.session import Operator, session
from emu.mc2.spans import Span
from emu.mc2.splitting import TileSplit, split_rows, turns_worth


def matmul_reduce_scatter(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    group: Group | str | None = None,
    reduce_op: str = "sum",
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    comm_turn: int = 0,
    rank_size: int = 0,
    y: Tensor | None = None,
    x1_scale: Array | None = None,
    x2_scale: Array | None = None,
    y_dtype: Any = None,
    tile_rows: int | None = None,
    limits: HardwareLimits | None = None,
    tiling: bytes | None = None,
    trace: list[Span] | None = None,
) -> Tensor:
    """Return this PE's rows of the sum over all PEs of ``x1 @ x2 + bias``.

    Every PE of the group calls it. A turn is some rows of every PE's block: while they are reduced, the
    next are multiplied. A partial product, its bias included, is rounded to the dtype of ``y``, which is
    what is sent; the partial products are summed in the order of the PEs in fp32 and rounded once
    more. The number of turns does not change a bit.

    Args:
        x1: [m, k] of fp16, bf16 or int8; m is divisible by the group's size R.
        x2: [k, n] of the same dtype, any strides.
        bias: [n] of that dtype or fp32; int32 for int8. Each PE's is part of its partial product: give
            it on one PE to have it once. Default: none.
        group: The group or its name, 1 to 128 characters. Default: the world.
        reduce_op: Must be "sum".
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        comm_turn: In how many turns a PE's m / R rows are cut; 0 has it chosen
            (:func:`emu.mc2.splitting.turns_worth`). The same on every PE, as are those below.
        rank_size: Size of the group, or 0.
        y: Where to put the result, [m / R, n], C-contiguous. Default: a new array.
        x1_scale: fp32 [m] or [m, 1], a scale for each row of an int8 x1. Default: 1.
        x2_scale: One element or [n], fp32, fp16 or bf16; needed for int8.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 for int8.
        tile_rows: Rows of a full tile, in place of ``comm_turn``; a tail takes what is left.
        limits: Refuse what this hardware would refuse. Default: no limits.
        tiling: The communication's tiling data, bytes of an Mc2Msg. Default: the usual ones.
        trace: List to which the spans of this PE's computation and communication are appended.

    Returns:
        ``y``, or a new ndarray.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    _check_op(reduce_op)
    where = find_group(group, rank_size)
    left, right = operands(x1, x2, is_trans_a=is_trans_a, is_trans_b=is_trans_b)
    (m, k), n, n_pes = left.shape, right.shape[1], where.n_pes
    block = shares("m", m, n_pes, "the rows of x1")
    product = Product(right, bias, scale=x2_scale, dtype=y_dtype)
    tokens = row_scales("x1_scale", x1_scale, product, m)
    worth = turns_worth(m * k * n, block * n * product.dtype.itemsize, n_pes, where.link)
    split = split_rows(block, comm_turn, tile_rows, worth)
    check_limits(limits, k, n_pes, split.turns)
    apart({"y": y}, {"x1": x1, "x2": x2, "bias": bias, "x1_scale": x1_scale, "x2_scale": x2_scale})
    out = result("y", y, (block, n), product.dtype)
    scales = None if tokens is None else tokens.reshape(n_pes, block)
    command, args = HcclCommand.REDUCE_SCATTER, (x1, x2, bias, out)
    operator = Operator(name="matmul_reduce_scatter", command=command, y=local("y", out))
    with session(where, split, operator, tiling=tiling, args=args, trace=trace) as call:
        sent = scratch.symmetric(where, "partial products", m * n, product.dtype)
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
    return out


def matmul_all_reduce(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    x3: Tensor | None = None,
    *,
    group: Group | str | None = None,
    reduce_op: str = "sum",
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    antiquant_scale: Array | None = None,
    antiquant_offset: Array | None = None,
    antiquant_group_size: int = 0,
    dequant_scale: Array | None = None,
    pertoken_scale: Array | None = None,
    comm_turn: int = 0,
    rank_size: int = 0,
    y: Tensor | None = None,
    y_dtype: Any = None,
    tile_rows: int | None = None,
    limits: HardwareLimits | None = None,
    tiling: bytes | None = None,
    trace: list[Span] | None = None,
) -> Tensor:
    """Return the sum over all PEs of ``x1 @ x2 + bias + x3``, on every PE.

    Every PE of the group calls it. While the rows of one turn are reduced, the next are multiplied. A
    partial product, x3 and bias added in fp32 in this order, is rounded to the dtype of ``y``, which
    is what is sent; the partial products are summed in the order of the PEs in fp32 and rounded once more.
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
        group: The group or its name, 1 to 128 characters. Default: the world.
        reduce_op: Must be "sum".
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        antiquant_scale: One element; [n], for each column; or [k / antiquant_group_size, n]. fp32, fp16
            or bf16.
        antiquant_offset: The same shape; int32 and int8 will do too. Default: 0.
        antiquant_group_size: Rows of x2 that share a scale; 0 where the scale has no groups.
        dequant_scale: One element or [n], fp32, fp16 or bf16.
        pertoken_scale: fp32 [m] or [m, 1]. Default: 1.
        comm_turn: In how many turns the m rows are cut; 0 has it chosen
            (:func:`emu.mc2.splitting.turns_worth`). The same on every PE, as are those below.
        rank_size: Size of the group, or 0.
        y: Where to put the result, [m, n], C-contiguous. Default: a new array.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 where x1 is int8.
        tile_rows: Rows of a full tile, in place of ``comm_turn``; a tail takes what is left.
        limits: Refuse what this hardware would refuse. Default: no limits.
        tiling: The communication's tiling data, bytes of an Mc2Msg. Default: the usual ones.
        trace: List to which the spans of this PE's computation and communication are appended.

    Returns:
        ``y``, or a new ndarray.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    _check_op(reduce_op)
    where = find_group(group, rank_size)
    work = _Reduction(
        where,
        operands(x1, x2, is_trans_a=is_trans_a, is_trans_b=is_trans_b, weights=True),
        bias,
        x3,
        antiquant=(antiquant_scale, antiquant_offset, antiquant_group_size),
        dequant_scale=dequant_scale,
        pertoken_scale=pertoken_scale,
        dtype=y_dtype,
    )
    split = work.split(comm_turn, tile_rows, limits)
    given = {"x1": x1, "x2": x2, "bias": bias, "x3": x3, "pertoken_scale": pertoken_scale}
    apart({"y": y}, given)
    out = result("y", y, work.shape, work.product.dtype)
    work.run(split, out, None, tiling=tiling, args=(x1, x2, bias, x3, out), trace=trace)
    return out


def matmul_all_reduce_add_rms_norm(
    x1: Tensor,
    x2: Tensor,
    residual: Tensor,
    gamma: Array,
    *,
    bias: Array | None = None,
    epsilon: float = 1e-6,
    group: Group | str | None = None,
    reduce_op: str = "sum",
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    antiquant_scale: Array | None = None,
    antiquant_offset: Array | None = None,
    antiquant_group_size: int = 0,
    dequant_scale: Array | None = None,
    pertoken_scale: Array | None = None,
    comm_turn: int = 0,
    rank_size: int = 0,
    y: Tensor | None = None,
    norm_out: Tensor | None = None,
    y_dtype: Any = None,
    tile_rows: int | None = None,
    limits: HardwareLimits | None = None,
    tiling: bytes | None = None,
    trace: list[Span] | None = None,
) -> tuple[Tensor, Tensor]:
    """Return ``y``, the reduced product with a residual added, and its rows normalised.

    ``y`` is :func:`matmul_all_reduce` ``+ residual``, added in fp32 and rounded; ``norm_out`` is ``y / sqrt(
    mean(y * y) + epsilon) * gamma``, computed from the rounded ``y`` in fp32, row by row, and rounded once.
    Both are done for a turn's rows while the next are reduced.

    Args:
        x1: As in :func:`matmul_all_reduce`, like all arguments that are not described here.
        x2: See there.
        residual: [m, n] of the dtype of ``y``.
        gamma: [n] of the dtype of ``y`` or fp32.
        bias: See there.
        epsilon: Added to the mean of the squares, at least 0.
        group: See there.
        reduce_op: See there.
        is_trans_a: See there.
        is_trans_b: See there.
        antiquant_scale: See there.
        antiquant_offset: See there.
        antiquant_group_size: See there.
        dequant_scale: See there.
        pertoken_scale: See there.
        comm_turn: See there.
        rank_size: See there.
        y: Where to put the sum, [m, n], C-contiguous. Default: a new array.
        norm_out: Where to put the normalised rows, [m, n], C-contiguous. Default: a new array.
        y_dtype: See there.
        tile_rows: See there.
        limits: See there.
        tiling: See there.
        trace: See there.

    Returns:
        ``y`` and ``norm_out``; those given, or new ndarrays.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    _check_op(reduce_op)
    if not 0 <= real("epsilon", epsilon) <= np.finfo(FLOAT32).max:
        raise ArgumentError(f"epsilon must be at least 0 and fit in fp32, but got {epsilon!r}")
    where = find_group(group, rank_size)
    work = _Reduction(
        where,
        operands(x1, x2, is_trans_a=is_trans_a, is_trans_b=is_trans_b, weights=True),
        bias,
        None,
        antiquant=(antiquant_scale, antiquant_offset, antiquant_group_size),
        dequant_scale=dequant_scale,
        pertoken_scale=pertoken_scale,
        dtype=y_dtype,
    )
    dtype = work.product.dtype
    more = _same_shape("residual", residual, work.shape, dtype)
    factors = vector("gamma", gamma, (work.shape[1],), (dtype, FLOAT32))
    if factors is None:
        raise ArgumentError("gamma must be given, but got None")
    split = work.split(comm_turn, tile_rows, limits)
    given = {"x1": x1, "x2": x2, "bias": bias, "pertoken_scale": pertoken_scale}
    apart({"y": y, "norm_out": norm_out}, {**given, "residual": residual, "gamma": gamma})
    out = result("y", y, work.shape, dtype)
    normal = result("norm_out", norm_out, work.shape, dtype)
    norm = _Norm(more, factors.astype(FLOAT32), np.float32(epsilon), local("norm_out", normal))
    args = (x1, x2, bias, residual, gamma, out, normal)
    work.run(split, out, norm, tiling=tiling, args=args, trace=trace)
    return out, normal


def _check_op(reduce_op: Any) -> None:
    if not (isinstance(reduce_op, str) and reduce_op == "sum"):
        raise ArgumentError(f"reduce_op must be 'sum', but got {shown(reduce_op)}")


def _same_shape(name: str, value: Any, shape: tuple[int, int], dtype: np.dtype[Any]) -> Array:
    array = matrix(name, value, (dtype,))
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
        with np.errstate(all="ignore"):
            part = y[rows]
            total = part.astype(FLOAT32) + self.residual[rows].astype(FLOAT32)
            cast(total, y.dtype, out=part)
            total = part.astype(FLOAT32)
            mean = np.mean(total * total, axis=1, keepdims=True, dtype=FLOAT32)
            normal = total / np.sqrt(mean + self.epsilon) * self.gamma
        cast(normal, y.dtype, out=self.out[rows])


class _Reduction:
    """A product whose partial sums every PE gets; arguments are checked when it is made."""

    def __init__(
        self,
        group: Group,
        matrices: tuple[Array, Array],
        bias: Any,
        x3: Any,
        *,
        antiquant: tuple[Any, Any, int],
        dequant_scale: Any,
        pertoken_scale: Any,
        dtype: Any,
    ) -> None:
        self.group = group
        self.left, right = matrices
        self.shape = (self.left.shape[0], right.shape[1])
        scale, offset, group_size = antiquant
        if right.dtype == INT8 and self.left.dtype != INT8:
            if scale is None:
                raise ArgumentError("antiquant_scale must be given for int8 weights, but got None")
            right = restore_weight(right, self.left.dtype, scale, offset, group_size)
        elif (
            scale is not None
            or offset is not None
            or integer("antiquant_group_size", group_size, 0)
        ):
            raise ArgumentError(
                f"antiquant_scale, antiquant_offset and antiquant_group_size must be left out where "
                f"x1 is {self.left.dtype} and x2 {right.dtype}: they go with int8 weights alone"
            )
        self.product = Product(
            right, bias, scale_name="dequant_scale", scale=dequant_scale, dtype=dtype
        )
        self.tokens = row_scales("pertoken_scale", pertoken_scale, self.product, self.shape[0])
        self.more = None
        if x3 is not None:
            self.more = _same_shape("x3", x3, self.shape, self.product.dtype)

    def split(
        self, comm_turn: int, tile_rows: int | None, limits: HardwareLimits | None
    ) -> TileSplit:
        (m, k), n, n_pes = self.left.shape, self.shape[1], self.group.n_pes
        # A share of the rows is fetched to be reduced, and the shares of the others then.
        moved = 2 * m * n * self.product.dtype.itemsize // n_pes
        worth = turns_worth(m * k * n, moved, n_pes, self.group.link)
        split = split_rows(m, comm_turn, tile_rows, worth)
        check_limits(limits, k, n_pes, split.turns)
        return split

    def run(
        self,
        split: TileSplit,
        out: Tensor,
        norm: _Norm | None,
        *,
        tiling: bytes | None,
        args: tuple[Any, ...],
        trace: list[Span] | None,
    ) -> None:
        m, n = self.shape
        name = "matmul_all_reduce" if norm is None else "matmul_all_reduce_add_rms_norm"
        operator = Operator(name=name, command=HcclCommand.ALLREDUCE, y=local("y", out))
        with session(self.group, split, operator, tiling=tiling, args=args, trace=trace) as call:
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
            target = local("y", out)
            for turn, rows in call.arrived(handles):
                with call.computing("residual and norm", turn):
                    norm.finish(target, rows)
