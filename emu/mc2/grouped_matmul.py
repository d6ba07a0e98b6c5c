"""Grouped products of a mixture of experts, joined with the exchange of the tokens' rows.

Of ``R`` ranks each has ``e`` experts. A copy of a token is a row. A rank's rows for all experts lie *by
rank*, in the order of (rank, expert); the rows that an expert's rank holds lie *by expert*, in the order of
(expert, rank). Counts of rows have index ``rank * e + expert``.

Rows move in turns of a few successive experts of every rank: while the rows of one turn are multiplied,
those of the next are on their way.

Products: of fp16 or bf16, summed in fp32 with k increasing and rounded once; of int8, summed in int32, then
``(fp32(sum) * weight scale) * row scale``, each operation rounded to fp32, then rounded once. The bits
don't depend on the number of turns and are those of the unfused sequence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from emu.comm.errors import ArgumentError
from emu.comm.world.group import Group
from emu.kernels.elementwise.rows import scale_product
from emu.kernels.matmul import Packed, matmul
from emu.mc2 import scratch
from emu.mc2.arguments import as_dtype, find_group, flag
from emu.mc2.expert_exchange import (
    FLOAT32,
    HALF,
    INT8,
    Turn,
    agree,
    check_turns,
    counts_of,
    matrix,
)
from emu.mc2.expert_routes import Array
from emu.mc2.hccl import Hccl

_EARLY_EXPERTS = 4
"""Up to so many experts of a turn have this rank's own rows multiplied before the others' are here. Each of
their weights is then laid out once for both products, which takes memory."""


class AlltoAllVGmmResult(NamedTuple):
    """What :func:`alltoallv_gmm` returns."""

    gmm_y: Array
    """[a, n]: products of the rows of this rank's experts, by expert."""
    mm_y: Array | None
    """[m, n2]: product of the shared expert; None where ``mm_x`` is not given."""
    permute_out: Array | None
    """[a, h]: the rows that were multiplied, by expert; None where not asked for."""


class GmmAlltoAllVResult(NamedTuple):
    """What :func:`gmm_alltoallv` returns."""

    y: Array
    """[bsk, n]: products of this rank's rows, by rank."""
    mm_y: Array | None
    """[m, n2]: product of the shared expert; None where ``mm_x`` is not given."""


def alltoallv_gmm(
    gmm_x: Any,
    gmm_weight: Any,
    send_counts: Any,
    recv_counts: Any,
    *,
    group: Group | str | None = None,
    mm_x: Any = None,
    mm_weight: Any = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    permute_out: bool = False,
    comm_turn: int = 0,
    gmm_x_scale: Any = None,
    gmm_weight_scale: Any = None,
    mm_x_scale: Any = None,
    mm_weight_scale: Any = None,
    output_dtype: npt.DTypeLike | None = None,
) -> AlltoAllVGmmResult:
    """Send rows to their experts' ranks, and multiply there each expert's rows by its weight.

    ``gmm_y[rows of expert x] = rows @ gmm_weight[x]``. The shared expert's product
    ``mm_y = mm_x @ mm_weight`` is computed while the first rows travel.

    Every rank of the group calls it, with the same h, dtype, number of experts and comm_turn; numbers of
    rows and n may differ.

    Args:
        gmm_x: [bsk, h] of fp16, bf16 or int8: this rank's rows, by rank.
        gmm_weight: [e, h, n] of the same dtype: this rank's experts; e is at least 1.
        send_counts: [R * e] integers; at rank * e + expert, rows of ``gmm_x`` for that expert of that
            rank. They add up to bsk.
        recv_counts: [R * e] integers; at rank * e + expert, rows that come from that rank for that
            expert of this one. They add up to a.
        group: The ranks: a Group or its name. Default: the World.
        mm_x: [m, k] of fp16, bf16 or int8: rows of the shared expert. Default: there is none.
        mm_weight: [k, n2] of the dtype of ``mm_x``; given with it.
        trans_gmm_weight: ``gmm_weight`` is [e, n, h].
        trans_mm_weight: ``mm_weight`` is [n2, k].
        permute_out: Return the rows that came, too.
        comm_turn: Number of turns, at most e and at most 62; 0 chooses by the amount of data.
        gmm_x_scale: For int8: [bsk] of fp32, a scale for each row of ``gmm_x``; it travels along.
            Default: none.
        gmm_weight_scale: For int8, where it must be given: [e, n] of fp32, a scale for each column.
        mm_x_scale: For int8: [m] of fp32. Default: none.
        mm_weight_scale: For int8, where it must be given: [n2] of fp32.
        output_dtype: dtype of products of int8, fp16 or bf16; default fp16. For others that of the
            operands is the only one.

    Returns:
        ``(gmm_y, mm_y, permute_out)``.

    Raises:
        ArgumentError: An argument breaks a rule, or ranks were told different counts; no row has moved.
    """
    return _run_alltoallv_gmm(
        find_group(group, 0),
        Experts(gmm_x, gmm_weight, trans_gmm_weight, gmm_x_scale, gmm_weight_scale, output_dtype),
        Shared(mm_x, mm_weight, trans_mm_weight, mm_x_scale, mm_weight_scale, output_dtype),
        send_counts, recv_counts, flag("permute_out", permute_out), comm_turn,
    )  # fmt: skip


def gmm_alltoallv(
    gmm_x: Any,
    gmm_weight: Any,
    send_counts: Any,
    recv_counts: Any,
    *,
    group: Group | str | None = None,
    mm_x: Any = None,
    mm_weight: Any = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    comm_turn: int = 0,
    gmm_x_scale: Any = None,
    gmm_weight_scale: Any = None,
    mm_x_scale: Any = None,
    mm_weight_scale: Any = None,
    output_dtype: npt.DTypeLike | None = None,
) -> GmmAlltoAllVResult:
    """Multiply each expert's rows by its weight, and send the products back to the rows' ranks.

    The way back of :func:`alltoallv_gmm`, whose ``recv_counts`` are the ``send_counts`` here, and the
    other way round. The shared expert's product is computed while the last products travel.

    Every rank of the group calls it, with the same n, dtype of the products, number of experts and
    comm_turn.

    Args:
        gmm_x: [a, h] of fp16, bf16 or int8: the rows of this rank's experts, by expert.
        gmm_weight: [e, h, n] of the same dtype: this rank's experts; e is at least 1.
        send_counts: [R * e] integers; at rank * e + expert, rows of that expert of this rank whose
            products go back to that rank. They add up to a.
        recv_counts: [R * e] integers; at rank * e + expert, products that come back from that expert
            of that rank. They add up to bsk.
        group: The ranks: a Group or its name. Default: the World.
        mm_x: [m, k] of fp16, bf16 or int8: rows of the shared expert. Default: there is none.
        mm_weight: [k, n2] of the dtype of ``mm_x``; given with it.
        trans_gmm_weight: ``gmm_weight`` is [e, n, h].
        trans_mm_weight: ``mm_weight`` is [n2, k].
        comm_turn: Number of turns, at most e and at most 62; 0 chooses by the amount of data.
        gmm_x_scale: For int8: [a] of fp32, a scale for each row of ``gmm_x``. Default: none.
        gmm_weight_scale: For int8, where it must be given: [e, n] of fp32, a scale for each column.
        mm_x_scale: For int8: [m] of fp32. Default: none.
        mm_weight_scale: For int8, where it must be given: [n2] of fp32.
        output_dtype: dtype of products of int8, fp16 or bf16; default fp16. For others that of the
            operands is the only one.

    Returns:
        ``(y, mm_y)``.

    Raises:
        ArgumentError: An argument breaks a rule, or ranks were told different counts; no row has moved.
    """
    return _run_gmm_alltoallv(
        find_group(group, 0),
        Experts(gmm_x, gmm_weight, trans_gmm_weight, gmm_x_scale, gmm_weight_scale, output_dtype),
        Shared(mm_x, mm_weight, trans_mm_weight, mm_x_scale, mm_weight_scale, output_dtype),
        send_counts, recv_counts, comm_turn,
    )  # fmt: skip


def _run_alltoallv_gmm(
    group: Group,
    experts: Experts,
    shared: Shared,
    send_counts: Any,
    recv_counts: Any,
    permute_out: bool = False,
    comm_turn: int = 0,
) -> AlltoAllVGmmResult:
    """Do :func:`alltoallv_gmm` with checked operands."""
    e = experts.number
    owned = counts_of("send_counts", send_counts, group.n_pes, e)
    held = counts_of("recv_counts", recv_counts, group.n_pes, e)
    experts.check_rows("send_counts", owned)
    alike = {
        "h of gmm_x": experts.depth,
        "the dtype of gmm_x": experts.x.dtype,
        "whether gmm_x_scale is given": int(experts.x_scale is not None),
    }
    row_bytes = experts.depth * experts.x.itemsize
    turns = check_turns(comm_turn, e)
    call = agree(group, "alltoallv_gmm", owned, held, alike, row_bytes, experts.work, turns)
    routes = call.routes
    rows = np.empty((routes.held_rows, experts.depth), experts.x.dtype)
    room = rows if all(routes.is_direct(turn) for turn in call.turns) else np.empty_like(rows)
    gmm_y = np.empty((routes.held_rows, experts.columns), experts.dtype)
    scales = None
    with Hccl(group) as hccl:
        hccl.operator = "alltoallv_gmm"
        first = None
        if experts.x_scale is not None:
            every = (0, e)
            came, scales = (np.empty(routes.held_rows, FLOAT32) for _ in range(2))
            first = call.post_out(hccl, experts.x_scale, came, every, True)
        targets = [rows if routes.is_direct(turn) else room for turn in call.turns]
        handles = [
            call.post_out(hccl, experts.x, target, turn, True)
            for target, turn in zip(targets, call.turns, strict=True)
        ]
        mm_y = shared.multiply()
        if first is not None and scales is not None:
            hccl.Wait(first)
            routes.to_experts(came, scales, every)
        for handle, turn in zip(handles, call.turns, strict=True):
            early = turn[1] - turn[0] <= _EARLY_EXPERTS and hccl.Query(handle) == 0
            if early:  # this rank's own rows are where they can be read already
                experts.pack(turn)
                for expert in range(*turn):
                    mine, place = routes.kept_rows(expert, group.my_pe)
                    experts.multiply(expert, experts.x, experts.x_scale, mine, gmm_y, place)
            hccl.Wait(handle)
            if not routes.is_direct(turn):
                routes.to_experts(room, rows, turn)
            for expert in range(*turn):
                for part in routes.parts(expert, group.my_pe if early else None):
                    experts.multiply(expert, rows, scales, part, gmm_y, part)
    return AlltoAllVGmmResult(gmm_y, mm_y, rows if permute_out else None)


def _run_gmm_alltoallv(
    group: Group,
    experts: Experts,
    shared: Shared,
    send_counts: Any,
    recv_counts: Any,
    comm_turn: int = 0,
) -> GmmAlltoAllVResult:
    """Do :func:`gmm_alltoallv` with checked operands."""
    e = experts.number
    held = counts_of("send_counts", send_counts, group.n_pes, e)
    owned = counts_of("recv_counts", recv_counts, group.n_pes, e)
    experts.check_rows("send_counts", held)
    alike = {
        "n of gmm_weight": experts.columns,
        "the dtype of the products": experts.dtype,
    }
    row_bytes = experts.columns * experts.dtype.itemsize
    turns = check_turns(comm_turn, e)
    call = agree(
        group, "gmm_alltoallv", owned, held, alike, row_bytes, experts.work, turns, back=True
    )
    routes = call.routes
    products = np.empty((routes.held_rows, experts.columns), experts.dtype)
    room = (
        products if all(routes.is_direct(turn) for turn in call.turns) else np.empty_like(products)
    )
    y = np.empty((routes.owned_rows, experts.columns), experts.dtype)
    with Hccl(group) as hccl:
        hccl.operator = "gmm_alltoallv"
        sources = [products if routes.is_direct(turn) else room for turn in call.turns]
        # The last turn has only its own rank's rows left to be multiplied beside it.
        last = call.turns[-1]
        splits = len(call.turns) > 1 and last[1] - last[0] <= _EARLY_EXPERTS
        kept = [None] * (len(call.turns) - 1) + [group.my_pe if splits else None]
        handles = [
            call.post_back(hccl, source, y, turn, False, keeper)
            for source, turn, keeper in zip(sources, call.turns, kept, strict=True)
        ]
        for handle, turn, keeper in zip(handles, call.turns, kept, strict=True):
            if keeper is not None:
                experts.pack(turn)
            for expert in range(*turn):
                for part in routes.parts(expert, keeper):
                    experts.multiply(expert, experts.x, experts.x_scale, part, products, part)
            if not routes.is_direct(turn):
                routes.to_ranks(products, room, turn)
            hccl.Commit(handle)
            if keeper is not None:
                for expert in range(*turn):
                    place, mine = routes.kept_rows(expert, keeper)
                    experts.multiply(expert, experts.x, experts.x_scale, mine, y, place)
        mm_y = shared.multiply()
        for handle in handles:
            hccl.Wait(handle)
    return GmmAlltoAllVResult(y, mm_y)


class Experts:
    """The operands of a grouped product, checked."""

    def __init__(
        self,
        x: Any,
        weight: Any,
        transposed: bool,
        x_scale: Any,
        weight_scale: Any,
        output_dtype: npt.DTypeLike | None,
    ) -> None:
        self.x = np.ascontiguousarray(matrix("gmm_x", x, ("rows", "h"), (*HALF, INT8)))
        depth = self.x.shape[1]
        transposed = flag("trans_gmm_weight", transposed)
        shape = ("e", "n", depth) if transposed else ("e", depth, "n")
        array = matrix("gmm_weight", weight, shape, (self.x.dtype,))
        self.weight = array.swapaxes(1, 2) if transposed else array
        self.number, self.depth, self.columns = self.weight.shape
        self.work = self.depth * self.columns
        self._packed: dict[int, Packed] = {}
        if not self.number:
            raise ArgumentError(f"gmm_weight must have at least 1 expert, but got {array.shape}")
        self.dtype = _output_dtype(self.x.dtype, output_dtype)
        self.x_scale, self.weight_scale = _scales(
            "gmm_", self.x, x_scale, weight_scale, (self.number, self.columns)
        )

    def check_rows(self, name: str, counts: Array) -> None:
        """Refuse counts that are not those of the rows of ``gmm_x``."""
        if int(counts.sum()) != len(self.x):
            raise ArgumentError(
                f"{name} must add up to the {len(self.x)} rows of gmm_x, but got {int(counts.sum())}"
            )

    def multiply(
        self, expert: int, x: Array, x_scale: Array | None, rows: slice, out: Array, place: slice
    ) -> None:
        """Write the product of some of an expert's rows."""
        if rows.start == rows.stop:
            return
        scale = None if x_scale is None else x_scale[rows]
        columns = None if self.weight_scale is None else self.weight_scale[expert]
        weight = self._packed.get(expert, self.weight[expert])
        _product(x[rows], weight, scale, columns, out[place])

    def pack(self, turn: Turn) -> None:
        """Lay out the weights of a turn's experts, each for products of its own rows and the others'."""
        self._packed = {
            expert: scratch.packed(self.weight[expert], place)
            for place, expert in enumerate(range(*turn))
        }


class Shared:
    """The operands of the shared expert's product, checked; there may be none."""

    def __init__(
        self,
        x: Any,
        weight: Any,
        transposed: bool,
        x_scale: Any,
        weight_scale: Any,
        output_dtype: npt.DTypeLike | None,
    ) -> None:
        self.x: Array | None = None
        transposed = flag("trans_mm_weight", transposed)
        if x is None or weight is None:
            given = {"mm_x": x, "mm_weight": weight, "mm_x_scale": x_scale}
            given["mm_weight_scale"] = weight_scale
            some = [name for name, value in given.items() if value is not None]
            if some:
                raise ArgumentError(
                    f"mm_x and mm_weight must be given together, but got {' and '.join(some)} only"
                )
            return
        self.x = matrix("mm_x", x, ("m", "k"), (*HALF, INT8))
        depth = self.x.shape[1]
        shape = ("n", depth) if transposed else (depth, "n")
        array = matrix("mm_weight", weight, shape, (self.x.dtype,))
        self.weight = array.T if transposed else array
        self.dtype = _output_dtype(self.x.dtype, output_dtype)
        self.x_scale, self.weight_scale = _scales(
            "mm_", self.x, x_scale, weight_scale, (self.weight.shape[1],)
        )

    def multiply(self) -> Array | None:
        """Return the product."""
        if self.x is None:
            return None
        out = np.empty((len(self.x), self.weight.shape[1]), self.dtype)
        _product(self.x, self.weight, self.x_scale, self.weight_scale, out)
        return out


def _output_dtype(dtype: np.dtype[Any], wanted: npt.DTypeLike | None) -> np.dtype[Any]:
    if wanted is None:
        return HALF[0] if dtype == INT8 else dtype
    result = as_dtype("output_dtype", wanted, "float16 or bfloat16")
    if result not in HALF or dtype not in (INT8, result):
        allowed = " or ".join(str(d) for d in (HALF if dtype == INT8 else (dtype,)))
        raise ArgumentError(f"output_dtype must be {allowed} for {dtype}, but got {result}")
    return result


def _scales(
    prefix: str, x: Array, x_scale: Any, weight_scale: Any, shape: tuple[int, ...]
) -> tuple[Array | None, Array | None]:
    """Return the scales of the rows and of the columns, dense, or None for each not given."""
    names = f"{prefix}x_scale", f"{prefix}weight_scale"
    if x.dtype != INT8:
        for name, value in zip(names, (x_scale, weight_scale), strict=True):
            if value is not None:
                raise ArgumentError(
                    f"{name} must be None unless {prefix}x is int8, but got {x.dtype}"
                )
        return None, None
    if weight_scale is None:
        raise ArgumentError(f"{names[1]} must be given for int8, but got None")
    columns = matrix(names[1], weight_scale, shape, (FLOAT32,))
    rows = None if x_scale is None else matrix(names[0], x_scale, (len(x),), (FLOAT32,))
    return None if rows is None else np.ascontiguousarray(rows), np.ascontiguousarray(columns)


def _product(
    x: Array, weight: Array | Packed, x_scale: Array | None, weight_scale: Array | None, out: Array
) -> None:
    if weight_scale is None:
        matmul(x, weight, out=out)
    else:
        scale_product(matmul(x, weight), weight_scale, x_scale, out=out)


__all__ = ["AlltoAllVGmmResult", "GmmAlltoAllVResult", "alltoallv_gmm", "gmm_alltoallv"]
