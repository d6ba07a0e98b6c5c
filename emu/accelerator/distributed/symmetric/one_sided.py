"""Operators that move data to or from one member, and signal it: ``nvshmem_*`` and ``nccl_*`` of ``torch.ops.symm_mem``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.distributed import works
from emu.accelerator.distributed.symmetric.errors import SymmetricArgumentError
from emu.accelerator.distributed.symmetric.handle import SymmetricMemory
from emu.accelerator.distributed.symmetric.memory import block_of, everyone, heap_offset
from emu.accelerator.distributed.symmetric.reductions import (
    add_all,
    check_contiguous,
    check_out,
    check_sum,
    meet,
)
from emu.accelerator.distributed.symmetric.uses import tell
from emu.comm.ops import Cmp

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group

_EVERYBODY = "0"
"""Name of the default group, which operators without a group mean."""
_SIGNALS = (torch.int64, torch.uint64)


def _mine(op: str, tensor: Tensor, peer: int) -> SymmetricMemory:
    """Return the handle of an operand in the group of its allocation, or that of all."""
    check_contiguous(op, tensor=tensor)
    block = block_of(tensor)
    name = _EVERYBODY if block is None or block.group_name is None else block.group_name
    handle = meet(op, tensor, name, "tensor")
    if not 0 <= peer < handle.world_size:
        raise SymmetricArgumentError(
            f"{op}: peer must be in [0, {handle.world_size}), but got {peer}"
        )
    return handle


def _copy(op: str, target: Tensor, source: Tensor) -> None:
    tell(op, source, writes=False)
    target.copy_(source)
    tell(op, target, writes=True)


def put(tensor: Tensor, peer: int) -> None:
    """Store the tensor where it lies at a peer."""
    handle = _mine("put", tensor, peer)
    _copy("put", handle.get_remote_tensor(peer, tensor.shape, tensor.dtype), tensor)
    handle.meeting.group.quiet()


def get(tensor: Tensor, peer: int) -> None:
    """Fetch the tensor from where it lies at a peer."""
    handle = _mine("get", tensor, peer)
    _copy("get", tensor, handle.get_remote_tensor(peer, tensor.shape, tensor.dtype))


def nvshmem_put_with_signal(tensor: Tensor, sigpad: Tensor, signal: int, peer: int) -> None:
    """Store the tensor at a peer, and then ``signal`` into its word of ``sigpad``."""
    group = _mine("nvshmem_put_with_signal", tensor, peer).meeting.group
    word = _word("nvshmem_put_with_signal", group, sigpad)
    put(tensor, peer)
    group.signal_op(word, signal, peer)


def nvshmem_wait_for_signal(sigpad: Tensor, signal: int, peer: int) -> None:
    """Wait until this PE's word of ``sigpad`` is ``signal``."""
    group = everyone()
    word = _word("nvshmem_wait_for_signal", group, sigpad)
    works.flush_collectives()
    group.wait_until(word, Cmp.EQ, signal)


def nccl_put_with_signal(tensor: Tensor, signal: int, peer: int) -> None:
    """Store the tensor at a peer, and signal it on the channel of this number."""
    handle = _mine("nccl_put_with_signal", tensor, peer)
    put(tensor, peer)
    handle.meeting.signals.put(peer, signal)


def nvshmem_broadcast(input: Tensor, root: int, group_name: str) -> Tensor:
    """Give every member the root's tensor, in place."""
    op = "nvshmem_broadcast"
    check_contiguous(op, input=input)
    handle = meet(op, input, group_name)
    _check_root(op, root, handle)
    signals = handle.meeting.signals
    signals.barrier()
    if handle.rank != root:
        _copy(op, input, handle.get_remote_tensor(root, input.shape, input.dtype))
    signals.barrier()
    return input


def nvshmem_all_to_all(input: Tensor, out: Tensor, group_name: str) -> Tensor:
    """Give each member its part of every member's tensor."""
    op = "nvshmem_all_to_all"
    check_contiguous(op, input=input)
    handle = meet(op, input, group_name)
    n = handle.world_size
    check_out(op, out, tuple(input.shape), input.dtype)
    if input.numel() % n:
        raise SymmetricArgumentError(
            f"{op}: input must have a multiple of {n} elements, but got {input.numel()}"
        )
    signals, share, flat = handle.meeting.signals, input.numel() // n, out.view(-1)
    signals.barrier()
    for rank in range(n):
        theirs = handle.get_remote_tensor(rank, (input.numel(),), input.dtype)
        part = theirs[handle.rank * share : (handle.rank + 1) * share]
        _copy(op, flat[rank * share : (rank + 1) * share], part)
    signals.barrier()
    return out


# --- tiles -------------------------------------------------------------------------------------


def tile_reduce(
    in_tile: Tensor, out_tile: Tensor, root: int, group_name: str, reduce_op: str = "sum"
) -> None:
    """Sum the members' tiles, parts of matrices, into the root's ``out_tile``."""
    multi_root_tile_reduce([in_tile], out_tile, [root], group_name, reduce_op)


def multi_root_tile_reduce(
    in_tiles: list[Tensor],
    out_tile: Tensor,
    roots: list[int],
    group_name: str,
    reduce_op: str = "sum",
) -> None:
    """Sum several tiles, each into the ``out_tile`` of its root; a member is the root of one at most."""
    op = "tile_reduce"
    check_sum(op, reduce_op)
    if len(in_tiles) != len(roots) or len(set(roots)) < len(roots) or not in_tiles:
        raise SymmetricArgumentError(
            f"{op}: there must be one root for each tile, all different, but got {len(in_tiles)} tiles and roots {roots}"
        )
    handles = [meet(op, tile, group_name, "in_tile") for tile in in_tiles]
    mine = None
    for root, tile, handle in zip(roots, in_tiles, handles, strict=True):
        _check_root(op, root, handle)
        if tile.dim() != 2 or tile.shape != out_tile.shape or tile.dtype != out_tile.dtype:
            raise SymmetricArgumentError(
                f"{op}: tiles must be matrices like out_tile, {tuple(out_tile.shape)} of {out_tile.dtype}, but got "
                f"{tuple(tile.shape)} of {tile.dtype}"
            )
        if root == handle.rank:
            mine = tile, handle
    signals = handles[0].meeting.signals
    signals.barrier()
    total = None if mine is None else add_all(_tiles(*mine), wide=True)
    signals.barrier()
    if total is not None:
        out_tile.copy_(total)


def _tiles(tile: Tensor, handle: SymmetricMemory) -> list[Tensor]:
    """Return the members' tiles that lie where this PE's does."""
    rows, columns = tile.shape
    extent = (rows - 1) * tile.stride(0) + (columns - 1) * tile.stride(1) + 1 if tile.numel() else 0
    found = []
    for rank in range(handle.world_size):
        flat = handle.get_remote_tensor(rank, (extent,), tile.dtype)
        tell("tile_reduce", flat, writes=False)
        found.append(flat.as_strided(tile.shape, tile.stride()))
    return found


def nccl_reduce_scatter_offset(
    input: Tensor,
    out: list[Tensor],
    group_name: str,
    dim: int,
    offsets: list[int] | None = None,
    dst_ranks: list[int] | None = None,
    red_op: str = "sum",
) -> None:
    """Sum blocks of rows (``dim`` 0) or columns (1), which end at ``offsets``, each into the ``out`` of its rank."""
    op = "nccl_reduce_scatter_offset"
    check_sum(op, red_op)
    if input.dim() != 2 or dim not in (0, 1):
        raise SymmetricArgumentError(
            f"{op}: input must be a matrix and dim 0 or 1, but got shape {tuple(input.shape)} and dim {dim}"
        )
    handle = meet(op, input, group_name)
    n, extent = handle.world_size, input.shape[dim]
    ends = [extent * (i + 1) // n for i in range(n)] if offsets is None else list(offsets)
    owners = [i % n for i in range(len(ends))] if dst_ranks is None else list(dst_ranks)
    starts = [0, *ends[:-1]]
    blocks = [
        (start, end - start)
        for start, end, owner in zip(starts, ends, owners, strict=False)
        if owner == handle.rank
    ]
    is_rising = all(a <= b for a, b in zip(starts, ends, strict=True)) and ends[-1:] <= [extent]
    if len(owners) != len(ends) or not is_rising or any(not 0 <= owner < n for owner in owners):
        raise SymmetricArgumentError(
            f"{op}: offsets must rise up to {extent}, with a rank in [0, {n}) for each, but got offsets {ends} and "
            f"dst_ranks {owners}"
        )
    shapes = [tuple(input.narrow(dim, *block).shape) for block in blocks]
    if [tuple(each.shape) for each in out] != shapes:
        raise SymmetricArgumentError(
            f"{op}: out must have the shapes {shapes}, but got {[tuple(each.shape) for each in out]}"
        )
    signals = handle.meeting.signals
    signals.barrier()
    tiles = _tiles(input, handle)
    totals = [add_all([tile.narrow(dim, *block) for tile in tiles]) for block in blocks]
    signals.barrier()
    for each, total in zip(out, totals, strict=True):
        each.copy_(total)


def _check_root(op: str, root: int, handle: SymmetricMemory) -> None:
    if not 0 <= root < handle.world_size:
        raise SymmetricArgumentError(
            f"{op}: root must be in [0, {handle.world_size}), but got {root}"
        )


# --- words -------------------------------------------------------------------------------------


def _word(op: str, group: Group, sigpad: Tensor) -> SymmetricArray:
    """Return the word of a signal as the machine has it.

    Raises:
        SymmetricArgumentError: It is no 64-bit integer in symmetric memory.
    """
    if sigpad.dtype not in _SIGNALS or not sigpad.numel():
        raise SymmetricArgumentError(
            f"{op}: sigpad must have an int64 or uint64, but got {sigpad.numel()} elements of {sigpad.dtype}"
        )
    offset = heap_offset(sigpad, group.segment)
    kind = np.dtype(str(sigpad.dtype).removeprefix("torch."))
    return group._array_type(group, offset, (1,), kind, "signal of symmetric memory")


OPERATORS: dict[str, Callable[..., Any]] = {
    "nvshmem_put": put,
    "nvshmem_get": get,
    "nccl_put": put,
    "nccl_get": get,
    "nvshmem_put_with_signal": nvshmem_put_with_signal,
    "nvshmem_wait_for_signal": nvshmem_wait_for_signal,
    "nccl_put_with_signal": nccl_put_with_signal,
    "nvshmem_broadcast": nvshmem_broadcast,
    "nvshmem_all_to_all": nvshmem_all_to_all,
    "tile_reduce": tile_reduce,
    "multi_root_tile_reduce": multi_root_tile_reduce,
    "nccl_reduce_scatter_offset": nccl_reduce_scatter_offset,
}
"""Kernels by the operator's name."""
