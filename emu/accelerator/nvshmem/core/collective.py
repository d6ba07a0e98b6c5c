"""``nvshmem.core.collective``: what all members of a team call together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from emu.accelerator.nvshmem import streams
from emu.accelerator.nvshmem.context import Context, active
from emu.accelerator.nvshmem.enums import Teams
from emu.accelerator.nvshmem.errors import NvshmemInvalid
from emu.accelerator.nvshmem.operands import (
    Operand,
    check_dtypes,
    check_pe,
    check_same,
    operand,
    own,
)
from emu.kernels.core.dtype_table import KINDS
from emu.kernels.core.messages import shown

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.world.group import Group

__all__ = [
    "alltoall",
    "barrier",
    "barrier_all",
    "broadcast",
    "collective_on_buffer",
    "fcollect",
    "reduce",
    "reducescatter",
    "sync",
    "sync_all",
]

_REDUCTIONS = ("sum", "min", "max")
_C_NAMES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "char": "int8",
    "schar": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "longlong": "int64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    "ulonglong": "uint64",
    "size": "uint64",
    "ptrdiff": "int64",
}
_BY_NAME = {str(kind): kind for kind in KINDS}


class _Call:
    """A collective of a team, with its operands.

    Args:
        op: Its name.
        team: The team.
        dst: Where the result goes.
        src: This member's contribution.
        dtype: Dtype of buffers. Default: that of the operands.
    """

    def __init__(self, op: str, team: Any, dst: Any, src: Any, dtype: Any = None) -> None:
        self.op = f"nvshmem.core.{op}"
        self.context: Context = active(self.op)
        self.group: Group = self.context.group(self.op, team)
        self.dst = own(self.context, operand(self.context, self.op, "dst", dst))
        self.src = own(self.context, operand(self.context, self.op, "src", src))
        check_dtypes(self.dst, self.src)
        self.dtype = self.dst.dtype if self.dst.dtype is not None else self.src.dtype
        if dtype is not None:
            self.dtype = _dtype(self.op, dtype)
        itemsize = 1 if self.dtype is None else self.dtype.itemsize
        for each in (self.dst, self.src):
            if each.nbytes % itemsize or each.offset % itemsize:
                raise NvshmemInvalid(
                    f"{each.what} must hold elements of {self.dtype}, but got {each.nbytes} bytes at {each.address:#x}"
                )

    def times(self, one: Operand, other: Operand) -> None:
        """Check that an operand has the bytes of another for each member.

        Raises:
            NvshmemInvalid: It has more or fewer.
        """
        wanted = self.group.n_pes * other.nbytes
        if one.nbytes != wanted:
            raise NvshmemInvalid(
                f"{one.what} must have {self.group.n_pes} times the bytes of the other operand, {wanted}, but got "
                f"{one.nbytes}"
            )

    def reduction(self, name: Any) -> str:
        """Return the operation of a reduction.

        Raises:
            NvshmemInvalid: There is none of this name, or not for the dtype.
        """
        if name not in _REDUCTIONS:
            raise NvshmemInvalid(
                f"{self.op}: op must be one of {', '.join(map(repr, _REDUCTIONS))}, but got {shown(name)}"
            )
        if self.dtype is None or self.dtype not in KINDS:
            known = ", ".join(_BY_NAME)
            raise NvshmemInvalid(
                f"{self.op}: dtype must be one of {known}, but got {_said(self.dtype)}"
            )
        return str(name)

    def run(self, act: Callable[[], object], stream: Any) -> None:
        """Do it on a stream."""
        streams.run(
            self.op,
            self.context.device,
            stream,
            act,
            reads=[self.src.tensor],
            writes=[self.dst.tensor],
            waits=True,
        )


def _said(dtype: object) -> str:
    return "buffers without one" if dtype is None else str(dtype)


def _dtype(op: str, name: Any) -> np.dtype[Any]:
    """Return the dtype that NVSHMEM's name, NumPy's name, or a dtype stands for.

    Raises:
        NvshmemInvalid: It stands for none.
    """
    text = str(getattr(name, "name", name)).removeprefix("torch.")
    found = _BY_NAME.get(_C_NAMES.get(text, text))
    if found is None:
        raise NvshmemInvalid(
            f"{op}: dtype must be one of {', '.join((*_BY_NAME, *_C_NAMES))}, but got {shown(name)}"
        )
    return found


def reduce(team: Teams | int, dst: Any, src: Any, op: str, stream: Any = None) -> None:
    """Combine the members' ``src`` element by element; all get the result in ``dst``.

    Args:
        team: The team.
        dst: Symmetric memory; it may be ``src``.
        src: Symmetric memory of the same size and dtype.
        op: ``"sum"``, ``"min"`` or ``"max"``.
        stream: Stream of the operation. Default: the current one.

    Raises:
        NvshmemInvalid: An argument breaks a rule; nothing was changed.
        CollectiveMismatchError: Members called with different sizes, dtypes or operations, or different collectives.
        NvshmemError: NVSHMEM is not initialised.
    """
    _reduce(_Call("reduce", team, dst, src), op, stream)


def _reduce(call: _Call, op: Any, stream: Any) -> None:
    check_same(call.dst, call.src)
    name, group = call.reduction(op), call.group
    source, out = call.src.symmetric(group, call.dtype), call.dst.symmetric(group, call.dtype)
    call.run(lambda: group.all_reduce(source, name, out=out), stream)


def reducescatter(team: Teams | int, dst: Any, src: Any, op: str, stream: Any = None) -> None:
    """Combine the members' ``src``, and give each member its part of the result in ``dst``.

    Args:
        team: The team.
        dst: Symmetric memory.
        src: Symmetric memory: a part like ``dst`` for each member.
        op: As of :func:`reduce`.
        stream: As of :func:`reduce`.

    Raises:
        NvshmemInvalid, CollectiveMismatchError, NvshmemError: As :func:`reduce`.
    """
    _reducescatter(_Call("reducescatter", team, dst, src), op, stream)


def _reducescatter(call: _Call, op: Any, stream: Any) -> None:
    call.times(call.src, call.dst)
    name, group = call.reduction(op), call.group
    source = call.src.symmetric(group, call.dtype, group.n_pes)
    out = call.dst.symmetric(group, call.dtype)
    call.run(lambda: group.reduce_scatter(source, name, out=out), stream)


def alltoall(team: Teams | int, dst: Any, src: Any, stream: Any = None) -> None:
    """Send the parts of ``src`` to the members, one to each, and get theirs in ``dst``.

    Args:
        team: The team.
        dst: Symmetric memory: a part from each member, in their order.
        src: Symmetric memory of the same size: a part for each member.
        stream: As of :func:`reduce`.

    Raises:
        NvshmemInvalid, CollectiveMismatchError, NvshmemError: As :func:`reduce`.
    """
    _alltoall(_Call("alltoall", team, dst, src), stream)


def _alltoall(call: _Call, stream: Any) -> None:
    check_same(call.dst, call.src)
    group = call.group
    count, _ = call.src.typed(call.dtype)
    if count % group.n_pes:
        raise NvshmemInvalid(
            f"{call.src.what} must have a multiple of {group.n_pes} elements, one part for each member, but got {count}"
        )
    source = call.src.symmetric(group, call.dtype, group.n_pes)
    out = call.dst.symmetric(group, call.dtype, group.n_pes)
    call.run(lambda: group.all_to_all(source, out=out), stream)


def fcollect(team: Teams | int, dst: Any, src: Any, stream: Any = None) -> None:
    """Collect the members' ``src`` in ``dst``, on all.

    Args:
        team: The team.
        dst: Symmetric memory: a part from each member, in their order.
        src: Symmetric memory.
        stream: As of :func:`reduce`.

    Raises:
        NvshmemInvalid, CollectiveMismatchError, NvshmemError: As :func:`reduce`.
    """
    _fcollect(_Call("fcollect", team, dst, src), stream)


def _fcollect(call: _Call, stream: Any) -> None:
    call.times(call.dst, call.src)
    group = call.group
    source = call.src.symmetric(group, call.dtype)
    out = call.dst.symmetric(group, call.dtype, group.n_pes)
    call.run(lambda: group.all_gather(source, out=out), stream)


def broadcast(team: Teams | int, dst: Any, src: Any, root: int = 0, stream: Any = None) -> None:
    """Give every member the root's ``src`` in ``dst``.

    Args:
        team: The team.
        dst: Symmetric memory; it may be ``src``.
        src: Symmetric memory of the same size.
        root: Member that sends.
        stream: As of :func:`reduce`.

    Raises:
        NvshmemInvalid, CollectiveMismatchError, NvshmemError: As :func:`reduce`.
    """
    _broadcast(_Call("broadcast", team, dst, src), root, stream)


def _broadcast(call: _Call, root: Any, stream: Any) -> None:
    check_same(call.dst, call.src)
    sender, group = check_pe(call.op, "root", root, call.group), call.group
    source, out = call.src.symmetric(group, call.dtype), call.dst.symmetric(group, call.dtype)
    call.run(lambda: group.broadcast(source, sender, out=out), stream)


def collective_on_buffer(
    coll: str,
    team: Teams | int,
    dst: Any,
    src: Any,
    dtype: Any = None,
    op: str | None = None,
    root: int | None = None,
    stream: Any = None,
) -> None:
    """Run a collective by its name, on buffers.

    Args:
        coll: ``"reduce"``, ``"reducescatter"``, ``"alltoall"``, ``"fcollect"`` or ``"broadcast"``.
        team: The team.
        dst: As of the collective.
        src: As of the collective.
        dtype: Dtype of the elements: NVSHMEM's name, such as ``"float"``, NumPy's or torch's. Default: the operands', or bytes.
        op: Of reductions.
        root: Of a broadcast. Default: 0.
        stream: As of :func:`reduce`.

    Raises:
        NvshmemInvalid, CollectiveMismatchError, NvshmemError: As :func:`reduce`.
    """
    known = ("reduce", "reducescatter", "alltoall", "fcollect", "broadcast")
    if coll not in known:
        raise NvshmemInvalid(
            f"nvshmem.core.collective_on_buffer: coll must be one of {', '.join(map(repr, known))}, but got {shown(coll)}"
        )
    call = _Call(coll, team, dst, src, dtype)
    if coll == "reduce":
        _reduce(call, op, stream)
    elif coll == "reducescatter":
        _reducescatter(call, op, stream)
    elif coll == "alltoall":
        _alltoall(call, stream)
    elif coll == "fcollect":
        _fcollect(call, stream)
    else:
        _broadcast(call, 0 if root is None else root, stream)


def barrier(team: Teams | int, stream: Any = None) -> None:
    """Wait for every member, with all that they have stored complete.

    Raises:
        NvshmemInvalid: There is no such team.
        NvshmemError: NVSHMEM is not initialised.
    """
    _meet("nvshmem.core.barrier", team, stream)


def sync(team: Teams | int, stream: Any = None) -> None:
    """Wait for every member. What was stored need not be complete on GPUs; here it is.

    Raises:
        NvshmemInvalid: There is no such team.
        NvshmemError: NVSHMEM is not initialised.
    """
    _meet("nvshmem.core.sync", team, stream)


def barrier_all(stream: Any = None) -> None:
    """Wait for every PE, as :func:`barrier` does.

    Raises:
        NvshmemError: NVSHMEM is not initialised.
    """
    _meet("nvshmem.core.barrier_all", Teams.TEAM_WORLD, stream)


def sync_all(stream: Any = None) -> None:
    """Wait for every PE, as :func:`sync` does.

    Raises:
        NvshmemError: NVSHMEM is not initialised.
    """
    _meet("nvshmem.core.sync_all", Teams.TEAM_WORLD, stream)


def _meet(op: str, team: Any, stream: Any) -> None:
    here = active(op)
    group = here.group(op, team)
    meet = group.sync if "sync" in op.rpartition(".")[2] else group.barrier
    streams.run(op, here.device, stream, meet, waits=True)
