"""Mixture of experts: dispatch of tokens to their experts' ranks, and combination of the results.

Of ``R`` ranks each has ``e = moe_expert_num / R`` experts: expert ``E`` lives on rank ``E // e`` as its
expert ``E % e``. Token t of a rank has k copies; copy j goes to expert ``expert_ids[t, j]``.

An expert's rows lie together, expert after expert; those of one expert in the order of the ranks they come
from; those of one rank in the order of (t, j). So the order depends on the routing only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.kernels.cast import cast
from emu.kernels.core.messages import shown
from emu.kernels.elementwise.rows import weighted_row_sum
from emu.kernels.quant import dynamic_quantize, quantize
from emu.mc2.arguments import (
    BOOL,
    FLOAT32,
    HALVES,
    INT8,
    INT32,
    Array,
    Counts,
    Tensor,
    check_array,
    find_group,
    local_memory,
)
from emu.mc2.expert_exchange import (
    MAX_ROWS,
    ExpertCall,
    RowExchange,
    Staging,
    Turn,
    counts_of,
)
from emu.mc2.hccl import Hccl

NO_QUANT, STATIC_QUANT, DYNAMIC_QUANT = range(3)
"""Values of ``quant_mode``."""
CUMULATIVE, COUNTS = range(2)
"""Values of ``expert_token_nums_type``."""
MAX_EXPERTS = 1 << 20
"""Most experts of all ranks: tables have a word per expert."""


class DispatchResult(NamedTuple):
    """Result of :func:`moe_distribute_dispatch`."""

    expand_x: Array
    """[a, h]: the rows of this rank's experts, expert by expert; the dtype of ``x``, or int8."""
    dynamic_scales: Array | None
    """[a], fp32: the scale of each row with ``quant_mode=2``, else None."""
    expand_idx: Array
    """[bs * k], int32: the number of copy (t, j), at t * k + j, among this rank's rows in the order of
    (expert, t, j); -1 for a copy that was not sent. The way back needs it."""
    expert_token_nums: Array
    """[e], int64: rows of each expert of this rank; with type 0, their cumulative sums."""
    ep_recv_counts: Array
    """[e * R], int32: at rank * e + expert, rows that came from that rank for that expert of this."""


def moe_distribute_dispatch(
    x: Tensor,
    expert_ids: Tensor,
    *,
    group: Group | str | None = None,
    moe_expert_num: int,
    quant_mode: int = NO_QUANT,
    scales: Tensor | None = None,
    x_active_mask: Tensor | None = None,
    expert_token_nums_type: int = COUNTS,
    global_bs: int = 0,
    expert_shard_type: int = 0,
    shared_expert_rank_num: int = 0,
    group_tp: str | None = None,
    tp_world_size: int = 0,
) -> DispatchResult:
    """Send each copy of each token to the rank of its expert.

    Every rank of the group calls it, with the same h, dtype, moe_expert_num, quant_mode and global_bs;
    bs and k may differ, and bs may be 0.

    Quantisation happens before rows travel. ``quant_mode=2``: ``v = fp32(x[t]) * scales[expert]`` (just
    ``x[t]`` without scales), scale ``max|v| / 127``, values ``rint(v / scale)``, ties to even, each
    operation rounded to fp32. A row of zeros has scale 0 and zeros; a row with an infinity or NaN has that
    as its scale, and zeros (:func:`emu.kernels.quant.dynamic_quantize`). ``quant_mode=1``:
    ``clip(rint(fp32(x[t]) * scales[expert]), -128, 127)``, NaN gives 0; no scales are returned.

    Args:
        x: [bs, h] of fp16 or bf16: this rank's tokens; h is at least 1.
        expert_ids: [bs, k] of int32, each in [0, moe_expert_num); a row may name one twice.
            Inactive entries are ignored.
        group: The ranks: a Group or its name. Default: the World.
        moe_expert_num: Number of experts of all ranks; a multiple of the ranks.
        quant_mode: 0 sends the rows as they are; 1 quantises statically, 2 dynamically, row by
            row.
        scales: [moe_expert_num, h], or [h] for all experts alike, of fp32. With quant_mode 1 they must
            be given, with 2 they may; the same on every rank, which is not checked.
        x_active_mask: [bs] or [bs, k] of bool: tokens, or copies, that are sent, in any pattern.
            Default: all.
        expert_token_nums_type: 1: ``expert_token_nums`` are counts; 0: cumulative sums.
        global_bs: Most tokens on all ranks, ``global_bs / R`` on each. Default: 0, any number.
        expert_shard_type: Must be 0. Ranks for shared experts are not supported.
        shared_expert_rank_num: Must be 0, for the same reason.
        group_tp: Must be None or empty: tensor-parallel groups are not supported.
        tp_world_size: Must be 0 or 1, for the same reason.

    Returns:
        ``(expand_x, dynamic_scales, expand_idx, expert_token_nums, ep_recv_counts)``.

    Raises:
        ArgumentError: An argument breaks a rule, or ranks differ in what must be the same; no row has
            moved.
    """
    _check_layout(expert_shard_type, shared_expert_rank_num, group_tp, tp_world_size)
    members = find_group(group, 0)
    tokens = _tokens("x", x)
    routing = Routing(members, expert_ids, moe_expert_num, x_active_mask, global_bs)
    routing.check_tokens("x", tokens)
    packer = Packer(tokens, routing, quant_mode, scales)
    check.one_of(
        "expert_token_nums_type",
        check.integer("expert_token_nums_type", expert_token_nums_type),
        (CUMULATIVE, COUNTS),
    )
    h = tokens.shape[1]
    call = ExpertCall(
        operator="moe_distribute_dispatch",
        invariants={
            **routing.invariants,
            "h of x": h,
            "the dtype of x": tokens.dtype,
            "quant_mode": quant_mode,
        },
        row_bytes=h * packer.dtype.itemsize,
    )
    exchange = call.agree(members, routing.owned, None)
    expand_x, dynamic_scales = _send_out(members, exchange, packer)
    numbers = np.diff(exchange.permutation.expert_starts)
    if expert_token_nums_type == CUMULATIVE:
        numbers = np.cumsum(numbers)
    counts = exchange.permutation.held.reshape(-1).astype(INT32)
    return DispatchResult(expand_x, dynamic_scales, routing.index, numbers, counts)


def moe_distribute_combine(
    expand_x: Tensor,
    expert_ids: Tensor,
    expand_idx: Tensor,
    ep_send_counts: Counts,
    expert_scales: Tensor,
    *,
    group: Group | str | None = None,
    moe_expert_num: int,
    shared_expert_x: Tensor | None = None,
    x_active_mask: Tensor | None = None,
    global_bs: int = 0,
    expert_shard_type: int = 0,
    shared_expert_rank_num: int = 0,
    group_tp: str | None = None,
    tp_world_size: int = 0,
) -> Array:
    """Send the experts' rows back, and add up those of each token.

    ``x[t] = sum(expert_scales[t, j] * row of copy (t, j) for j) + shared_expert_x[t]``: in fp32 from +0,
    in the order of j, each product and each sum rounded to fp32, the shared row last; then one rounding to
    the dtype. A copy that is not active adds nothing: a token without any gets zeros, or its shared row.

    Every rank of the group calls it, with the same h, dtype, moe_expert_num and global_bs.

    Args:
        expand_x: [a, h] of fp16 or bf16: rows in the order of the dispatch's ``expand_x``; h is at least
            1.
        expert_ids: [bs, k] of int32, as the dispatch was given them.
        expand_idx: [bs * k] of int32, as the dispatch returned it.
        ep_send_counts: [e * R] integers, the dispatch's ``ep_recv_counts``: each received row goes back.
        expert_scales: [bs, k] of fp32: the weight of each copy.
        shared_expert_x: [bs, h] of the dtype of ``expand_x``. Default: nothing is added.
        group, moe_expert_num, x_active_mask, global_bs, expert_shard_type, shared_expert_rank_num, group_tp,
            tp_world_size: As in :func:`moe_distribute_dispatch`.

    Returns:
        The tokens, [bs, h], of the dtype of ``expand_x``.

    Raises:
        ArgumentError: An argument breaks a rule, ranks differ in what must be the same, or
            ``expand_idx`` or ``ep_send_counts`` do not belong to this routing; no row has moved.
    """
    _check_layout(expert_shard_type, shared_expert_rank_num, group_tp, tp_world_size)
    members = find_group(group, 0)
    rows = np.ascontiguousarray(_tokens("expand_x", expand_x))
    h = rows.shape[1]
    routing = Routing(members, expert_ids, moe_expert_num, x_active_mask, global_bs)
    routing.check_index(expand_idx)
    held = routing.check_held("ep_send_counts", ep_send_counts, len(rows))
    weights = np.ascontiguousarray(
        check_array("expert_scales", expert_scales, routing.shape, (FLOAT32,))
    )
    extra = None
    if shared_expert_x is not None:
        shape, dtypes = (routing.shape[0], h), (rows.dtype,)
        extra = np.ascontiguousarray(check_array("shared_expert_x", shared_expert_x, shape, dtypes))
    call = ExpertCall(
        operator="moe_distribute_combine",
        invariants={**routing.invariants, "h of expand_x": h, "the dtype of expand_x": rows.dtype},
        row_bytes=h * rows.itemsize,
        names=("ep_send_counts", "expert_ids"),
        back=True,
    )
    back = _send_back(members, call.agree(members, routing.owned, held), rows)
    return weighted_row_sum(back, routing.index.reshape(routing.shape), weights, extra=extra)


def _send_out(group: Group, exchange: RowExchange, packer: Packer) -> tuple[Array, Array | None]:
    """Pack and send turn by turn; return the received rows, by expert, and their scales."""
    permutation, turns = exchange.permutation, exchange.turns
    sent = np.empty((permutation.owned_rows, packer.width), packer.dtype)
    received = Staging(
        permutation, turns, np.empty((permutation.held_rows, packer.width), packer.dtype)
    )
    scales = np.empty(permutation.owned_rows if packer.has_scales else 0, FLOAT32)
    every: Turn = (0, permutation.owned.shape[1])
    with Hccl(group) as hccl:
        hccl.operator = "moe_distribute_dispatch"
        handles = [
            exchange.post_out(hccl, sent, received.buffer(turn), turn, commit=False)
            for turn in turns
        ]
        for handle, turn in zip(handles, turns, strict=True):
            for count, start in zip(*permutation.owned_runs(turn), strict=True):
                packer.pack(int(start), int(start + count), sent, scales)
            hccl.Commit(handle)
        received_scales = None
        if packer.has_scales:
            received_scales = Staging(
                permutation, [every], np.empty(permutation.held_rows, FLOAT32)
            )
            last = exchange.post_out(
                hccl, scales, received_scales.buffer(every), every, commit=True
            )
        for handle, turn in zip(handles, turns, strict=True):
            hccl.Wait(handle)
            received.to_experts(turn)
        if received_scales is None:
            return received.rows, None
        hccl.Wait(last)
        received_scales.to_experts(every)
    return received.rows, received_scales.rows


def _send_back(group: Group, exchange: RowExchange, rows: Array) -> Array:
    """Send rows, which lie by expert, turn by turn; return this rank's own, by rank."""
    permutation, turns = exchange.permutation, exchange.turns
    held = Staging(permutation, turns, rows)
    back = np.empty((permutation.owned_rows, rows.shape[1]), rows.dtype)
    with Hccl(group) as hccl:
        hccl.operator = "moe_distribute_combine"
        handles = [exchange.post_back(hccl, held.buffer(turn), back, turn) for turn in turns]
        for handle, turn in zip(handles, turns, strict=True):
            held.to_ranks(turn)
            hccl.Commit(handle)
        for handle in handles:
            hccl.Wait(handle)
    return back


class Routing:
    """Routing of this rank's token copies to experts.

    Attributes:
        shape: (bs, k).
        local_experts: Number of experts per rank.
        experts: Expert of each row, in the order in which rows are sent.
        tokens: Token of each row, in that order.
        index: [bs * k], int32: the row of each copy, or -1.
        owned: [ranks, local experts], int64: rows for each expert.
        invariants: Values that must be the same on every rank, by name.
    """

    def __init__(
        self,
        group: Group,
        expert_ids: object,
        moe_expert_num: object,
        mask: object,
        global_bs: object,
    ) -> None:
        total = check.integer("moe_expert_num", moe_expert_num, 1, MAX_EXPERTS)
        if total % group.n_pes:
            raise ArgumentError(
                f"moe_expert_num must be a multiple of the {group.n_pes} ranks of group "
                f"{group.name!r}, and at least that, but got {total}"
            )
        ids = check_array("expert_ids", expert_ids, ("bs", "k"), (INT32,))
        bs, k = self.shape = ids.shape
        limit = check.integer("global_bs", global_bs, 0, MAX_ROWS)
        if limit % group.n_pes:
            raise ArgumentError(
                f"global_bs must be 0 or a multiple of the {group.n_pes} ranks, but got {limit}"
            )
        if limit and bs * group.n_pes > limit:
            raise ArgumentError(
                f"global_bs must be at least {bs * group.n_pes}, {group.n_pes} ranks of {bs} tokens, "
                f"but got {limit}"
            )
        self.local_experts = total // group.n_pes
        self.invariants = {"moe_expert_num": total, "global_bs": limit}
        copies = np.flatnonzero(_active(mask, bs, k))
        chosen = ids.reshape(-1)[copies]
        wrong = np.flatnonzero((chosen < 0) | (chosen >= total))
        if len(wrong):
            t, j = divmod(int(copies[wrong[0]]), k)
            raise ArgumentError(
                f"expert_ids must be in [0, {total}), but got {int(chosen[wrong[0]])} for copy {j} of "
                f"token {t}"
            )
        # Stable: an expert's copies stay in the order of (t, j). NumPy sorts 16 bits by radix.
        order = np.argsort(chosen.astype(np.uint16) if total <= 1 << 16 else chosen, kind="stable")
        self.experts = chosen[order]
        self.tokens = copies[order] // max(k, 1)
        self.index = np.full(bs * k, -1, INT32)
        self.index[copies[order]] = np.arange(len(copies), dtype=INT32)
        counts = np.bincount(chosen, minlength=total).astype(np.int64)
        self.owned = counts.reshape(group.n_pes, self.local_experts)

    def check_tokens(self, name: str, x: Array) -> None:
        """Check that there is one token for each row of ``expert_ids``."""
        if len(x) != self.shape[0]:
            raise ArgumentError(
                f"{name} must have {self.shape[0]} rows, one for each of expert_ids, but got "
                f"shape {x.shape}"
            )

    def check_held(self, name: str, counts: object, rows: int) -> Array:
        """Return the rows of each rank for each expert of this one, [ranks, local experts].

        Raises:
            ArgumentError: They are no such counts, or do not add up to ``rows``.
        """
        held = counts_of(name, counts, len(self.owned), self.local_experts)
        if int(held.sum()) != rows:
            raise ArgumentError(
                f"{name} must add up to the {rows} rows of expand_x, but got {int(held.sum())}"
            )
        return held

    def check_index(self, expand_idx: object) -> None:
        """Check that an index is the one that the dispatch returns for this routing."""
        given = check_array("expand_idx", expand_idx, (self.index.size,), (INT32,))
        wrong = np.flatnonzero(given != self.index)
        if len(wrong):
            t, j = divmod(int(wrong[0]), self.shape[1])
            raise ArgumentError(
                f"expand_idx must be what the dispatch of these expert_ids and this mask returned, "
                f"{int(self.index[wrong[0]])} for copy {j} of token {t}, but got {int(given[wrong[0]])}"
            )


class Packer:
    """Copier of tokens into the rows that are sent, which quantises them.

    Attributes:
        dtype: dtype of the rows.
        width: Number of elements per row.
        has_scales: Whether each row has a scale.
    """

    def __init__(self, x: Array, routing: Routing, quant_mode: int, scales: object) -> None:
        quant_mode = check.one_of(
            "quant_mode",
            check.integer("quant_mode", quant_mode),
            (NO_QUANT, STATIC_QUANT, DYNAMIC_QUANT),
        )
        self._routing = routing
        self.width = x.shape[1]
        self.dtype = x.dtype if quant_mode == NO_QUANT else INT8
        self.has_scales = quant_mode == DYNAMIC_QUANT
        self._smooth: Array | None = None
        self._token_scales: Array | None = None
        if scales is None:
            if quant_mode == STATIC_QUANT:
                raise ArgumentError("scales must be given with quant_mode 1, but got None")
        else:
            if quant_mode == NO_QUANT:
                raise ArgumentError("scales must be None with quant_mode 0, but got an array")
            self._smooth = self._smoothing(scales)
        # Without per-expert scales, all copies of a token quantise alike: do it once per token.
        if self.has_scales and self._smooth is None:
            self._x, self._token_scales = dynamic_quantize(x)
        else:
            self._x = np.ascontiguousarray(x)

    def _smoothing(self, scales: object) -> Array:
        """Return scales [experts, h]; one row for all of them is repeated without a copy."""
        experts = self._routing.owned.size
        scales = local_memory("scales", scales)
        wanted = (self.width,) if scales.ndim == 1 else (experts, self.width)
        return np.broadcast_to(
            check_array("scales", scales, wanted, (FLOAT32,)), (experts, self.width)
        )

    def pack(self, start: int, end: int, rows: Array, scales: Array) -> None:
        """Fill rows ``start`` to ``end``, and their scales where there are any."""
        if start == end:
            return
        tokens, target = self._routing.tokens[start:end], rows[start:end]
        if self._smooth is None:
            bits = np.dtype(f"u{self._x.itemsize}")  # NumPy knows no bf16
            np.take(self._x.view(bits), tokens, axis=0, out=target.view(bits), mode="clip")
            if self._token_scales is not None:
                scales[start:end] = self._token_scales[tokens]
            return
        for first in range(start, end, _PACK_ROWS):
            part = slice(first, min(first + _PACK_ROWS, end))
            values = cast(self._x[self._routing.tokens[part]], FLOAT32)
            with np.errstate(all="ignore"):
                values *= self._smooth[self._routing.experts[part]]
            if self.has_scales:
                dynamic_quantize(values, out=rows[part], scales_out=scales[part])
            else:
                quantize(values, 1.0, out=rows[part])


_PACK_ROWS = 64
"""Number of rows scaled at a time: their fp32 values must stay in the cache."""


def _tokens(name: str, value: object) -> Array:
    array = check_array(name, value, ("rows", "h"), HALVES)
    if not array.shape[1]:
        raise ArgumentError(f"{name} must have rows of at least 1 element, but got {array.shape}")
    return array


def _active(mask: object, bs: int, k: int) -> Array:
    """Return the mask of the copies that are sent, [bs * k]."""
    if mask is None:
        return np.ones(bs * k, BOOL)
    mask = local_memory("x_active_mask", mask)
    by_copy = mask.ndim == 2
    given = check_array("x_active_mask", mask, (bs, k) if by_copy else (bs,), (BOOL,))
    return given.reshape(-1) if by_copy else np.repeat(given, k)


def _check_layout(
    expert_shard_type: object,
    shared_expert_rank_num: object,
    group_tp: object,
    tp_world_size: object,
) -> None:
    """Raise an error for options that would change the results, but are not implemented."""
    unsupported = {
        "expert_shard_type": expert_shard_type,
        "shared_expert_rank_num": shared_expert_rank_num,
    }
    for name, value in unsupported.items():
        if type(value) is not int or value != 0:
            check.integer(name, value)
        if value != 0:
            raise ArgumentError(
                f"{name} must be 0, since no ranks are set apart for shared experts, but got {value!r}; "
                "give shared_expert_x to the combine instead"
            )
    if group_tp is not None and not (isinstance(group_tp, str) and group_tp == ""):
        raise ArgumentError(
            f"group_tp must be None or empty, since tensor-parallel groups are not supported, but got "
            f"{shown(group_tp)}"
        )
    if check.integer("tp_world_size", tp_world_size) not in (0, 1):
        raise ArgumentError(
            f"tp_world_size must be 0 or 1, since tensor-parallel groups are not supported, but got "
            f"{tp_world_size!r}"
        )
