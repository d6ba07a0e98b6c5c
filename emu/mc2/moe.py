"""Mixture of experts: tokens to the ranks of their experts, and what became of them back.

Of ``R`` ranks each has ``e = moe_expert_num / R`` experts: expert ``E`` lives on rank ``E // e`` as its
expert ``E % e``. Token t of a rank has k copies; copy j goes to expert ``expert_ids[t, j]``.

An expert's rows lie together, expert after expert; those of one expert in the order of the ranks they come
from; those of one rank in the order of (t, j). So the order depends on the routing only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from emu.comm.errors import ArgumentError
from emu.comm.world.world import Group
from emu.kernels.cast import cast
from emu.kernels.core.messages import shown
from emu.kernels.elementwise.rows import weighted_row_sum
from emu.kernels.quant import dynamic_quantize, quantize
from emu.mc2.arguments import choice, find_group, integer, local
from emu.mc2.expert_exchange import (
    FLOAT32,
    HALF,
    INT8,
    MAX_ROWS,
    Exchange,
    Turn,
    agree,
    counts_of,
    matrix,
)
from emu.mc2.expert_routes import Array
from emu.mc2.hccl import Hccl

NO_QUANT, STATIC_QUANT, DYNAMIC_QUANT = range(3)
"""What ``quant_mode`` may be."""
CUMULATIVE, COUNTS = range(2)
"""What ``expert_token_nums_type`` may be."""
MAX_EXPERTS = 1 << 20
"""Experts of all ranks: tables have a word for each."""

_BOOL, _INT32 = np.dtype(np.bool_), np.dtype(np.int32)


class DispatchResult(NamedTuple):
    """What :func:`moe_distribute_dispatch` returns."""

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
    x: Any,
    expert_ids: Any,
    *,
    group: Group | str | None = None,
    moe_expert_num: int,
    quant_mode: int = NO_QUANT,
    scales: Any = None,
    x_active_mask: Any = None,
    expert_token_nums_type: int = COUNTS,
    global_bs: int = 0,
    expert_shard_type: int = 0,
    shared_expert_rank_num: int = 0,
    group_tp: Any = None,
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
        expert_ids: [bs, k] of int32, each in [0, moe_expert_num); one may come twice in a row. What
            is not active is not looked at.
        group: The ranks: a Group or its name. Default: the World.
        moe_expert_num: Number of experts of all ranks; a multiple of the ranks.
        quant_mode: 0 sends the rows as they are; 1 quantises statically, 2 dynamically, a row at a
            time.
        scales: [moe_expert_num, h], or [h] for all experts alike, of fp32. With quant_mode 1 they must
            be given, with 2 they may; the same on every rank, which is not checked.
        x_active_mask: [bs] or [bs, k] of bool: tokens, or copies, that are sent, in any pattern.
            Default: all.
        expert_token_nums_type: 1 has ``expert_token_nums`` count, 0 has it cumulated.
        global_bs: At most so many tokens on all ranks, ``global_bs / R`` on each. Default: 0, any.
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
    _refuse(expert_shard_type, shared_expert_rank_num, group_tp, tp_world_size)
    return _run_dispatch(
        find_group(group, 0), x, expert_ids, moe_expert_num, quant_mode, scales, x_active_mask,
        expert_token_nums_type, global_bs,
    )  # fmt: skip


def moe_distribute_combine(
    expand_x: Any,
    expert_ids: Any,
    expand_idx: Any,
    ep_send_counts: Any,
    expert_scales: Any,
    *,
    group: Group | str | None = None,
    moe_expert_num: int,
    shared_expert_x: Any = None,
    x_active_mask: Any = None,
    global_bs: int = 0,
    expert_shard_type: int = 0,
    shared_expert_rank_num: int = 0,
    group_tp: Any = None,
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
        ep_send_counts: [e * R] integers, the dispatch's ``ep_recv_counts``: what came now goes back.
        expert_scales: [bs, k] of fp32: the weight of each copy.
        group: The ranks: a Group or its name. Default: the World.
        moe_expert_num: Number of experts of all ranks; a multiple of the ranks.
        shared_expert_x: [bs, h] of the dtype of ``expand_x``. Default: nothing is added.
        x_active_mask: As the dispatch was given it.
        global_bs: As for the dispatch.
        expert_shard_type: Must be 0. Ranks for shared experts are not supported.
        shared_expert_rank_num: Must be 0, for the same reason.
        group_tp: Must be None or empty: tensor-parallel groups are not supported.
        tp_world_size: Must be 0 or 1, for the same reason.

    Returns:
        The tokens, [bs, h], of the dtype of ``expand_x``.

    Raises:
        ArgumentError: An argument breaks a rule, ranks differ in what must be the same, or
            ``expand_idx`` or ``ep_send_counts`` do not belong to this routing; no row has moved.
    """
    _refuse(expert_shard_type, shared_expert_rank_num, group_tp, tp_world_size)
    return _run_combine(
        find_group(group, 0), expand_x, expert_ids, expand_idx, ep_send_counts, expert_scales,
        moe_expert_num, shared_expert_x, x_active_mask, global_bs,
    )  # fmt: skip


def _run_dispatch(
    group: Group,
    x: Any,
    expert_ids: Any,
    moe_expert_num: int,
    quant_mode: int = NO_QUANT,
    scales: Any = None,
    x_active_mask: Any = None,
    expert_token_nums_type: int = COUNTS,
    global_bs: int = 0,
) -> DispatchResult:
    """Do :func:`moe_distribute_dispatch`, which has refused what is not supported."""
    tokens = _tokens("x", x)
    routing = Routing(group, expert_ids, moe_expert_num, x_active_mask, global_bs)
    routing.check_tokens("x", tokens)
    packer = Packer(tokens, routing, quant_mode, scales)
    choice("expert_token_nums_type", expert_token_nums_type, (CUMULATIVE, COUNTS))
    h = tokens.shape[1]
    alike = {**routing.alike, "h of x": h, "the dtype of x": tokens.dtype, "quant_mode": quant_mode}
    call = agree(
        group, "moe_distribute_dispatch", routing.owned, None, alike, h * packer.dtype.itemsize
    )
    expand_x, dynamic_scales = _send_out(group, call, packer)
    numbers = np.diff(call.routes.expert_starts)
    if expert_token_nums_type == CUMULATIVE:
        numbers = np.cumsum(numbers)
    counts = call.routes.held.reshape(-1).astype(_INT32)
    return DispatchResult(expand_x, dynamic_scales, routing.index, numbers, counts)


def _run_combine(
    group: Group,
    expand_x: Any,
    expert_ids: Any,
    expand_idx: Any,
    ep_send_counts: Any,
    expert_scales: Any,
    moe_expert_num: int,
    shared_expert_x: Any = None,
    x_active_mask: Any = None,
    global_bs: int = 0,
) -> Array:
    """Do :func:`moe_distribute_combine`, which has refused what is not supported."""
    rows = np.ascontiguousarray(_tokens("expand_x", expand_x))
    h = rows.shape[1]
    routing = Routing(group, expert_ids, moe_expert_num, x_active_mask, global_bs)
    routing.check_index(expand_idx)
    held = counts_of("ep_send_counts", ep_send_counts, group.n_pes, routing.local_experts)
    if int(held.sum()) != len(rows):
        raise ArgumentError(
            f"ep_send_counts must add up to the {len(rows)} rows of expand_x, but got "
            f"{int(held.sum())}"
        )
    shape = routing.shape
    weights = np.ascontiguousarray(matrix("expert_scales", expert_scales, shape, (FLOAT32,)))
    extra = None
    if shared_expert_x is not None:
        dtypes = (rows.dtype,)
        extra = matrix("shared_expert_x", shared_expert_x, (shape[0], h), dtypes)
        extra = np.ascontiguousarray(extra)
    alike = {**routing.alike, "h of expand_x": h, "the dtype of expand_x": rows.dtype}
    call = agree(
        group, "moe_distribute_combine", routing.owned, held, alike, h * rows.itemsize,
        names=("ep_send_counts", "expert_ids"), back=True,
    )  # fmt: skip
    back = _send_back(group, call, rows)
    return weighted_row_sum(back, routing.index.reshape(shape), weights, extra=extra)


def _send_out(group: Group, call: Exchange, packer: Packer) -> tuple[Array, Array | None]:
    """Pack and send turn by turn; return the rows that came, by expert, and their scales."""
    routes, turns = call.routes, call.turns
    h = packer.width
    sent, came = (np.empty((n, h), packer.dtype) for n in (routes.owned_rows, routes.held_rows))
    room = came if all(routes.is_direct(turn) for turn in turns) else np.empty_like(came)
    scales, scales_came, scales_room = (
        np.empty(n if packer.has_scales else 0, FLOAT32)
        for n in (routes.owned_rows, routes.held_rows, routes.held_rows)
    )
    every: Turn = (0, routes.owned.shape[1])
    with Hccl(group) as hccl:
        hccl.operator = "moe_distribute_dispatch"
        handles = [
            call.post_out(hccl, sent, came if routes.is_direct(turn) else room, turn, False)
            for turn in turns
        ]
        for handle, turn in zip(handles, turns, strict=True):
            for count, start in zip(*routes.owned_runs(turn), strict=True):
                packer.pack(int(start), int(start + count), sent, scales)
            hccl.Commit(handle)
        last = None
        if packer.has_scales:
            last = call.post_out(hccl, scales, scales_room, every, True)
        for handle, turn in zip(handles, turns, strict=True):
            hccl.Wait(handle)
            if not routes.is_direct(turn):
                routes.to_experts(room, came, turn)
        if last is None:
            return came, None
        hccl.Wait(last)
        routes.to_experts(scales_room, scales_came, every)
    return came, scales_came


def _send_back(group: Group, call: Exchange, rows: Array) -> Array:
    """Send rows, which lie by expert, turn by turn; return this rank's own, by rank."""
    routes, turns = call.routes, call.turns
    room = rows if all(routes.is_direct(turn) for turn in turns) else np.empty_like(rows)
    back = np.empty((routes.owned_rows, rows.shape[1]), rows.dtype)
    with Hccl(group) as hccl:
        hccl.operator = "moe_distribute_combine"
        handles = [
            call.post_back(hccl, rows if routes.is_direct(turn) else room, back, turn, False)
            for turn in turns
        ]
        for handle, turn in zip(handles, turns, strict=True):
            if not routes.is_direct(turn):
                routes.to_ranks(rows, room, turn)
            hccl.Commit(handle)
        for handle in handles:
            hccl.Wait(handle)
    return back


class Routing:
    """Which copies of this rank's tokens go where.

    Attributes:
        shape: (bs, k).
        local_experts: Experts of a rank.
        experts: Expert of each row, in the order in which rows are sent.
        tokens: Token of each row, in that order.
        index: [bs * k], int32: the row of each copy, or -1.
        owned: [ranks, local experts], int64: rows for each expert.
        alike: What must be the same on every rank.
    """

    def __init__(
        self, group: Group, expert_ids: Any, moe_expert_num: Any, mask: Any, global_bs: Any
    ) -> None:
        total = integer("moe_expert_num", moe_expert_num, 1, MAX_EXPERTS)
        if total % group.n_pes:
            raise ArgumentError(
                f"moe_expert_num must be a multiple of the {group.n_pes} ranks of group "
                f"{group.name!r}, and at least that, but got {total}"
            )
        ids = matrix("expert_ids", expert_ids, ("bs", "k"), (_INT32,))
        bs, k = self.shape = ids.shape
        limit = integer("global_bs", global_bs, 0, MAX_ROWS)
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
        self.alike = {"moe_expert_num": total, "global_bs": limit}
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
        self.index = np.full(bs * k, -1, _INT32)
        self.index[copies[order]] = np.arange(len(copies), dtype=_INT32)
        counts = np.bincount(chosen, minlength=total).astype(np.int64)
        self.owned = counts.reshape(group.n_pes, self.local_experts)

    def check_tokens(self, name: str, x: Array) -> None:
        """Refuse tokens that are not one for each row of ``expert_ids``."""
        if len(x) != self.shape[0]:
            raise ArgumentError(
                f"{name} must have {self.shape[0]} rows, one for each of expert_ids, but got "
                f"shape {x.shape}"
            )

    def check_index(self, expand_idx: Any) -> None:
        """Refuse an index that dispatch would not have returned for this routing."""
        given = matrix("expand_idx", expand_idx, (self.index.size,), (_INT32,))
        wrong = np.flatnonzero(given != self.index)
        if len(wrong):
            t, j = divmod(int(wrong[0]), self.shape[1])
            raise ArgumentError(
                f"expand_idx must be what the dispatch of these expert_ids and this mask returned, "
                f"{int(self.index[wrong[0]])} for copy {j} of token {t}, but got {int(given[wrong[0]])}"
            )


class Packer:
    """Copies tokens to the rows that are sent, and quantises them.

    Attributes:
        dtype: That of the rows.
        width: Elements of a row.
        has_scales: Whether each row has a scale.
    """

    def __init__(self, x: Array, routing: Routing, quant_mode: int, scales: Any) -> None:
        quant_mode = choice("quant_mode", quant_mode, (NO_QUANT, STATIC_QUANT, DYNAMIC_QUANT))
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
        # Without scales of its own, an expert's row is the same as any other's of that token.
        if self.has_scales and self._smooth is None:
            self._x, self._token_scales = dynamic_quantize(x)
        else:
            self._x = np.ascontiguousarray(x)

    def _smoothing(self, scales: Any) -> Array:
        """Return scales [experts, h]; one row for all of them is repeated without a copy."""
        experts = self._routing.owned.size
        scales = local("scales", scales)
        wanted = (self.width,) if scales.ndim == 1 else (experts, self.width)
        return np.broadcast_to(matrix("scales", scales, wanted, (FLOAT32,)), (experts, self.width))

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
"""Rows that are scaled at a time, so that their fp32 values stay in the cache."""


def _tokens(name: str, value: Any) -> Array:
    array = matrix(name, value, ("rows", "h"), HALF)
    if not array.shape[1]:
        raise ArgumentError(f"{name} must have rows of at least 1 element, but got {array.shape}")
    return array


def _active(mask: Any, bs: int, k: int) -> Array:
    """Return which copies are sent, [bs * k]."""
    if mask is None:
        return np.ones(bs * k, _BOOL)
    mask = local("x_active_mask", mask)
    by_copy = mask.ndim == 2
    given = matrix("x_active_mask", mask, (bs, k) if by_copy else (bs,), (_BOOL,))
    return given.reshape(-1) if by_copy else np.repeat(given, k)


def _refuse(
    expert_shard_type: Any, shared_expert_rank_num: Any, group_tp: Any, tp_world_size: Any
) -> None:
    """Refuse what would give other results if it were ignored."""
    apart = {
        "expert_shard_type": expert_shard_type,
        "shared_expert_rank_num": shared_expert_rank_num,
    }
    for name, value in apart.items():
        if type(value) is not int or value != 0:
            integer(name, value, -1 << 70)
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
    if integer("tp_world_size", tp_world_size, -1 << 70) not in (0, 1):
        raise ArgumentError(
            f"tp_world_size must be 0 or 1, since tensor-parallel groups are not supported, but got "
            f"{tp_world_size!r}"
        )


__all__ = ["DispatchResult", "moe_distribute_combine", "moe_distribute_dispatch"]
