"""AllGatherMatmul: gather the rows of all PEs, and multiply each tile as it arrives."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.tiling.enums import HcclCommand
from emu.comm.world.group import Group
from emu.mc2 import scratch
from emu.mc2.arguments import (
    FLOAT32,
    Array,
    Tensor,
    apart,
    find_group,
    flag,
    integer,
    local,
    operands,
    result,
    sendable,
)
from emu.mc2.limits import HardwareLimits, check_limits
from emu.mc2.product import Product, row_scales
from emu.mc2.session import Operator, Session, session
from emu.mc2.spans import Span
from emu.mc2.splitting import split_rows, turns_worth


def all_gather_matmul(
    x1: Tensor,
    x2: Tensor,
    bias: Array | None = None,
    *,
    group: Group | str | None = None,
    is_trans_a: bool = False,
    is_trans_b: bool = False,
    gather_index: int = 0,
    comm_turn: int = 0,
    rank_size: int = 0,
    is_gather_out: bool = True,
    y: Tensor | None = None,
    gather_out: Tensor | None = None,
    x1_scale: Array | None = None,
    x2_scale: Array | None = None,
    y_dtype: Any = None,
    tile_rows: int | None = None,
    limits: HardwareLimits | None = None,
    tiling: bytes | None = None,
    trace: list[Span] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return ``gather_out @ x2 + bias`` and ``gather_out``, the x1 of all PEs one below the other.

    Every PE of the group calls it; x2, bias and their scales may differ between PEs. While the tiles
    of the others are on their way, this PE multiplies its own rows; then it multiplies tile by tile what
    has arrived. Whatever the number of turns, the bits are those of the whole product
    (:func:`emu.kernels.matmul.matmul`): sums and bias in fp32, one rounding to the dtype of ``y``.

    With int8, sums and bias are int32 and ``y`` is ``(sums + bias) * x2_scale * x1_scale`` in fp32, each
    operation rounded, then rounded once to ``y_dtype``.

    Args:
        x1: [m, k] of fp16, bf16 or int8; the same shape and dtype on every PE. Peers read a dense
            SymmetricArray of the group in place; of an ndarray they get a copy.
        x2: [k, n] of the same dtype, any strides.
        bias: [n] of that dtype or fp32; int32 for int8. Default: none.
        group: The group or its name, 1 to 128 characters. Default: the world.
        is_trans_a: Must be False.
        is_trans_b: x2 is given as [n, k].
        gather_index: Must be 0: x1 is gathered, not x2.
        comm_turn: In how many turns x1 is sent; 0 has it chosen
            (:func:`emu.mc2.splitting.turns_worth`). The same on every PE, as are those below.
        rank_size: Size of the group, or 0.
        is_gather_out: Return what was gathered.
        y: Where to put the product, [m · R, n], C-contiguous. Default: a new array.
        gather_out: Where to put what is gathered, [m · R, k], C-contiguous. Default: a new array.
        x1_scale: fp32 [m] or [m, 1], a scale for each row of an int8 x1; the PEs' are gathered too.
            Default: 1.
        x2_scale: One element or [n], fp32, fp16 or bf16; needed for int8.
        y_dtype: fp16 or bf16. Default: that of x1; fp16 for int8.
        tile_rows: Rows of a full tile, in place of ``comm_turn``; a tail takes what is left.
        limits: Refuse what this hardware would refuse. Default: no limits.
        tiling: The communication's tiling data, bytes of an Mc2Msg. Default: the usual ones.
        trace: List to which the spans of this PE's computation and communication are appended.

    Returns:
        ``y``, and ``gather_out`` or None; those given, or new ndarrays.

    Raises:
        ArgumentError: An argument breaks a rule; nothing was changed. PEs that differ in what they
            send are told so by the communication server.
    """
    integer("gather_index", gather_index, 0, 0)
    is_gather_out = flag("is_gather_out", is_gather_out)
    where = find_group(group, rank_size)
    left, right = operands(x1, x2, is_trans_a=is_trans_a, is_trans_b=is_trans_b)
    (m, k), n, n_pes = left.shape, right.shape[1], where.n_pes
    product = Product(right, bias, scale=x2_scale, dtype=y_dtype)
    tokens = row_scales("x1_scale", x1_scale, product, m)
    worth = turns_worth(m * k * n * n_pes, m * k * left.itemsize, n_pes, where.link)
    split = split_rows(m, comm_turn, tile_rows, worth)
    check_limits(limits, k, n_pes, split.turns)
    if gather_out is not None and not is_gather_out:
        raise ArgumentError(
            "gather_out must be None where is_gather_out is False, but got an array"
        )
    apart(
        {"y": y, "gather_out": gather_out},
        {"x1": x1, "x2": x2, "bias": bias, "x1_scale": x1_scale, "x2_scale": x2_scale},
    )
    out = result("y", y, (m * n_pes, n), product.dtype)
    gathered = (
        result("gather_out", gather_out, (m * n_pes, k), left.dtype)
        if is_gather_out
        else scratch.private("gathered", (m * n_pes, k), left.dtype)
    )
    args = (x1, x2, bias, out, gathered)
    operator = Operator(name="all_gather_matmul", command=HcclCommand.ALLGATHER, x1=left)
    with session(where, split, operator, tiling=tiling, args=args, trace=trace) as call:
        _run(call, where, sendable(x1, where), left, product, tokens, out, gathered)
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
    (m, k), me, n_pes = left.shape, group.my_pe, group.n_pes
    scales = None
    if tokens is not None:
        scales = scratch.private("token scales", (n_pes, m), FLOAT32)
        own = np.ascontiguousarray(tokens)
        scales_come = call.post(
            "AllGather of scales", lambda: call.hccl.AllGather(own, scales, m, commit=True)
        )
    handles = call.post_parts(
        "AllGather",
        lambda start, rows, turns: call.hccl.AllGather(
            sent[start:], gathered[start:], rows * k, strideCount=m * k, repeat=turns, commit=True
        ),
    )
    target = local("y", out).reshape(n_pes, m, -1)
    source = local("gather_out", gathered).reshape(n_pes, m, k)
    call.pack(product, products=call.split.turns * (n_pes - 1) + 1)
    with call.computing("own rows", -1):
        product.multiply(left, target[me], tokens=tokens)
    if scales is not None:
        call.wait(scales_come)
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
        # Whole blocks lie one below the other: as one product they pack the weight once.
        x1, out = x1.reshape(-1, x1.shape[-1]), out.reshape(-1, out.shape[-1])
        tokens = None if tokens is None else tokens.reshape(-1)
    product.multiply(x1, out, tokens=tokens)
