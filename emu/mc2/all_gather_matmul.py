"""AllGatherMatmul: gather the rows of all PEs, and multiply each tile as it arrives."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import numpy.typing as npt

from emu.comm.errors import ArgumentError
from emu.comm.tiling.enums import HcclCommand
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.mc2 import scratch
from emu.mc2.arguments import (
    FLOAT32,
    Array,
    Tensor,
    as_sendable,
    check_disjoint,
    check_output,
    local_memory,
)
from emu.mc2.operands import Operands
from emu.mc2.product import Product
from emu.mc2.session import Communication, CommunicationOptions, Operator, Session, session


def all_gather_matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    gather_index: int = 0,
    is_gather_out: bool = True,
    y: Tensor | None = None,
    gather_out: Tensor | None = None,
    x1_scale: Array | None = None,
    x2_scale: Array | None = None,
    y_dtype: npt.DTypeLike | None = None,
    **communication: Unpack[CommunicationOptions],
) -> tuple[Tensor, Tensor | None]:
    """Return ``gather_out @ x2 + bias`` and ``gather_out``, the x1 of all PEs one below the other.

    Every PE of the group calls it; x2, bias and their scales may differ between PEs. While the tiles
    of the others are in flight, this PE multiplies its own rows; then it multiplies each tile as it
    arrives. Whatever the number of turns, the bits are those of the whole product
    (:func:`emu.kernels.matmul.matmul`): sums and bias in fp32, one rounding to the dtype of ``y``.

    With int8, sums and bias are int32 and ``y`` is ``(sums + bias) * x2_scale * x1_scale`` in fp32, each
    operation rounded, then rounded once to ``y_dtype``.

    Args:
        x1: [m, k] of fp16, bf16 or int8; the same shape and dtype on every PE. Peers read a dense
            SymmetricArray of the group in place; of an ndarray they get a copy.
        x2: [k, n] of the same dtype, any strides.
        bias: [n] of that dtype or fp32; int32 for int8. Default: none.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        gather_index: Must be 0: x1 is gathered, not x2.
        is_gather_out: Also return the gathered rows.
        y: Where to put the product, [m · R, n], C-contiguous. Default: a new array.
        gather_out: Where to put the gathered rows, [m · R, k], C-contiguous. Default: a new array.
        x1_scale: fp32 [m] or [m, 1], a scale for each row of an int8 x1; the PEs' are gathered too.
            Default: 1.
        x2_scale: One element or [n], fp32, fp16 or bf16; needed for int8.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 for int8.
        communication: ``group``, ``rank_size``, ``comm_turn``, ``tile_rows``, ``limits``, ``tiling`` and
            ``trace``: the attributes of :class:`emu.mc2.session.Communication`.

    Returns:
        ``y``, and ``gather_out`` or None; those given, or new ndarrays.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed. The communication server reports
            PEs that differ in what they send.
    """
    check.integer("gather_index", gather_index, 0, 0)
    return _gather_and_multiply(
        Operands(
            x1=x1, x2=x2, bias=bias, is_trans_a=is_trans_a, is_trans_b=is_trans_b,
            x1_scale=x1_scale, x2_scale=x2_scale, y_dtype=y_dtype,
        ),
        Communication(**communication),
        check.flag("is_gather_out", is_gather_out),
        y,
        gather_out,
    )  # fmt: skip


def _gather_and_multiply(
    operands: Operands,
    communication: Communication,
    is_gather_out: bool,
    y: Tensor | None,
    gather_out: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Run :func:`all_gather_matmul`."""
    group = communication.members()
    left, right = operands.matrices()
    (m, k), n, n_pes = left.shape, right.shape[1], group.n_pes
    product = operands.product(right)
    tokens = operands.row_scales(product, m)
    split = communication.split(
        group, m, k, work=m * k * n * n_pes, pair_bytes=m * k * left.itemsize
    )
    if gather_out is not None and not is_gather_out:
        raise ArgumentError(
            "gather_out must be None where is_gather_out is False, but got an array"
        )
    check_disjoint({"y": y, "gather_out": gather_out}, operands.sources())
    out = check_output("y", y, (m * n_pes, n), product.dtype)
    gathered = (
        check_output("gather_out", gather_out, (m * n_pes, k), left.dtype)
        if is_gather_out
        else scratch.private("gathered", (m * n_pes, k), left.dtype)
    )
    args = (operands.x1, operands.x2, operands.bias, out, gathered)
    operator = Operator(name="all_gather_matmul", command=HcclCommand.ALLGATHER, x1=left)
    with session(group, split, operator, communication, args) as call:
        sent = as_sendable(operands.x1, group)
        _run(call, group, sent, left, product, tokens, out, gathered)
    written = {"y": out, "gather_out": gathered if is_gather_out else None}
    operands.count(operator.name, (m * n_pes, n, k), operands.sources(), written)
    return out, gathered if is_gather_out else None


def _run(
    call: Session,
    group: Group,
    sent: Tensor,
    left: Array,
    product: Product,
    tokens: Array | None,
    out: Tensor,
    gathered: Tensor,
) -> None:
    """Gather turn by turn, and multiply the arrived rows while the next turn is in flight."""
    (m, k), me, n_pes = left.shape, group.my_pe, group.n_pes
    scales = None
    if tokens is not None:
        scales = scratch.private("token scales", (n_pes, m), FLOAT32)
        own = np.ascontiguousarray(tokens)
        scales_task = call.post(
            "AllGather of scales", lambda: call.hccl.AllGather(own, scales, m, commit=True)
        )
    # After the scales, which are small and needed by the first tile: tasks run in the order of posting.
    handles = call.post_parts(
        "AllGather",
        lambda start, rows, turns: call.hccl.AllGather(
            sent[start:], gathered[start:], rows * k, strideCount=m * k, repeat=turns, commit=True
        ),
    )
    target = local_memory("y", out).reshape(n_pes, m, -1)
    source = local_memory("gather_out", gathered).reshape(n_pes, m, k)
    call.pack(product, products=call.split.turns * (n_pes - 1) + 1)
    with call.computing("own rows", -1):
        product.multiply(left, target[me], tokens=tokens)
    if scales is not None:
        call.wait(scales_task)
    for turn, rows in call.arrived(handles):
        with call.computing("rows of the others", turn):
            for others in (slice(0, me), slice(me + 1, n_pes)):
                _multiply_blocks(
                    product, source[others, rows], target[others, rows], scales, others, rows
                )


def _multiply_blocks(
    product: Product, x1: Array, out: Array, scales: Array | None, pes: slice, rows: slice
) -> None:
    """Multiply the same rows of several PEs."""
    if not x1.shape[0]:
        return
    tokens = None if scales is None else scales[pes, rows]
    if x1.flags.c_contiguous and out.flags.c_contiguous:
        # Whole blocks are contiguous: as one product they pack the weight once.
        x1, out = x1.reshape(-1, x1.shape[-1]), out.reshape(-1, out.shape[-1])
        tokens = None if tokens is None else tokens.reshape(-1)
    product.multiply(x1, out, tokens=tokens)
