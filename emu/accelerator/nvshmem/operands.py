"""Operands of operations: tensors, buffers, arrays and addresses, checked, as the World's methods take them."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from emu.accelerator.annotations import Storage, Tensor
from emu.accelerator.arrays import Array, as_array
from emu.accelerator.device_tags import tag_of
from emu.accelerator.nvshmem.buffers import Buffer
from emu.accelerator.nvshmem.context import Allocation, Context, Placement
from emu.accelerator.nvshmem.errors import NvshmemInvalid, check
from emu.comm.errors import ArgumentError
from emu.kernels.core.dtype_table import KINDS
from emu.kernels.core.messages import shown

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.array import SymmetricArray
    from emu.comm.world.group import Group

ALLOCATION = "_emu_nvshmem"
"""Attribute of a storage that holds the :class:`~emu.accelerator.nvshmem.context.Allocation` that it is a part of."""

_BYTES = np.dtype(np.uint8)


class Operand(NamedTuple):
    """Contiguous memory that an operation reads or writes.

    Attributes:
        what: The call and the argument's name, for errors.
        address: Its first byte.
        nbytes: Number of bytes.
        dtype: Dtype of its elements; None: they are bytes of anything.
        tensor: The tensor, where it is one.
        pe: World number of the PE whose heap it lies in; -1: in no heap.
        offset: Its place there.
        label: What reports call it.
        owner: What keeps it alive.
        arrays: Arrays of it that were made already.
    """

    what: str
    address: int
    nbytes: int
    dtype: np.dtype[Any] | None
    tensor: Tensor | None
    pe: int
    offset: int
    label: str
    owner: object
    arrays: dict[tuple[object, ...], SymmetricArray]

    def typed(self, dtype: np.dtype[Any] | None) -> tuple[int, np.dtype[Any]]:
        """Return the number of elements, and their dtype; of dtypes that the World lacks they are bytes."""
        kind = dtype if dtype is not None and dtype in KINDS else _BYTES
        return self.nbytes // kind.itemsize, kind

    def symmetric(
        self, group: Group, dtype: np.dtype[Any] | None, rows: int | None = None
    ) -> SymmetricArray:
        """Return it as an array of a group: flat, or with a number of rows."""
        count, kind = self.typed(dtype)
        shape = (count,) if rows is None else (rows, count // rows)
        found = self.arrays.get((group, shape, kind))
        if found is None:
            from emu.comm.world.allocation import array_at

            found = array_at(group, self.offset, shape, kind, self.label)
            self.arrays[group, shape, kind] = found
        return found

    def local(self, group: Group, dtype: np.dtype[Any] | None) -> SymmetricArray | Array:
        """Return this PE's memory as an input or output of the World's methods."""
        if self.pe >= 0 and self.pe == group.members[group.my_pe]:
            array = self.symmetric(group, dtype)
            # What listens wants to know of symmetric memory; a plain World is faster without.
            return array.local if _is_plain(group) else array
        count, kind = self.typed(dtype)
        if not count:
            return np.empty(0, kind)
        memory: Any = (ctypes.c_uint8 * self.nbytes).from_address(self.address)
        found: Array = np.frombuffer(memory, kind)
        return found


def operand(context: Context, op: str, name: str, value: Any) -> Operand:
    """Return a tensor, a buffer, or an array of ``nvshmem.core.array``, as an operand.

    Raises:
        NvshmemInvalid: It is something else, was freed, or is not contiguous.
    """
    what = f"{op}: {name}"
    if isinstance(value, torch.Tensor):
        return _of_tensor(context, what, value)
    if isinstance(value, np.ndarray):
        return _of_array(context, what, value)
    address, size = getattr(value, "handle", None), getattr(value, "size", None)
    if address is None or size is None:
        raise NvshmemInvalid(
            f"{what} must be a tensor, a Buffer or an array in symmetric memory, but got {shown(value)}"
        )
    try:
        start, nbytes = int(address), int(size)  # an address may be an object that int() takes
    except (TypeError, ValueError):
        raise NvshmemInvalid(
            f"{what} must have an address and a size, but got {shown(value)}"
        ) from None
    check_alive(what, getattr(value, "allocation", None))
    tensor = value.tensor if isinstance(value, Buffer) else None
    return _placed(context, what, start, nbytes, owner=value, tensor=tensor)


def at_address(context: Context, op: str, name: str, address: Any, nbytes: int) -> Operand:
    """Return memory at an address as an operand.

    Raises:
        NvshmemInvalid: The address is no address, or the memory reaches out of symmetric memory.
    """
    what = f"{op}: {name}"
    start = check.integer(what, address)
    if start <= 0:
        raise NvshmemInvalid(f"{what} must be an address, but got {shown(address)}")
    return _placed(context, what, start, nbytes, owner=None)


def own(context: Context, given: Operand) -> Operand:
    """Return an operand if it lies in this PE's part of the symmetric heap.

    Raises:
        NvshmemInvalid: It does not.
    """
    mine = context.world.my_pe
    if given.pe != mine:
        where = "not in symmetric memory"
        if given.pe >= 0:
            where = f"in that of PE {given.pe}: name the memory by this PE's own, and the PE by its number"
        raise NvshmemInvalid(
            f"{given.what} must lie in PE {mine}'s symmetric memory, but got {_described(given)}, {where}"
        )
    return given


def _of_tensor(context: Context, what: str, tensor: Tensor) -> Operand:
    with torch._C.DisableTorchFunction():
        if tensor.layout is not torch.strided:
            raise NvshmemInvalid(f"{what} must be a dense tensor, but got layout {tensor.layout}")
        if not tensor.is_contiguous():
            raise NvshmemInvalid(
                f"{what} must be contiguous, but got a tensor of shape {tuple(tensor.shape)} with strides {tensor.stride()}"
            )
        if tensor.is_conj() or tensor.is_neg():
            raise NvshmemInvalid(
                f"{what} must hold its values, but got a lazy conjugate or negative: call resolve_conj() or resolve_neg()"
            )
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError) as error:  # of tensors that wrap others
            raise NvshmemInvalid(
                f"{what} must be a tensor with memory, but got one of class {type(tensor).__name__}: {error}"
            ) from None
        size, allocation = tensor.element_size(), getattr(storage, ALLOCATION, None)
        if allocation is not None:
            check_alive(what, allocation)
        if tag_of(tensor) is None:
            raise NvshmemInvalid(
                f"{what} must be on the device, but got a tensor of shape {tuple(tensor.shape)} on {tensor.device}"
            )
        kind = _kinds.get(tensor.dtype) or _kind_of(what, tensor)
        nbytes = int(tensor.numel() * size)
        start = int(storage.data_ptr() + tensor.storage_offset() * size)
    return _placed(context, what, start, nbytes, owner=tensor, dtype=kind, tensor=tensor)


_kinds: dict[torch.dtype, np.dtype[Any]] = {}


def _kind_of(what: str, tensor: Tensor) -> np.dtype[Any]:
    """Return the dtype of a tensor's elements; of what NumPy lacks they are bytes."""
    try:
        kind: np.dtype[Any] = as_array(what, tensor, detach=True).dtype
    except ArgumentError:
        kind = _BYTES
    _kinds[tensor.dtype] = kind
    return kind


def _is_plain(group: Group) -> bool:
    """Return whether nobody listens to a group, or delays what it does."""
    global _plain
    if not _plain:
        from emu.comm.world.group import Group
        from emu.comm.world.world import World

        _plain = (World, Group)
    return type(group) in _plain


_plain: tuple[type, ...] = ()


def _of_array(context: Context, what: str, array: Array) -> Operand:
    if not array.flags.c_contiguous:
        raise NvshmemInvalid(f"{what} must be contiguous, but got {shown(array)}")
    start = int(array.__array_interface__["data"][0])
    found = _placed(context, what, start, array.nbytes, owner=array, dtype=array.dtype)
    if found.pe < 0:
        raise NvshmemInvalid(
            f"{what} must be in symmetric memory where it is a NumPy array, but got {shown(array)} that is not"
        )
    return found


def _placed(
    context: Context,
    what: str,
    address: int,
    nbytes: int,
    *,
    owner: object,
    dtype: np.dtype[Any] | None = None,
    tensor: Tensor | None = None,
) -> Operand:
    """Return an operand with its place in the heaps, after a check that it does not reach out of its allocation."""
    if nbytes < 0 or address < 0:
        raise NvshmemInvalid(
            f"{what} must have an address and at least 0 bytes, but got {nbytes} bytes at {address:#x}"
        )
    known = context.places.get((address, nbytes))
    if known is None:
        pe, offset = place_of(context, address)
        label = _label(context, what, address, nbytes) if pe >= 0 else ""
        known = Placement(pe, offset, label, {})
        if pe >= 0 and context.find(offset) is not None:  # it is told when that is freed
            context.keep(address, nbytes, known)
    return Operand(
        what,
        address,
        nbytes,
        dtype,
        tensor,
        known.pe,
        known.offset,
        known.label,
        owner,
        known.arrays,
    )


def place_of(context: Context, address: int) -> tuple[int, int]:
    """Return the PE in whose heap an address lies, and the place there; (-1, 0): in no heap."""
    segment = context.world.segment
    layout = segment.layout
    distance = address - segment.address - layout.heaps
    if not 0 <= distance < layout.n_pes * layout.stride:
        return -1, 0
    return divmod(distance, layout.stride)


def address_of(context: Context, pe: int, offset: int) -> int:
    """Return the address, in this process, of a place in a PE's heap."""
    segment = context.world.segment
    return int(segment.address + segment.layout.heaps + pe * segment.layout.stride + offset)


def _label(context: Context, what: str, address: int, nbytes: int) -> str:
    """Return what reports call a piece of symmetric memory.

    Raises:
        NvshmemInvalid: It is not allocated, or less is.
    """
    _, offset = place_of(context, address)
    ours = context.find(offset)
    if ours is not None:
        start, end = ours.offset, ours.offset + ours.nbytes
        label = ours.label
    else:  # another library's
        span = context.world.heap.find_span(address)
        low, high = span if span is not None else (address, address)
        start, end = offset - (address - low), offset + (high - address)
        label = context.world.heap.name_at(offset)
    if offset + nbytes > end or (start == end and nbytes):
        there = f"{end - offset} bytes are allocated there" if end > offset else "none is allocated"
        raise NvshmemInvalid(
            f"{what} must lie in allocated symmetric memory, but got {nbytes} bytes at {address:#x}, where {there}"
        )
    return label if offset == start else f"{label} from byte {offset - start}"


def _described(given: Operand) -> str:
    if given.tensor is not None:
        return f"a tensor of shape {tuple(given.tensor.shape)} and {given.tensor.dtype}"
    return f"{given.nbytes} bytes at {given.address:#x}"


def allocation_of(tensor: Tensor) -> Allocation | None:
    """Return the allocation that a tensor is a part of; None: it is none that NVSHMEM has made."""
    with torch._C.DisableTorchFunction():
        try:
            return cast("Allocation | None", getattr(storage_of(tensor), ALLOCATION, None))
        except (NotImplementedError, RuntimeError):  # no storage
            return None


def storage_of(tensor: Tensor) -> Storage:
    """Return a tensor's storage."""
    return tensor.untyped_storage()


def check_alive(what: str, allocation: Allocation | None) -> None:
    """Refuse memory that was freed.

    Raises:
        NvshmemInvalid: It was.
    """
    if allocation is not None and allocation.is_freed:
        raise NvshmemInvalid(
            f"{what} must be in memory that was not freed, but got {allocation.label}, which was"
        )


def check_pe(op: str, name: str, pe: Any, group: Group) -> int:
    """Return the number of a member.

    Raises:
        NvshmemInvalid: It is none.
    """
    if type(pe) is int and 0 <= pe < group.n_pes:  # the check below takes a tenth of a put's time
        return pe
    return check.index(f"{op}: {name}", pe, group.n_pes, f" for {group.n_pes} PEs")


def check_same(one: Operand, other: Operand) -> np.dtype[Any] | None:
    """Return the dtype of two operands that must have one size and, where both have one, one dtype.

    Raises:
        NvshmemInvalid: They have not.
    """
    check_dtypes(one, other)
    if one.nbytes != other.nbytes:
        raise NvshmemInvalid(
            f"{one.what} must have as many bytes as {_name(other)}, {other.nbytes}, but got {one.nbytes}"
        )
    dtype = one.dtype if one.dtype is not None else other.dtype
    if dtype is not None and (one.address % dtype.itemsize or other.address % dtype.itemsize):
        return None  # a buffer may begin anywhere
    return dtype


def check_dtypes(one: Operand, other: Operand) -> None:
    """Refuse operands of two dtypes.

    Raises:
        NvshmemInvalid: They have two.
    """
    if one.dtype is not None and other.dtype is not None and one.dtype != other.dtype:
        raise NvshmemInvalid(
            f"{one.what} must have the dtype of {_name(other)}, {other.dtype}, but got {one.dtype}"
        )


def _name(given: Operand) -> str:
    return given.what.rpartition(": ")[2]
