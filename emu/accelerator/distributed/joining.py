"""Processes that nobody has launched become PEs by what they give to ``init_process_group``.

They have a store in common, or an ``init_method`` that leads to one. Rank 0 makes a World and puts its address there;
the others find it, each as the PE of its rank. Every call makes another World: its processes, their number and their
ranks may be others than before.
"""

from __future__ import annotations

import contextlib
import numbers
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import DistStoreError
from torch.distributed.rendezvous import rendezvous

from emu.accelerator import device_tags
from emu.comm.errors import ArgumentError, CommError, StoppedError
from emu.comm.layout import B_STATE, DEAD, FINISHED, NOT_STARTED
from emu.comm.memory.stop import PEER_FAILED, publish_stop
from emu.comm.process.keeper import started_at
from emu.comm.process.meeting import Membership, WorldOverError, find, host

if TYPE_CHECKING:  # it loads Numba
    from emu.comm.memory.segment import Segment
    from emu.comm.world.world import World

_MOST = 1024  # PEs of a World
_NO_WORLD = "error: "
"""How what rank 0 publishes begins if it could not make a World."""


class _Here:
    membership: Membership | None = None


def is_member(world: World) -> bool:
    """Return whether this process has joined a World by :func:`join`."""
    member = _Here.membership
    return member is not None and member.is_mine and member.world is world


def join(given: dict[str, Any], timeout: timedelta) -> World:
    """Make this process a PE of a World of ``world_size`` processes that call it with the same store.

    A World that it has joined before is left.

    Args:
        given: Arguments of ``init_process_group``; ``store``, ``rank`` and ``world_size`` are set to what torch
            goes on with, and ``init_method`` to None.
        timeout: How long to wait for the others.

    Raises:
        ArgumentError: A rank or a number of ranks that cannot be, or on which the processes do not agree.
        CommError: There was no World to be found.
        torch.distributed.DistStoreError: Rank 0 has not come in time.
    """
    store, rank, size = _open_store(given, timeout)
    _leave()
    segment = _find(PrefixStore("emu", store), rank, size, timeout)
    _check_size(segment, rank, size)
    _Here.membership = Membership(segment, rank)
    device_tags.device_count.cache_clear()  # as many as there are PEs, if nothing else is said
    given.update(store=store, rank=rank, world_size=size, init_method=None)
    return _Here.membership.world


def _leave() -> None:
    member, _Here.membership = _Here.membership, None
    if member is not None and member.is_mine:
        with contextlib.suppress(StoppedError):  # it was told of that when it happened
            member.leave()


def _open_store(given: dict[str, Any], timeout: timedelta) -> tuple[Store, int, int]:
    """Return the store that the processes share, the rank of this one and the number of ranks."""
    store, method = given["store"], given["init_method"]
    rank, size = given["rank"], given["world_size"]
    if store is not None:
        if method is not None:
            raise ArgumentError(f"init_method must be None with a store, but got {method!r}")
        _check_ranks(rank, size)
        return store, rank, size
    if rank != -1 and size != -1:
        _check_ranks(rank, size)
    store, rank, size = next(rendezvous(method or "env://", rank, size, timeout=timeout))
    _check_ranks(rank, size)
    store.set_timeout(timeout)
    return PrefixStore("default_pg", store), rank, size


def _check_ranks(rank: Any, size: Any) -> None:
    for name, value in (("rank", rank), ("world_size", size)):
        if not isinstance(value, numbers.Integral):
            raise ArgumentError(f"{name} must be a whole number, but got {value!r}")
    if not 1 <= size <= _MOST:
        raise ArgumentError(f"world_size must be in [1, {_MOST}], but got {size}")
    if not 0 <= rank < size:
        raise ArgumentError(f"rank must be in [0, {size}), but got {rank}")


def _find(store: Store, rank: int, size: int, timeout: timedelta) -> Segment:
    """Return the memory of the World that rank 0 makes, skipping those of earlier processes with the same store."""
    while True:
        address = _exchange(store, rank, size, timeout)
        try:
            segment = find(address)
        except WorldOverError:
            if rank == 0:
                raise
            continue
        if rank == 0 or not _is_over(segment, rank, size):
            return segment
        segment.close()


def _is_over(segment: Segment, rank: int, size: int) -> bool:
    """Return whether a World is one of earlier processes: another has had this rank, or it has ended with another size."""
    expected = segment.layout.n_pes
    if rank < expected and segment.block(rank)[B_STATE] != NOT_STARTED:
        return True
    return size != expected and segment.block(0)[B_STATE] in (FINISHED, DEAD)


def _exchange(store: Store, rank: int, size: int, timeout: timedelta) -> str:
    """Return the address of the World, made by rank 0.

    A store may serve for several calls one after the other: each rank counts its own.
    """
    turn = store.add(f"turns of rank {rank}", 1)
    before, mine = (f"{number} process of rank {rank}" for number in (turn - 1, turn))
    store.set(mine, _this_process())
    if turn > 1 and store.check([before]):
        _check_alone(rank, store.get(before).decode())
    key = f"{turn} World"
    if rank == 0:
        try:
            store.set(key, host(size))
        except CommError as error:
            store.set(key, f"{_NO_WORLD}{error}")
            raise
    else:
        try:
            store.wait([key], timeout)
        except RuntimeError as error:
            raise DistStoreError(
                f"rank 0 of {size} must call init_process_group with the same store within {timeout}, but rank {rank} "
                f"has waited in vain: {error}"
            ) from error
    address: str = store.get(key).decode()
    if address.startswith(_NO_WORLD):
        raise CommError(f"rank 0 could not make a World: {address.removeprefix(_NO_WORLD)}")
    return address


def _this_process() -> str:
    return f"{os.getpid()} {started_at(os.getpid())}"


def _check_alone(rank: int, other: str) -> None:
    """Check that the process that had this rank in the last turn has ended, or is this one."""
    pid, since = (int(word) for word in other.split())
    if pid != os.getpid() and since and started_at(pid) == since:
        raise ArgumentError(
            f"rank must be one that no other process has, but got {rank}, which process {pid} has"
        )


def _check_size(segment: Segment, rank: int, size: int) -> None:
    """Check that rank 0 has the same number of ranks; else end the others' waits."""
    expected = segment.layout.n_pes
    if size == expected:
        return
    text = f"world_size must be {expected}, as rank 0 has it, but got {size}"
    publish_stop(segment, PEER_FAILED, f"rank {rank} has not joined: {text}")
    segment.close()
    raise ArgumentError(text)
