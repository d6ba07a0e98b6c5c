"""Collectives that a group has called before: checks and tables are kept, and a call is one call of a kernel.

A program calls the same few collectives again and again. The general path (:mod:`emu.comm.world.collectives`) spends
20 to 50 microseconds on checks, a header and tables that are the same each time; what is small takes a tenth of
that to move. So the first call of a kind with some operation, root, dtype and shape leaves a :class:`PreparedCall`,
and the next ones need only dense arrays of that dtype and shape (:mod:`emu.comm.world.prepared_rounds`).

Whatever else comes takes the general path: that is where wrong arguments are told, where arrays in the heap are
used in place, and where members that disagree report it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from emu.comm.arrays import Array, Words
from emu.comm.engine.records import KEPT, NONE
from emu.comm.sync.signal_numbers import DONE
from emu.comm.world.array import Input, Output, SymmetricArray
from emu.comm.world.collective_header import COMPARED, HEADER_WORDS, UNKNOWN, CollectiveHeader
from emu.comm.world.prepared_rounds import BEGIN, CALL, MIXED, RESUME, UNPREPARED, call_entry
from emu.comm.world.staging import FLAT, Reduction, Staging

LARGEST = 256 << 10
"""Inputs and outputs of more bytes are not prepared: their calls take long enough."""

MOST = 256
"""Calls that a group keeps; when there are more it starts again."""

_ndarray = np.ndarray
_PLACES = {name: place for place, name in enumerate(CALL.names or ())}


class PreparedCall:
    """A call without its arrays.

    Attributes:
        number: ``id()`` of its words, for the kernels.
        shape: Shape of the output.
        dtype: Dtype of the output.
        header: The call, for reports.
        spot: Address of what a recorder knows of it; 0: nothing.
    """

    __slots__ = ("_kept", "dtype", "header", "number", "shape", "spot")

    def __init__(
        self, header: CollectiveHeader, shape: tuple[int, ...], words: Words, kept: Sequence[Words]
    ) -> None:
        assert header.dtype is not None
        self.header = header
        self.shape = shape
        self.dtype = header.dtype
        self.number = id(words)
        self.spot = 0
        self._kept = (words, *kept)  # which the kernels know by their numbers


class PreparedCalls:
    """The calls that a group has prepared.

    Args:
        exchange: The staging memory of the group.
    """

    def __init__(self, exchange: Staging) -> None:
        self._exchange = exchange
        self._me = exchange.group.me
        self._barrier = exchange.group.barrier_address
        self._calls: dict[tuple[Any, ...], PreparedCall] = {}

    def call(
        self, kind: str, detail: object, array: Input | None, out: Output | None
    ) -> Array | None:
        """Do a call that is prepared.

        Args:
            kind: Name of the collective.
            detail: Its operation or root, if it has one.
            array: The input.
            out: The output. Default: a new one.

        Returns:
            The output; or None: nothing was done, or a member does something else, and the general path must go on.

        Raises:
            CollectiveMismatchError: The members disagree. Nothing was written.
        """
        if type(array) is SymmetricArray:
            array = array.local
        if type(out) is SymmetricArray:
            out = out.local
        if type(array) is not _ndarray:
            return None
        try:
            call = self._calls.get((kind, detail, array.shape, array.dtype))
        except TypeError:  # what has no hash is a wrong argument
            return None
        if call is None or not array.flags.c_contiguous:
            return None
        if out is None:
            out = np.empty(call.shape, call.dtype)
        elif (
            type(out) is not _ndarray
            or out.shape != call.shape
            or out.dtype != call.dtype
            or not out.flags.carray
        ):
            return None
        arrived = call_entry(self._me, self._barrier, call.number, BEGIN, id(array), id(out))
        if arrived == DONE or self._go_on(call, arrived):
            return out
        return None

    def _go_on(self, call: PreparedCall, arrived: int) -> bool:
        """Wait at barriers and go on behind them; return whether the call was done."""
        exchange = self._exchange
        while arrived != DONE:
            if arrived == UNPREPARED:
                return False
            if arrived == MIXED:
                exchange.resumes = 1  # the general path goes on behind the opening barrier
                return False
            exchange.pass_barrier(call.header, arrived)
            arrived = call_entry(self._me, self._barrier, call.number, RESUME, 0, 0)
        return True

    # --- preparing -------------------------------------------------------------------------

    def _is_wanted(self, key: tuple[Any, ...], *nbytes: int) -> bool:
        return key not in self._calls and min(nbytes) > 0 and max(nbytes) <= LARGEST

    def add_reduction(self, detail: str, reduction: Reduction) -> None:
        """Prepare a reduction like this one, if it is small and takes one round."""
        header, x = reduction.header, self._exchange
        key = (header.kind, detail, header.shape, header.dtype)
        in_bytes, out_bytes = reduction.source.nbytes, reduction.target.nbytes
        if not self._is_wanted(key, in_bytes, out_bytes):
            return
        plan, stage, members = x.plan_reduction(reduction)
        fields = plan_fields(plan)
        if fields["total"] > fields["count"]:
            return
        my, row_bytes = x.group.my_pe, reduction.row_bytes
        members[my, :2] = my * row_bytes, 0
        fields.update(
            rounds=1,
            sync=1,
            delivery=KEPT if fields["sliced"] else NONE,
            in_bytes=in_bytes,
            out_bytes=out_bytes,
            distance=-my * row_bytes,
            in_place=x.is_direct(in_bytes, out_bytes) and reduction.mode != FLAT,
        )
        self._add(key, header, reduction.target.shape, fields, stage, members)

    def add_transfer(
        self,
        detail: int | None,
        header: CollectiveHeader,
        shape: tuple[int, ...],
        stage: Sequence[tuple[int, int, int]],
        pulls: Sequence[tuple[int, int, int]],
        distance: int,
    ) -> None:
        """Prepare a transfer, if it is small and takes one round.

        Args:
            detail: Root, if there is one.
            header: What the members agree on.
            shape: Of the output.
            stage: Blocks to stage: (offset in the input, bytes, offset in the staging buffer).
            pulls: A block from each member that sends here: (member, offset there, offset in the output); the offset
                counts in the member's staging buffer, or in this member's own input.
            distance: Bytes from the output to the input where both may be in the same memory.
        """
        x, dtype = self._exchange, header.dtype
        assert dtype is not None
        key = (header.kind, detail, header.shape, dtype)
        in_bytes, out_bytes = (
            dtype.itemsize * int(np.prod(extents, dtype=np.int64))
            for extents in (header.shape, shape)
        )
        if not self._is_wanted(key, in_bytes, out_bytes) or not pulls:
            return
        nbytes = out_bytes // len(pulls)
        my, chunk = x.group.my_pe, x.chunk
        if nbytes > (x.slot if header.kind == "all_to_all" else chunk):
            return
        rows = [
            (offset, target, nbytes, 0, nbytes)
            if pe == my
            else (int(x.staging[pe]) + offset, target, nbytes, chunk, nbytes)
            for pe, offset, target in pulls
        ]
        fields = plan_fields(x.plan(header))
        fields.update(
            rounds=1,
            sync=1,
            in_bytes=in_bytes,
            out_bytes=out_bytes,
            distance=distance,
            in_place=x.is_direct(in_bytes, out_bytes),
        )
        staged = [(*row, nbytes, 0) for row in stage]
        self._add(key, header, shape, fields, _rows(staged), _rows(rows))

    def _add(
        self,
        key: tuple[Any, ...],
        header: CollectiveHeader,
        shape: tuple[int, ...],
        fields: dict[str, int],
        stage: Words,
        rows: Words,
    ) -> None:
        x = self._exchange
        compared: Words = np.zeros(HEADER_WORDS, np.int64)
        header.write(compared, UNKNOWN, UNKNOWN)
        kept = {
            "stage_from": stage,
            "stage": stage.copy(),
            "rows_from": rows,
            "rows": rows.copy(),
            "header": compared[:COMPARED].copy(),
            "headers": x.headers,
        }
        group = x.group
        fields.update(
            {name: id(words) for name, words in kept.items()},
            stages=len(stage),
            n_rows=len(rows),
            header_bytes=x.header_bytes,
            heap=int(x.heaps[group.my_pe]),
            heap_room=group.segment.layout.heap_room,
        )
        words: Words = np.zeros(len(_PLACES), np.int64)
        for name, value in fields.items():
            words[_PLACES[name]] = value
        if len(self._calls) >= MOST:
            self._calls.clear()
        self._calls[key] = PreparedCall(header, shape, words, list(kept.values()))


class NothingPrepared(PreparedCalls):
    """The calls of a group whose exchanges take a modelled time, and therefore the general path."""

    def _is_wanted(self, key: tuple[Any, ...], *nbytes: int) -> bool:
        return False


def plan_fields(plan: Words) -> dict[str, int]:
    """Return the words of a plan by name."""
    return dict(zip(_PLACES, plan.tolist(), strict=False))


def _rows(rows: Sequence[tuple[int, ...]]) -> Words:
    return np.array(rows, np.int64).reshape(len(rows), 5)
