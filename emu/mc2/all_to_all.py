"""An all-to-all before or after the product, turn by turn."""

from __future__ import annotations

from typing import Unpack

import numpy.typing as npt

from emu.comm.tiling.enums import HcclCommand
from emu.mc2 import scratch
from emu.mc2.arguments import (
    Array,
    Tensor,
    as_sendable,
    check_disjoint,
    check_output,
    divide_evenly,
    local_memory,
)
from emu.mc2.operands import Operands
from emu.mc2.session import Communication, CommunicationOptions, Operator, session


def all_to_all_matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    y: Tensor | None = None,
    x2_scale: Array | None = None,
    y_dtype: npt.DTypeLike | None = None,
    **communication: Unpack[CommunicationOptions],
) -> Tensor:
    """Give PE j the j-th block of every PE's rows, side by side along k, and multiply that by x2.

    Every PE of the group calls it. What PE j multiplies is [m / R, k · R], whose columns are those of
    PE 0, then of PE 1, …. While some rows are in flight, those that have arrived are multiplied. The bits
    are those of the whole product (:func:`emu.kernels.matmul.matmul`): sums and bias in fp32 with one
    rounding; int8: ``(sums + bias) * x2_scale`` with sums and bias in int32, then fp32, one rounding.

    Args:
        x1: [m, k] of fp16, bf16 or int8; m is divisible by the group's size R. The same shape and dtype
            on every PE. Peers read a dense SymmetricArray of the group in place.
        x2: [k · R, n] of the same dtype, any strides.
        bias: [n] of that dtype or fp32; int32 for int8. Default: none.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k · R].
        y: Where to put the result, [m / R, n], C-contiguous. Default: a new array.
        x2_scale: One element or [n], fp32, fp16 or bf16; needed for int8.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 for int8.
        communication: ``group``, ``rank_size``, ``comm_turn``, ``tile_rows``, ``limits``, ``tiling`` and
            ``trace``: the attributes of :class:`emu.mc2.session.Communication`.

    Returns:
        ``y``, or a new ndarray.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed.
    """
    return _exchange_and_multiply(
        Operands(
            x1=x1, x2=x2, bias=bias, is_trans_a=is_trans_a, is_trans_b=is_trans_b,
            x2_scale=x2_scale, y_dtype=y_dtype,
        ),
        Communication(**communication),
        y,
    )  # fmt: skip


def _exchange_and_multiply(
    operands: Operands, communication: Communication, y: Tensor | None
) -> Tensor:
    """Run :func:`all_to_all_matmul`: a turn is some rows of each block of m / R rows."""
    group = communication.members()
    n_pes = group.n_pes
    left, right = operands.matrices(blocks=n_pes)
    (m, k), n = left.shape, right.shape[1]
    block = divide_evenly("m", m, n_pes, "the rows of x1")
    product = operands.product(right)
    split = communication.split(
        group, block, k, work=m * k * n, pair_bytes=block * k * left.itemsize
    )
    check_disjoint({"y": y}, operands.sources())
    out = check_output("y", y, (block, n), product.dtype)
    received = scratch.private("received blocks", (n_pes, block, k), left.dtype)
    # Received blocks lie one below the other; the product needs them side by side along k.
    beside = scratch.private("blocks side by side", (split.longest, n_pes, k), left.dtype)
    sent, target = as_sendable(operands.x1, group), local_memory("y", out)
    flat = received.reshape(n_pes * block, k)
    operator = Operator(name="all_to_all_matmul", command=HcclCommand.ALLTOALL, x1=left)
    args = (operands.x1, operands.x2, operands.bias, out)
    with session(group, split, operator, communication, args) as call:
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
    operands.count(operator.name, (block, n, n_pes * k), operands.sources(), {"y": out})
    return out


def matmul_all_to_all(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    y: Tensor | None = None,
    x1_scale: Array | None = None,
    x2_scale: Array | None = None,
    y_dtype: npt.DTypeLike | None = None,
    **communication: Unpack[CommunicationOptions],
) -> Tensor:
    """Multiply, and give PE j the j-th block of the columns of every PE's product, one below the other.

    Every PE of the group calls it. While the rows of one turn are in flight, the next are multiplied.
    The bits are those of the whole product (:func:`emu.kernels.matmul.matmul`): sums and bias in fp32
    with one rounding; int8: ``(sums + bias) * x2_scale * x1_scale`` with sums and bias in int32, then
    fp32, one rounding.

    Args:
        x1: [m, k] of fp16, bf16 or int8.
        x2: [k, n] of the same dtype, any strides; n is divisible by the group's size R.
        bias: [n] of that dtype or fp32; int32 for int8. Default: none.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        y: Where to put the result, [m · R, n / R], C-contiguous. Default: a new array.
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
    return _multiply_and_exchange(
        Operands(
            x1=x1, x2=x2, bias=bias, is_trans_a=is_trans_a, is_trans_b=is_trans_b,
            x1_scale=x1_scale, x2_scale=x2_scale, y_dtype=y_dtype,
        ),
        Communication(**communication),
        y,
    )  # fmt: skip


def _multiply_and_exchange(
    operands: Operands, communication: Communication, y: Tensor | None
) -> Tensor:
    """Run :func:`matmul_all_to_all`: a turn is some of the m rows, a block of columns for each PE."""
    group = communication.members()
    left, right = operands.matrices()
    (m, k), n, n_pes = left.shape, right.shape[1], group.n_pes
    columns = divide_evenly("n", n, n_pes, "the columns of x2")
    product = operands.product(right)
    tokens = operands.row_scales(product, m)
    moved = m * columns * product.dtype.itemsize
    split = communication.split(group, m, k, work=m * k * n, pair_bytes=moved)
    check_disjoint({"y": y}, operands.sources())
    out = check_output("y", y, (m * n_pes, columns), product.dtype)
    whole = scratch.private("rows of the product", (split.longest, n), product.dtype)
    command = HcclCommand.ALLTOALL
    operator = Operator(name="matmul_all_to_all", command=command, y=local_memory("y", out))
    args = (operands.x1, operands.x2, operands.bias, out)
    with session(group, split, operator, communication, args) as call:
        # Peers read the blocks in place, so that they lie in symmetric memory, contiguous for each PE.
        sent = scratch.symmetric(group, "blocks of columns", m * n, product.dtype)
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
    operands.count(operator.name, (m, n, k), operands.sources(), {"y": out})
    return out
