"""An all-to-all before or after the product, turn by turn."""

from __future__ import annotations

from typing import Any

from emu.comm.tiling.enums import HcclCommand
from emu.comm.world.group import Group
from emu.mc2 import scratch
from emu.mc2.arguments import (
    Array,
    Tensor,
    apart,
    find_group,
    local,
    operands,
    result,
    sendable,
    shares,
)
from emu.mc2.limits import HardwareLimits, check_limits
from emu.mc2.product import Product, row_scales
from emu.mc2.session import Operator, session
from emu.mc2.spans import Span
from emu.mc2.splitting import split_rows, turns_worth

_ALLTOALL = HcclCommand.ALLTOALL


def all_to_all_matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    group: Group | str | None = None,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    comm_turn: int = 0,
    rank_size: int = 0,
    y: Tensor | None = None,
    x2_scale: Array | None = None,
    y_dtype: Any = None,
    tile_rows: int | None = None,
    limits: HardwareLimits | None = None,
    tiling: bytes | None = None,
    trace: list[Span] | None = None,
) -> Tensor:
    """Give PE j the j-th block of every PE's rows, side by side along k, and multiply that by x2.

    Every PE of the group calls it. What PE j multiplies is [m / R, k · R], whose columns are those of
    PE 0, then of PE 1, …. While some rows are on their way, those that arrived before are multiplied. The bits
    are those of the whole product (:func:`emu.kernels.matmul.matmul`): sums and bias in fp32 with one
    rounding; int8: ``(sums + bias) * x2_scale`` with sums and bias in int32, then fp32, one rounding.

    Args:
        x1: [m, k] of fp16, bf16 or int8; m is divisible by the group's size R. The same shape and dtype
            on every PE. Peers read a dense SymmetricArray of the group in place.
        x2: [k · R, n] of the same dtype, any strides.
        bias: [n] of that dtype or fp32; int32 for int8. Default: none.
        group: The group or its name, 1 to 128 characters. Default: the world.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k · R].
        comm_turn: In how many turns a PE's m / R rows are cut; 0 has it chosen
            (:func:`emu.mc2.splitting.turns_worth`). The same on every PE, as are those below.
        rank_size: Size of the group, or 0.
        y: Where to put the result, [m / R, n], C-contiguous. Default: a new array.
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
    where = find_group(group, rank_size)
    n_pes = where.n_pes
    left, right = operands(x1, x2, is_trans_a=is_trans_a, is_trans_b=is_trans_b, blocks=n_pes)
    (m, k), n = left.shape, right.shape[1]
    block = shares("m", m, n_pes, "the rows of x1")
    product = Product(right, bias, scale=x2_scale, dtype=y_dtype)
    worth = turns_worth(m * k * n, block * k * left.itemsize, n_pes, where.link)
    split = split_rows(block, comm_turn, tile_rows, worth)
    check_limits(limits, k, n_pes, split.turns)
    apart({"y": y}, {"x1": x1, "x2": x2, "bias": bias, "x2_scale": x2_scale})
    out = result("y", y, (block, n), product.dtype)
    received = scratch.private("received blocks", (n_pes, block, k), left.dtype)
    beside = scratch.private("blocks side by side", (split.longest, n_pes, k), left.dtype)
    sent, target = sendable(x1, where), local("y", out)
    flat = received.reshape(n_pes * block, k)
    operator, args = (
        Operator(name="all_to_all_matmul", command=_ALLTOALL, x1=left),
        (x1, x2, bias, out),
    )
    with session(where, split, operator, tiling=tiling, args=args, trace=trace) as call:
        handles = call.post_parts(
            "AlltoAll",
            lambda start, rows, turns: call.hccl.AlltoAll(
                sent[start:],
                flat[start:],
                rows * k,
                strideCount=block * k,
                repeat=turns,
                commit=True,
            ),
        )
        call.pack(product)
        for turn, rows in call.arrived(handles):
            count = rows.stop - rows.start
            with call.computing("rows of all", turn):
                beside[:count] = received[:, rows].swapaxes(0, 1)
                product.multiply(beside[:count].reshape(count, n_pes * k), target[rows])
    return out


def matmul_all_to_all(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    group: Group | str | None = None,
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
    """Multiply, and give PE j the j-th block of the columns of every PE's product, one below the other.

    Every PE of the group calls it. While the rows of one turn are on their way, the next are multiplied.
    The bits are those of the whole product (:func:`emu.kernels.matmul.matmul`): sums and bias in fp32
    with one rounding; int8: ``(sums + bias) * x2_scale * x1_scale`` with sums and bias in int32, then
    fp32, one rounding.

    Args:
        x1: [m, k] of fp16, bf16 or int8.
        x2: [k, n] of the same dtype, any strides; n is divisible by the group's size R.
        bias: [n] of that dtype or fp32; int32 for int8. Default: none.
        group: The group or its name, 1 to 128 characters. Default: the world.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        comm_turn: In how many turns the m rows are cut; 0 has it chosen
            (:func:`emu.mc2.splitting.turns_worth`). The same on every PE, as are those below.
        rank_size: Size of the group, or 0.
        y: Where to put the result, [m · R, n / R], C-contiguous. Default: a new array.
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
    where = find_group(group, rank_size)
    left, right = operands(x1, x2, is_trans_a=is_trans_a, is_trans_b=is_trans_b)
    (m, k), n, n_pes = left.shape, right.shape[1], where.n_pes
    columns = shares("n", n, n_pes, "the columns of x2")
    product = Product(right, bias, scale=x2_scale, dtype=y_dtype)
    tokens = row_scales("x1_scale", x1_scale, product, m)
    moved = m * columns * product.dtype.itemsize
    worth = turns_worth(m * k * n, moved, n_pes, where.link)
    split = split_rows(m, comm_turn, tile_rows, worth)
    check_limits(limits, k, n_pes, split.turns)
    apart({"y": y}, {"x1": x1, "x2": x2, "bias": bias, "x1_scale": x1_scale, "x2_scale": x2_scale})
    out = result("y", y, (m * n_pes, columns), product.dtype)
    whole = scratch.private("rows of the product", (split.longest, n), product.dtype)
    operator = Operator(name="matmul_all_to_all", command=_ALLTOALL, y=local("y", out))
    args = (x1, x2, bias, out)
    with session(where, split, operator, tiling=tiling, args=args, trace=trace) as call:
        sent = scratch.symmetric(where, "blocks of columns", m * n, product.dtype)
        blocks = sent.local.reshape(n_pes, m, columns)
        handles = call.post_parts(
            "AlltoAll",
            lambda start, rows, turns: call.hccl.AlltoAll(
                sent[start * columns :],
                out[start:],
                rows * columns,
                strideCount=m * columns,
                repeat=turns,
            ),
        )
        call.pack(product)
        for turn, (start, count) in enumerate(split):
            rows, part = slice(start, start + count), whole[:count]
            with call.computing("rows of the product", turn):
                some = None if tokens is None else tokens[rows]
                product.multiply(left[rows], part, tokens=some)
                blocks[:, rows] = part.reshape(count, n_pes, columns).swapaxes(0, 1)
            call.commit(handles, turn)
    return out
