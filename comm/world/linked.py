"""The World and the groups of a launch with an emulated link.

Each operation is done at once, as without a link, and then sleeps for the rest of its modelled
time, which is:

* **put** of n bytes: n / bandwidth on the link to the target, after what was sent there before, and
  one latency. ``put_signal`` issues its signal then, and that costs no more.
* **get**: one latency for the request, then as a put from the owner to this PE.
* **signal_op**: one latency, and then it is done: the target sees it no earlier.
* **fetch_add, swap, compare_swap, fetch**: one latency, then the operation, then one latency.
* **Non-blocking forms**: as the blocking ones, in the call.
* **Elements that a kernel stores** (``emu.shmem.store``): as a put of their bytes; **that it loads**: as a get;
  **that it updates**: as a put, and then as much on the way back.
* **Locks**: as the atomics of which they are made: one on member 0, one on each PE that comes before or after.
* **barrier**: one latency before this PE arrives; it lasts one latency more than without a link.
* **Collectives**: a full mesh. What the others send to this PE begins to travel when all have
  come, each block over the link of its pair, all at the same time; the call lasts until the last is
  here. ``all_reduce`` is a ``reduce_scatter`` and an ``all_gather``: twice 1 / n_pes of the array over each
  link, and two latencies.

Transfers within one PE, or of no bytes, cost nothing. Neither do allocation and waiting for signals.

A world without a link has none of this: :func:`emu.comm.world.making.make_world` chooses the class once.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.memory.stop import check_stopped
from emu.comm.ops import AtomicOp
from emu.comm.sync import link
from emu.comm.world.allocation import Allocation
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.collective_header import CollectiveHeader
from emu.comm.world.exchange import Exchange
from emu.comm.world.group import Group
from emu.comm.world.prepared import NothingPrepared
from emu.comm.world.waiting import encode, word_operation
from emu.comm.world.world import World
from emu.kernels.core.jit import entry_when_called

_reserve_from: Callable[..., int] = entry_when_called(link.reserve_from, 5)
_sleep_slice: Callable[..., int] = entry_when_called(link.sleep_slice, 2)
_now = time.monotonic_ns  # the same clock as emu.comm.sync.clock.clock_ns


def await_deadline(group: Group, deadline: int) -> None:
    """Sleep until ``deadline``, a result of :func:`emu.comm.sync.link.reserve`; 0 returns at once.

    Signals are handled meanwhile, so that a main thread may call it.

    Raises:
        StoppedError: The world was stopped.
    """
    while not _sleep_slice(group.me, deadline):
        check_stopped(group.segment)


class LinkedExchange(Exchange):
    """An exchange that remembers when all members had come."""

    opened = 0

    def __init__(self, group: Allocation) -> None:
        super().__init__(group)
        self.prepared = NothingPrepared(self)

    def _open(self, header: CollectiveHeader, plan: Words, source: int, target: int) -> Words:
        table = super()._open(header, plan, source, target)
        self.opened = _now()
        return table


class LinkedGroup(Group):
    """A group whose members are connected by emulated links."""

    _exchange_type = LinkedExchange

    @functools.cached_property
    def _here(self) -> int:
        """World number of this PE."""
        return self.members[self.my_pe]

    @functools.cached_property
    def _latency(self) -> int:
        """Latency of the links, in nanoseconds."""
        assert self.link is not None
        return self.link.latency_ns

    # --- time ------------------------------------------------------------------------------

    def _carry(self, source: int, target: int, nbytes: int, earliest: int) -> None:
        """Sleep until a transfer between two PEs (world numbers) would be complete."""
        deadline = _reserve_from(self.me, source, target, nbytes, earliest)
        if deadline:
            await_deadline(self, deadline)

    def _pass_latency(self, world_pe: int) -> None:
        if self._latency and world_pe != self._here:
            await_deadline(self, _now() + self._latency)

    def carry_elements(self, pe: int, sent: int, fetched: int) -> None:
        """Sleep for as long as bytes would travel that a kernel has sent to PE ``pe`` of the world, and fetched from it.

        What is only fetched is asked for first, which takes a latency.
        """
        earliest = _now()
        if sent:
            self._carry(self._here, pe, sent, earliest)
            earliest = _now()
        elif pe != self._here:
            earliest += self._latency
        if fetched:
            self._carry(pe, self._here, fetched, earliest)

    # --- put and get -----------------------------------------------------------------------

    def put(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Call :meth:`Group.put`, and return when the tile would have arrived."""
        begun = _now()
        super().put(dst, src, pe, offsets=offsets, op=op)
        nbytes = getattr(src, "nbytes", None)
        if nbytes is None:
            nbytes = np.asarray(src, dst.dtype).nbytes
        self._carry(self._here, self.members[pe], int(nbytes), begun)

    def get(
        self,
        src: SymmetricArray,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        out: Output | None = None,
    ) -> Array:
        """Call :meth:`Group.get`, and return when the request would have been answered."""
        begun = _now()
        tile = super().get(src, pe, offsets=offsets, shape=shape, out=out)
        self._carry(self.members[pe], self._here, tile.nbytes, begun + self._latency)
        return tile

    # --- atomics, signals, barrier ---------------------------------------------------------

    def _atomic(
        self,
        array: SymmetricArray,
        pe: int,
        index: int,
        operation: int,
        value: int,
        expected: int,
        name: str = "target",
    ) -> int:
        world_pe = self._word(array, pe, index, name)[0]
        encode(array.dtype, value)
        encode(array.dtype, expected, "expected")
        self._pass_latency(world_pe)
        old = super()._atomic(array, pe, index, operation, value, expected)
        self._pass_latency(world_pe)
        return old

    def signal_op(
        self,
        signal: SymmetricArray,
        value: int,
        pe: int,
        *,
        op: AtomicOp = AtomicOp.SET,
        index: int = 0,
    ) -> None:
        """Signal as :meth:`Group.signal_op` does, one latency later."""
        operation = word_operation("op", op)
        world_pe = self._word(signal, pe, index)[0]
        encode(signal.dtype, value)
        self._pass_latency(world_pe)
        super()._atomic(signal, pe, index, operation, value, 0)

    def barrier(self) -> None:
        """Wait as :meth:`Group.barrier` does, until one latency after the last member has come."""
        if self._latency and self.n_pes > 1:
            await_deadline(self, _now() + self._latency)
        super().barrier()

    # --- collectives -----------------------------------------------------------------------

    def _reserve_all(self, blocks: Iterable[tuple[int, int]], earliest: int) -> int:
        """Reserve the links of blocks (member, bytes) sent here; return the time when all are here, or 0."""
        return max(
            (
                _reserve_from(self.me, self.members[pe], self._here, int(nbytes), earliest)
                for pe, nbytes in blocks
            ),
            default=0,
        )

    def _opened(self) -> int:
        """Return when all members had come to the collective just done."""
        assert isinstance(self._exchange, LinkedExchange)
        return self._exchange.opened

    def _await(self, *blocks: tuple[int, int]) -> None:
        """Sleep until blocks (member, bytes) of the collective just done would be here."""
        await_deadline(self, self._reserve_all(blocks, self._opened()))

    def _await_all(self, nbytes: int) -> None:
        """Sleep until a block of ``nbytes`` from each member would be here."""
        self._await(*((pe, nbytes) for pe in range(self.n_pes)))

    def broadcast(self, array: Input | None, root: int = 0, *, out: Output | None = None) -> Array:
        """Call :meth:`Group.broadcast`, and return when the array would be here."""
        result = super().broadcast(array, root, out=out)
        self._await((root, result.nbytes))
        return result

    def scatter(
        self, array: Input | None = None, root: int = 0, *, out: Output | None = None
    ) -> Array:
        """Call :meth:`Group.scatter`, and return when the slice would be here."""
        result = super().scatter(array, root, out=out)
        self._await((root, result.nbytes))
        return result

    def gather(self, array: Input, root: int = 0, *, out: Output | None = None) -> Array | None:
        """Call :meth:`Group.gather`, and return on the root when all arrays would be here."""
        result = super().gather(array, root, out=out)
        if result is not None:
            self._await_all(result.nbytes // self.n_pes)
        return result

    def all_gather(self, array: Input, *, out: Output | None = None) -> Array:
        """Call :meth:`Group.all_gather`, and return when all arrays would be here."""
        result = super().all_gather(array, out=out)
        self._await_all(result.nbytes // self.n_pes)
        return result

    def all_to_all(self, array: Input, *, out: Output | None = None) -> Array:
        """Call :meth:`Group.all_to_all`, and return when all rows would be here."""
        result = super().all_to_all(array, out=out)
        self._await_all(result.nbytes // self.n_pes)
        return result

    def all_to_all_v(
        self, array: Input, send_counts: Sequence[int], *, out: Output | None = None
    ) -> tuple[Array, Array]:
        """Call :meth:`Group.all_to_all_v`, and return when all rows would be here."""
        data, counts = super().all_to_all_v(array, send_counts, out=out)
        row_bytes = data.nbytes // len(data) if len(data) else 0
        self._await(*((pe, n * row_bytes) for pe, n in enumerate(counts.tolist())))
        return data, counts

    def permute(
        self, array: Input, pairs: Sequence[tuple[int, int]], *, out: Output | None = None
    ) -> Array:
        """Call :meth:`Group.permute`, and return when the array would be here."""
        if not isinstance(pairs, (list, tuple)):
            pairs = list(pairs) if isinstance(pairs, Iterable) else pairs
        result = super().permute(array, pairs, out=out)
        self._await(*((s, result.nbytes) for s, t in pairs if t == self.my_pe))
        return result

    def all_reduce(self, array: Input, op: str = "sum", *, out: Output | None = None) -> Array:
        """Call :meth:`Group.all_reduce`, and return when all parts would be reduced and here."""
        result = super().all_reduce(array, op, out=out)
        part = -(-result.nbytes // self.n_pes)
        blocks = [(pe, part) for pe in range(self.n_pes)]
        reduced = self._reserve_all(blocks, self._opened())
        await_deadline(self, self._reserve_all(blocks, reduced))
        return result

    def reduce_scatter(self, array: Input, op: str = "sum", *, out: Output | None = None) -> Array:
        """Call :meth:`Group.reduce_scatter`, and return when all rows would be here."""
        result = super().reduce_scatter(array, op, out=out)
        self._await_all(result.nbytes)
        return result


class LinkedWorld(LinkedGroup, World):
    """The group of all PEs of a launch with an emulated link."""

    _group_type = LinkedGroup


LinkedGroup._plain = LinkedGroup
