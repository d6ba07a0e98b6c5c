"""``nvshmem.bindings.nvshmem``: NVSHMEM's functions on addresses, as integers.

An address of symmetric memory is one of this PE's own heap; the PE is named beside it. Each function checks that it lies in
memory that is allocated. Streams are numbers, as ``stream.cuda_stream`` has them, or what ``nvshmem.core`` takes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from emu.accelerator.nvshmem import context, streams, transfers
from emu.accelerator.nvshmem.context import Context, active
from emu.accelerator.nvshmem.enums import InitStatus, Teams
from emu.accelerator.nvshmem.errors import NvshmemInvalid, check
from emu.accelerator.nvshmem.operands import (
    Operand,
    address_of,
    at_address,
    check_pe,
    own,
    place_of,
)
from emu.accelerator.nvshmem.transfers import Signal
from emu.comm.world.current import places_of

__all__ = [
    "align",
    "barrier",
    "barrier_all",
    "barrier_all_on_stream",
    "barrier_on_stream",
    "calloc",
    "culibrary_finalize",
    "culibrary_init",
    "cumodule_finalize",
    "cumodule_init",
    "fence",
    "free",
    "getmem",
    "getmem_nbi",
    "getmem_nbi_on_stream",
    "getmem_on_stream",
    "init_status",
    "malloc",
    "mc_ptr",
    "my_pe",
    "n_pes",
    "ptr",
    "putmem",
    "putmem_nbi",
    "putmem_nbi_on_stream",
    "putmem_on_stream",
    "putmem_signal",
    "putmem_signal_on_stream",
    "quiet",
    "quiet_on_stream",
    "signal_op",
    "signal_op_on_stream",
    "signal_wait_until",
    "signal_wait_until_on_stream",
    "sync_all",
    "sync_all_on_stream",
    "team_my_pe",
    "team_n_pes",
    "team_translate_pe",
    "uniqueid",
]

_NAME = "nvshmem.bindings.nvshmem"


class uniqueid:
    """A unique ID, as rank 0 makes one and sends it to the others.

    Attributes:
        _data: Its bytes, an array of one record.
    """

    DTYPE = np.dtype([("version", np.int32), ("internal", np.int8, (124,))])

    def __init__(self) -> None:
        self._data = np.zeros(1, self.DTYPE)


# --- who takes part ------------------------------------------------------------------------------


def init_status() -> InitStatus:
    """Return whether NVSHMEM is initialised."""
    return context.status()


def my_pe() -> int:
    """Return this PE's number."""
    return active(f"{_NAME}.my_pe").world.my_pe


def n_pes() -> int:
    """Return the number of PEs."""
    return active(f"{_NAME}.n_pes").world.n_pes


def team_my_pe(team: int) -> int:
    """Return this PE's number in a team; -1 for no team."""
    op = f"{_NAME}.team_my_pe"
    here = active(op)
    return -1 if team == Teams.TEAM_INVALID else here.group(op, team).my_pe


def team_n_pes(team: int) -> int:
    """Return the number of a team's members; -1 for no team."""
    op = f"{_NAME}.team_n_pes"
    here = active(op)
    return -1 if team == Teams.TEAM_INVALID else here.group(op, team).n_pes


def team_translate_pe(src_team: int, src_pe: int, dest_team: int) -> int:
    """Return the number in ``dest_team`` of a member of ``src_team``; -1: it is no member, or a team is none."""
    op = f"{_NAME}.team_translate_pe"
    here = active(op)
    if Teams.TEAM_INVALID in (src_team, dest_team):
        return -1
    source, target = here.group(op, src_team, "src_team"), here.group(op, dest_team, "dest_team")
    world_pe = source.members[check_pe(op, "src_pe", src_pe, source)]
    return target.members.index(world_pe) if world_pe in target.member_set else -1


# --- memory --------------------------------------------------------------------------------------


def malloc(size: int) -> int:
    """Allocate symmetric memory on every PE, and return its address; 0 for no bytes."""
    return _allocate(f"{_NAME}.malloc", size)


def calloc(count: int, size: int) -> int:
    """Allocate symmetric memory that is zero on every PE, and return its address; 0 for no bytes."""
    op = f"{_NAME}.calloc"
    number = check.integer(f"{op}: count", count, 0)
    start = _allocate(op, number * check.integer(f"{op}: size", size, 0))
    if start:
        here = active(op)
        made = here.find(place_of(here, start)[1])
        assert made is not None
        made.array.local[...] = 0
        here.world.barrier()
    return start


def align(alignment: int, size: int) -> int:
    """Allocate as :func:`malloc` does, at a multiple of ``alignment``, a power of 2 up to 64."""
    op = f"{_NAME}.align"
    number = check.integer(f"{op}: alignment", alignment, 1, 64)
    if number & (number - 1):
        raise NvshmemInvalid(f"{op}: alignment must be a power of 2, but got {number}")
    return _allocate(op, size)


def _allocate(op: str, size: Any) -> int:
    here = active(op)
    nbytes = check.integer(f"{op}: size", size, 0)
    if not nbytes:
        return 0
    return address_of(here, here.world.my_pe, here.allocate(op, nbytes, "memory").offset)


def free(ptr: int) -> None:
    """Free memory of :func:`malloc` on every PE; nothing for 0."""
    op = f"{_NAME}.free"
    here = active(op)
    if not check.integer(f"{op}: ptr", ptr):
        return
    given = own(here, at_address(here, op, "ptr", ptr, 1))
    allocation = here.find(given.offset)
    if allocation is None or allocation.offset != given.offset:
        raise NvshmemInvalid(f"{op}: ptr must be one that malloc() returned, but got {ptr:#x}")
    here.free(allocation)


def ptr(dest: int, pe: int) -> int:
    """Return the address at which a PE's memory can be read and written here; 0 for a PE on another host."""
    op = f"{_NAME}.ptr"
    here = active(op)
    given = own(here, at_address(here, op, "dest", dest, 1))
    peer, places = check_pe(op, "pe", pe, here.world), places_of(here.world)
    if places is not None and peer not in places.local:
        return 0
    return address_of(here, peer, given.offset)


def mc_ptr(team: int, ptr: int) -> int:
    """Return 0: there are no multicast addresses."""
    op = f"{_NAME}.mc_ptr"
    active(op).group(op, team)
    return 0


# --- puts and gets -------------------------------------------------------------------------------


def _pair(
    op: str, dest: Any, source: Any, nbytes: Any, pe: Any
) -> tuple[Context, Operand, Operand, int]:
    here = active(op)
    size = check.integer(f"{op}: nbytes", nbytes, 0)
    target = at_address(here, op, "dest", dest, size)
    return (
        here,
        target,
        at_address(here, op, "source", source, size),
        check_pe(op, "pe", pe, here.world),
    )


def putmem(dest: int, source: int, nbytes: int, pe: int) -> None:
    """Store bytes at a PE."""
    putmem_on_stream(dest, source, nbytes, pe, None)


def putmem_nbi(dest: int, source: int, nbytes: int, pe: int) -> None:
    """Start :func:`putmem`; ``quiet`` completes it."""
    putmem_nbi_on_stream(dest, source, nbytes, pe, None)


def putmem_on_stream(dest: int, source: int, nbytes: int, pe: int, cstrm: Any) -> None:
    """Store bytes at a PE."""
    op = f"{_NAME}.putmem"
    here, target, origin, peer = _pair(op, dest, source, nbytes, pe)
    transfers.put(here, op, target, origin, peer, cstrm)


def putmem_nbi_on_stream(dest: int, source: int, nbytes: int, pe: int, cstrm: Any) -> None:
    """Start :func:`putmem`; ``quiet`` completes it."""
    op = f"{_NAME}.putmem_nbi"
    here, target, origin, peer = _pair(op, dest, source, nbytes, pe)
    transfers.put(here, op, target, origin, peer, cstrm, is_blocking=False)


def getmem(dest: int, source: int, nbytes: int, pe: int) -> None:
    """Fetch bytes from a PE."""
    getmem_on_stream(dest, source, nbytes, pe, None)


def getmem_nbi(dest: int, source: int, nbytes: int, pe: int) -> None:
    """Start :func:`getmem`; ``quiet`` completes it."""
    getmem_nbi_on_stream(dest, source, nbytes, pe, None)


def getmem_on_stream(dest: int, source: int, nbytes: int, pe: int, cstrm: Any) -> None:
    """Fetch bytes from a PE."""
    op = f"{_NAME}.getmem"
    here, target, origin, peer = _pair(op, dest, source, nbytes, pe)
    transfers.get(here, op, target, origin, peer, cstrm)


def getmem_nbi_on_stream(dest: int, source: int, nbytes: int, pe: int, cstrm: Any) -> None:
    """Start :func:`getmem`; ``quiet`` completes it."""
    op = f"{_NAME}.getmem_nbi"
    here, target, origin, peer = _pair(op, dest, source, nbytes, pe)
    transfers.get(here, op, target, origin, peer, cstrm, is_blocking=False)


# --- signals -------------------------------------------------------------------------------------


def putmem_signal(
    dest: int, source: int, nbytes: int, sig_addr: int, signal: int, sig_op: int, pe: int
) -> None:
    """Store bytes at a PE, then signal there: who sees the signal sees the bytes."""
    putmem_signal_on_stream(dest, source, nbytes, sig_addr, signal, sig_op, pe, None)


def putmem_signal_on_stream(
    dest: int,
    source: int,
    nbytes: int,
    sig_addr: int,
    signal: int,
    sig_op: int,
    pe: int,
    cstrm: Any,
) -> None:
    """Store bytes at a PE, then signal there: who sees the signal sees the bytes."""
    op = f"{_NAME}.putmem_signal"
    here, target, origin, peer = _pair(op, dest, source, nbytes, pe)
    word = Signal(at_address(here, op, "sig_addr", sig_addr, 8), signal, sig_op)
    transfers.put_signal(here, op, target, origin, word, peer, cstrm)


def signal_op(sig_addr: int, signal: int, sig_op: int, pe: int) -> None:
    """Set, or add to, a PE's word of 64 bits."""
    signal_op_on_stream(sig_addr, signal, sig_op, pe, None)


def signal_op_on_stream(sig_addr: int, signal: int, sig_op: int, pe: int, cstrm: Any) -> None:
    """Set, or add to, a PE's word of 64 bits."""
    op = f"{_NAME}.signal_op"
    here = active(op)
    word = Signal(at_address(here, op, "sig_addr", sig_addr, 8), signal, sig_op)
    transfers.signal_op(here, op, word, check_pe(op, "pe", pe, here.world), cstrm)


def signal_wait_until(sig_addr: int, cmp: int, cmp_value: int) -> None:
    """Wait until this PE's word of 64 bits compares as asked."""
    signal_wait_until_on_stream(sig_addr, cmp, cmp_value, None)


def signal_wait_until_on_stream(sig_addr: int, cmp: int, cmp_value: int, cstream: Any) -> None:
    """Wait until this PE's word of 64 bits compares as asked."""
    op = f"{_NAME}.signal_wait_until"
    here = active(op)
    word = at_address(here, op, "sig_addr", sig_addr, 8)
    transfers.signal_wait(here, op, word, cmp_value, cmp, cstream)


# --- order ---------------------------------------------------------------------------------------


def quiet() -> None:
    """Return when all that this PE has stored is complete."""
    quiet_on_stream(None)


def quiet_on_stream(cstrm: Any) -> None:
    """Return when all that this PE has stored is complete."""
    op = f"{_NAME}.quiet"
    here = active(op)
    streams.run(op, here.device, cstrm, here.world.quiet)


def fence() -> None:
    """Order what this PE stores to each PE."""
    op = f"{_NAME}.fence"
    here = active(op)
    streams.run(op, here.device, None, here.world.fence)


def barrier(team: int) -> None:
    """Wait for every member of a team, with all that they have stored complete."""
    barrier_on_stream(team, None)


def barrier_on_stream(team: int, cstrm: Any) -> None:
    """Wait for every member of a team, with all that they have stored complete."""
    op = f"{_NAME}.barrier"
    here = active(op)
    streams.run(op, here.device, cstrm, here.group(op, team).barrier, waits=True)


def barrier_all() -> None:
    """Wait for every PE, with all that they have stored complete."""
    barrier_all_on_stream(None)


def barrier_all_on_stream(cstrm: Any) -> None:
    """Wait for every PE, with all that they have stored complete."""
    barrier_on_stream(Teams.TEAM_WORLD, cstrm)


def sync_all() -> None:
    """Wait for every PE."""
    sync_all_on_stream(None)


def sync_all_on_stream(cstrm: Any) -> None:
    """Wait for every PE."""
    op = f"{_NAME}.sync_all"
    here = active(op)
    streams.run(op, here.device, cstrm, here.world.sync, waits=True)


# --- kernels -------------------------------------------------------------------------------------


def cumodule_init(module: Any) -> None:
    """Prepare a module of kernels; nothing need be done."""


def cumodule_finalize(module: Any) -> None:
    """Undo :func:`cumodule_init`; nothing need be done."""


def culibrary_init(library: Any) -> None:
    """Prepare a library of kernels; nothing need be done."""


def culibrary_finalize(library: Any) -> None:
    """Undo :func:`culibrary_init`; nothing need be done."""
