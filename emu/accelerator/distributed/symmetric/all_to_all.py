"""All-to-alls whose splits are on the device: ``all_to_all_vdev``, ``all_to_all_vdev_2d``, ``all_to_all_vdev_2d_offset``.

Rows go from each member's ``input`` to the others' ``out``. Numbers of rows ("splits") and first rows ("offsets") are
tensors of int64 in symmetric memory, which the members read from each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.distributed.symmetric.errors import SymmetricArgumentError
from emu.accelerator.distributed.symmetric.handle import SymmetricMemory
from emu.accelerator.distributed.symmetric.reductions import check_contiguous, meet, parts
from emu.accelerator.distributed.symmetric.uses import tell


class _Piece(NamedTuple):
    """Rows that this PE fetches: ``rows`` of member ``rank``, from ``source`` there to ``target`` here."""

    rank: int
    source: int
    target: int
    rows: int


def all_to_all_vdev(
    input: Tensor, out: Tensor, in_splits: Tensor, out_splits_offsets: Tensor, group_name: str
) -> None:
    """Exchange rows: the first ``in_splits[0]`` rows go to member 0, and so on.

    ``out_splits_offsets[0]`` gets the numbers of rows that came, ``[1]`` where they begin in ``out``.
    """
    op = "all_to_all_vdev"
    handle = _begin(op, input, out, in_splits, out_splits_offsets, group_name)
    n, me = handle.world_size, handle.rank
    _check_count(op, "in_splits", in_splits, n)
    _check_count(op, "out_splits_offsets", out_splits_offsets, 2 * n)
    splits = _everybodys(op, in_splits, group_name)
    counts = [splits[rank][me] for rank in range(n)]
    sources = [sum(splits[rank][:me]) for rank in range(n)]
    targets = _before(counts)
    _store(op, out_splits_offsets, counts, targets)
    _fetch(
        op,
        handle,
        input,
        out,
        [_Piece(*p) for p in zip(range(n), sources, targets, counts, strict=True)],
    )


def all_to_all_vdev_2d(
    input: Tensor,
    out: Tensor,
    in_splits: Tensor,
    out_splits_offsets: Tensor,
    group_name: str,
    major_align: int | None = None,
) -> None:
    """Dispatch rows to experts: ``in_splits`` has a number for each expert, those of member 0's experts first.

    In ``out`` the rows of one expert lie together, by the member that sent them, and begin at a multiple of
    ``major_align``; an expert without rows takes that many rows, too.
    """
    op = "all_to_all_vdev_2d"
    handle = _begin(op, input, out, in_splits, out_splits_offsets, group_name)
    n, me, experts = _experts(op, handle, in_splits.numel())
    _check_count(op, "out_splits_offsets", out_splits_offsets, 2 * in_splits.numel())
    align = 1 if major_align is None else major_align
    if align < 1:
        raise SymmetricArgumentError(f"{op}: major_align must be at least 1, but got {align}")
    splits = _everybodys(op, in_splits, group_name)
    starts = [_before(row) for row in splits]
    pieces, target = [], 0
    for expert in range(experts):
        column, begin = me * experts + expert, target
        for rank in range(n):
            count = splits[rank][column]
            pieces.append(_Piece(rank, starts[rank][column], target, count))
            target += count
        if major_align is not None:
            target = begin + max(-(-(target - begin) // align) * align, align)
    _store(op, out_splits_offsets, [p.rows for p in pieces], [p.target for p in pieces])
    _fetch(op, handle, input, out, pieces)


def all_to_all_vdev_2d_offset(
    input: Tensor,
    out: Tensor,
    in_splits_offsets: Tensor,
    out_splits_offsets: Tensor,
    group_name: str,
) -> None:
    """Combine: send back what :func:`all_to_all_vdev_2d` has brought, whose splits and offsets are the input's.

    In ``out`` the rows lie by the member that sent them, and then by its experts.
    """
    op = "all_to_all_vdev_2d_offset"
    handle = _begin(op, input, out, in_splits_offsets, out_splits_offsets, group_name)
    half = in_splits_offsets.numel() // 2
    n, me, experts = _experts(op, handle, half)
    _check_count(op, "in_splits_offsets", in_splits_offsets, 2 * half)
    _check_count(op, "out_splits_offsets", out_splits_offsets, 2 * half)
    given = _everybodys(op, in_splits_offsets, group_name)
    pieces, target = [], 0
    for rank in range(n):
        for expert in range(experts):
            column = expert * n + me
            count = given[rank][column]
            pieces.append(_Piece(rank, given[rank][half + column], target, count))
            target += count
    _store(op, out_splits_offsets, [p.rows for p in pieces], [p.target for p in pieces])
    _fetch(op, handle, input, out, pieces)


def _begin(
    op: str, input: Tensor, out: Tensor, splits: Tensor, out_splits: Tensor, group_name: str
) -> SymmetricMemory:
    """Check the operands, meet for all of them, and wait for everybody."""
    check_contiguous(op, input=input, out=out, in_splits=splits, out_splits_offsets=out_splits)
    if input.dtype != out.dtype or input.shape[1:] != out.shape[1:] or not input.dim():
        raise SymmetricArgumentError(
            f"{op}: input and out must have rows of one shape and dtype, but got {input.dtype} {tuple(input.shape)} and "
            f"{out.dtype} {tuple(out.shape)}"
        )
    for name, tensor in (("in_splits", splits), ("out_splits_offsets", out_splits)):
        if tensor.dtype != torch.int64:
            raise SymmetricArgumentError(f"{op}: {name} must be int64, but got {tensor.dtype}")
    handle = meet(op, input, group_name)
    meet(op, out, group_name, "out")
    meet(op, splits, group_name, "in_splits")
    meet(op, out_splits, group_name, "out_splits_offsets")
    handle.meeting.signals.barrier()
    return handle


def _check_count(op: str, name: str, tensor: Tensor, wanted: int) -> None:
    if tensor.numel() != wanted:
        raise SymmetricArgumentError(
            f"{op}: {name} must have {wanted} elements, but got {tensor.numel()}"
        )


def _experts(op: str, handle: SymmetricMemory, splits: int) -> tuple[int, int, int]:
    """Return the number of members, this PE's, and the number of experts of each."""
    n = handle.world_size
    if splits % n:
        raise SymmetricArgumentError(
            f"{op}: there must be a split for each expert of the {n} ranks, but got {splits}"
        )
    return n, handle.rank, splits // n


def _everybodys(op: str, splits: Tensor, group_name: str) -> list[list[int]]:
    """Return the members' splits."""
    handle = meet(op, splits, group_name)
    rows: list[list[int]] = [part.tolist() for part in parts(op, handle, splits)]
    for rank, row in enumerate(rows):
        if min(row, default=0) < 0:
            raise SymmetricArgumentError(
                f"{op}: splits must not be negative, but got {row} of rank {rank}"
            )
    return rows


def _before(counts: list[int]) -> list[int]:
    """Return for each number the sum of those before it."""
    return [0, *accumulate(counts)][: len(counts)]


def _store(op: str, target: Tensor, counts: list[int], offsets: list[int]) -> None:
    target.view(-1).copy_(torch.tensor(counts + offsets, dtype=torch.int64, device="cpu"))
    tell(op, target, writes=True)


def _fetch(
    op: str, handle: SymmetricMemory, input: Tensor, out: Tensor, pieces: list[_Piece]
) -> None:
    """Copy rows of the members' inputs into ``out``, and wait for everybody.

    Raises:
        SymmetricArgumentError: Rows lie outside a tensor.
    """
    for rank, source, target, count in pieces:
        if count and (source + count > input.shape[0] or target + count > out.shape[0]):
            raise SymmetricArgumentError(
                f"{op}: rows must lie inside input ({input.shape[0]} rows) and out ({out.shape[0]}), but got {count} of "
                f"rank {rank} from row {source} to row {target}"
            )
    row = input[:1].numel()
    for rank, source, target, count in pieces:
        if not count:
            continue
        theirs = handle.get_remote_tensor(rank, (input.numel(),), input.dtype)
        part = theirs[source * row : (source + count) * row]
        tell(op, part, writes=False)
        mine = out.view(-1)[target * row : (target + count) * row]
        mine.copy_(part)
        tell(op, mine, writes=True)
    handle.meeting.signals.barrier()


OPERATORS: tuple[Callable[..., Any], ...] = (
    all_to_all_vdev,
    all_to_all_vdev_2d,
    all_to_all_vdev_2d_offset,
)
"""Kernels of the operators of the same names."""
