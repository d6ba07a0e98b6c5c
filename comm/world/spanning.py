"""The World and the groups of a launch over several hosts, as one of its PEs knows them.

Whoever is a member on this host is reached as on one host. For members on others every operation goes through this
PE's port to the agent (:mod:`emu.comm.hosts.agent`), after the same checks of its arguments. A put returns when its source
may be changed; ``quiet`` waits for the answers. But it promises what it does on one host: who sees what this PE
stores or signals afterwards, on whichever host, sees the put. Requests for one host are done there in the order in which
they were posted; before anything goes elsewhere (:meth:`Port.settle`), or to a PE here, their answers are waited for. Plain
stores of a program into its own memory are not seen by this module: before one that others poll, a program calls
``quiet``, as OpenSHMEM demands. A non-blocking put promises nothing before ``quiet``.

What has no agent in between cannot reach another host: loads and stores through ``on``, ``reading`` and ``writing``.
They are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np

from emu.comm.arrays import Array
from emu.comm.errors import ArgumentError
from emu.comm.hosts.places import Places
from emu.comm.hosts.port import Port
from emu.comm.memory.segment import Segment
from emu.comm.ops import AtomicOp
from emu.comm.sync import signals
from emu.comm.world import recording, transfer
from emu.comm.world.agreed_heap import AgreedHeap
from emu.comm.world.agreement import BARRIER, mismatch, pass_barrier
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.checks import check
from emu.comm.world.group import Group
from emu.comm.world.membership import Identity, Rows
from emu.comm.world.spanning_exchange import SpanningExchange
from emu.comm.world.waiting import encode, word_operation
from emu.comm.world.world import World

_ADD = AtomicOp.ADD


class SpanningArray(SymmetricArray):
    """A symmetric array of which some copies lie on other hosts."""

    __slots__ = ()

    def on(self, pe: int) -> Array:
        """Return a PE's memory as an ndarray, if that PE lives on this host.

        Raises:
            ArgumentError: It lives on another host, or is no member.
            SymmetricMemoryError: The array was freed.
        """
        group = cast("SpanningGroup", self.group)
        world_pe = group.distant(pe)
        if world_pe is not None:
            raise ArgumentError(
                f"pe must be on this host for on(), reading() and writing(), whose loads and stores cannot reach "
                f"another, but PE {pe} is on {group.places.describe(group.places.host_of(world_pe))}; use get() and put()"
            )
        return super().on(pe)


class SpanningGroup(Group):
    """A group with members on several hosts."""

    _array_type = SpanningArray
    _exchange_type = SpanningExchange

    port: Port
    """This PE's way to other hosts; set where the group is made."""

    @property
    def places(self) -> Places:
        """Where PEs are."""
        return self.port.places

    def distant(self, pe: int) -> int | None:
        """Return the world number of a member on another host; None of one here, and of what is no member."""
        if isinstance(pe, (int, np.integer)) and 0 <= pe < self.n_pes:
            world_pe = self.members[pe]
            return None if world_pe in self.port.places.local else world_pe
        return None

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
        """Store as :meth:`Group.put` does; on another host complete before anything that this PE stores next is seen."""
        if self.distant(pe) is None:
            self.port.settle()
            super().put(dst, src, pe, offsets=offsets, op=op)
        else:
            self._store(dst, src, pe, offsets, op, waits=True)

    def put_nbi(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Start a :meth:`put`; ``quiet`` or ``barrier`` completes it."""
        if self.distant(pe) is None:
            super().put_nbi(dst, src, pe, offsets=offsets, op=op)
        else:
            self._store(dst, src, pe, offsets, op, waits=False)

    def _store(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        offsets: Sequence[int] | None,
        op: AtomicOp,
        *,
        waits: bool,
    ) -> None:
        """Store to a member on another host."""
        add = op is _ADD or check.choice("op", op, AtomicOp) is _ADD
        world_pe = self.route(dst, pe, "dst")
        source = transfer.as_source(src, dst.dtype)
        offset = transfer.window(dst, offsets, source.shape)
        if not source.size:
            return
        place = world_pe, offset
        if waits:
            self.port.settle(self.places.host_of(world_pe))
        self.port.put(place, dst.strides, source, dst.kind, add=add, waits=waits)

    def get(
        self,
        src: SymmetricArray,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        out: Output | None = None,
    ) -> Array:
        """Fetch as :meth:`Group.get` does, also from another host."""
        if self.distant(pe) is None:
            return super().get(src, pe, offsets=offsets, shape=shape, out=out)
        world_pe = self.route(src, pe, "src")
        offset, target = transfer.prepare_get(src, offsets, shape, out)
        if target.size:
            self.port.get((world_pe, offset), src.strides, target)
        return target

    def put_signal(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
        sig_op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Store, then signal, as :meth:`Group.put_signal` does, also on another host."""
        if self.distant(pe) is None:
            self.port.settle()
            super().put_signal(
                *(dst, src, pe, signal, value),
                index=index,
                offsets=offsets,
                op=op,
                sig_op=sig_op,
            )
        else:
            self._store_and_signal(
                dst, src, pe, (signal, index, value, sig_op), offsets, op, waits=True
            )

    def put_signal_nbi(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
        sig_op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Start a :meth:`put_signal`; ``quiet`` or ``barrier`` completes it."""
        if self.distant(pe) is None:
            self.port.settle()
            super().put_signal_nbi(
                *(dst, src, pe, signal, value),
                index=index,
                offsets=offsets,
                op=op,
                sig_op=sig_op,
            )
        else:
            self._store_and_signal(
                dst, src, pe, (signal, index, value, sig_op), offsets, op, waits=False
            )

    def _store_and_signal(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: tuple[SymmetricArray, int, int, AtomicOp],
        offsets: Sequence[int] | None,
        op: AtomicOp,
        *,
        waits: bool,
    ) -> None:
        """Store to a member on another host, and signal behind that: what is sent there does not overtake."""
        array, index, value, how = signal
        world_pe, offset, size = self._word(array, pe, index)
        bits, operation = encode(array.dtype, value), word_operation("sig_op", how)
        self.port.settle(self.places.host_of(world_pe))
        self._store(dst, src, pe, offsets, op, waits=waits)
        self.port.atomic((world_pe, offset), size, operation, bits, 0, waits=False)

    # --- atomics and signals ---------------------------------------------------------------

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
        if self.distant(pe) is None:
            self.port.settle()
            return super()._atomic(array, pe, index, operation, value, expected, name)
        world_pe, offset, size = self._word(array, pe, index, name)
        bits, wanted = encode(array.dtype, value), encode(array.dtype, expected, "expected")
        self.port.settle(self.places.host_of(world_pe))
        old = self.port.atomic((world_pe, offset), size, operation, bits, wanted, waits=True)
        return old if old >= 0 or array.dtype.kind == "i" else old + (1 << 8 * size)

    def signal_op(
        self,
        signal: SymmetricArray,
        value: int,
        pe: int,
        *,
        op: AtomicOp = AtomicOp.SET,
        index: int = 0,
    ) -> None:
        """Signal as :meth:`Group.signal_op` does, also on another host."""
        if self.distant(pe) is None:
            self.port.settle()
            super().signal_op(signal, value, pe, op=op, index=index)
            return
        world_pe, offset, size = self._word(signal, pe, index)
        bits, operation = encode(signal.dtype, value), word_operation("op", op)
        self.port.settle(self.places.host_of(world_pe))
        self.port.atomic((world_pe, offset), size, operation, bits, 0, waits=False)

    # --- ordering --------------------------------------------------------------------------

    def quiet(self) -> None:
        """Return when all stores of this PE are complete at their targets."""
        self.port.quiet()
        signals.full_fence()

    def clear_lock(self, lock: SymmetricArray, *, index: int = 0) -> None:
        """Complete all stores of this PE, and hand a lock on as :meth:`Group.clear_lock` does."""
        self.port.quiet()
        super().clear_lock(lock, index=index)

    def barrier(self) -> None:
        """Wait for every member on every host, with all stores of all of them complete."""
        self.quiet()
        if not pass_barrier(self, self._arrive(BARRIER), self.name):
            raise mismatch(self, "barrier()")

    @cached_property
    def _other_hosts(self) -> tuple[int, ...]:
        return tuple(h for h in self.places.hosts_of(self.members) if h != self.places.here)

    @cached_property
    def _generation(self) -> Array:
        start = self.barrier_address - self.segment.address
        return self.segment.bytes[start + 4 : start + 8].view(np.int32)

    def _arrive(self, tag: int, rows: Rows = ()) -> int:
        """Have this PE counted at the group's barrier on all its hosts, behind what others read there."""
        self.port.quiet()
        generation = int(self._generation[0])  # it stays until this PE has arrived
        self.port.meet(self.index, generation, self._other_hosts, self.n_pes, tag, rows)
        return super()._arrive(tag)


class HereGroup(Group):
    """A group whose members are all on this host, of a World that spans hosts: what it does comes behind what was stored elsewhere."""

    port: Port

    def put(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Store as :meth:`Group.put` does."""
        self.port.settle()
        super().put(dst, src, pe, offsets=offsets, op=op)

    def put_signal(
        self,
        dst: SymmetricArray,
        src: Input,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
        sig_op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Store, then signal, as :meth:`Group.put_signal` does."""
        self.port.settle()
        super().put_signal(
            *(dst, src, pe, signal, value), index=index, offsets=offsets, op=op, sig_op=sig_op
        )

    def signal_op(
        self,
        signal: SymmetricArray,
        value: int,
        pe: int,
        *,
        op: AtomicOp = AtomicOp.SET,
        index: int = 0,
    ) -> None:
        """Signal as :meth:`Group.signal_op` does."""
        self.port.settle()
        super().signal_op(signal, value, pe, op=op, index=index)

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
        self.port.settle()
        return super()._atomic(array, pe, index, operation, value, expected, name)

    def _repeat(
        self, kind: str, detail: object, array: Input | None, out: Output | None
    ) -> Array | None:
        self.port.settle()  # every collective begins with it
        return super()._repeat(kind, detail, array, out)

    def quiet(self) -> None:
        """Return when all stores of this PE are complete at their targets, on other hosts, too."""
        self.port.quiet()
        signals.full_fence()

    def barrier(self) -> None:
        """Wait as :meth:`Group.barrier` does, with stores to other hosts complete."""
        self.port.quiet()
        super().barrier()


class SpanningWorld(SpanningGroup, World):
    """The group of all PEs of a launch over several hosts.

    Args:
        segment: Shared memory of this host.
        me: Address of this PE's block.
        pe: Its number.
        places: Where PEs are.
        poison: Whether new symmetric memory is poisoned.
    """

    _spanning_type: type[SpanningGroup] = SpanningGroup
    _here_type: type[HereGroup] = HereGroup

    def __init__(self, segment: Segment, me: int, pe: int, places: Places, *, poison: bool) -> None:
        self.port = Port(segment, me, pe, places)
        heap = AgreedHeap(segment, me, pe, self.port, poison=poison)
        super().__init__(segment, me, pe, poison=poison, heap=heap)
        self.port.sleep = self._sleep

    def _agree_on(self, name: str, members: tuple[int, ...] | None) -> tuple[int, tuple[int, ...]]:
        index, there = self.port.agree({"call": "group", "name": name, "members": members})
        return index, tuple(there)

    def _new_group(self, identity: Identity) -> Group:
        spans = len(self.places.hosts_of(identity.members)) > 1
        kind: type[SpanningGroup | HereGroup] = self._spanning_type if spans else self._here_type
        group = recording.class_of(kind, recording.active is not None)(identity)
        group.port = self.port
        return group

    def finish(self) -> None:
        """Run the callbacks of :meth:`on_finish`, with all stores to other hosts complete."""
        super().finish()
        self.port.quiet()


SpanningGroup._plain = SpanningGroup
