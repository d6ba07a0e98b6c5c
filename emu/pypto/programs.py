"""Whole kernels, for demonstrations and measurements.

They walk rows in blocks of at most 64 and take any tensor data types that fit together; sums across PEs
round in that type at every addition.
"""

from __future__ import annotations

from emu.pypto import distributed as dist
from emu.pypto.arranging import broadcast_to, unsqueeze
from emu.pypto.distributed import AtomicType
from emu.pypto.dtypes import DT_FP32, DT_INT32, DataType
from emu.pypto.elementwise import add, cast, mul, rsqrt
from emu.pypto.errors import ArgumentError
from emu.pypto.frontend import jit, loop
from emu.pypto.indexing import index_select
from emu.pypto.product import matmul
from emu.pypto.reduction import sum as total
from emu.pypto.shaping import arange, one_hot, reshape, zeros
from emu.pypto.sorting import argsort
from emu.pypto.symbolic import SymInt, as_int
from emu.pypto.tensor import Tensor, check_tensor, view
from emu.pypto.tiles import set_vec_tile_shapes

ROWS = 64


@jit
def allgather_matmul(x: Tensor, w: Tensor, out: Tensor, group_name: str = "tp") -> None:
    """Gather the rows of x from all PEs and multiply them by this PE's columns of the weight.

    Args:
        x: [m, k], this PE's rows.
        w: [k, n_local], this PE's columns.
        out: [n_pes · m, n_local], in the same data type.
        group_name: Group of the PEs.

    The products of one PE's rows start when they have arrived, in any order.
    """
    _check_matrices(x=x, w=w, out=out)
    rows, depth = x.shape
    if out.shape[0] % rows:
        raise ArgumentError(f"out must have a multiple of the {rows} rows of x, but got {out!r}")
    n_pes = out.shape[0] // rows
    me = dist.my_symbolic_pe(group_name)
    data = dist.create_shmem_tensor(group_name, n_pes, x.dtype, [n_pes * rows, depth])
    set_vec_tile_shapes(min(ROWS, rows), depth)
    for step in loop(n_pes):
        # Each PE begins with another target, so that not all store to PE 0 first.
        pe = (me + step) % n_pes
        stored = dist.shmem_put(x, [me * rows, 0], data, pe)
        mine = dist.shmem_view(data, [rows, depth], [me * rows, 0])
        dist.shmem_signal(mine, me, 1, target_pe=pe, pred=[stored])
    for step in loop(n_pes):
        pe = (me - step) % n_pes
        part = dist.shmem_view(data, [rows, depth], [pe * rows, 0])
        arrived = dist.shmem_wait_until(part, pe, 1)
        gathered = dist.shmem_get(part, me, pred=[arrived])
        out[pe * rows :, :] = matmul(gathered, w, out.dtype)


@jit
def matmul_allreduce_rmsnorm(
    x: Tensor,
    w: Tensor,
    residual: Tensor,
    gamma: Tensor,
    out: Tensor,
    n_pes: int,
    eps: float = 1e-6,
    group_name: str = "tp",
) -> None:
    """Multiply, sum the products over all PEs, add a residual, and normalise each row.

    Args:
        x: [m, k_local], this PE's part of the inner extent.
        w: [k_local, n].
        residual: [m, n], the same on every PE.
        gamma: [1, n], the scale of the norm.
        out: [m, n], the same result on every PE; of ``residual``'s data type.
        n_pes: Number of PEs.
        eps: Added to the mean square.
        group_name: Group of the PEs.

    Rows are reduced by their owner (two-shot): PE p sums the p-th share of the rows, adds, normalises, and
    stores the share to everyone. ``m`` must be divisible by ``n_pes``.
    """
    _check_matrices(x=x, w=w, residual=residual, gamma=gamma, out=out)
    rows, columns = out.shape
    n_pes = as_int(n_pes, "n_pes")
    if n_pes < 1 or rows % n_pes:
        raise ArgumentError(
            f"n_pes must be at least 1 and divide the {rows} rows of out, but got {n_pes}"
        )
    share = rows // n_pes
    me = dist.my_symbolic_pe(group_name)
    sums = dist.create_shmem_tensor(group_name, n_pes, out.dtype, [share, columns])
    done = dist.create_shmem_tensor(group_name, n_pes, out.dtype, [rows, columns])
    set_vec_tile_shapes(min(ROWS, share), columns)
    for step in loop(n_pes):
        pe = (me + step) % n_pes
        part = matmul(x[pe * share : (pe + 1) * share, :], w, out.dtype)
        added = dist.shmem_put(part, [0, 0], sums, pe, put_op=AtomicType.ADD)
        dist.shmem_signal(sums, 0, 1, target_pe=pe, sig_op=AtomicType.ADD, pred=[added])
    summed = dist.shmem_wait_until(sums, 0, n_pes)
    own = dist.shmem_get(sums, me, pred=[summed])
    normal = _rmsnorm(add(own, residual[me * share : (me + 1) * share, :]), gamma, eps)
    for step in loop(n_pes):
        pe = (me + step) % n_pes
        stored = dist.shmem_put(normal, [me * share, 0], done, pe)
        mine = dist.shmem_view(done, [share, columns], [me * share, 0])
        dist.shmem_signal(mine, me, 1, target_pe=pe, pred=[stored])
    for pe in loop(n_pes):
        piece = dist.shmem_view(done, [share, columns], [pe * share, 0])
        arrived = dist.shmem_wait_until(piece, pe, 1)
        out[pe * share :, :] = dist.shmem_get(piece, me, pred=[arrived])


@jit
def moe_dispatch_combine(
    x: Tensor,
    experts: Tensor,
    gates: Tensor,
    weight: Tensor,
    out: Tensor,
    n_pes: int,
    group_name: str = "ep",
) -> None:
    """Send tokens to the PEs of their experts, multiply there, and add up what comes back.

    Args:
        x: [tokens, hidden], this PE's tokens; as many on every PE.
        experts: [tokens, choices], the experts of each token, one of which lives on each PE; DT_INT32.
        gates: [tokens, choices], the weight of each choice, in ``x``'s data type.
        weight: [hidden, hidden], this PE's expert.
        out: [tokens, hidden].
        n_pes: Number of PEs.
        group_name: Group of the PEs.

    Tokens are sorted by expert first, so that each PE stores one rectangle to each other PE, at a place of its own. An
    expert multiplies all that it was sent at once: a product of a few rows reads as much of the weight as one of many.
    """
    _check_matrices(x=x, experts=experts, gates=gates, weight=weight, out=out)
    (tokens, hidden), choices = x.shape, experts.shape[1]
    n_pes, room = as_int(n_pes, "n_pes"), tokens * choices
    me = dist.my_symbolic_pe(group_name)
    flat = reshape(experts, [room])
    order = argsort(flat)
    token_of = reshape(broadcast_to(unsqueeze(arange(tokens), 1), [tokens, choices]), [room])
    rows = index_select(x, 0, index_select(token_of, 0, order))
    counts = _share_counts(flat, n_pes, group_name)

    given = [counts[me, pe] for pe in loop(n_pes)]
    taken = [counts[pe, me] for pe in loop(n_pes)]
    there = _Exchange(group_name, n_pes, x.dtype, room, hidden)
    there.send(rows, given)
    back = _Exchange(group_name, n_pes, x.dtype, room, hidden)
    back.send(matmul(there.receive(taken), weight, x.dtype), taken)
    results = back.receive(given)
    by_token = reshape(index_select(results, 0, argsort(order)), [tokens, choices, hidden])
    weighed = mul(cast(by_token, DT_FP32), cast(unsqueeze(gates, 2), DT_FP32))
    out[:, :] = cast(total(weighed, 1), out.dtype)


def _share_counts(experts: Tensor, n_pes: int, group_name: str) -> Tensor:
    """Return [n_pes, n_pes]: the number of tokens that each PE has for each expert."""
    me = dist.my_symbolic_pe(group_name)
    mine = cast(total(one_hot(experts, n_pes), 0, True), DT_INT32)
    table = dist.create_shmem_tensor(group_name, n_pes, DT_INT32, [n_pes, n_pes])
    told = dist.create_shmem_signal(group_name, n_pes)
    set_vec_tile_shapes(n_pes, n_pes)
    stored = [dist.shmem_put(mine, [me, 0], table, pe) for pe in loop(n_pes)]
    dist.shmem_signal(told, me, 1, target_pe=-1, pred=stored)
    arrived = [dist.shmem_wait_until(told, pe, 1) for pe in loop(n_pes)]
    return dist.shmem_get(table, me, pred=arrived)


class _Exchange:
    """Memory with room for a rectangle from each PE, and the signals that say that it has come."""

    def __init__(self, group: str, n_pes: int, dtype: DataType, rows: int, columns: int) -> None:
        self._me, self._n_pes = dist.my_symbolic_pe(group), n_pes
        self._rows, self._columns = rows, columns
        self._data = dist.create_shmem_tensor(group, n_pes, dtype, [n_pes * rows, columns])
        self._sent = dist.create_shmem_signal(group, n_pes)

    def send(self, rows: Tensor, counts: list[SymInt]) -> None:
        """Store so many rows to each PE, in order, at this PE's place."""
        shape = [self._rows, self._columns]
        set_vec_tile_shapes(min(ROWS, self._rows), self._columns)
        start = 0
        for pe in loop(self._n_pes):
            part = view(rows, shape, [start, 0], valid_shape=[counts[pe], self._columns])
            stored = dist.shmem_put(part, [self._me * self._rows, 0], self._data, pe)
            dist.shmem_signal(self._sent, self._me, 1, target_pe=pe, pred=[stored])
            start += counts[pe]

    def receive(self, counts: list[SymInt]) -> Tensor:
        """Return so many rows from each PE, in order, when they have come; a row of zeros if there are none."""
        rows = zeros([max(sum(counts), 1), self._columns], self._data.dtype)
        start = 0
        for pe in loop(self._n_pes):
            arrived = dist.shmem_wait_until(self._sent, pe, 1)
            rows[start:, :] = dist.shmem_get(
                self._data,
                self._me,
                [self._rows, self._columns],
                [pe * self._rows, 0],
                valid_shape=[counts[pe], self._columns],
                pred=[arrived],
            )
            start += counts[pe]
        return rows


def _check_matrices(**tensors: Tensor) -> None:
    for name, t in tensors.items():
        check_tensor(t, name)
        if t.ndim != 2 or t.size == 0:
            raise ArgumentError(f"{name} must be a matrix that is not empty, but got {t!r}")


def _rmsnorm(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    """Normalise rows in FP32 and round once at the end."""
    wide = cast(x, DT_FP32)
    square = total(mul(wide, wide), -1, True)
    scale = rsqrt(add(mul(square, 1.0 / x.shape[-1]), eps))
    return cast(mul(mul(wide, scale), cast(gamma, DT_FP32)), x.dtype)
