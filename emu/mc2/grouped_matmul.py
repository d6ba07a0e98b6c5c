"""Grouped products of a mixture of experts, joined with the exchange of the tokens' rows.

Of ``R`` ranks each has ``e`` experts. A copy of a token is a row. A rank's rows for all experts lie *by
rank*, in the order of (rank, expert); the rows that an expert's rank holds lie *by expert*, in the order of
(expert, rank). Counts of rows have index ``rank * e + expert``.

Rows move in turns of a few successive experts of every rank: while the rows of one turn are multiplied,
those of the next are in flight.

Products: of fp16 or bf16, summed in fp32 with k increasing and rounded once; of int8, summed in int32, then
``(fp32(sum) * weight scale) * row scale``, each operation rounded to fp32, then rounded once. The bits
don't depend on the number of turns and are those of the unfused sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from emu.comm.errors import ArgumentError
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.kernels.elementwise.rows import scale_product
from emu.kernels.matmul import Packed, matmul
from emu.mc2 import scratch
from emu.mc2.arguments import (
    FLOAT32,
    HALVES,
    INT8,
    Array,
    Counts,
    Tensor,
    check_array,
    find_group,
)
from emu.mc2.expert_exchange import (
    ExpertCall,
    RowExchange,
    Staging,
    Turn,
    check_turns,
    counts_of,
)
from emu.mc2.hccl import Hccl
from emu.mc2.spans import Noted, computing
from emu.tile.counting.state import wants_operators

_EARLY_EXPERTS = 4
"""Most experts of a turn whose own rows are multiplied before the others' have arrived. Each weight is then
packed once for both products, which takes memory."""


class AlltoAllVGmmResult(NamedTuple):
    """Result of :func:`alltoallv_gmm`."""

    gmm_y: Array
    """[a, n]: products of the rows of this rank's experts, by expert."""
    mm_y: Array | None
    """[m, n2]: product of the shared expert; None where ``mm_x`` is not given."""
    permute_out: Array | None
    """[a, h]: the rows that were multiplied, by expert; None unless requested."""


class GmmAlltoAllVResult(NamedTuple):
    """Result of :func:`gmm_alltoallv`."""

    y: Array
    """[bsk, n]: products of this rank's rows, by rank."""
    mm_y: Array | None
    """[m, n2]: product of the shared expert; None where ``mm_x`` is not given."""


def alltoallv_gmm(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    send_counts: Counts,
    recv_counts: Counts,
    *,
    group: Group | str | None = None,
    mm_x: Tensor | None = None,
    mm_weight: Tensor | None = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    permute_out: bool = False,
    comm_turn: int = 0,
    gmm_x_scale: Tensor | None = None,
    gmm_weight_scale: Tensor | None = None,
    mm_x_scale: Tensor | None = None,
    mm_weight_scale: Tensor | None = None,
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
        mm_x: [m, k] of fp16, bf16 or int8: rows of the shared expert. Default: none.
        mm_weight: [k, n2] of the dtype of ``mm_x``; given with it.
        trans_gmm_weight: ``gmm_weight`` is [e, n, h].
        trans_mm_weight: ``mm_weight`` is [n2, k].
        permute_out: Also return the received rows.
        comm_turn: Number of turns, at most e and at most 62; 0: chosen by the amount of data.
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
        ArgumentError: An argument breaks a rule, or ranks were given different counts; no row has moved.
    """
    members = find_group(group, 0)
    experts = Experts(
        gmm_x, gmm_weight, trans_gmm_weight, gmm_x_scale, gmm_weight_scale, output_dtype
    )
    shared = Shared(mm_x, mm_weight, trans_mm_weight, mm_x_scale, mm_weight_scale, output_dtype)
    returns_rows = check.flag("permute_out", permute_out)
    owned = counts_of("send_counts", send_counts, members.n_pes, experts.number)
    held = counts_of("recv_counts", recv_counts, members.n_pes, experts.number)
    experts.check_rows("send_counts", owned)
    call = ExpertCall(
        operator="alltoallv_gmm",
        invariants={
            "h of gmm_x": experts.depth,
            "the dtype of gmm_x": experts.x.dtype,
            "whether gmm_x_scale is given": int(experts.x_scale is not None),
        },
        row_bytes=experts.depth * experts.x.itemsize,
        row_work=experts.work,
        comm_turn=check_turns(comm_turn, experts.number),
    )
    exchange = call.agree(members, owned, held)
    gmm_y, mm_y, rows = _run_alltoallv_gmm(members, experts, shared, exchange)
    written = {"gmm_y": gmm_y, "mm_y": mm_y, "permute_out": rows if returns_rows else None}
    _count(call.operator, experts, shared, held, written)
    return AlltoAllVGmmResult(gmm_y, mm_y, rows if returns_rows else None)


def gmm_alltoallv(
    gmm_x: Tensor,
    gmm_weight: Tensor,
    send_counts: Counts,
    recv_counts: Counts,
    *,
    group: Group | str | None = None,
    mm_x: Tensor | None = None,
    mm_weight: Tensor | None = None,
    trans_gmm_weight: bool = False,
    trans_mm_weight: bool = False,
    comm_turn: int = 0,
    gmm_x_scale: Tensor | None = None,
    gmm_weight_scale: Tensor | None = None,
    mm_x_scale: Tensor | None = None,
    mm_weight_scale: Tensor | None = None,
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
        gmm_x_scale: For int8: [a] of fp32, a scale for each row of ``gmm_x``. Default: none.
        group, mm_x, mm_weight, trans_gmm_weight, trans_mm_weight, comm_turn, gmm_weight_scale, mm_x_scale,
            mm_weight_scale, output_dtype: As in :func:`alltoallv_gmm`.

    Returns:
        ``(y, mm_y)``.

    Raises:
        ArgumentError: An argument breaks a rule, or ranks were given different counts; no row has moved.
    """
    members = find_group(group, 0)
    experts = Experts(
        gmm_x, gmm_weight, trans_gmm_weight, gmm_x_scale, gmm_weight_scale, output_dtype
    )
    shared = Shared(mm_x, mm_weight, trans_mm_weight, mm_x_scale, mm_weight_scale, output_dtype)
    held = counts_of("send_counts", send_counts, members.n_pes, experts.number)
    owned = counts_of("recv_counts", recv_counts, members.n_pes, experts.number)
    experts.check_rows("send_counts", held)
    call = ExpertCall(
        operator="gmm_alltoallv",
        invariants={
            "n of gmm_weight": experts.columns,
            "the dtype of the products": experts.dtype,
        },
        row_bytes=experts.columns * experts.dtype.itemsize,
        row_work=experts.work,
        comm_turn=check_turns(comm_turn, experts.number),
        back=True,
    )
    found = _run_gmm_alltoallv(members, experts, shared, call.agree(members, owned, held))
    _count(call.operator, experts, shared, held, {"y": found.y, "mm_y": found.mm_y})
    return found


def _count(
    name: str, experts: Experts, shared: Shared, held: Array, written: Mapping[str, object]
) -> None:
    """Count a call that is over, if operators are counted.

    Args:
        name: The operator's.
        experts: Operands of the grouped product.
        shared: Those of the shared expert's.
        held: [ranks, experts], the rows of each rank for each expert of this one.
        written: Results by name.
    """
    if not wants_operators():
        return
    from emu.mc2 import counted  # where somebody counts

    rows = [n for n in held.reshape(-1, experts.number).sum(0).tolist() if n]
    products = [((n, experts.columns, experts.depth), experts.x.dtype) for n in rows]
    read: dict[str, object] = {
        "gmm_x": experts.x,
        "gmm_weight": experts.weight,
        "gmm_x_scale": experts.x_scale,
        "gmm_weight_scale": experts.weight_scale,
    }
    scaled = [(sum(rows) * experts.columns, experts.weight_scale, experts.x_scale)]
    if shared.x is not None:
        (m, k), n = shared.x.shape, shared.weight.shape[1]
        products.append(((m, n, k), shared.x.dtype))
        scales = {"mm_x_scale": shared.x_scale, "mm_weight_scale": shared.weight_scale}
        read |= {"mm_x": shared.x, "mm_weight": shared.weight, **scales}
        scaled.append((m * n, shared.weight_scale, shared.x_scale))
    more = [
        counted.multiplications(elements, (columns is not None) + (of_rows is not None))
        for elements, columns, of_rows in scaled
    ]
    counted.note_operator(name, products, read, written, *more)


def _run_alltoallv_gmm(
    group: Group,
    experts: Experts,
    shared: Shared,
    exchange: RowExchange,
) -> tuple[Array, Array | None, Array]:
    """Return the products by expert, the shared expert's, and the received rows."""
    permutation, turns = exchange.permutation, exchange.turns
    received = Staging(
        permutation, turns, np.empty((permutation.held_rows, experts.depth), experts.x.dtype)
    )
    gmm_y = np.empty((permutation.held_rows, experts.columns), experts.dtype)
    with Hccl(group) as hccl:
        hccl.operator = "alltoallv_gmm"
        scales = _ScaleExchange(hccl, exchange, experts.x_scale)
        handles = [
            exchange.post_out(hccl, experts.x, received.buffer(turn), turn, commit=True)
            for turn in turns
        ]
        mm_y = shared.multiply()
        row_scales = scales.wait()
        for handle, turn in zip(handles, turns, strict=True):
            # This rank's own rows can be read already; the others' may take a while.
            early = _is_small(turn) and hccl.Query(handle) == 0
            if early:
                experts.pack(turn)
                with computing(None, group.my_pe, "own rows of experts", -1):
                    for expert in range(*turn):
                        mine, place = permutation.kept_rows(expert, group.my_pe)
                        experts.multiply(expert, experts.x, experts.x_scale, mine, gmm_y, place)
            hccl.Wait(handle)
            received.to_experts(turn)
            with computing(None, group.my_pe, "rows of experts", 0):
                for expert in range(*turn):
                    for part in permutation.parts(expert, group.my_pe if early else None):
                        experts.multiply(expert, received.rows, row_scales, part, gmm_y, part)
    return gmm_y, mm_y, received.rows


class _ScaleExchange:
    """Scales of int8 rows, which travel ahead of them in one turn; there may be none."""

    def __init__(self, hccl: Hccl, exchange: RowExchange, scales: Array | None) -> None:
        self._hccl = hccl
        self._every = (0, exchange.permutation.owned.shape[1])
        self._received: Staging | None = None
        if scales is not None:
            room = np.empty(exchange.permutation.held_rows, FLOAT32)
            self._received = Staging(exchange.permutation, [self._every], room)
            buffer = self._received.buffer(self._every)
            self._handle = exchange.post_out(hccl, scales, buffer, self._every, commit=True)

    def wait(self) -> Array | None:
        """Return the scales by expert when they have arrived, or None."""
        if self._received is None:
            return None
        self._hccl.Wait(self._handle)
        self._received.to_experts(self._every)
        return self._received.rows


def _run_gmm_alltoallv(
    group: Group, experts: Experts, shared: Shared, exchange: RowExchange
) -> GmmAlltoAllVResult:
    """Multiply turn by turn, and send back the products of one turn while the next is computed."""
    permutation, turns = exchange.permutation, exchange.turns
    rows = np.empty((permutation.held_rows, experts.columns), experts.dtype)
    products = Staging(permutation, turns, rows)
    y = np.empty((permutation.owned_rows, experts.columns), experts.dtype)
    # While the last turn travels nothing is left to multiply but its own rows: they are kept back for it.
    kept: list[int | None] = [None] * len(turns)
    if len(turns) > 1 and _is_small(turns[-1]):
        kept[-1] = group.my_pe
    with Hccl(group) as hccl:
        hccl.operator = "gmm_alltoallv"
        handles = [
            exchange.post_back(hccl, products.buffer(turn), y, turn, keeper)
            for turn, keeper in zip(turns, kept, strict=True)
        ]
        for handle, turn, keeper in zip(handles, turns, kept, strict=True):
            if keeper is not None:
                experts.pack(turn)
            with computing(None, group.my_pe, "rows of experts", 0):
                for expert in range(*turn):
                    for part in permutation.parts(expert, keeper):
                        experts.multiply(expert, experts.x, experts.x_scale, part, rows, part)
            products.to_ranks(turn)
            hccl.Commit(handle)
            if keeper is not None:
                with computing(None, group.my_pe, "own rows of experts", -1):
                    for expert in range(*turn):
                        place, mine = permutation.kept_rows(expert, keeper)
                        experts.multiply(expert, experts.x, experts.x_scale, mine, y, place)
        mm_y = shared.multiply()
        for handle in handles:
            hccl.Wait(handle)
    return GmmAlltoAllVResult(y, mm_y)


def _is_small(turn: Turn) -> bool:
    """Return whether a turn has so few experts that their packed weights may serve two products."""
    return turn[1] - turn[0] <= _EARLY_EXPERTS


class Experts:
    """Checked operands of a grouped product."""

    def __init__(
        self,
        x: object,
        weight: object,
        transposed: bool,
        x_scale: object,
        weight_scale: object,
        output_dtype: npt.DTypeLike | None,
    ) -> None:
        self.x = np.ascontiguousarray(check_array("gmm_x", x, ("rows", "h"), (*HALVES, INT8)))
        depth = self.x.shape[1]
        transposed = check.flag("trans_gmm_weight", transposed)
        shape = ("e", "n", depth) if transposed else ("e", depth, "n")
        array = check_array("gmm_weight", weight, shape, (self.x.dtype,))
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
        """Check that counts add up to the rows of ``gmm_x``."""
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
        packed = self._packed.get(expert)
        weight = self.weight[expert] if packed is None else packed
        _note(x[rows], out[place], scale, columns, expert)
        _product(x[rows], weight, scale, columns, out[place])

    def pack(self, turn: Turn) -> None:
        """Pack the weights of a turn's experts, each for two products: the own rows and the others'."""
        self._packed = {
            expert: scratch.packed(self.weight[expert], place)
            for place, expert in enumerate(range(*turn))
        }


class Shared:
    """Checked operands of the shared expert's product; there may be none."""

    def __init__(
        self,
        x: object,
        weight: object,
        transposed: bool,
        x_scale: object,
        weight_scale: object,
        output_dtype: npt.DTypeLike | None,
    ) -> None:
        self.x: Array | None = None
        transposed = check.flag("trans_mm_weight", transposed)
        if x is None or weight is None:
            given = {"mm_x": x, "mm_weight": weight, "mm_x_scale": x_scale}
            given["mm_weight_scale"] = weight_scale
            some = [name for name, value in given.items() if value is not None]
            if some:
                raise ArgumentError(
                    f"mm_x and mm_weight must be given together, but got {' and '.join(some)} only"
                )
            return
        self.x = check_array("mm_x", x, ("m", "k"), (*HALVES, INT8))
        depth = self.x.shape[1]
        shape = ("n", depth) if transposed else (depth, "n")
        array = check_array("mm_weight", weight, shape, (self.x.dtype,))
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
        with computing(None, -1, "product of the shared expert", -1):
            _note(self.x, out, self.x_scale, self.weight_scale, None)
            _product(self.x, self.weight, self.x_scale, self.weight_scale, out)
        return out


def _output_dtype(
    dtype: np.dtype[np.generic], wanted: npt.DTypeLike | None
) -> np.dtype[np.generic]:
    if wanted is None:
        return HALVES[0] if dtype == INT8 else dtype
    result = check.dtype("output_dtype", wanted)
    if result not in HALVES or dtype not in (INT8, result):
        allowed = " or ".join(str(d) for d in (HALVES if dtype == INT8 else (dtype,)))
        raise ArgumentError(f"output_dtype must be {allowed} for {dtype}, but got {result}")
    return result


def _scales(
    prefix: str, x: Array, x_scale: object, weight_scale: object, shape: tuple[int, ...]
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
    columns = check_array(names[1], weight_scale, shape, (FLOAT32,))
    rows = None if x_scale is None else check_array(names[0], x_scale, (len(x),), (FLOAT32,))
    return None if rows is None else np.ascontiguousarray(rows), np.ascontiguousarray(columns)


def _note(
    x: Array, out: Array, x_scale: Array | None, weight_scale: Array | None, expert: int | None
) -> None:
    """Count some rows of a product, where somebody counts what spans compute."""
    if Noted.counted is not None:
        scales = (x_scale is not None) + (weight_scale is not None)
        Noted.counted.multiply(x, out, scales=scales, weight=expert)


def _product(
    x: Array, weight: Array | Packed, x_scale: Array | None, weight_scale: Array | None, out: Array
) -> None:
    if weight_scale is None:
        matmul(x, weight, out=out)
    else:
        scale_product(matmul(x, weight), weight_scale, x_scale, out=out)
