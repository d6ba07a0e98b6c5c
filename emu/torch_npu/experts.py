"""Mixture-of-experts operators under the names of torch_npu.

Groups and tensors are as in :mod:`emu.torch_npu.fused`; :mod:`emu.mc2.moe` and
:mod:`emu.mc2.grouped_matmul` define the order of rows and the bits of the results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emu.accelerator.arrays import Array, as_array
from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.mc2 import (
    alltoallv_gmm,
    gmm_alltoallv,
    moe_distribute_combine,
    moe_distribute_dispatch,
)
from emu.torch_npu.dtypes import FLOAT32, INT32, INT64
from emu.torch_npu.operands import Operand, Result, TensorArguments, check_supported
from emu.torch_npu.process_groups import check_rank, find_group


def npu_alltoallv_gmm(
    gmm_x: Operand,
    gmm_weight: Operand,
    hcom: str,
    ep_world_size: int,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    *,
    send_counts_tensor: None = None,
    recv_counts_tensor: None = None,
    mm_x: Operand | None = None,
    mm_weight: Operand | None = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    permute_out_flag: bool = False,
) -> tuple[Result, Result | None, Result | None]:
    """Send rows to their experts' ranks, and multiply there each expert's rows by its weight.

    As :func:`emu.mc2.alltoallv_gmm`. R is the group's size, e the number of experts of a rank.

    Args:
        gmm_x: [bsk, h] of fp16 or bf16: this rank's rows, in the order of (rank, expert).
        gmm_weight: [e, h, n] of that dtype: this rank's experts.
        hcom: Name of the group.
        ep_world_size: Its size.
        send_counts: R * e numbers; at rank * e + expert, rows for that expert of that rank.
        recv_counts: R * e numbers; at rank * e + expert, rows that come from that rank for that expert
            of this one.
        send_counts_tensor: Must be None: counts are needed on the host.
        recv_counts_tensor: Must be None, for the same reason.
        mm_x: [m, k] of fp16 or bf16: rows of the shared expert. Default: none.
        mm_weight: [k, n2] of that dtype; given with ``mm_x``.
        trans_gmm_weight: ``gmm_weight`` is [e, n, h].
        trans_mm_weight: ``mm_weight`` is [n2, k].
        permute_out_flag: Also return the received rows.

    Returns:
        ``gmm_y`` [a, n], the products of this rank's experts, by expert; ``mm_y`` [m, n2] or None; and
        ``permute_out`` [a, h] or None.

    Raises:
        ArgumentError: An argument breaks a rule, or ranks were given different counts; no row has moved.
    """
    _check_counts_on_host(send_counts_tensor, recv_counts_tensor)
    group = find_group("hcom", hcom, ep_world_size=ep_world_size)
    given = _grouped(gmm_x, gmm_weight, mm_x, mm_weight)
    got = alltoallv_gmm(
        given["gmm_x"], given["gmm_weight"], _counts("send_counts", send_counts),
        _counts("recv_counts", recv_counts), group=group, mm_x=given["mm_x"],
        mm_weight=given["mm_weight"],
        trans_gmm_weight=check.flag("trans_gmm_weight", trans_gmm_weight),
        trans_mm_weight=check.flag("trans_mm_weight", trans_mm_weight),
        permute_out=check.flag("permute_out_flag", permute_out_flag),
    )  # fmt: skip
    return given.result(got.gmm_y), given.result(got.mm_y), given.result(got.permute_out)


def npu_gmm_alltoallv(
    gmm_x: Operand,
    gmm_weight: Operand,
    hcom: str,
    ep_world_size: int,
    send_counts: Sequence[int],
    recv_counts: Sequence[int],
    *,
    send_counts_tensor: None = None,
    recv_counts_tensor: None = None,
    mm_x: Operand | None = None,
    mm_weight: Operand | None = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
) -> tuple[Result, Result | None]:
    """Multiply each expert's rows by its weight, and send the products back to the rows' ranks.

    The way back of :func:`npu_alltoallv_gmm`, whose ``recv_counts`` are the ``send_counts`` here. As
    :func:`emu.mc2.gmm_alltoallv`.

    Args:
        gmm_x: [a, h] of fp16 or bf16: the rows of this rank's experts, by expert.
        gmm_weight: [e, h, n] of that dtype: this rank's experts.
        send_counts: R * e numbers; at rank * e + expert, rows of that expert of this rank whose products
            go back to that rank.
        recv_counts: R * e numbers; at rank * e + expert, products that come back from that expert of
            that rank.
        hcom, ep_world_size, send_counts_tensor, recv_counts_tensor, mm_x, mm_weight, trans_gmm_weight,
            trans_mm_weight: As in :func:`npu_alltoallv_gmm`.

    Returns:
        ``y`` [bsk, n], the products of this rank's rows in the order of (rank, expert), and ``mm_y`` [m, n2]
        or None.

    Raises:
        ArgumentError: An argument breaks a rule, or ranks were given different counts; no row has moved.
    """
    _check_counts_on_host(send_counts_tensor, recv_counts_tensor)
    group = find_group("hcom", hcom, ep_world_size=ep_world_size)
    given = _grouped(gmm_x, gmm_weight, mm_x, mm_weight)
    got = gmm_alltoallv(
        given["gmm_x"], given["gmm_weight"], _counts("send_counts", send_counts),
        _counts("recv_counts", recv_counts), group=group, mm_x=given["mm_x"],
        mm_weight=given["mm_weight"],
        trans_gmm_weight=check.flag("trans_gmm_weight", trans_gmm_weight),
        trans_mm_weight=check.flag("trans_mm_weight", trans_mm_weight),
    )  # fmt: skip
    return given.result(got.y), given.result(got.mm_y)


def npu_moe_distribute_dispatch(
    x: Operand,
    expert_ids: Operand,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    scales: Operand | None = None,
    x_active_mask: Operand | None = None,
    expert_scales: None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    quant_mode: int = 0,
    global_bs: int = 0,
    expert_token_nums_type: int = 1,
) -> tuple[Result, Result, Result, Result, Result, Result, Result]:
    """Send each copy of each token to the rank of its expert, quantised on request.

    As :func:`emu.mc2.moe_distribute_dispatch`.

    Args:
        x: [bs, h] of fp16 or bf16: this rank's tokens.
        expert_ids: [bs, k] of int32, each in [0, moe_expert_num).
        group_ep: Name of the group.
        ep_world_size: Its size.
        ep_rank_id: This PE's rank in it.
        moe_expert_num: Number of experts of all ranks; a multiple of the ranks.
        scales: fp32 [moe_expert_num, h] or [h], factors of the tokens before quantisation.
        x_active_mask: bool [bs] or [bs, k]: tokens, or copies, that are sent. Default: all.
        expert_scales: Must be None: the weights of copies do not travel; the combine has them.
        group_tp: Must be empty or None: tensor-parallel groups are not supported.
        tp_world_size: Must be 0 or 1, for the same reason.
        tp_rank_id: Must be 0, for the same reason.
        expert_shard_type: Must be 0. Ranks for shared experts are not supported.
        shared_expert_num: Must be 0 or 1, which mean the same without such ranks.
        shared_expert_rank_num: Must be 0.
        quant_mode: 0 none, 1 static, 2 dynamic: a scale for each row.
        global_bs: Most tokens on all ranks; 0: any number.
        expert_token_nums_type: 1: ``expert_token_nums`` are counts; 0: cumulative sums.

    Returns:
        ``(expand_x, dynamic_scales, expand_idx, expert_token_nums, ep_recv_counts, tp_recv_counts,
        expand_scales)``; ``tp_recv_counts``, ``expand_scales`` and, unless quant_mode is 2,
        ``dynamic_scales`` are empty tensors of shape [0].

    Raises:
        ArgumentError: An argument breaks a rule, or ranks differ in what must be the same; no row has
            moved.
    """
    check_supported(
        "the weights of copies do not travel: give them to the combine",
        expert_scales=(expert_scales, None),
    )
    _check_layout(
        group_tp, tp_world_size, tp_rank_id, expert_shard_type, shared_expert_num,
        shared_expert_rank_num,
    )  # fmt: skip
    group = _expert_group(group_ep, ep_world_size, ep_rank_id)
    given = TensorArguments(
        {"x": x, "expert_ids": expert_ids}, scales=scales, x_active_mask=x_active_mask
    )
    got = moe_distribute_dispatch(
        given["x"], given["expert_ids"], group=group, moe_expert_num=moe_expert_num,
        quant_mode=quant_mode, scales=given["scales"], x_active_mask=given["x_active_mask"],
        expert_token_nums_type=expert_token_nums_type, global_bs=global_bs,
    )  # fmt: skip
    # torch_npu has a fixed number of results: the absent ones are empty tensors.
    dynamic = np.empty(0, FLOAT32) if got.dynamic_scales is None else got.dynamic_scales
    return (
        given.result(got.expand_x),
        given.result(dynamic),
        given.result(got.expand_idx),
        given.result(got.expert_token_nums),
        given.result(got.ep_recv_counts),
        given.result(np.empty(0, INT32)),
        given.result(np.empty(0, FLOAT32)),
    )


def npu_moe_distribute_combine(
    expand_x: Operand,
    expert_ids: Operand,
    expand_idx: Operand,
    ep_send_counts: Operand,
    expert_scales: Operand,
    group_ep: str,
    ep_world_size: int,
    ep_rank_id: int,
    moe_expert_num: int,
    *,
    tp_send_counts: Operand | None = None,
    x_active_mask: Operand | None = None,
    activation_scale: None = None,
    weight_scale: None = None,
    group_list: None = None,
    expand_scales: Operand | None = None,
    shared_expert_x: Operand | None = None,
    group_tp: str = "",
    tp_world_size: int = 0,
    tp_rank_id: int = 0,
    expert_shard_type: int = 0,
    shared_expert_num: int = 1,
    shared_expert_rank_num: int = 0,
    global_bs: int = 0,
    out_dtype: int = 0,
    comm_quant_mode: int = 0,
    group_list_type: int = 0,
) -> Result:
    """Send the experts' rows back, and add up those of each token, weighted.

    As :func:`emu.mc2.moe_distribute_combine`.

    Args:
        expand_x: [a, h] of fp16 or bf16: rows in the order of the dispatch's ``expand_x``.
        expert_ids: [bs, k] of int32, as the dispatch was given them.
        expand_idx: [bs * k] of int32, as the dispatch returned it.
        ep_send_counts: The dispatch's ``ep_recv_counts``.
        expert_scales: fp32 [bs, k]: the weight of each copy.
        tp_send_counts: None or empty, as the dispatch returned it.
        activation_scale: Must be None: rows are not restored from int8.
        weight_scale: Must be None, for the same reason.
        group_list: Must be None, for the same reason.
        expand_scales: None or empty, as the dispatch returned it.
        shared_expert_x: [bs, h] of the dtype of ``expand_x``, added to the tokens. Default: nothing is.
        out_dtype: Must be 0: the result has the dtype of ``expand_x``.
        comm_quant_mode: Must be 0: data is not quantised for sending.
        group_list_type: Must be 0, since there is no ``group_list``.
        group_ep, ep_world_size, ep_rank_id, moe_expert_num, x_active_mask, group_tp, tp_world_size,
            tp_rank_id, expert_shard_type, shared_expert_num, shared_expert_rank_num, global_bs: As in
            :func:`npu_moe_distribute_dispatch`.

    Returns:
        The tokens, [bs, h], of the dtype of ``expand_x``.

    Raises:
        ArgumentError: An argument breaks a rule, ranks differ in what must be the same, or ``expand_idx``
            or ``ep_send_counts`` do not belong to this routing; no row has moved.
    """
    check_supported(
        "rows are neither restored from int8 nor quantised",
        activation_scale=(activation_scale, None),
        weight_scale=(weight_scale, None),
        group_list=(group_list, None),
        out_dtype=(out_dtype, 0),
        comm_quant_mode=(comm_quant_mode, 0),
        group_list_type=(group_list_type, 0),
    )
    _check_layout(
        group_tp, tp_world_size, tp_rank_id, expert_shard_type, shared_expert_num,
        shared_expert_rank_num,
    )  # fmt: skip
    group = _expert_group(group_ep, ep_world_size, ep_rank_id)
    given = TensorArguments(
        {
            "expand_x": expand_x, "expert_ids": expert_ids, "expand_idx": expand_idx,
            "ep_send_counts": ep_send_counts, "expert_scales": expert_scales,
        },
        tp_send_counts=tp_send_counts, x_active_mask=x_active_mask, expand_scales=expand_scales,
        shared_expert_x=shared_expert_x,
    )  # fmt: skip
    _check_empty(given, "tp_send_counts", "expand_scales")
    y = moe_distribute_combine(
        given["expand_x"], given["expert_ids"], given["expand_idx"], given["ep_send_counts"],
        given["expert_scales"], group=group, moe_expert_num=moe_expert_num,
        shared_expert_x=given["shared_expert_x"], x_active_mask=given["x_active_mask"],
        global_bs=global_bs,
    )  # fmt: skip
    return given.result(y)


def _check_empty(given: TensorArguments, *names: str) -> None:
    """Check that tensors which the dispatch returns without elements come back so, or as None."""
    for name in names:
        if given[name] is not None and given[name].size:
            raise ArgumentError(
                f"{name} must be None or empty, as the dispatch returns it, but got shape "
                f"{given[name].shape}"
            )


def _grouped(
    gmm_x: Operand, gmm_weight: Operand, mm_x: Operand | None, mm_weight: Operand | None
) -> TensorArguments:
    return TensorArguments(
        {"gmm_x": gmm_x, "gmm_weight": gmm_weight}, mm_x=mm_x, mm_weight=mm_weight
    )


def _check_counts_on_host(send_counts_tensor: object, recv_counts_tensor: object) -> None:
    check_supported(
        "counts are needed on the host: give send_counts and recv_counts",
        send_counts_tensor=(send_counts_tensor, None),
        recv_counts_tensor=(recv_counts_tensor, None),
    )


def _counts(name: str, value: object) -> Array:
    """Return counts, a sequence of integers, as an array."""
    if isinstance(value, list | tuple):
        return np.array([check.integer(f"{name}[{i}]", n) for i, n in enumerate(value)], INT64)
    return as_array(name, value)


def _expert_group(group_ep: str, ep_world_size: int, ep_rank_id: int) -> Group:
    group = find_group("group_ep", group_ep, ep_world_size=ep_world_size)
    check_rank("ep_rank_id", ep_rank_id, group)
    return group


def _check_layout(
    group_tp: object,
    tp_world_size: object,
    tp_rank_id: object,
    expert_shard_type: object,
    shared_expert_num: object,
    shared_expert_rank_num: object,
) -> None:
    """Raise an error for options that would change the results, but are not implemented."""
    check_supported(
        "tensor-parallel groups are not supported",
        group_tp=(group_tp, "", None),
        tp_world_size=(tp_world_size, 0, 1),
        tp_rank_id=(tp_rank_id, 0),
    )
    check_supported(
        "no ranks are set apart for shared experts: give the combine shared_expert_x",
        expert_shard_type=(expert_shard_type, 0),
        shared_expert_num=(shared_expert_num, 1, 0),
        shared_expert_rank_num=(shared_expert_rank_num, 0),
    )
