"""``World`` and ``Group``: who am I, and what passes between us.

The World is the Group of all PEs. A group is any subset, made by name; every ``pe`` argument counts
within the group whose method is called. OpenSHMEM 1.5 gives the meaning. What differs, because memory
is shared and each operation is complete at its target when the call returns: ``quiet`` and
``fence`` are memory fences, and there are no separate non-blocking forms.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from emu.comm.errors import ArgumentError, CommError, SymmetricMemoryError, UnknownGroupError
from emu.comm.layout import GROUPS, KEY_BYTES
from emu.comm.link_model import Link
from emu.comm.memory.heap import Heap
from emu.comm.memory.segment import Segment
from emu.comm.ops import AtomicOp
from emu.comm.sync import entry_points, signals
from emu.comm.sync.entry_points import atomic, put_dense, put_short
from emu.comm.world import transfer
from emu.comm.world.agreement import BARRIER, mismatch, pass_barrier
from emu.comm.world.array import SymmetricArray, symmetric
from emu.comm.world.checks import check, extents_of
from emu.comm.world.collectives import Collectives
from emu.comm.world.waiting import UNFIT, Waiting, encode, word_operation
from emu.kernels.core.dtypes import DTYPES, KINDS
from emu.kernels.core.messages import shown

if TYPE_CHECKING:
    from emu.comm.server.server import Server

_logger = logging.getLogger("emu.comm")

# Names that the fast paths look up on every call.
_ndarray, _SET, _ADD = np.ndarray, AtomicOp.SET, AtomicOp.ADD
_SET_WORD = signals.SET
_SHORT_BYTES = signals.SHORT_BYTES
_BARRIER, _DONE = BARRIER, signals.DONE


class Group(Waiting, Collectives):
    """A set of PEs that share symmetric memory, signals, barriers and collectives.

    Attributes:
        name: Its name; unique in the world.
        my_pe: This PE's number in the group.
        n_pes: Number of members.
        members: World numbers of the members, in group order.
    """

    def __init__(
        self,
        segment: Segment,
        heap: Heap,
        me: int,
        name: str,
        members: tuple[int, ...],
        index: int,
        world_pe: int,
    ) -> None:
        self.segment = segment
        self.heap = heap
        self.me = me
        self.name = name
        self.members = members
        self.n_pes = len(members)
        self.my_pe = members.index(world_pe)
        self.index = index
        layout = segment.layout
        self.mine = segment.address + layout.heaps + world_pe * layout.stride
        self._number = {member: i for i, member in enumerate(members)}
        self._barrier = segment.address + segment.layout.groups + index * segment.layout.group_bytes
        self._allocated = 0
        self._by_key: dict[str, SymmetricArray] = {}
        self._keys: dict[int, str] = {}  # of the same arrays, by their place in the table
        self.server: Server | None = (
            None  # made by emu.comm.server.server when it is first asked for
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, my_pe={self.my_pe}, n_pes={self.n_pes})"

    @property
    def link(self) -> Link | None:
        """The emulated link between the PEs; None in a world without one."""
        return self.segment.link

    # --- members ---------------------------------------------------------------------------

    def world_pe(self, pe: int) -> int:
        """Return the world number of member ``pe``.

        Raises:
            ArgumentError: ``pe`` is not in ``[0, n_pes)``.
        """
        if type(pe) is int and 0 <= pe < self.n_pes:
            return self.members[pe]
        return self.members[check.index("pe", pe, self.n_pes, f" for group {self.name!r}")]

    def route(self, array: SymmetricArray, pe: int, name: str = "array") -> int:
        """Return the world number of member ``pe`` after checking that it holds ``array``."""
        symmetric(name, array).check_alive()
        world_pe = self.world_pe(pe)
        if array.group is self:
            return world_pe
        if array.group.segment is not self.segment:
            raise ArgumentError(f"{name} must be of this world, but got {array!r} of another one")
        if world_pe not in array.group._number:
            raise ArgumentError(
                f"pe must hold {name}, {array!r} of group {array.group.name!r}, but PE {pe} of "
                f"group {self.name!r} (world PE {world_pe}) is not a member of it"
            )
        return world_pe

    # --- symmetric memory ------------------------------------------------------------------

    def alloc(
        self,
        shape: int | Sequence[int],
        dtype: Any,
        *,
        name: str = "",
        key: str | None = None,
        poison: bool = True,
    ) -> SymmetricArray:
        """Allocate a symmetric array; every member calls it with the same arguments.

        There is no barrier in it: the first member to come allocates for all, so the memory is valid,
        and clear, on every PE when any call returns.

        Args:
            shape: Extent along each axis, at most 8; extents of 0 are allowed.
            dtype: bool, int8 to int64, uint8 to uint64, float16, bfloat16, float32 or float64.
            name: What reports call it.
            key: Calls match by their order in the group; with ``key`` they match by it instead, and
                a second call with the key of a live array returns that array.
            poison: False has it zeroed even in a world launched with ``poison=True``: for signals,
                whose meaning starts at zero.

        Returns:
            The array, zeroed (or poisoned, where the world was launched so), aligned to 64 bytes.

        Raises:
            ArgumentError: A bad shape, dtype or key.
            SymmetricMemoryError: No room, or members asked for different arrays.
        """
        kind = check.dtype("dtype", dtype)
        if kind not in KINDS:
            known = ", ".join(str(d) for d in DTYPES)
            raise ArgumentError(f"dtype must be one of {known}, but got {kind}")
        extents = extents_of(shape, kind.itemsize)
        check.text("name", name)
        poison = check.flag("poison", poison)
        if key is not None:
            key = check.text("key", key, KEY_BYTES - 1)
        if key is not None and key in self._by_key:
            known_array = self._by_key[key]
            if known_array.shape != extents or known_array.dtype != kind:
                raise SymmetricMemoryError(
                    f"key {key!r} names {known_array!r}, but shape {extents} {kind} was asked for"
                )
            return known_array
        label = f"#{self._allocated}" if key is None else f"={key}"
        self._allocated += key is None  # the call has its number, whether there is room or not
        index = self.heap.allocate(
            self.index, self.members, label, extents, kind, name, poison=poison
        )
        array = self._open(index)
        if key is not None:
            self._remember(key, array)
        return array

    def _remember(self, key: str, array: SymmetricArray) -> None:
        self._by_key[key] = array
        self._keys[array.index] = key

    def _open(self, index: int) -> SymmetricArray:
        offset, shape, dtype, _, name = self.heap.entry(index)
        return SymmetricArray(self, offset, shape, dtype, name, index=index)

    def find_allocs(self, prefix: str) -> list[SymmetricArray]:
        """Return the live arrays whose ``key`` starts with ``prefix``, also those made elsewhere."""
        found = []
        check.text("prefix", prefix)
        for index in self.heap.find(self.index, f"={prefix}"):
            key = self.heap.entry(index)[3][1:]
            if key not in self._by_key:
                self._remember(key, self._open(index))
            found.append(self._by_key[key])
        return found

    def release(self, array: SymmetricArray) -> None:
        """Count this PE's free of a whole array; :meth:`SymmetricArray.free` calls it."""
        if (
            symmetric("array", array).group is not self
            or not array.freed
            or array._root is not array
        ):
            raise ArgumentError(
                f"array must be one that group {self.name!r} is freeing, but got {array!r}: call its free()"
            )
        key = self._keys.pop(array.index, None)
        if key is not None:
            self._by_key.pop(key, None)
        self.heap.release(array.index)

    def report_recovery(self, array: SymmetricArray, world_pe: int) -> None:
        """Log that a lock was recovered from a dead PE."""
        symmetric("array", array)
        check.index("world_pe", world_pe, self.segment.layout.n_pes)
        _logger.warning(
            "PE %d recovered the lock of a region of %s on PE %d from a PE that died while adding; "
            "the region may be half written",
            self.my_pe,
            array.label,
            world_pe,
        )

    # --- put and get -----------------------------------------------------------------------

    def put(
        self,
        dst: SymmetricArray,
        src: Any,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """Store ``src`` into ``dst`` on PE ``pe``; complete there when it returns.

        Args:
            dst: Target; a view made by slicing will do.
            src: An ndarray of the target's dtype, any strides; or a Python scalar or list.
            pe: Member to store to.
            offsets: Where in ``dst`` the tile starts, an index an axis. Default: ``src`` has
                ``dst``'s shape.
            op: ``SET`` replaces; no element tears. ``ADD`` adds, each element atomically
                against every other ADD, rounding in the dtype (integers wrap, booleans are or-ed).

        Raises:
            ArgumentError: Wrong dtype, rank, bounds or PE. Nothing was stored.
        """
        # The common store, checked in the order of cheapness: no call but the kernel's.
        try:
            if (
                offsets is None
                and type(src) is _ndarray
                and src.dtype is dst.dtype
                and src.shape == dst.shape
                and dst.dense
                and dst.group is self
                and 0 <= pe < self.n_pes
                and src.flags.c_contiguous
                and not dst._root.freed
            ):
                if op is _SET:
                    nbytes = dst.nbytes
                    store = put_short if nbytes <= _SHORT_BYTES else put_dense
                    store(self.me, self.members[pe], dst.offset, id(src), nbytes)
                    return
                if op is _ADD and dst.nbytes:
                    recovered = entry_points.add_dense(
                        self.me,
                        self.members[pe],
                        dst.offset,
                        id(src),
                        dst.kind,
                        dst.itemsize,
                        dst.nbytes,
                    )
                    if recovered:
                        self.report_recovery(dst, self.members[pe])
                    return
        except UNFIT:
            pass
        add = op is _ADD or (op is not _SET and check.choice("op", op, AtomicOp) is _ADD)
        transfer.put(self, dst, src, pe, offsets, add)

    def get(
        self,
        src: SymmetricArray,
        pe: int,
        *,
        offsets: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        out: Any = None,
    ) -> np.ndarray[Any, Any]:
        """Fetch a tile of ``src`` from PE ``pe``.

        Args:
            src: Source; a view will do.
            pe: Member to fetch from.
            offsets: Where the tile starts. Default: the origin.
            shape: Its extent. Default: up to the end of ``src``.
            out: Array to fill. Default: a new one.

        Returns:
            The tile.

        Raises:
            ArgumentError: Wrong rank, bounds, PE or ``out``.
        """
        try:
            if (
                offsets is None
                and shape is None
                and out is None
                and src.dense
                and src.group is self
                and 0 <= pe < self.n_pes
                and not src._root.freed
            ):
                tile = np.empty(src.shape, src.dtype)
                entry_points.get_dense(self.me, self.members[pe], src.offset, id(tile), src.nbytes)
                return tile
        except UNFIT:
            pass
        return transfer.get(self, src, pe, offsets, shape, out)

    def put_signal(
        self,
        dst: SymmetricArray,
        src: Any,
        pe: int,
        signal: SymmetricArray,
        value: int,
        *,
        index: int = 0,
        offsets: Sequence[int] | None = None,
        op: AtomicOp = AtomicOp.SET,
        sig_op: AtomicOp = AtomicOp.SET,
    ) -> None:
        """:meth:`put`, then :meth:`signal_op` on the same PE: who sees the signal sees the data.

        Raises:
            ArgumentError: Any argument is wrong. Nothing was stored, and nothing signalled.
        """
        world_pe, offset, size = self._word(signal, pe, index)
        bits, operation = encode(signal.dtype, value), word_operation("sig_op", sig_op)
        self.put(dst, src, pe, offsets=offsets, op=op)
        atomic(self.me, world_pe, offset, size, operation, bits, 0)

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
        world_pe, offset, size = self._word(array, pe, index, name)
        bits = encode(array.dtype, value)
        old = atomic(
            self.me,
            world_pe,
            offset,
            size,
            operation,
            bits,
            encode(array.dtype, expected, "expected"),
        )
        return int(old) if old >= 0 or array.dtype.kind == "i" else int(old) + (1 << 8 * size)

    def fetch_add(self, target: SymmetricArray, value: int, pe: int, *, index: int = 0) -> int:
        """Add to element ``index`` (C order) on PE ``pe`` atomically; return what was there."""
        return self._atomic(target, pe, index, signals.ADD, value, 0)

    def swap(self, target: SymmetricArray, value: int, pe: int, *, index: int = 0) -> int:
        """Replace element ``index`` on PE ``pe`` atomically; return what was there."""
        return self._atomic(target, pe, index, signals.SWAP, value, 0)

    def compare_swap(
        self, target: SymmetricArray, expected: int, value: int, pe: int, *, index: int = 0
    ) -> int:
        """Replace element ``index`` if it is ``expected``, atomically; return what was there."""
        return self._atomic(target, pe, index, signals.CAS, value, expected)

    def fetch(self, target: SymmetricArray, pe: int, *, index: int = 0) -> int:
        """Read element ``index`` on PE ``pe`` atomically."""
        return self._atomic(target, pe, index, signals.FETCH, 0, 0)

    def signal_op(
        self,
        signal: SymmetricArray,
        value: int,
        pe: int,
        *,
        op: AtomicOp = AtomicOp.SET,
        index: int = 0,
    ) -> None:
        """SET or ADD a signal word on PE ``pe``; everything stored before is visible with it."""
        operation = _SET_WORD if op is _SET else word_operation("op", op)
        try:
            if (
                type(value) is int
                and type(index) is int
                and signal.group is self
                and 0 <= pe < self.n_pes
                and 0 <= index < signal.words
                and signal.low_word <= value <= signal.high_word
                and not signal._root.freed
            ):
                size = signal.itemsize
                offset = signal.offset + index * size
                atomic(self.me, self.members[pe], offset, size, operation, value, 0)
                return
        except UNFIT:
            pass
        self._atomic(signal, pe, index, operation, value, 0, "signal")

    # --- ordering --------------------------------------------------------------------------

    def fence(self) -> None:
        """Order this PE's stores to each PE: those before it are seen before those after it."""
        signals.full_fence()

    def quiet(self) -> None:
        """Return when all stores of this PE are complete at their targets."""
        signals.full_fence()

    def barrier(self) -> None:
        """Wait for every member, with all stores of all of them complete.

        Raises:
            CollectiveMismatchError: A member called a collective of this group instead. All raise.
            DeadlockError, PEDiedError, PeerFailedError: A member never comes.
        """
        arrived = entry_points.barrier_arrive(self.me, self._barrier, self.n_pes, _BARRIER)
        if arrived != _DONE and not pass_barrier(self, arrived, self.name):
            raise mismatch(self, "barrier()")

    def sync(self) -> None:
        """Wait for every member. Stores are complete when issued here, so this is :meth:`barrier`."""
        self.barrier()


class World(Group):
    """The group of all PEs of a launch; :func:`world` returns it."""

    _group_type: type[Group] = Group

    def __init__(self, segment: Segment, me: int, pe: int, *, poison: bool) -> None:
        members = tuple(range(segment.layout.n_pes))
        heap = Heap(segment, me, pe, poison=poison)
        super().__init__(segment, heap, me, "world", members, 0, pe)
        self._groups: dict[str, Group] = {"world": self}
        self._on_finish: list[Callable[[], None]] = []

    def on_finish(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called when this PE's function has returned, last added first."""
        if not callable(callback):
            raise ArgumentError(f"callback must be a function, but got {shown(callback)}")
        self._on_finish.append(callback)

    def finish(self) -> None:
        """Run the callbacks of :meth:`on_finish`; the PE's bootstrap calls it."""
        while self._on_finish:
            self._on_finish.pop()()
        for group in self._groups.values():
            if group.server is not None:
                group.server.stop()

    def group(self, name: str, pes: Sequence[int] | None = None) -> Group:
        """Make the group ``name`` of PEs ``pes``, or find it.

        The members call it with the same list, in any order and without waiting for each other.

        Args:
            name: 1 to 128 characters.
            pes: World numbers of the members in group order. Default: look the name up.

        Returns:
            The group.

        Raises:
            UnknownGroupError: Without ``pes``, a name that is not known.
            ArgumentError: A bad name or list, or a list that is not the one another member gave.
        """
        name = check.text("name", name)
        if not 1 <= len(name) <= 128:
            raise ArgumentError(f"name must have 1 to 128 characters, but got {len(name)}")
        members = None if pes is None else self._check_members(name, pes)
        known = self._groups.get(name)
        if known is None:
            with self.heap.table_lock():
                index, there = self._find_or_make(name, members)
            if self.my_pe not in there:
                raise ArgumentError(
                    f"pes must contain this PE {self.my_pe} for group {name!r}, but got {there}"
                )
            make = self._group_type
            known = make(self.segment, self.heap, self.me, name, there, index, self.my_pe)
            self._groups[name] = known
        if members is not None and members != known.members:
            raise ArgumentError(
                f"pes must be the same on every member of group {name!r}, but it has "
                f"{list(known.members)} and PE {self.my_pe} gave {list(members)}"
            )
        return known

    def _check_members(self, name: str, pes: Sequence[int]) -> tuple[int, ...]:
        members = check.integers("pes", pes)
        if not members or len(set(members)) != len(members):
            raise ArgumentError(f"pes must be distinct and not empty, but got {list(members)}")
        for pe in members:
            if not 0 <= pe < self.n_pes:
                raise ArgumentError(f"pes must be in [0, {self.n_pes}), but got {shown(pe)}")
        if self.my_pe not in members:
            raise ArgumentError(
                f"pes must contain this PE {self.my_pe} for group {name!r}, but got {list(members)}"
            )
        return members

    def _find_or_make(
        self, name: str, members: tuple[int, ...] | None
    ) -> tuple[int, tuple[int, ...]]:
        layout = self.segment.layout
        encoded = name.encode()  # at most 128 characters, so at most NAME_BYTES
        for index in range(1, GROUPS):
            start = layout.groups + index * layout.group_bytes
            size = layout.group_dtype.itemsize
            entry = self.segment.bytes[start : start + size].view(layout.group_dtype)[0]
            if entry["used"] and entry["name"] == encoded:
                return index, tuple(int(p) for p in entry["members"][: entry["n_pes"]])
            if not entry["used"]:
                if members is None:
                    raise UnknownGroupError(
                        f"name must be that of a known group, but {name!r} is not known; make it on each of its members with "
                        f'world.group("{name}", [PE numbers])'
                    )
                entry["members"][: len(members)] = members
                entry["n_pes"], entry["name"], entry["used"] = len(members), encoded, 1
                return index, members
        raise ArgumentError(
            f"a world holds at most {GROUPS} groups, but {name!r} would be one more"
        )


_current: World | None = None


def set_world(world: World | None) -> None:
    """Make ``world`` the one of this process; the launcher's side of a PE calls it."""
    global _current
    _current = world


def current() -> World | None:
    """Return the World of this process, or None if it is no PE."""
    return _current


def world() -> World:
    """Return the World of this PE.

    Raises:
        CommError: This process is not a PE.
    """
    if _current is None:
        raise CommError(
            "emu.world() must be called in a PE, but this process is none: run the script with "
            "`emu run -n N script.py`, or start PEs with emu.launch(fn, n_pes)"
        )
    return _current


__all__ = ["Group", "World", "set_world", "world"]
