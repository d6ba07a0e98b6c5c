"""Reductions and gathers of ``torch.ops.symm_mem``: each member reads the others' memory between two barriers.

Sums are in the order of the ranks, so that all members get the same bits. They are rounded to the dtype after each step, as
the kernels for peers' memory round; ``multimem`` operators add in fp32 and round once, as a switch with multicast does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch

from emu.accelerator.annotations import Tensor
from emu.accelerator.distributed.symmetric.errors import SymmetricArgumentError
from emu.accelerator.distributed.symmetric.handle import SymmetricMemory
from emu.accelerator.distributed.symmetric.uses import tell

_REDUCED = (torch.float32, torch.bfloat16)
_LEAST_ALIGNMENT = 4


def meet(op: str, tensor: Tensor, group_name: str, name: str = "input") -> SymmetricMemory:
    """Return the handle of an operand.

    Raises:
        SymmetricArgumentError: It is not in symmetric memory; in torch's words.
    """
    handle = SymmetricMemory.rendezvous(tensor, group_name)
    if handle is None:
        raise SymmetricArgumentError(f"{op}: {name} must be allocated with empty_strided_p2p().")
    return handle


def check_contiguous(op: str, **tensors: Tensor) -> None:
    """Check that operands are contiguous.

    Raises:
        SymmetricArgumentError: One is not; in torch's words.
    """
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise SymmetricArgumentError(
                f"{op}: {name} must be contiguous, but got shape {tuple(tensor.shape)} with strides "
                f"{tensor.stride()}"
            )


def check_out(op: str, out: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Check the output of an operator.

    Raises:
        SymmetricArgumentError: It has another shape or dtype, or is not contiguous.
    """
    check_contiguous(op, out=out)
    if tuple(out.shape) != shape or out.dtype != dtype:
        raise SymmetricArgumentError(
            f"{op}: out must have shape {shape} and dtype {dtype}, but got {tuple(out.shape)} and {out.dtype}"
        )


def check_sum(op: str, reduce_op: str) -> None:
    """Check the name of a reduction.

    Raises:
        SymmetricArgumentError: It is not "sum", the only one that there is.
    """
    if reduce_op != "sum":
        raise SymmetricArgumentError(
            f"{op}: only sum is supported for now, but got reduce_op {reduce_op!r}"
        )


def _begin(op: str, tensor: Tensor, reduce_op: str, group_name: str) -> SymmetricMemory:
    """Check the input of a reduction, and return its handle."""
    check_contiguous(op, input=tensor)
    check_sum(op, reduce_op)
    if tensor.dtype not in _REDUCED:
        name = str(tensor.dtype).removeprefix("torch.")
        raise SymmetricArgumentError(
            f'"{op}" not implemented for {name!r}: input must be float32 or bfloat16'
        )
    handle = meet(op, tensor, group_name)
    nbytes = tensor.numel() * tensor.element_size()
    for name, value in (("offset", handle.offset), ("size", nbytes)):
        if value % _LEAST_ALIGNMENT:
            raise SymmetricArgumentError(
                f"{op}: {name} of input must be a multiple of {_LEAST_ALIGNMENT} bytes, but got {value}"
            )
    return handle


def parts(
    op: str, handle: SymmetricMemory, like: Tensor, start: int = 0, count: int = -1
) -> list[Tensor]:
    """Return elements of all members' tensors, flat, in the order of the ranks; they will be read.

    Args:
        op: The operator.
        handle: Handle of the tensor ``like``.
        like: This PE's tensor, contiguous.
        start: First element.
        count: Number of elements. Default: all.
    """
    size = like.numel() - start if count < 0 else count
    itemsize = like.element_size()
    first = handle.offset // itemsize
    found = []
    for rank in range(handle.world_size):
        # A tensor need not begin at a multiple of its elements' size: only then are bytes looked at.
        if handle.offset % itemsize:
            whole = handle.get_remote_tensor(rank, (like.numel(),), like.dtype)
            part = whole[start : start + size]
        else:
            part = handle.get_buffer(rank, (size,), like.dtype, first + start)
        tell(op, part, writes=False)
        found.append(part)
    return found


def add_all(tensors: list[Tensor], *, wide: bool = False) -> Tensor:
    """Return the sum of tensors in their order.

    Args:
        tensors: Tensors of one shape and dtype.
        wide: Add in fp32 and round once. Default: round after each step.
    """
    dtype = tensors[0].dtype
    total = torch.zeros_like(tensors[0], dtype=torch.float32 if wide else dtype)
    for tensor in tensors:
        total += tensor
    return total.to(dtype)


def _one_shot(op: str, tensor: Tensor, reduce_op: str, group_name: str, out: Tensor) -> Tensor:
    handle = _begin(op, tensor, reduce_op, group_name)
    check_out(op, out, tuple(tensor.shape), tensor.dtype)
    signals = handle.meeting.signals
    signals.barrier()
    total = add_all(parts(op, handle, tensor), wide=op.startswith("multimem"))
    signals.barrier()
    out.view(-1).copy_(total)
    tell(op, out, writes=True)
    return out


def one_shot_all_reduce_out(input: Tensor, reduce_op: str, group_name: str, out: Tensor) -> Tensor:
    """Sum the members' tensors into ``out``."""
    return _one_shot("one_shot_all_reduce", input, reduce_op, group_name, out)


def one_shot_all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """Return the sum of the members' tensors."""
    return one_shot_all_reduce_out(input, reduce_op, group_name, _like(input))


def one_shot_all_reduce_copy_out(
    symm_buffer: Tensor, local_input: Tensor, reduce_op: str, group_name: str, out: Tensor
) -> Tensor:
    """Copy ``local_input`` into symmetric memory first, and sum that."""
    op = "one_shot_all_reduce"
    check_contiguous(op, local_input=local_input)
    if local_input.numel() > symm_buffer.numel() or local_input.dtype != symm_buffer.dtype:
        raise SymmetricArgumentError(
            f"{op}: local_input must fit symm_buffer, of {symm_buffer.numel()} elements of {symm_buffer.dtype}, but got "
            f"{local_input.numel()} of {local_input.dtype}"
        )
    check_contiguous(op, symm_buffer=symm_buffer)
    meet(op, symm_buffer, group_name, "symm_buffer")
    part = symm_buffer.view(-1)[: local_input.numel()].view(local_input.shape)
    part.copy_(local_input)
    tell(op, part, writes=True)
    return one_shot_all_reduce_out(part, reduce_op, group_name, out)


def one_shot_all_reduce_copy(
    symm_buffer: Tensor, local_input: Tensor, reduce_op: str, group_name: str
) -> Tensor:
    """Copy ``local_input`` into symmetric memory, and return the sum of the members'."""
    out = _like(local_input)
    return one_shot_all_reduce_copy_out(symm_buffer, local_input, reduce_op, group_name, out)


def _shares(handle: SymmetricMemory, numel: int) -> list[tuple[int, int]]:
    """Return (first element, number) of the part of a flat tensor that each member reduces."""
    share = -(-numel // handle.world_size)
    starts = [min(rank * share, numel) for rank in range(handle.world_size + 1)]
    return [(a, b - a) for a, b in pairwise(starts)]


def _two_shot(op: str, tensor: Tensor, reduce_op: str, group_name: str, out: Tensor) -> Tensor:
    handle = _begin(op, tensor, reduce_op, group_name)
    check_out(op, out, tuple(tensor.shape), tensor.dtype)
    signals, flat = handle.meeting.signals, tensor.view(-1)
    shares = _shares(handle, tensor.numel())
    start, count = shares[handle.rank]
    signals.barrier()
    mine = parts(op, handle, tensor, start, count)
    flat[start : start + count].copy_(add_all(mine, wide=op.startswith("multimem")))
    tell(op, flat[start : start + count], writes=True)
    signals.barrier()
    results = [
        parts(op, handle, tensor, *share)[rank] if rank != handle.rank else None
        for rank, share in enumerate(shares)
    ]
    gathered = torch.cat(
        [flat[start : start + count] if part is None else part for part in results]
    )
    signals.barrier()
    out.view(-1).copy_(gathered)
    tell(op, out, writes=True)
    return out


def two_shot_all_reduce_(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """Sum the members' tensors in place."""
    return _two_shot("two_shot_all_reduce_", input, reduce_op, group_name, input)


def two_shot_all_reduce_out(
    input: Tensor, reduce_op: str, group_name: str, output: Tensor
) -> Tensor:
    """Sum the members' tensors into ``output``; ``input`` is scratch."""
    return _two_shot("two_shot_all_reduce_out", input, reduce_op, group_name, output)


def reduce_scatter_out(
    input: Tensor, group_name: str, split_last_dim: bool, output: Tensor
) -> Tensor:
    """Give each member its part of the sum: of the first axis, or of the last."""
    op = "reduce_scatter_out"
    handle = _begin(op, input, "sum", group_name)
    n, shape = handle.world_size, list(input.shape)
    axis = len(shape) - 1 if split_last_dim else 0
    if not shape or shape[axis] % n:
        raise SymmetricArgumentError(
            f"{op}: axis {axis} of input must be a multiple of the {n} ranks, but got shape {tuple(shape)}"
        )
    shape[axis] //= n
    _check_share(op, handle, input, shape[axis] if split_last_dim else input.numel() // n)
    check_out(op, output, tuple(shape), input.dtype)
    signals = handle.meeting.signals
    signals.barrier()
    pieces = [
        part.view(input.shape).chunk(n, dim=axis)[handle.rank] for part in parts(op, handle, input)
    ]
    total = add_all(pieces)
    signals.barrier()
    output.copy_(total)
    return output


def _check_share(op: str, handle: SymmetricMemory, input: Tensor, share: int) -> None:
    """Check that each member's part can be loaded with the alignment that the whole input has.

    Raises:
        SymmetricArgumentError: It cannot.
    """
    size = input.element_size()
    alignment = math.gcd(16, handle.offset, input.numel() * size)
    if share * size % alignment:
        raise SymmetricArgumentError(
            f"{op}: each rank's part must have bytes divisible by the input's alignment, {alignment}, but got {share} "
            f"elements of {size} bytes"
        )


# --- what a switch with multicast does on a GPU ------------------------------------------------


def multimem_all_reduce_(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """Sum the members' tensors in place."""
    return _two_shot("multimem_all_reduce_", input, reduce_op, group_name, input)


def multimem_one_shot_all_reduce_out(
    input: Tensor, reduce_op: str, group_name: str, out: Tensor
) -> Tensor:
    """Sum the members' tensors into ``out``."""
    return _one_shot("multimem_one_shot_all_reduce", input, reduce_op, group_name, out)


def multimem_one_shot_all_reduce(input: Tensor, reduce_op: str, group_name: str) -> Tensor:
    """Return the sum of the members' tensors."""
    return multimem_one_shot_all_reduce_out(input, reduce_op, group_name, _like(input))


def multimem_one_shot_reduce_out(
    input: Tensor, reduce_op: str, root: int, group_name: str, out: Tensor
) -> Tensor:
    """Sum the members' tensors into the root's ``out``."""
    op = "multimem_one_shot_reduce_out"
    handle = _begin(op, input, reduce_op, group_name)
    if not 0 <= root < handle.world_size:
        raise SymmetricArgumentError(
            f"{op}: root must be in [0, {handle.world_size}), but got {root}"
        )
    if root == handle.rank:
        check_out(op, out, tuple(input.shape), input.dtype)
    signals = handle.meeting.signals
    signals.barrier()
    total = add_all(parts(op, handle, input), wide=True) if root == handle.rank else None
    signals.barrier()
    if total is not None:
        out.view(-1).copy_(total)
    return out


def multimem_all_gather_out(input: Tensor, group_name: str, out: Tensor) -> Tensor:
    """Put the members' tensors one behind another into everybody's ``out``, which is symmetric."""
    op = "multimem_all_gather_out"
    check_contiguous(op, input=input)
    handle = meet(op, out, group_name, "out")
    shape = (input.shape[0] * handle.world_size, *input.shape[1:]) if input.dim() else ()
    check_out(op, out, tuple(shape), input.dtype)
    signals, size = handle.meeting.signals, input.numel()
    signals.barrier()
    for part in _written(op, handle, out, handle.rank * size, size):
        part.copy_(input.reshape(-1))
    signals.barrier()
    return out


def _written(
    op: str, handle: SymmetricMemory, like: Tensor, start: int, count: int
) -> list[Tensor]:
    """Return elements of all members' tensors, which will be written."""
    found = []
    for rank in range(handle.world_size):
        whole = handle.get_remote_tensor(rank, (like.numel(),), like.dtype)
        part = whole[start : start + count]
        tell(op, part, writes=True)
        found.append(part)
    return found


def _like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")


OPERATORS: tuple[Callable[..., Any], ...] = (
    one_shot_all_reduce,
    one_shot_all_reduce_out,
    one_shot_all_reduce_copy,
    one_shot_all_reduce_copy_out,
    two_shot_all_reduce_,
    two_shot_all_reduce_out,
    reduce_scatter_out,
    multimem_all_reduce_,
    multimem_one_shot_all_reduce,
    multimem_one_shot_all_reduce_out,
    multimem_one_shot_reduce_out,
    multimem_all_gather_out,
)
"""Kernels of the operators of the same names."""
