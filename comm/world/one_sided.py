"""``OneSided``: put, get, atomics and signals, done when the call returns.

*Fast paths.* ``put``, ``get``, ``signal_op`` and ``wait_until`` (in :mod:`emu.comm.world.waiting`) begin with a
chain of conditions, cheapest first, under which one kernel call is all there is to do. Each chain must imply
every check of the general path behind it (:mod:`emu.comm.world.transfer`, ``_word``, ``_row``): the array is alive
and of this group, the member exists, dtype, shape, bounds and value fit. They are written out in each method,
because a function that tested them would take a third of the time of the whole call. Arguments for which a
condition cannot even be evaluated raise one of ``UNFIT``; the general path then says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from emu.comm.arrays import Array
from emu.comm.ops import AtomicOp
from emu.comm.sync import entry_points, signal_numbers, signals
from emu.comm.sync.entry_points import atomic, put_dense, put_short
from emu.comm.world import transfer
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.checks import check
from emu.comm.world.waiting import UNFIT, Waiting, encode, word_operation

# Names that the fast paths look up on every call.
_ndarray, _SET, _ADD = np.ndarray, AtomicOp.SET, AtomicOp.ADD
_SET_WORD = signal_numbers.SET
_SHORT_BYTES = signals.SHORT_BYTES


class OneSided(Waiting):
    """A group whose members store to, load from and signal each other."""

    _plain: ClassVar[type[OneSided]]
    """The class whose ``put``, ``get`` and ``put_signal`` the operations made of them call.

    A subclass that models their time names itself. One that only watches calls does not, and so sees
    each call of the program once.
    """

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
        """Store ``src`` into ``dst`` on PE ``pe``; complete there when it returns.

        Args:
            dst: Target; a view made by slicing will do.
            src: An ndarray of the target's dtype, any strides; or a Python scalar or list.
            pe: Member to store to.
            offsets: Index in ``dst`` where the tile starts, one per axis. Default: ``src`` has
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
                and not dst.root.freed
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
        out: Output | None = None,
    ) -> Array:
        """Fetch a tile of ``src`` from PE ``pe``.

        Args:
            src: Source; a view will do.
            pe: Member to fetch from.
            offsets: Index where the tile starts, one per axis. Default: the origin.
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
                and not src.root.freed
            ):
                tile = np.empty(src.shape, src.dtype)
                entry_points.get_dense(self.me, self.members[pe], src.offset, id(tile), src.nbytes)
                return tile
        except UNFIT:
            pass
        return transfer.get(self, src, pe, offsets, shape, out)

    def _store_rows(self, offset: int, values: Array, pe: int) -> None:
        """Store a C-contiguous array at an offset of a member's heap as :meth:`put` does; nothing is checked.

        For front ends that have checked it themselves, on groups that do what they are told and no more, or record it.
        """
        nbytes = values.nbytes
        store = put_short if nbytes <= _SHORT_BYTES else put_dense
        store(self.me, self.members[pe], offset, id(values), nbytes)

    def _load_rows(self, offset: int, target: Array, pe: int) -> None:
        """Fill a C-contiguous array from an offset of a member's heap as :meth:`get` does; else as :meth:`_store_rows`."""
        entry_points.get_dense(self.me, self.members[pe], offset, id(target), target.nbytes)

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
        """Store ``src`` as :meth:`put` does, then signal as :meth:`signal_op` does, on the same PE.

        A PE that sees the signal sees the data.

        Raises:
            ArgumentError: Any argument is wrong. Nothing was stored, and nothing signalled.
        """
        world_pe, offset, size = self._word(signal, pe, index)
        bits, operation = encode(signal.dtype, value), word_operation("sig_op", sig_op)
        self._plain.put(self, dst, src, pe, offsets=offsets, op=op)
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
        """Add to element ``index`` (C order) on PE ``pe`` atomically; return its old value."""
        return self._atomic(target, pe, index, signal_numbers.ADD, value, 0)

    def swap(self, target: SymmetricArray, value: int, pe: int, *, index: int = 0) -> int:
        """Replace element ``index`` on PE ``pe`` atomically; return its old value."""
        return self._atomic(target, pe, index, signal_numbers.SWAP, value, 0)

    def compare_swap(
        self, target: SymmetricArray, expected: int, value: int, pe: int, *, index: int = 0
    ) -> int:
        """Replace element ``index`` if it is ``expected``, atomically; return its old value."""
        return self._atomic(target, pe, index, signal_numbers.CAS, value, expected)

    def fetch(self, target: SymmetricArray, pe: int, *, index: int = 0) -> int:
        """Read element ``index`` on PE ``pe`` atomically."""
        return self._atomic(target, pe, index, signal_numbers.FETCH, 0, 0)

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
                and not signal.root.freed
            ):
                size = signal.itemsize
                offset = signal.offset + index * size
                atomic(self.me, self.members[pe], offset, size, operation, value, 0)
                return
        except UNFIT:
            pass
        self._atomic(signal, pe, index, operation, value, 0, "signal")


OneSided._plain = OneSided
